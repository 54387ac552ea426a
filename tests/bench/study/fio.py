"""What fio gets from the storage: sequential writes of one file, until durable."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .rows import Row


@dataclass(frozen=True)
class Fio:
    """A way to write, all of it by io_uring.

    Attributes:
        folder: to write in.
        total_bytes: of the file.
        request_bytes: each.
        depth: requests in flight.
        direct: past the page cache.
        overwrite: the blocks of a file that is there; a new file otherwise.
        registered: buffers and files are made known to the kernel first.
    """

    folder: Path
    total_bytes: int
    request_bytes: int = 8 << 20
    depth: int = 8
    direct: bool = True
    overwrite: bool = True
    registered: bool = False

    @property
    def name(self) -> str:
        """The way in words."""
        size = self.request_bytes >> 10
        words = [f"{size >> 10} MiB" if size >= 1024 else f"{size} KiB", f"depth {self.depth}"]
        words.append("direct" if self.direct else "buffered")
        words.append("over a file" if self.overwrite else "new file")
        return ", ".join([*words, "registered"] if self.registered else words)

    def __call__(self) -> Row:
        """Write once."""
        path = self.folder / "fio"
        if self.overwrite and (not path.exists() or path.stat().st_size != self.total_bytes):
            self._run(path)
        if not self.overwrite:
            path.unlink(missing_ok=True)
        return self._run(path)

    def _run(self, path: Path) -> Row:
        command = [
            "fio",
            "--name=study",
            f"--filename={path}",
            "--rw=write",
            f"--bs={self.request_bytes}",
            f"--size={self.total_bytes}",
            "--ioengine=io_uring",
            f"--iodepth={self.depth}",
            f"--direct={int(self.direct)}",
            f"--fixedbufs={int(self.registered)}",
            f"--registerfiles={int(self.registered)}",
            "--end_fsync=1",
            "--fallocate=none",
            "--scramble_buffers=0",  # it would compute for each block
            "--output-format=json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
        if job["write"]["io_bytes"] != self.total_bytes:
            raise SystemExit(f"fio wrote {job['write']['io_bytes']} of {self.total_bytes} bytes")
        seconds = job["write"]["runtime"] / 1e3
        system = seconds * job["sys_cpu"] / 100
        return Row(seconds=seconds, durable_seconds=seconds, system_seconds=system)
