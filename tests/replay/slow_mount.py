"""A file system in memory, served over /dev/fuse, whose answers take their time."""

import ctypes
import errno
import os
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REQUEST_BYTES = 1 << 20  # the most the kernel puts in one read or write
_ROOT = 1
_HEADER, _ANSWER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_DIRECT_IO = 1  # FOPEN_DIRECT_IO: every read and write reaches us
_KEEP_CACHE = 2  # FOPEN_KEEP_CACHE: what an earlier open left in the page cache stays
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
_SIZE_GIVEN = 1 << 3  # FATTR_SIZE
_MNT_DETACH = 2
_NAMES = {
    1: "lookup", 3: "getattr", 4: "setattr", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename",
    14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release", 20: "fsync", 25: "flush",
    26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 35: "create",
    45: "rename2", 46: "lseek",
}  # fmt: skip
_SILENT = (2, 36, 42)  # forget, interrupt, batch_forget: nobody waits for an answer
_SLOW = {"open", "create", "read", "write", "fsync", "flush", "setattr", "rename", "unlink"}


@dataclass
class _Node:
    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[bytes, int] = field(default_factory=dict)


@dataclass
class SlowMount:
    """What is served.

    Attributes:
        fd: of /dev/fuse.
        delay_seconds: of each request that a program waits for.
        seen: requests that came, by name.
        failing: name of the requests that fail.
        cached: whether the page cache is used.
    """

    fd: int
    delay_seconds: float
    seen: Counter[str] = field(default_factory=Counter)
    failing: str = ""
    cached: bool = False
    nodes: dict[int, _Node] = field(default_factory=lambda: {_ROOT: _Node(stat.S_IFDIR | 0o755)})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        """Answer until the file system is unmounted, on time also where the machine is busy."""
        with suppress(OSError):
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(2))
        while True:
            try:
                request = os.read(self.fd, REQUEST_BYTES + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return  # ENODEV
            begin = time.monotonic()
            _, opcode, unique, node = _HEADER.unpack_from(request)[:4]
            if opcode in _SILENT:
                continue
            name = _NAMES.get(opcode, "")
            code, answer = 0, b""
            try:
                with self.lock:
                    self.seen[name] += 1
                    answer = self._answer(name, node, request[_HEADER.size :])
            except OSError as error:
                code = -(error.errno or errno.EIO)
            if name in _SLOW:
                time.sleep(max(0.0, begin + self.delay_seconds - time.monotonic()))
            try:
                os.write(self.fd, _ANSWER.pack(_ANSWER.size + len(answer), code, unique) + answer)
            except OSError:
                continue  # the program is gone

    def _answer(self, name: str, node: int, body: bytes) -> bytes:
        if not name:
            raise OSError(errno.ENOSYS, "")
        if name == self.failing:
            raise OSError(errno.EIO, "")
        handler = getattr(self, f"_{name}", None)
        return handler(node, body) if handler else b""

    def _init(self, node: int, body: bytes) -> bytes:
        readahead = struct.unpack_from("<I", body, 8)[0]
        flags, pages = _BIG_WRITES | _MAX_PAGES, REQUEST_BYTES // 4096
        front = struct.pack("<IIIIHHII", 7, 31, readahead, flags, 16, 12, REQUEST_BYTES, 1)
        return (front + struct.pack("<HH", pages, 0)).ljust(64, b"\0")

    def _entry(self, number: int) -> bytes:
        return struct.pack("<QQQQII", number, 0, 3600, 0, 0, 0) + self._attributes(number)

    def _attributes(self, number: int) -> bytes:
        node = self.nodes[number]
        size = len(node.data)
        return struct.pack(
            "<6Q10I",
            number,
            size,
            -(-size // 512),
            0,
            0,
            0,
            0,
            0,
            0,
            node.mode,
            1,
            0,
            0,
            0,
            4096,
            0,
        )

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._number(node, body))

    def _number(self, parent: int, name: bytes) -> int:
        number = self.nodes[parent].names.get(name.rstrip(b"\0"))
        if number is None:
            raise FileNotFoundError(errno.ENOENT, "")
        return number

    def _add(self, parent: int, name: bytes, mode: int) -> int:
        number = max(self.nodes) + 1
        self.nodes[number] = _Node(mode)
        self.nodes[parent].names[name.rstrip(b"\0")] = number
        return number

    def _getattr(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._attributes(node)

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, size = struct.unpack_from("<I12xQ", body)
        if valid & _SIZE_GIVEN:
            data = self.nodes[node].data
            del data[size:]
            data.extend(bytes(size - len(data)))
        return self._getattr(node, body)

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode = struct.unpack_from("<I", body)[0]
        return self._entry(self._add(node, body[8:], stat.S_IFDIR | mode))

    def _create(self, node: int, body: bytes) -> bytes:
        number = self._add(node, body[16:], struct.unpack_from("<4xI", body)[0])
        return self._entry(number) + self._open(number, body)

    def _open(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QIi", 0, _KEEP_CACHE if self.cached else _DIRECT_IO, 0)

    def _opendir(self, node: int, body: bytes) -> bytes:
        return bytes(16)

    def _readdir(self, node: int, body: bytes) -> bytes:
        begin = struct.unpack_from("<8xQ", body)[0]
        out = b""
        for place, (name, number) in enumerate(self.nodes[node].names.items()):
            if place >= begin:
                kind = stat.S_IFMT(self.nodes[number].mode) >> 12
                entry = struct.pack("<QQII", number, place + 1, len(name), kind) + name
                out += entry.ljust(-(-len(entry) // 8) * 8, b"\0")
        return out

    def _read(self, node: int, body: bytes) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        return bytes(self.nodes[node].data[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        data = self.nodes[node].data
        data.extend(bytes(max(0, offset + size - len(data))))
        data[offset : offset + size] = body[40 : 40 + size]
        return struct.pack("<II", size, 0)

    def _unlink(self, node: int, body: bytes) -> bytes:
        del self.nodes[node].names[body.rstrip(b"\0")]
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        return self._unlink(node, body)

    def _rename(self, node: int, body: bytes, names_at: int = 8) -> bytes:
        old, new = body[names_at:].split(b"\0")[:2]
        target = struct.unpack_from("<Q", body)[0]
        self.nodes[target].names[new] = self.nodes[node].names.pop(old)
        return b""

    def _rename2(self, node: int, body: bytes) -> bytes:
        return self._rename(node, body, 16)

    def _lseek(self, node: int, body: bytes) -> bytes:
        raise OSError(errno.ENOSYS, "")  # the kernel knows what to do

    def _statfs(self, node: int, body: bytes) -> bytes:
        return struct.pack(
            "<5Q4I", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0
        ) + (bytes(24))


@contextmanager
def slow_mount(
    folder: Path,
    delay_seconds: float,
    threads: int = 8,
    cached: bool = False,
    other: SlowMount | None = None,
) -> Iterator[SlowMount]:
    """Mount the file system on `folder` for a while; skip the test where that is not allowed.

    With `other` the files are those of another mount, as on a machine of its own.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"/dev/fuse cannot be opened: {error.strerror}")
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    target = os.fsencode(folder)
    if libc.mount(b"slow", target, b"fuse", 0, options.encode()):
        os.close(fd)
        pytest.skip(f"FUSE cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    mount = SlowMount(fd, delay_seconds, cached=cached)
    if other is not None:
        mount.nodes, mount.lock = other.nodes, other.lock
    servers = [threading.Thread(target=mount.serve, daemon=True) for _ in range(threads)]
    for server in servers:
        server.start()
    try:
        yield mount
    finally:
        libc.umount2(target, _MNT_DETACH)
        for server in servers:
            server.join(5)
        os.close(fd)
