"""Calls on names, descriptors and processes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from iotrace.traces.formats.strace_call import NUMBER, Call, Found, flags_of, is_folder
from iotrace.traces.formats.strace_lines import Line, split_arguments, unescaped, unquoted
from iotrace.traces.formats.strace_state import Descriptor, Space, is_regular
from iotrace.traces.open_flags import opens_folder

_OPEN_FLAGS = {name: getattr(os, name) for name in dir(os) if name.startswith("O_")}
_OPEN_FLAGS["O_LARGEFILE"] = 0  # says nothing on 64 bits
_DEFAULT_EXEC_STATE = ("FD_CLOEXEC", "O_CLOEXEC", "SOCK_CLOEXEC")


def open_file(call: Call) -> Found:
    at = call.name in ("openat", "openat2")
    path = call.path(1, 0) if at else call.path(0)
    if call.name == "creat":
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
    else:
        text = call.arguments[2 if at else 1]
        if call.name == "openat2":
            text = text.partition("flags=")[2].split(",")[0].rstrip("}")
        flags = flags_of(text, _OPEN_FLAGS)
    of_folder = bool(opens_folder(np.array(flags)))
    if call.failed:
        if not of_folder and is_regular(path):
            yield "open", {"path": path, "flags": flags, "result": call.code}
        return
    shown = call.line.result_path
    if shown is not None and shown.startswith("/"):
        path = unescaped(shown).removesuffix("(deleted)")
    machine, space = call.machine, call.space
    if not is_regular(path):
        space.descriptors[call.result] = Descriptor(None)
        return
    file = machine.open(space, call.result, path, bool(flags & os.O_CLOEXEC))
    file.is_folder = of_folder
    file.appends = bool(flags & os.O_APPEND)
    makes = flags & os.O_CREAT and flags & os.O_EXCL
    if makes or flags & os.O_TRUNC:
        machine.names.sizes[file.file] = 0
    if not is_folder(machine, file):
        yield "open", {"path": path, "file": file.file, "flags": flags, "result": 0}


def begin_close(space: Space, tid: int, text: str) -> None:
    """Free a descriptor: another thread may get its number before the call has returned."""
    if match := NUMBER.match(text):
        space.closing[tid] = space.descriptors.pop(int(match[0]), None)


def close_file(call: Call) -> Found:
    fd, shown = call.fd()
    if fd is None:
        return
    space, later = call.space, None
    if call.tid in space.closing:
        later = space.descriptors.pop(fd, None)
        if (held := space.closing.pop(call.tid)) is not None:
            space.descriptors[fd] = held
    known = space.descriptors.get(fd)
    file = None if known is None and shown is None else call.file()
    known = space.descriptors.pop(fd, None)
    others = [other.file for other in space.descriptors.values()]
    if later is not None:
        space.descriptors[fd] = later
    if file is not None and not (known and any(other is known.file for other in others)):
        yield "close", {"path": file.path, "file": file.file, "result": call.code}


def two_names(op: str) -> Callable[[Call], Found]:
    def handler(call: Call) -> Found:
        if call.name in ("rename", "link"):
            path, target = call.path(0), call.path(1)
        else:
            path, target = call.path(1, 0), call.path(3, 2)
        names = call.machine.names
        values = {"path": path, "target": target, "file": names.find(path), "result": call.code}
        if not call.failed:
            (names.rename if op == "rename" else names.link)(path, target)
        yield op, values

    return handler


def one_name(op: str) -> Callable[[Call], Found]:
    def handler(call: Call) -> Found:
        at = call.name.endswith("at")
        path = call.path(1, 0) if at else call.path(0)
        names = call.machine.names
        done = op
        if call.name == "unlinkat" and "AT_REMOVEDIR" in call.arguments[2]:
            done = "rmdir"
        values: dict[str, Any] = {"path": path, "result": call.code}
        if done == "unlink":
            values["file"] = names.find(path)
            if not call.failed:
                names.unlink(path)
        elif done == "mkdir" and not call.failed:
            names.folders.add(path)
        elif done == "rmdir" and not call.failed:
            names.folders.discard(path)
        yield done, values

    return handler


def duplicate(call: Call) -> Found:
    if not call.failed and (call.name != "fcntl" or "F_DUPFD" in call.arguments[1]):
        fd, _ = call.fd()
        known = call.space.descriptors.get(-1 if fd is None else fd)
        closes = "CLOEXEC" in "".join(call.arguments[1:])
        file = known.file if known else call.file()
        if known or file:
            call.space.descriptors[call.result] = Descriptor(file, closes)
    elif call.name == "fcntl" and "F_SETFD" in call.arguments[1] and not call.failed:
        fd, _ = call.fd()
        known = call.space.descriptors.get(-1 if fd is None else fd)
        if known:
            known.closes_on_exec = "FD_CLOEXEC" in call.arguments[2]
    yield from ()


def no_file(call: Call) -> Found:
    """Give descriptors that are no files: of sockets, pipes, timers."""
    closes = any(word in argument for argument in call.arguments for word in _DEFAULT_EXEC_STATE)
    if not call.failed:
        for fd in _fds(call.name, call.arguments, call.result):
            call.space.descriptors[fd] = Descriptor(None, closes)
    yield from ()


def numbers_given(line: Line) -> list[int]:
    """Return the descriptors that a whole call of those that give some got, which were free."""
    if line.result is None or line.result < 0 or line.name in ("dup2", "dup3"):
        return []
    if line.name == "fcntl" and "F_DUPFD" not in line.text:
        return []
    return _fds(line.name, split_arguments(line.text), line.result)


def _fds(name: str, arguments: list[str], result: int) -> list[int]:
    text = arguments[0] if name.startswith("pipe") else ""
    text = arguments[3] if name == "socketpair" else text
    return [int(word) for word in re.findall(r"(?<![\w:])\d+(?=[<,\]])", text)] or [result]


def create(call: Call) -> Found:
    if call.result > 0:
        is_thread = "CLONE_THREAD" in " ".join(call.arguments)
        call.machine.born(call.tid, call.result, is_thread, call.was_split)
    yield from ()


def execute(call: Call) -> Found:
    if not call.failed:
        space = call.space
        texts = split_arguments(call.arguments[1].strip("[]")) if "[" in call.arguments[1] else []
        space.argv = tuple(unquoted(text) + "..." * text.endswith("...") for text in texts)
        kept = {fd: d for fd, d in space.descriptors.items() if not d.closes_on_exec}
        space.descriptors = kept
        space.mappings.clear()
    yield from ()


def change_folder(call: Call) -> Found:
    if not call.failed:
        if call.name == "chdir":
            call.space.cwd = call.path(0)
        else:
            fd, shown = call.fd()
            known = call.space.descriptors.get(-1 if fd is None else fd)
            call.space.cwd = shown or (known.file.path if known and known.file else None)
    yield from ()


def current_folder(call: Call) -> Found:
    if not call.failed:
        call.space.cwd = unquoted(call.arguments[0])
    yield from ()
