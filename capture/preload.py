"""The preload library and the environment that brings it into a job."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from iotrace.capture.scope import Scope
from iotrace.traces.errors import CaptureError

LIBRARY = "libiotrace_capture.so"
BOOT = Path("hooks", "boot.py")
# The dynamic loader splits LD_PRELOAD at the first two and expands the third.
LOADER_CHARACTERS = " :$"


def library_path() -> Path:
    """Return the preload library of this package.

    Raises:
        CaptureError: it was not built.
    """
    path = Path(__file__).resolve().parent / LIBRARY
    if not path.is_file():
        raise CaptureError(f"{path} is missing; run `make native`, or install iotrace again")
    return path


def hooks_path() -> Path:
    """Return the file that starts the Python hooks inside a job."""
    return Path(__file__).resolve().parent / BOOT


def job_environment(
    environ: Mapping[str, str],
    library: str,
    raw_dir: Path,
    scope: Scope,
    log_limit_bytes: int | None = None,
    keeper: str | None = None,
) -> dict[str, str]:
    """Return the environment of a captured job: that of any job and what the library needs.

    Args:
        environ: the environment to add to; libraries that it preloads come after ours.
        library: what `preloadable` gives.
        raw_dir: folder of the raw logs, absolute.
        scope: which files to record.
        log_limit_bytes: size that one process's raw log may grow to; None: the library's default.
        keeper: what `keeping` gives; None: processes that may not write a log leave none.
    """
    others = environ.get("LD_PRELOAD", "")
    variables: dict[str, str | None] = {
        "LD_PRELOAD": f"{library}{':' if others else ''}{others}",
        "IOTRACE_LOG_DIR": str(raw_dir),
        "IOTRACE_HOOKS": str(hooks_path()),
        "IOTRACE_KEEPER": keeper,
        "IOTRACE_LOG_LIMIT_BYTES": None if log_limit_bytes is None else str(log_limit_bytes),
        "IOTRACE_STANDARD": (" ".join(standard_files()) or None) if scope.system else None,
        **scope.environment(),
    }
    kept = {name: value for name, value in environ.items() if name not in variables}
    return kept | {name: value for name, value in variables.items() if value is not None}


def standard_files() -> Iterator[str]:
    """Yield device and inode of the files that standard input, output and error are, if any."""
    for fd in range(3):
        with suppress(OSError):
            found = os.fstat(fd)
            if S_ISREG(found.st_mode):
                yield f"{found.st_dev:x}:{found.st_ino:x}"


@contextmanager
def preloadable(library: Path) -> Iterator[str]:
    """Give a path of the library that the dynamic loader can read, through a link if need be."""
    if not has_loader_characters(library):
        yield str(library)
        return
    with tempfile.TemporaryDirectory(prefix="iotrace-", dir="/tmp") as folder:
        link = Path(folder, LIBRARY)
        link.symlink_to(library)
        yield str(link)


def has_loader_characters(path: Path) -> bool:
    """Return whether the dynamic loader would misread a path in LD_PRELOAD."""
    return any(character in str(path) for character in LOADER_CHARACTERS)
