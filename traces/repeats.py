"""Find a recording that is given twice, which would double its work when joined."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from iotrace.traces.columns import Mask
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace


def find_repeat(traces: Sequence[Trace]) -> tuple[int, int] | None:
    """Return the places of two traces that hold the same rows of one process; None without.

    Parts of a process, such as its steps, are no repeat. Needs the columns that no row is without,
    and `end_ns`.
    """
    seen: dict[Hashable, list[tuple[int, int]]] = {}
    for place, trace in enumerate(traces):
        for process, identity in enumerate(_identities(trace.metadata)):
            holders = seen.setdefault(identity, [])
            for other, its_process in holders:
                if other != place and _overlap(traces[other], its_process, trace, process):
                    return other, place
            holders.append((place, process))
    return None


def _identities(metadata: Metadata) -> Iterator[Hashable]:
    """Yield what tells each process from all others: its host's boot, pid and start.

    Where the boot is not known, only equal metadata tell that processes are the same.
    """
    epochs_ns = (metadata.epoch_realtime_ns, metadata.epoch_monotonic_ns)
    stored = metadata.to_json()
    for number, process in enumerate(metadata.processes):
        known = 0 <= process.host < len(metadata.hosts)
        boot = metadata.hosts[process.host].boot_id if known else ""
        start = epochs_ns if process.start_ticks is None else process.start_ticks
        yield (boot, process.pid, start) if boot else (stored, number)


def _overlap(first: Trace, first_process: int, second: Trace, second_process: int) -> bool:
    """Return whether both hold rows of the same numbers, at the same times but for the epoch.

    The times are for two containers of one host, whose processes may have one pid and start.
    """
    a, b = _rows(first, first_process), _rows(second, second_process)
    _, in_a, in_b = np.intersect1d(first.ints("seq")[a], second.ints("seq")[b], return_indices=True)
    a, b = a[in_a], b[in_b]
    shifts = first.ints("start_ns")[a] - second.ints("start_ns")[b]
    same_length = np.array_equal(_durations(first)[a], _durations(second)[b])
    return len(a) > 0 and bool((shifts == shifts[0]).all()) and same_length


def _rows(trace: Trace, process: int) -> np.ndarray:
    """Return the rows of requests, or all rows of a process without any."""
    own: Mask = trace.ints("process") == process
    requests = own & trace.row_mask(layer=REQUEST_LAYERS)
    return np.flatnonzero(requests if requests.any() else own)


def _durations(trace: Trace) -> np.ndarray:
    return np.where(trace.valid("end_ns"), trace.ints("end_ns") - trace.ints("start_ns"), -1)
