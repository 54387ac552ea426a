"""Make calls that fail, for arguments that no file and no memory has.

Usage: odd_calls.py FOLDER
"""

import ctypes
import os
import sys

MOST = 2**64 - 1
libc = ctypes.CDLL(None)


class Vector(ctypes.Structure):
    """A struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def call(name: str, *arguments: object) -> None:
    """Call libc with numbers of 64 bits, and whatever else."""
    wide = [ctypes.c_uint64(a % 2**64) if isinstance(a, int) else a for a in arguments]
    getattr(libc, name)(*wide)


folder = sys.argv[1]
os.chdir(folder)
fd = os.open("a.bin", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x" * 10)
call("fallocate", fd, 0, -5, 10)
call("fallocate", fd, 0, 1, 2**63 - 1)
call("ftruncate", fd, MOST)
call("truncate", b"a.bin", MOST)
call("read", fd, None, MOST)
call("pread", fd, None, 7, -5)
call("pwrite", fd, None, 7, 2**63 - 1)
call("readv", fd, ctypes.byref(Vector(None, MOST)), 1)
call("mmap", None, MOST - 4095, 1, 1, fd, 0)
call("posix_fadvise", fd, 0, MOST, 4)
call("posix_fadvise", fd, -5, 4096, 4)  # which the kernel takes
call("sync_file_range", fd, -1, -1, 2)
call("copy_file_range", fd, ctypes.byref(ctypes.c_int64(-5)), fd, None, 7, 0)
call("pread", -1, None, 7, 0)
call("mmap", None, 4096, 1, 1, -7, 0)
call("close", -1)
call("fsync", -1)
call("rename", None, b"b.bin")
call("unlink", ctypes.c_void_p(1))
call("openat", -1, b"a.bin", 0)
os.write(fd, b"x" * 6)
os.close(fd)
