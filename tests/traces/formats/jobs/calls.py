"""Touch files in a folder in every way that an importer of system calls must follow.

Usage: calls.py FOLDER
"""

import contextlib
import ctypes
import mmap
import os
import sys
import threading

folder = sys.argv[1]
os.chdir(folder)
os.mkdir("sub", 0o755)
fd = os.open('sub/a ü"\\<b>.bin', os.O_CREAT | os.O_RDWR | os.O_TRUNC)  # a relative, odd name
os.write(fd, b"x" * 1000)
os.pwrite(fd, b"y" * 96, 5000)
os.writev(fd, [b"z" * 10, b"w" * 20])
copy = os.dup(fd)
os.lseek(copy, 100, os.SEEK_SET)
os.read(fd, 50)  # at 100: a copy shares the position
os.pread(fd, 4096, 4096)  # short: 1000 bytes
os.close(fd)
os.write(copy, b"!" * 7)  # at 150
os.fsync(copy)
os.fdatasync(copy)
os.ftruncate(copy, 8192)
os.posix_fallocate(copy, 0, 16384)
os.pwritev(copy, [b"e" * 6], 0, os.RWF_APPEND)  # at 16384
memory = mmap.mmap(copy, 4096, prot=mmap.PROT_READ, offset=4096)
memory.close()
os.close(copy)
os.rename('sub/a ü"\\<b>.bin', "b.bin")
again = os.open("b.bin", os.O_WRONLY | os.O_APPEND)
os.fstat(again)
os.write(again, b"t" * 5)  # at 16390
parent_end, child_end = os.pipe()
child = os.fork()
if child == 0:
    os.write(child_end, b"!")  # no file
    os.write(again, b"c" * 3)  # at 16395, through an inherited descriptor
    os._exit(0)
os.waitpid(child, 0)
os.read(parent_end, 1)
os.write(again, b"p" * 2)  # at 16398: the position is shared with the child
os.pwrite(again, b"q" * 4, 100)  # at 16400: Linux appends
os.close(again)


def work() -> None:
    """Write from another thread."""
    own = os.open("t.bin", os.O_CREAT | os.O_WRONLY)
    os.write(own, b"1234")
    os.close(own)


thread = threading.Thread(target=work)
thread.start()
thread.join()
source, target = os.open("b.bin", os.O_RDONLY), os.open("copy.bin", os.O_CREAT | os.O_WRONLY)
os.copy_file_range(source, target, 4000)
os.sendfile(target, source, 0, 300)
os.close(source)
os.close(target)
os.link("copy.bin", "link.bin")
os.unlink("link.bin")
os.truncate("copy.bin", 4000)
os.mkdir("gone")
os.rmdir("gone")
with contextlib.suppress(FileNotFoundError):
    os.open("missing.bin", os.O_RDONLY)
held = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
os.close(os.open("at.bin", os.O_CREAT | os.O_WRONLY, dir_fd=held))
os.fsync(held)  # of a folder: no file
os.close(held)
ctypes.CDLL(None).sync()
