"""Files that begin with a JSON header: safetensors, and DataStates-LLM which took it over.

Eight bytes, little-endian, give the header's length; the header names each tensor
with the place of its bytes behind the header.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .emit import Emitter

LENGTH_BYTES = 8
HEADER_MAX_BYTES = 100_000_000  # safetensors refuses longer ones


def read_header(path: str, emitter: Emitter) -> tuple[dict[str, Any], int]:
    """Return a file's header, and the offset of the first byte behind it.

    The reads are the hook's own and not recorded.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has no such header.
    """
    emitter.pause()
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if length > HEADER_MAX_BYTES:
                raise ValueError(f"a header of {length} bytes")
            return json.loads(file.read(length)), LENGTH_BYTES + length
    except RecursionError as error:
        raise ValueError("a header that is nested too deeply") from error
    finally:
        emitter.resume()


def size_of(path: str, emitter: Emitter) -> int:
    """Return a file's size in bytes; the question is the hook's own and not recorded.

    Raises:
        OSError: There is no such file.
    """
    emitter.pause()
    try:
        return os.stat(path).st_size
    finally:
        emitter.resume()
