"""Damage to inputs: of any bytes, and of the lines of a text."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.choices import Chooser
from tests.fuzz.wild import INTS

INTERESTING = (
    *(b"-1", b"9223372036854775807", b"18446744073709551616", b"0x7f", b"1e999", b"null"),
    *(b'"', b"\\", b"<", b"{", b"[", b"\0", b"\xff", b"\n", b" = ", b"/../.."),
    *(b"," * 50, b"(" * 50),
)


def damage(content: bytes, rng: Chooser, others: Sequence[bytes]) -> bytes:
    """Return `content` with some bytes changed, moved, lost, repeated or taken from another."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        # A Parquet footer says how to read all the rest: half of the damage goes there.
        low = len(data) - min(len(data), 4096) if rng.random() < 0.5 else 0
        place = rng.randrange(low, len(data))
        kind = rng.randrange(8)
        size = rng.choice((1, 2, 4, 8, 64))
        if kind <= 2:
            data[place] = rng.randrange(256)
        elif kind == 3:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 4:
            number = rng.choice(INTS) & (2**64 - 1)
            data[place : place + size] = number.to_bytes(8, "little")[:size]
        elif kind == 5:
            del data[place : place + size]
        elif kind == 6:
            data[place:place] = data[max(0, place - size) : place]
        else:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            data[place : place + size] = other[start : start + size]
    if rng.random() < 0.02:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def edit(content: bytes, rng: Chooser, others: Sequence[bytes]) -> bytes:
    """Return a text with some lines or words of it replaced, removed, repeated or borrowed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines = content.splitlines(keepends=True) or [b""]
        at = rng.randrange(len(lines))
        kind = rng.randrange(4)
        if kind == 0:
            lines[at : at + rng.randrange(3)] = [rng.choice(lines)]
        elif kind == 1:
            lines[at] = rng.choice(rng.choice(others).splitlines(keepends=True) or [b""])
        else:
            by = rng.choice((b" ", b","))
            words = lines[at].split(by)
            place = rng.randrange(len(words))
            new = rng.choice(INTERESTING) if kind == 2 else rng.choice(words)
            words[place] = new if rng.random() < 0.7 else words[place] + new
            lines[at] = by.join(words)
        content = b"".join(lines)
    return content
