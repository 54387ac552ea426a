"""Jobs written by hand, a call per request."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from iotrace.replay.executors.executor import LoopOptions, Run
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import PIECE, REQUEST, Fence, Job, Op, fence_counts
from iotrace.replay.loop import Tape
from iotrace.traces.sync_kind import SyncKind


@dataclass(frozen=True)
class SubmittedByThread(UringExecutor):
    """io_uring with the kernel's submission thread, as any executor."""

    name: str = "sqpoll"

    def run(self, job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
        """Run `job`; see Executor.run."""
        return super().run(job, tape, root_fd, replace(options, submission_thread=True))


EXECUTORS = (UringExecutor(), PosixExecutor())
CREATE = os.O_RDWR | os.O_CREAT | os.O_TRUNC
Piece = tuple[int, int, int]  # recorded file, offset, length


@dataclass
class JobBuilder:
    """Collects requests; `build` counts the fences and sorts the streams."""

    rows: list[dict[str, int]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)  # the file of each

    def add(self, op: Op, **fields: int) -> None:
        """Append a request; what is not given is absent."""
        absent = {"file": -1, "handle": -1, "path": -1, "target": -1, "source_row": -1, "step": -1}
        self.rows.append(absent | {"op": op} | fields)

    def path(self, path: str) -> int:
        """Return the index of `path` in the table."""
        if path not in self.paths:
            self.paths.append(path)
        return self.paths.index(path)

    def open(self, path: str, flags: int = CREATE, **fields: int) -> int:
        """Open `path`; requests on one path are requests on one file. Returns the handle."""
        if path not in self.files:
            self.files.append(path)
        file = self.files.index(path)
        self.handles.append(file)
        handle = len(self.handles) - 1
        about = {"file": file, "handle": handle, "path": self.path(path), "fence": Fence.FILE}
        self.add(Op.OPEN, **(about | {"flags": flags, "mode": 0o644} | fields))
        return handle

    def through(self, op: Op, handle: int, **fields: int) -> None:
        """Append a request through an open handle."""
        self.add(op, **({"file": self.handles[handle], "handle": handle} | fields))

    def data(
        self,
        op: Op,
        handle: int,
        offset: int,
        length: int,
        pieces: Sequence[Piece] | None = None,
        **fields: int,
    ) -> None:
        """Append a read or write; its payload is the file's own unless `pieces` says else."""
        own = [(self.handles[handle], offset, length)] if pieces is None else pieces
        about = {"first_piece": len(self.pieces), "piece_count": len(own)}
        self.pieces += own
        self.through(op, handle, offset=offset, length=length, **(about | fields))

    def write(self, handle: int, offset: int, length: int, **fields: object) -> None:
        """Append a write."""
        self.data(Op.WRITE, handle, offset, length, **fields)  # type: ignore[arg-type]

    def read(self, handle: int, offset: int, length: int, **fields: object) -> None:
        """Append a read."""
        self.data(Op.READ, handle, offset, length, **fields)  # type: ignore[arg-type]

    def sync(self, handle: int, kind: SyncKind = SyncKind.FSYNC, **fields: int) -> None:
        """Append a sync that waits for what came before on the file."""
        self.through(Op.SYNC, handle, flags=kind, fence=Fence.FILE, **fields)

    def close(self, handle: int, **fields: int) -> None:
        """Append a close that waits for what came before on the file."""
        self.through(Op.CLOSE, handle, fence=Fence.FILE, **fields)

    def build(self) -> Job:
        """Return the job."""
        requests = np.zeros(len(self.rows), REQUEST)
        for i, row in enumerate(self.rows):
            for name, value in row.items():
                requests[name][i] = value
        counts = fence_counts(requests)
        requests["file_before"], requests["file_fences"], requests["global_fences"] = counts
        pieces = np.zeros(len(self.pieces), PIECE)
        for i, (file, offset, length) in enumerate(self.pieces):
            pieces[i] = (offset, length, file, 0)
        streams = int(requests["stream"].max(initial=0)) + 1
        order = np.argsort(requests["stream"], kind="stable").astype(np.int64)
        starts = np.r_[0, np.cumsum(np.bincount(requests["stream"], minlength=streams))]
        return Job(
            requests=requests,
            pieces=pieces,
            stream_order=order,
            stream_starts=starts.astype(np.int64),
            paths=tuple(self.paths),
            handle_count=len(self.handles),
            file_count=len(self.files),
        )


@contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a directory as the root of a run."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def run(
    executor: UringExecutor | PosixExecutor,
    job: Job,
    tape: Tape,
    root: Path,
    options: LoopOptions | None = None,
) -> Run:
    """Run `job` below `root`."""
    with directory(root) as root_fd:
        return executor.run(job, tape, root_fd, options or LoopOptions(queue_depth=4))
