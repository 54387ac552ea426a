"""What the kernel saw: reads and writes per file, from `strace -ff -y`."""

import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

READS = {"read", "pread64", "readv", "preadv", "preadv2"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2"}
# fd<path> of a regular file, then anything, then the result at the end of the line.
CALL = re.compile(rb"^(\w+)\(\d+<(/[^>]*)>.* = (-?\d+)(?: \w+ \(.*\))?$")
# The calls that are not looked at do not stop the job: imports make tens of thousands of them.
STRACE = ("strace", "-ff", "--seccomp-bpf", "-y")
OCTAL = re.compile(rb"\\([0-7]{3})")  # how it writes bytes of a path that are no ASCII


@dataclass
class FileCalls:
    """Successful calls and bytes of one file."""

    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    write_sizes: list[int] = field(default_factory=list)


def file_calls(command: list[str], logs: Path, **run: object) -> dict[str, FileCalls]:
    """Run `command` under strace; return the calls on each path."""
    logs.mkdir()
    calls = ",".join(sorted(READS | WRITES))
    subprocess.run(
        [*STRACE, "-s", "0", "-e", f"trace={calls}", "-o", f"{logs}/log", *command],
        check=True,
        stdout=subprocess.DEVNULL,
        **run,
    )
    return parse(sorted(logs.glob("log.*")))


def parse(logs: list[Path]) -> dict[str, FileCalls]:
    """Count the successful calls on each path over the logs of all threads."""
    files: dict[str, FileCalls] = defaultdict(FileCalls)
    for log in logs:
        for line in log.read_bytes().splitlines():
            match = CALL.match(line)
            if match is None or int(match[3]) < 0:
                continue
            call, moved = match[1].decode(), int(match[3])
            path = OCTAL.sub(lambda found: bytes([int(found[1], 8)]), match[2])
            seen = files[path.decode(errors="surrogateescape")]
            if call in READS:
                seen.reads += 1
                seen.bytes_read += moved
            else:
                seen.writes += 1
                seen.bytes_written += moved
                seen.write_sizes.append(moved)
    return files


if __name__ == "__main__":
    for path, seen in sorted(file_calls(sys.argv[2:], Path(sys.argv[1])).items()):
        print(path, seen.reads, seen.bytes_read, seen.writes, seen.bytes_written)
