"""Forbid one system call in this process, as a container's filter does."""

import ctypes
import platform
import struct

IO_URING_SETUP = 425  # on every architecture

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD_NUMBER, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000


def forbid(call: int, error: int) -> None:
    """Make system call `call` fail with `error` from now on; it cannot be undone."""
    assert platform.machine() in ("x86_64", "aarch64")
    steps = [
        (_LOAD_NUMBER, 0, 0, 0),
        (_IF_EQUAL, 0, 1, call),
        (_RETURN, 0, 0, _ERRNO | error),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program) == 0, ctypes.get_errno()
