"""System calls as requests: what each call that strace shows did to files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from iotrace.traces.formats import strace_data as data
from iotrace.traces.formats import strace_names as names
from iotrace.traces.formats.rows import fitting
from iotrace.traces.formats.strace_call import Call, Found, NoNameError
from iotrace.traces.formats.strace_lines import Line, split_arguments
from iotrace.traces.formats.strace_state import Machine
from iotrace.traces.schema import DATA_OPS

# Calls whose requests strace does not show.
UNSEEN = ("io_uring_setup", "io_uring_enter", "io_submit")

CREATING = ("clone", "clone3", "fork", "vfork")

_OPENING = ("open", "openat", "openat2", "creat")
_DUPLICATING = ("dup", "dup2", "dup3", "fcntl")
_OF_NO_FILE = (
    *("pipe", "pipe2", "socket", "socketpair", "accept", "accept4", "eventfd2"),
    *("epoll_create1", "timerfd_create", "signalfd4", "inotify_init1", "memfd_create"),
    *("pidfd_open", "io_uring_setup", "perf_event_open", "userfaultfd"),
)
# What may be done anywhere, up to the end of 64 bits and beyond, without an error.
_ANY_EXTENT = (*DATA_OPS, "advise")
# Calls that give descriptors.
GIVING = frozenset((*_OPENING, *_DUPLICATING, *_OF_NO_FILE))

_HANDLERS: dict[str, Callable[[Call], Found]] = {
    **dict.fromkeys(_OPENING, names.open_file),
    "close": names.close_file,
    "read": data.data("read", False, None),
    "pread64": data.data("read", False, 3),
    "readv": data.data("read", True, None),
    "preadv": data.data("read", True, 3),
    "preadv2": data.data("read", True, 3),
    "write": data.data("write", False, None),
    "pwrite64": data.data("write", False, 3),
    "writev": data.data("write", True, None),
    "pwritev": data.data("write", True, 3),
    "pwritev2": data.data("write", True, 3),
    **dict.fromkeys(("copy_file_range", "sendfile", "splice"), data.copy),
    "lseek": data.seek,
    **dict.fromkeys(("fstat", "newfstatat", "fstat64"), data.stat),
    **dict.fromkeys(("fsync", "fdatasync", "sync_file_range", "syncfs", "sync"), data.sync),
    **dict.fromkeys(("truncate", "ftruncate"), data.truncate),
    "fallocate": data.allocate,
    "fadvise64": data.advise,
    **dict.fromkeys(("rename", "renameat", "renameat2"), names.two_names("rename")),
    **dict.fromkeys(("link", "linkat"), names.two_names("link")),
    **dict.fromkeys(("unlink", "unlinkat"), names.one_name("unlink")),
    "rmdir": names.one_name("rmdir"),
    **dict.fromkeys(("mkdir", "mkdirat"), names.one_name("mkdir")),
    "mmap": data.map_file,
    "munmap": data.unmap,
    **dict.fromkeys(_DUPLICATING, names.duplicate),
    **dict.fromkeys(_OF_NO_FILE, names.no_file),
    **dict.fromkeys(CREATING, names.create),
    **dict.fromkeys(("execve", "execveat"), names.execute),
    **dict.fromkeys(("chdir", "fchdir"), names.change_folder),
    "getcwd": names.current_folder,
}


def handled(name: str) -> bool:
    """Return whether a call has to do with files."""
    return name in _HANDLERS


def handle(machine: Machine, tid: int, line: Line, text: str, was_split: bool) -> Found:
    """Yield the requests of a call: op, and the columns that it tells.

    Raises:
        ValueError, LookupError: the arguments are not as strace prints them.
    """
    if line.result is None:
        return
    space = machine.space(tid)
    arguments = split_arguments(text)
    call = Call(machine, space, tid, line.name, arguments, line.result, line, was_split)
    with suppress(NoNameError):
        for op, values in _HANDLERS[line.name](call):
            moved_nothing = call.failed or (call.result == 0 and op in _ANY_EXTENT)
            yield op, fitting(op, values) if moved_nothing else values
