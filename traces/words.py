"""Numbers and lists in sentences."""

from collections.abc import Sequence

_NAMED = 5  # of a list that a stranger may have made as long as they like
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def plural(count: int, noun: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "file"), plural(2000, "file"), plural(3, "process")
    ('1 file', '2,000 files', '3 processes')
    """
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{count:,} {noun}{ending}"


def listed(words: Sequence[str]) -> str:
    """Return the first few of some words, and how many more there are.

    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    more = f" and {len(words) - _NAMED:,} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def sized(size_bytes: float) -> str:
    """Return a size in binary units, exact multiples without decimals.

    >>> sized(8 << 20), sized(1_566_000_000), sized(700)
    ('8 MiB', '1.46 GiB', '700 B')
    """
    value = float(size_bytes)
    for unit in _BINARY[:-1]:
        if round(abs(value)) < 1024:  # 1023.9 of a unit is written as 1.00 of the next
            return f"{significant(value)} {unit}"
        value /= 1024
    return f"{significant(value)} {_BINARY[-1]}"


def significant(value: float) -> str:
    """Return three significant digits; whole numbers as they are."""
    if value == int(value):
        return f"{int(value)}"
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
