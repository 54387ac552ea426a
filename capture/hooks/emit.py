"""The way from a hook into the trace: functions that the preload library exports.

Both layers share the raw log and its clock, CLOCK_MONOTONIC, which
`time.monotonic_ns` reads faster than a foreign call could.
"""

from __future__ import annotations

import ctypes
import json
import os
from json.encoder import encode_basestring_ascii
from time import monotonic_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CUT = "…"  # the end of a text that was longer
TEXT_MAX_CHARS = 4096  # of a name or a path; what a record holds is 64 KiB


class Emitter:
    """Writes notes into the raw log of this process, on the calling thread.

    Args:
        library: Where `iotrace_note`, `iotrace_pause` and `iotrace_may_hold_locks` are found.

    Raises:
        AttributeError: A function is missing: the preload library is not loaded.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._note = library.iotrace_note
        self._note.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t)
        self._note.restype = ctypes.c_int
        self._pause = library.iotrace_pause
        self._pause.argtypes = (ctypes.c_int,)
        self._pause.restype = None
        self._may_hold_locks = library.iotrace_may_hold_locks
        self._may_hold_locks.argtypes = (ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t)
        self._may_hold_locks.restype = ctypes.c_int

    def emit(self, start_ns: int, end_ns: int, text: str) -> None:
        """Write one note: a JSON object in ASCII."""
        encoded = text.encode("ascii")
        self._note(start_ns, end_ns, encoded, len(encoded))

    def note(self, fields: Mapping[str, object]) -> None:
        """Write one note that belongs to this moment."""
        now_ns = monotonic_ns()
        self.emit(now_ns, now_ns, json.dumps(fields, separators=(",", ":")))

    def pause(self) -> None:
        """Stop recording this thread's requests: they are the hook's own."""
        self._pause(1)

    def resume(self) -> None:
        """End one `pause`."""
        self._pause(0)

    def may_hold_locks(self, paths: Sequence[str]) -> bool:
        """Return whether to open and close one of some files may end a lock of this process."""
        encoded = map(os.fsencode, paths)
        return bool(self._may_hold_locks((ctypes.c_char_p * len(paths))(*encoded), len(paths)))


def connect() -> Emitter | None:
    """Return an emitter, or None where the preload library is not loaded.

    The library's functions are called with the GIL held (PyDLL): a note takes
    less than handing the GIL over, and the job's threads keep their turns.
    """
    try:
        return Emitter(ctypes.PyDLL(None))
    except (AttributeError, OSError):
        return None


def quote(text: str | None) -> str:
    """Return `text` as JSON, cut to what one record can hold."""
    if text is None:
        return "null"
    return encode_basestring_ascii(shortened(text, TEXT_MAX_CHARS))


def shortened(text: str, max_chars: int) -> str:
    """Return `text`, or as much of it as may stand there, with `CUT` at its end."""
    return text if len(text) <= max_chars else text[: max_chars - len(CUT)] + CUT
