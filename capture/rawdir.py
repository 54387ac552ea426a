"""The folder of a job's raw logs: made before the job, removed after the trace is written."""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from iotrace.capture.rawlog import SUFFIX
from iotrace.capture.roster import PREFIX as ROSTER_PREFIX
from iotrace.capture.roster import ROSTER_BYTES
from iotrace.capture.roster import SUFFIX as ROSTER_SUFFIX
from iotrace.traces.errors import CaptureError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.regular import open_regular, read_regular
from iotrace.traces.remedies import OF_DESCRIPTORS, with_remedy

DESCRIPTION = "capture.json"
# A log's header and its first chunk, see csrc/record.h: less room and a job would have no log.
FIRST_LOG_BYTES = 2 * 65536
SHARED_MEMORY = Path("/dev/shm")


class RawDirInUseError(CaptureError):
    """The folder belongs to another capture: it is not ours to remove."""


def make_raw_dir(wanted: Path) -> tuple[Path, list[str]]:
    """Make the folder of the raw logs where logs can be kept, and say where if elsewhere.

    A raw log is a shared mapping of a file, which not every file system has.

    Raises:
        CaptureError: the folder holds the logs of an earlier capture, or cannot be made.
    """
    wanted = wanted.absolute()
    if is_claimed(wanted):
        raise CaptureError(
            f"another capture keeps its raw logs in {wanted}; name another -o or --raw-dir"
        )
    if has_logs(wanted):
        raise CaptureError(
            f"{wanted} holds the raw logs of an earlier capture; make a trace of them with "
            f"`iotrace recover {wanted}`, then remove the folder"
        )
    problem = try_folder(wanted)
    if problem is None:
        return wanted, []
    for parent in (None, SHARED_MEMORY):  # None: of temporary files, if one of these takes a byte
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="iotrace-", dir=parent))
            if try_folder(folder) is None:
                return folder, [f"raw logs are kept in {folder}: {wanted} {problem}"]
            folder.rmdir()
    raise CaptureError(f"raw logs cannot be kept: {wanted} {problem}; name another --raw-dir")


def try_folder(folder: Path) -> str | None:
    """Make a folder and a log in it; return what does not work, and leave nothing then."""
    existed = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse_if_out_of_descriptors(error)
        return f"cannot be made ({error.strerror})"
    try:
        try_log(folder)
    except (OSError, ValueError) as error:
        if not existed:
            folder.rmdir()
        cause = getattr(error, "strerror", None) or error
        refuse_if_out_of_descriptors(error)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return f"has no room for them ({cause})"
        if getattr(error, "errno", None) == errno.EFBIG:
            return f"cannot hold files of {FIRST_LOG_BYTES >> 10} KiB ({cause}); raise `ulimit -f`"
        return f"cannot hold shared mappings ({cause})"
    return None


def refuse_if_out_of_descriptors(error: Exception) -> None:
    """Raise an error of another kind: another folder takes as many descriptors.

    Raises:
        CaptureError: it is one.
    """
    if isinstance(error, OSError) and error.errno in OF_DESCRIPTORS:
        raise CaptureError(f"the job cannot be watched: {with_remedy(error)}") from None


def try_log(folder: Path) -> None:
    """Write to a file of a folder as the preload library does."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, FIRST_LOG_BYTES)
        try:
            os.posix_fallocate(file.fileno(), FIRST_LOG_BYTES, ROSTER_BYTES)
        except OSError as error:
            if error.errno != errno.EFBIG:  # the list of processes can do without, logs grow apart
                raise
        with mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_SHARED) as shared:
            shared[:1] = b"x"
        if os.pread(file.fileno(), 1, 0) != b"x":
            raise OSError(None, "a mapping is not what the file is")


@contextmanager
def claimed(raw_dir: Path) -> Iterator[None]:
    """Hold a folder of raw logs for one capture; a capture that is killed lets go of it.

    Raises:
        CaptureError: another capture holds it.
    """
    with (raw_dir / DESCRIPTION).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RawDirInUseError(
                f"another capture keeps its raw logs in {raw_dir}; name another -o or --raw-dir"
            ) from None
        yield


def is_claimed(raw_dir: Path) -> bool:
    """Return whether a running capture holds a folder of raw logs."""
    try:
        with open_regular(raw_dir / DESCRIPTION) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or no locks here
        return False
    return False


def is_whole(raw_dir: Path) -> bool:
    """Return whether the folder of raw logs is as the capture made it."""
    return (raw_dir / DESCRIPTION).exists()


def has_logs(raw_dir: Path) -> bool:
    """Return whether there is a raw log that a trace could be made of."""
    return next(raw_dir.glob(f"*{SUFFIX}"), None) is not None


def write_command(raw_dir: Path, command: Sequence[str]) -> None:
    """Write down what is run, for a recovery."""
    (raw_dir / DESCRIPTION).write_text(json.dumps({"command": list(command)}))


def read_command(raw_dir: Path) -> tuple[str, ...]:
    """Return what was run, nothing if it is not known."""
    try:
        described = parse_foreign_json(read_regular(raw_dir / DESCRIPTION))
        command = described["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(map(str, command)) if isinstance(command, list) else ()


def files_of(raw_dir: Path) -> tuple[Path, ...]:
    """Return what a capture puts into a folder of raw logs."""
    return (
        *raw_dir.glob(f"*{SUFFIX}"),
        *raw_dir.glob("faults-*.perf"),
        raw_dir / "faults.refused",
        *raw_dir.glob(f"{ROSTER_PREFIX}*{ROSTER_SUFFIX}"),
        raw_dir / DESCRIPTION,
    )


def remove_raw_dir(raw_dir: Path) -> None:
    """Remove raw logs and what capture put beside them; the folder too unless it holds more."""
    for path in files_of(raw_dir):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        raw_dir.rmdir()
