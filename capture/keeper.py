"""What processes of the job may not do themselves, done for them with the launcher's rights.

A process that became another user, or has another root folder, reaches neither the raw logs nor, at
times, its own files of /proc; one under a limit of file sizes (`ulimit -f`) cannot grow its log,
while storing into what is there has no limit. It asks through a socket that has no file, so that no
root folder hides it. The kernel says which process asks; a secret in the job's environment, which
other users cannot read, shows that it is one of the job. What a process gets is bound to its own
pid: a log that no other user may open, an entry about itself, its own files of /proc. It cannot
read what others recorded, and can forge only what is about itself, as any captured process can.

The other side is `csrc/keeper.c`.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import select
import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EINVAL, ENOSPC
from itertools import islice
from pathlib import Path

import numpy as np

from iotrace.capture.rawlog import SUFFIX
from iotrace.capture.roster import BEGIN, ENTRY, UNLOGGED, cut_mark, roster_path

NEW_LOG, LOG, KEEP_ENTRY, PROC_FILE, PROC_LINK, GROW = 1, 2, 3, 4, 5, 6

SECRET_CHARACTERS = 32
QUESTION = struct.Struct(f"={SECRET_CHARACTERS}sI")
QUESTION_BYTES_MAX = QUESTION.size + 256
CREDENTIALS = struct.Struct("=iII")  # pid, user, group
OUTCOME = struct.Struct("=i")
PART = struct.Struct("=qq")  # offset, bytes
PART_BYTES_MAX = 1 << 20
TEXT_BYTES_MAX = 32 << 10
WAITING_MAX = 256
PAUSE_MS = 50

LOG_NAME = re.compile(rf"(?P<pid>[0-9]+)-[0-9]+-[0-9a-f]{{8}}{re.escape(SUFFIX)}", re.ASCII)
OWN_FILE = re.compile(r"/proc/self/(io|stat|cmdline)")
OWN_LINK = re.compile(r"/proc/self/(exe|cwd|root|fd/[0-9]{1,9})", re.ASCII)
PUBLIC_FILES = ("/proc/sys/kernel/random/boot_id",)


@dataclass(frozen=True)
class Keeper:
    """Answers the questions of the job's processes.

    Attributes:
        folder: descriptor of the folder of the raw logs.
        roster: descriptor of the list of processes, open for append.
        cut_mark: file to be made when an entry finds no room in it.
    """

    secret: bytes
    folder: int
    roster: int
    cut_mark: Path

    def answer(self, pid: int, question: bytes) -> tuple[bytes, int | None]:
        """Return the text that answers a process, and the descriptor of a log if it gets one.

        Raises:
            OSError: it does not get what it asked for.
        """
        if len(question) < QUESTION.size:
            raise OSError(EINVAL, "too short")
        secret, request = QUESTION.unpack_from(question)
        body = question[QUESTION.size :]
        if not hmac.compare_digest(secret, self.secret):
            raise OSError(EACCES, "not of the job")
        if request in (NEW_LOG, LOG):
            return b"", self.open_log(pid, os.fsdecode(body), request == NEW_LOG)
        if request == GROW:
            self.grow_log(pid, body)
            return b"", None
        if request == KEEP_ENTRY:
            self.keep_entry(pid, body)
            return b"", None
        if request == PROC_FILE:
            return read_proc_file(pid, os.fsdecode(body)), None
        if request == PROC_LINK:
            return read_proc_link(pid, os.fsdecode(body)), None
        raise OSError(EINVAL, "unknown request")

    def open_log(self, pid: int, name: str, is_new: bool) -> int:
        """Open a log of a process."""
        found = LOG_NAME.fullmatch(name)
        if found is None or int(found["pid"]) != pid:
            raise OSError(EACCES, "not a log of this process")
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_CREAT | os.O_EXCL if is_new else 0
        return os.open(name, flags, 0o600, dir_fd=self.folder)

    def grow_log(self, pid: int, body: bytes) -> None:
        """Allocate a part of a log of a process whose own files may not grow so far."""
        if len(body) < PART.size:
            raise OSError(EINVAL, "too short")
        offset, part_bytes = PART.unpack_from(body)
        if part_bytes > PART_BYTES_MAX:
            raise OSError(EINVAL, "too much at once")
        log = self.open_log(pid, os.fsdecode(body[PART.size :]), is_new=False)
        try:
            os.posix_fallocate(log, offset, part_bytes)
        finally:
            os.close(log)

    def keep_entry(self, pid: int, body: bytes) -> None:
        """Append an entry about a process to the list."""
        if len(body) != ENTRY.itemsize:
            raise OSError(EINVAL, "not an entry")
        entry = np.frombuffer(body, ENTRY)[0]
        if int(entry["pid"]) != pid or not BEGIN <= int(entry["kind"]) <= UNLOGGED:
            raise OSError(EACCES, "not about this process")
        try:
            if os.write(self.roster, body) < len(body):
                raise OSError(ENOSPC, "no room for all of it")
        except OSError:
            whole_entries = os.fstat(self.roster).st_size // ENTRY.itemsize  # the header is as long
            os.ftruncate(self.roster, whole_entries * ENTRY.itemsize)
            os.close(os.open(self.cut_mark, os.O_CREAT | os.O_CLOEXEC, 0o600))
            raise


def read_proc_file(pid: int, path: str) -> bytes:
    """Read what is a file of the asking process by its path."""
    own = OWN_FILE.fullmatch(path)
    if own is None and path not in PUBLIC_FILES:
        raise OSError(EACCES, "not its own")
    with open(f"/proc/{pid}/{own[1]}" if own else path, "rb") as file:
        return file.read(TEXT_BYTES_MAX)


def read_proc_link(pid: int, path: str) -> bytes:
    """Read what is a link of the asking process by its path."""
    own = OWN_LINK.fullmatch(path)
    if own is None:
        raise OSError(EACCES, "not its own")
    return os.fsencode(os.readlink(f"/proc/{pid}/{own[1]}"))


def serve(
    keeper: Keeper,
    selector: selectors.BaseSelector,
    listener: socket.socket,
    stop: socket.socket,
) -> None:
    """Answer one question on each connection, until something is sent to `stop`.

    Who connects and says nothing keeps nobody waiting: of too many, the first to come is refused.
    """
    selector.register(listener, selectors.EVENT_READ)
    selector.register(stop, selectors.EVENT_READ)
    pause = select.poll()  # which knows descriptors above 1023 too
    pause.register(stop, select.POLLIN)
    waiting: dict[socket.socket, None] = {}  # in order of arrival
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if stop in ready:
            return
        if listener in ready:
            try:
                connection, _ = listener.accept()
            except OSError:  # gone again, or no descriptor is left: it would be ready at once
                pause.poll(PAUSE_MS)
            else:
                connection.setblocking(False)
                waiting[connection] = None
                selector.register(connection, selectors.EVENT_READ)
        oldest = set(islice(waiting, max(0, len(waiting) - WAITING_MAX)))
        for connection in [c for c in waiting if c in ready or c in oldest]:
            selector.unregister(connection)
            del waiting[connection]
            with connection, suppress(OSError):
                reply(keeper, connection)


def reply(keeper: Keeper, connection: socket.socket) -> None:
    """Answer the question that came on a connection."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, _, _ = CREDENTIALS.unpack(peer)
    log = None
    try:
        text, log = keeper.answer(pid, connection.recv(QUESTION_BYTES_MAX))
        outcome = 0
    except OSError as error:
        text, outcome = b"", -(error.errno or EINVAL)
    try:
        socket.send_fds(connection, [OUTCOME.pack(outcome), text], [log] if log is not None else [])
    finally:
        if log is not None:
            os.close(log)


@contextmanager
def keeping(raw_dir: Path) -> Iterator[str]:
    """Serve processes of the job meanwhile; gives what their environment must tell them."""
    name, secret = f"iotrace-{secrets.token_hex(8)}", secrets.token_hex(SECRET_CHARACTERS // 2)
    with ExitStack() as stack:
        folder = os.open(raw_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        roster = os.open(roster_path(raw_dir), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        stack.callback(os.close, roster)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(listener)
        listener.bind(f"\0{name}")
        listener.listen(1024)
        listener.setblocking(False)
        wake, stop = socket.socketpair()
        stack.enter_context(wake)
        stack.enter_context(stop)
        selector = stack.enter_context(selectors.DefaultSelector())
        keeper = Keeper(secret.encode(), folder, roster, cut_mark(raw_dir))
        server = threading.Thread(
            target=serve, args=(keeper, selector, listener, stop), daemon=True
        )
        server.start()
        stack.callback(server.join)
        stack.callback(wake.send, b"x")
        yield f"{name}:{secret}"
