"""Numbers in sentences."""


def plural(count: int, noun: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "file"), plural(2000, "file"), plural(3, "process")
    ('1 file', '2,000 files', '3 processes')
    """
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{count:,} {noun}{ending}"
