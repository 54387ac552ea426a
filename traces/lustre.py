"""How Lustre lays a file or folder out, as its extended attribute says."""

import os
import struct

LAYOUT = "lustre.lov"
LAYOUT_MAGICS = (0x0BD10BD0, 0x0BD30BD0)  # one component: v1, v3
_STRIPES_AT = 24  # stripe size, then stripe count


def stripes(path: str) -> tuple[int | None, int | None]:
    """Return stripe size in bytes and stripe count of a path on Lustre; None elsewhere."""
    try:
        return parse_stripes(os.getxattr(path, LAYOUT))
    except OSError:
        return None, None


def parse_stripes(layout: bytes) -> tuple[int | None, int | None]:
    """Return stripe size and count of a layout with one component; None for others."""
    if len(layout) < _STRIPES_AT + 6:
        return None, None
    (magic,) = struct.unpack_from("<I", layout)
    if magic not in LAYOUT_MAGICS:
        return None, None
    size_bytes, count = struct.unpack_from("<IH", layout, _STRIPES_AT)
    return size_bytes, count
