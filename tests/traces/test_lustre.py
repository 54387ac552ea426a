"""The layout attribute of Lustre."""

import struct

import pytest

from iotrace.traces.lustre import LAYOUT_MAGICS, parse_stripes


@pytest.mark.parametrize("magic", LAYOUT_MAGICS)
def test_lustre_stripes_are_read_from_the_layout(magic: int) -> None:
    """Stripe size is what a shared file's regions should be rounded to."""
    layout = struct.pack("<IIQQIHH", magic, 1, 7, 8, 4 << 20, 16, 0)
    assert parse_stripes(layout) == (4 << 20, 16)


@pytest.mark.parametrize("layout", [b"", b"\0" * 40, struct.pack("<I", LAYOUT_MAGICS[0])])
def test_another_layout_says_nothing(layout: bytes) -> None:
    """A composite layout, or a cut one, must not give a wrong number."""
    assert parse_stripes(layout) == (None, None)
