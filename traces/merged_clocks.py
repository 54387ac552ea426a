"""Times of traces that are joined: by a clock that they share, else one after another."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from iotrace.traces.metadata import Metadata
from iotrace.traces.steps import ADJACENT_NS

# More than lies within one step: what no clock joins is no step, and overlaps nothing.
APART_NS = 2 * ADJACENT_NS
_WALL, _CHOSEN = "wall", "chosen"

Extent = tuple[int, int]  # first start and last end, ns since the part's epoch


@dataclass(frozen=True)
class JoinedClocks:
    """How the times of some parts become those of one trace.

    Attributes:
        groups: per part, a number of its clock: which parts have one.
        are_of_one_trace: per part, whether its clock is that of a trace it was chosen from.
        shifts_ns: per part, what its times are moved by.
        epoch_realtime_ns, epoch_monotonic_ns, clock, clocks: of the whole, as `Metadata` has them.
    """

    groups: tuple[int, ...]
    are_of_one_trace: tuple[bool, ...]
    shifts_ns: tuple[int, ...]
    epoch_realtime_ns: int
    epoch_monotonic_ns: int | None
    clock: str
    clocks: int


def join_clocks(parts: Sequence[Metadata], extents: Sequence[Extent | None]) -> JoinedClocks:
    """Return how to join the times of `parts`; `extents` are those of their rows.

    A boot's monotonic clock is exact; wall-clock times join boots and hosts; shared parts of one
    trace tell by `clock` that they have one epoch. What has none of these follows what was given
    before it, `APART_NS` later, and the whole has no epoch: it would be one of some rows only.
    """
    readings = list(_readings(parts))
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, (clock, _) in enumerate(readings):
        groups[clock].append(place)
    shifts_ns = [0] * len(parts)
    last_ns: int | None = None
    for group in groups.values():
        zero_ns = min(readings[place][1] for place in group)
        moved = {place: readings[place][1] - zero_ns for place in group}
        begins, ends = [], []
        for place, shift_ns in moved.items():
            if (extent := extents[place]) is not None:
                begins.append(extent[0] + shift_ns)
                ends.append(extent[1] + shift_ns)
        later_ns = last_ns + APART_NS - min(begins) if last_ns is not None and begins else 0
        for place, shift_ns in moved.items():
            shifts_ns[place] = shift_ns + later_ns
        if ends:
            last_ns = max(ends) + later_ns
    numbers = {clock: number for number, clock in enumerate(groups)}
    joined = (
        tuple(numbers[clock] for clock, _ in readings),
        tuple(
            clock == (_CHOSEN, part.clock) for (clock, _), part in zip(readings, parts, strict=True)
        ),
        tuple(shifts_ns),
    )
    clocks = sum(max(parts[place].clocks for place in group) for group in groups.values())
    if len(groups) > 1:
        return JoinedClocks(*joined, 0, None, "", clocks)
    first = min(range(len(parts)), key=lambda place: readings[place][1])
    epoch_ns = readings[first][1] if readings[first][0] == _WALL else 0
    monotonic_ns, clock = parts[first].epoch_monotonic_ns, parts[first].clock
    return JoinedClocks(*joined, epoch_ns, monotonic_ns, clock, clocks)


def _readings(parts: Sequence[Metadata]) -> Iterator[tuple[Hashable, int]]:
    """Yield per part which clock its epoch can be read on, and what that says, in ns."""
    boots = [_boot(part) for part in parts]
    ahead_ns: dict[str, int] = {}  # of the wall clock, by the first part of each boot
    for boot, part in zip(boots, parts, strict=True):
        if boot and part.epoch_realtime_ns:
            ahead_ns.setdefault(boot, part.epoch_realtime_ns - (part.epoch_monotonic_ns or 0))
    recordings: dict[Metadata, int] = {}
    for place, (boot, part) in enumerate(zip(boots, parts, strict=True)):
        if boot in ahead_ns:
            yield _WALL, (part.epoch_monotonic_ns or 0) + ahead_ns[boot]
        elif boot:
            yield ("boot", boot), part.epoch_monotonic_ns or 0
        elif part.epoch_realtime_ns:
            yield _WALL, part.epoch_realtime_ns
        elif part.clock:
            yield (_CHOSEN, part.clock), 0
        else:
            yield ("own", recordings.setdefault(part, place)), 0


def _boot(part: Metadata) -> str:
    """Return the boot whose monotonic clock the epoch is on; empty: none."""
    is_known = len(part.hosts) == 1 and part.epoch_monotonic_ns is not None
    return part.hosts[0].boot_id if is_known else ""


def clocks_told(metadata: Metadata) -> str:
    """Return what times of several clocks are worth, in words; empty if they are of one."""
    if metadata.clocks < 2:
        return ""
    return (
        f"of {metadata.clocks} clocks that nothing joins: each follows the one before by "
        f"{APART_NS // 10**9} s, and what overlapped is not known"
    )
