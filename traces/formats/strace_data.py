"""Calls on open files: what moves, stores or maps their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from iotrace.traces.formats.strace_call import NUMBER, Call, Found, flags_of, is_folder
from iotrace.traces.formats.strace_state import Machine, Mapping, OpenFile
from iotrace.traces.sync_kind import SyncKind

_IOV_LENGTH = re.compile(r"iov_len=(\d+)")
_CUT = re.compile(r'(?<!")\.\.\.')  # of vectors, which -s bounds too, and not of a text in them
_SIZE = re.compile(r"st_size=(\d+)")
_SYNC_KINDS = {
    "fsync": SyncKind.FSYNC,
    "fdatasync": SyncKind.FDATASYNC,
    "sync_file_range": SyncKind.RANGE,
    "syncfs": SyncKind.FILE_SYSTEM,
    "sync": SyncKind.EVERYTHING,
}
_ALLOCATIONS = {
    "FALLOC_FL_KEEP_SIZE": 1,
    "FALLOC_FL_PUNCH_HOLE": 2,
    "FALLOC_FL_COLLAPSE_RANGE": 8,
    "FALLOC_FL_ZERO_RANGE": 16,
    "FALLOC_FL_INSERT_RANGE": 32,
    "FALLOC_FL_UNSHARE_RANGE": 64,
}
_ADVICE = {
    "POSIX_FADV_NORMAL": 0,
    "POSIX_FADV_RANDOM": 1,
    "POSIX_FADV_SEQUENTIAL": 2,
    "POSIX_FADV_WILLNEED": 3,
    "POSIX_FADV_DONTNEED": 4,
    "POSIX_FADV_NOREUSE": 5,
    "MADV_NORMAL": 0,
    "MADV_RANDOM": 1,
    "MADV_SEQUENTIAL": 2,
    "MADV_WILLNEED": 3,
    "MADV_DONTNEED": 4,
}
_AT_POSITION = ("preadv2", "pwritev2")  # if their offset is -1
_RWF_APPEND, _RWF_NOAPPEND = 0x10, 0x20
_WRITE_FLAGS = {"RWF_APPEND": _RWF_APPEND, "RWF_NOAPPEND": _RWF_NOAPPEND}
_PROTECTIONS = {"PROT_NONE": 0, "PROT_READ": 1, "PROT_WRITE": 2, "PROT_EXEC": 4}


def data(op: str, vectored: bool, at: int | None) -> Callable[[Call], Found]:
    """Return the handler of a call that moves data; `at`: the place of its offset."""

    def handler(call: Call) -> Found:
        file = call.file()
        if file is None:
            return
        moved = max(call.result, 0)
        length = _vectors_bytes(call.arguments[1], moved) if vectored else call.size(2)
        offset = None if at is None else call.number(at)
        source, at_end = "argument", op == "write" and appends(call, file)
        if offset is None or (offset == -1 and call.name in _AT_POSITION):
            offset, source = move(call.machine, file, moved, at_end), "tracked"
        elif at_end and moved:  # whatever it asked for
            offset, source = call.machine.names.sizes.get(file.file), "tracked"
        if offset is None:
            call.machine.lost["positions"] += 1
        elif op == "write":
            call.machine.names.grow(file.file, offset + moved)
        result = call.code if call.failed else call.result
        yield op, data_extent(file, offset, length, result, source)

    return handler


def _vectors_bytes(text: str, moved: int) -> int:
    """Return the bytes of vectors as far as they are shown, and at least what was moved of them."""
    shown = sum(map(int, _IOV_LENGTH.findall(text)))
    is_whole = text.startswith("[") and not _CUT.search(text)
    return shown if is_whole else max(shown, moved)


def data_extent(
    file: OpenFile, offset: int | None, length: int, result: int, source: str
) -> dict[str, Any]:
    return {
        "path": file.path,
        "file": file.file,
        "offset": offset,
        "length": length,
        "result": result,
        "offset_source": None if offset is None else source,
    }


def appends(call: Call, file: OpenFile) -> bool:
    """Return whether a write goes to the end; its own flags come before those of the file."""
    flags = flags_of(call.arguments[4], _WRITE_FLAGS) if call.name == "pwritev2" else 0
    return bool(flags & _RWF_APPEND or (file.appends and not flags & _RWF_NOAPPEND))


def move(machine: Machine, file: OpenFile, moved: int, at_end: bool) -> int | None:
    """Move the position of a file, first to its end if asked; return where it was."""
    offset = file.position
    if at_end:
        offset = machine.names.sizes.get(file.file)
    file.position = None if offset is None else offset + moved
    return offset


def copy(call: Call) -> Found:
    """copy_file_range, sendfile and splice: a read and a write, where both are files."""
    is_sendfile = call.name == "sendfile"
    source_place, target_place = (1, 0) if is_sendfile else (0, 2)
    moved = max(call.result, 0)
    length = call.size(3 if is_sendfile else 4)
    result = call.code if call.failed else call.result
    for op, place, at in (
        ("read", source_place, 2 if is_sendfile else 1),
        ("write", target_place, None if is_sendfile else 3),
    ):
        file = call.file(place)
        if file is None:
            continue
        text = "NULL" if at is None else call.arguments[at]
        if text.startswith("["):
            match = NUMBER.search(text)
            offset, source = (int(match[0], 0) if match else None), "argument"
        else:
            at_end = op == "write" and file.appends
            offset, source = move(call.machine, file, moved, at_end), "tracked"
        if offset is not None and op == "write":
            call.machine.names.grow(file.file, offset + moved)
        # Who copies a file asks for more than there is.
        asked = moved if (offset or 0) + length >= 2**63 else length
        yield op, data_extent(file, offset, asked, result, source)


def seek(call: Call) -> Found:
    file = call.file()
    if file is not None and not call.failed:
        file.position = call.result
        if call.arguments[2] == "SEEK_END" and call.number(1) == 0:
            call.machine.names.sizes[file.file] = call.result
    yield from ()


def stat(call: Call) -> Found:
    of_descriptor = call.name.startswith("fstat") or call.arguments[1] == '""'
    match = _SIZE.search("".join(call.arguments[1:]))
    if match and of_descriptor and not call.failed:
        file = call.file()
        if file is not None:
            call.machine.names.sizes[file.file] = int(match[1])
    yield from ()


def sync(call: Call) -> Found:
    kind = _SYNC_KINDS[call.name]
    values: dict[str, Any] = {"flags": int(kind), "result": call.code}
    if kind == SyncKind.EVERYTHING:
        yield "sync", values
        return
    file = call.file_or_folder()
    if file is None:
        return
    if is_folder(call.machine, file):
        if kind != SyncKind.RANGE:
            values |= {"flags": int(kind.of_folder), "path": call.folder_path(file)}
            yield "sync", values
        return
    values |= {"path": file.path, "file": file.file}
    if call.name == "sync_file_range":
        values |= {"offset": call.number(1), "length": call.number(2)}
    yield "sync", values


def truncate(call: Call) -> Found:
    length = call.number(1)
    if call.name == "truncate":
        path = call.path(0)
        number = call.machine.names.file(path)
    else:
        file = call.file()
        if file is None:
            return
        path, number = file.path, file.file
    if not call.failed:
        call.machine.names.sizes[number] = length
    yield "truncate", {"path": path, "file": number, "length": length, "result": call.code}


def allocate(call: Call) -> Found:
    file = call.file()
    if file is not None:
        flags = flags_of(call.arguments[1], _ALLOCATIONS)
        extent = {"offset": call.number(2), "length": call.number(3)}
        if not flags and not call.failed:
            call.machine.names.grow(file.file, extent["offset"] + extent["length"])
        named = {"path": file.path, "file": file.file}
        yield "allocate", {**named, **extent, "flags": flags, "result": call.code}


def advise(call: Call) -> Found:
    file = call.file()
    if file is not None:
        named = {"path": file.path, "file": file.file}
        extent = {"offset": call.number(1), "length": call.number(2)}
        flags = flags_of(call.arguments[3], _ADVICE)
        yield "advise", {**named, **extent, "flags": flags, "result": call.code}


def map_file(call: Call) -> Found:
    if call.arguments[4].startswith("-1") or "MAP_ANONYMOUS" in call.arguments[3]:
        return
    file = call.file(4)
    if file is None:
        return
    offset, length = call.number(5), call.number(1)
    values = {"path": file.path, "file": file.file, "offset": offset, "length": length}
    if not call.failed:
        address = call.result
        call.space.mappings[address] = Mapping(file, address, offset, length)
    yield "map", {**values, "flags": flags_of(call.arguments[2], _PROTECTIONS), "result": call.code}


def unmap(call: Call) -> Found:
    mapping = None if call.failed else call.space.mappings.pop(call.number(0), None)
    if mapping is not None:
        file = mapping.open_file
        extent = {"offset": mapping.offset, "length": min(mapping.length, call.number(1))}
        yield "unmap", {"path": file.path, "file": file.file, **extent, "result": 0}
