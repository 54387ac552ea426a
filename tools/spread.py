"""How the scatter of repeated runs is called: the range of few, an interval of enough."""

from collections.abc import Iterable

RANGE, INTERVAL, BOTH = "range of runs", "95 % interval", "range or 95 %"


def spread_title(kinds: Iterable[str]) -> str:
    """Return the title of estimates of these kinds.

    >>> spread_title(["range", "range"]), spread_title(["interval"])
    ('range of runs', '95 % interval')
    >>> spread_title(["range", "interval"])
    'range or 95 %'
    """
    known = set(kinds)
    return INTERVAL if known == {"interval"} else BOTH if "interval" in known else RANGE
