"""Find a recording that is given twice, which would double its work when joined."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace

# So many requests of one process, and so many different durations among them, are the same only
# in copies: clocks tell nanoseconds. Synthetic times are even, and those of checkpoints are none.
_ALIKE_ROWS, _ALIKE_DURATIONS = 8, 4


@dataclass(frozen=True, eq=False)
class _Holding:
    """The rows of one process in the trace at `place`, in order of issue: requests, or all.

    `is_known`: what it is a process of is told, so that nothing else can be the same process.
    """

    place: int
    is_known: bool
    rank: int
    seq: IntArray
    start_ns: IntArray
    spent_ns: IntArray


def find_repeat(traces: Sequence[Trace]) -> tuple[int, int] | None:
    """Return the places of two traces that hold the same rows of one process; None without.

    Parts of a process, such as its steps, are no repeat. Needs the columns that no row is without,
    and `end_ns`.
    """
    found: dict[Hashable, list[_Holding]] = {}
    for place, trace in enumerate(traces):
        for identity, holding in _holdings(place, trace):
            found.setdefault(identity, []).append(holding)
    repeats = [_first_repeat(own) for own in found.values()]
    repeats.append(_first_copy([holding for own in found.values() for holding in own]))
    return min(filter(None, repeats), default=None)


def _identities(metadata: Metadata) -> Iterator[tuple[bool, Hashable]]:
    """Yield what tells each process from all others, and whether that is sure.

    It is its host's boot, pid and start. Where the boot is not known, as in shared traces, equal
    metadata tell that processes are the same, and others may be so as well.
    """
    epochs_ns = (metadata.epoch_realtime_ns, metadata.epoch_monotonic_ns)
    stored = metadata.to_json()
    for number, process in enumerate(metadata.processes):
        known = 0 <= process.host < len(metadata.hosts)
        boot = metadata.hosts[process.host].boot_id if known else ""
        start = epochs_ns if process.start_ticks is None else process.start_ticks
        yield bool(boot), (boot, process.pid, start) if boot else (stored, number)


def _holdings(place: int, trace: Trace) -> Iterator[tuple[Hashable, _Holding]]:
    identities = list(_identities(trace.metadata))
    is_request = trace.row_mask(layer=REQUEST_LAYERS)
    process, seq = trace.ints("process"), trace.ints("seq")
    start_ns, rank = trace.ints("start_ns"), trace.ints("rank")
    spent_ns = np.where(trace.valid("end_ns"), trace.ints("end_ns") - start_ns, -1)
    order = np.lexsort((seq, process))
    for rows in np.split(order, np.flatnonzero(np.diff(process[order])) + 1):
        if len(rows) and 0 <= process[rows[0]] < len(identities):
            is_known, identity = identities[process[rows[0]]]
            requests = rows[is_request[rows]]
            own = requests if len(requests) else rows
            parts = seq[own], start_ns[own], spent_ns[own]
            yield identity, _Holding(place, is_known, int(rank[rows[0]]), *parts)


def _first_repeat(holdings: Sequence[_Holding]) -> tuple[int, int] | None:
    """Return the places of the first two that overlap; only those that share a seq are compared."""
    if len(holdings) < 2:
        return None
    seq = np.concatenate([holding.seq for holding in holdings])
    owner = np.repeat(np.arange(len(holdings)), [len(holding.seq) for holding in holdings])
    order = np.lexsort((owner, seq))
    seq, owner = seq[order], owner[order]
    near = np.flatnonzero((np.diff(seq) == 0) & (np.diff(owner) != 0))
    sharing = [holdings[i] for i in np.unique(np.r_[owner[near], owner[near + 1]]).tolist()]
    for first, second in combinations(sharing, 2):
        if first.place != second.place and _overlap(first, second):
            return first.place, second.place
    return None


def _first_copy(holdings: Sequence[_Holding]) -> tuple[int, int] | None:
    """Return the places of the first two that hold the same rows under any name of the process."""
    if all(holding.is_known for holding in holdings):
        return None
    sizes = [len(holding.seq) for holding in holdings]
    seq, spent_ns = (
        np.concatenate([getattr(holding, name) for holding in holdings])
        for name in ("seq", "spent_ns")
    )
    owner = np.repeat(np.arange(len(holdings)), sizes)
    order = np.lexsort((owner, spent_ns, seq))
    same = np.flatnonzero((np.diff(seq[order]) == 0) & (np.diff(spent_ns[order]) == 0))
    pairs = np.stack([owner[order[same]], owner[order[same + 1]]])
    alike, counts = np.unique(pairs, axis=1, return_counts=True)
    for a, b in alike[:, counts >= _ALIKE_ROWS].T.tolist():
        first, second = holdings[a], holdings[b]
        if first.place != second.place and _is_copy(first, second):
            return min(first.place, second.place), max(first.place, second.place)
    return None


def _is_copy(first: _Holding, second: _Holding) -> bool:
    if (first.is_known and second.is_known) or first.rank != second.rank:
        return False
    common = np.isin(first.seq, second.seq)
    durations = np.unique(first.spent_ns[common])
    return len(durations) >= _ALIKE_DURATIONS and _overlap(first, second)


def _overlap(first: _Holding, second: _Holding) -> bool:
    """Return whether both hold rows of the same numbers, at the same times but for the epoch.

    The times are for two containers of one host, whose processes may have one pid and start.
    """
    _, a, b = np.intersect1d(first.seq, second.seq, return_indices=True)
    shifts = first.start_ns[a] - second.start_ns[b]
    same_length = np.array_equal(first.spent_ns[a], second.spent_ns[b])
    return len(a) > 0 and bool((shifts == shifts[0]).all()) and same_length
