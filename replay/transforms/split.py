"""Cut large requests into smaller ones."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.pieces import Ints, all_but, distinct, packed, spread
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError

# Each takes 150 to 200 bytes of memory while requests are cut: 2 GB in all.
MOST_CUTS = 10_000_000


@dataclass(frozen=True)
class Split:
    """Cut every read and write at multiples of `size_bytes` in its file.

    After `align`, the size is rounded down to whole blocks.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch("open a w+create\\nwrite a 2 10\\nclose a")
    >>> print(listing(Split(size_bytes=4)(plan)))
    open a w+create
    write a 2 2
    write a 4 4
    write a 8 4
    close a
    """

    size_bytes: int

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("--split must be at least 1 byte")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with small requests only.

        Raises:
            PlanError: blocks of align would be parted, or more than MOST_CUTS cuts be made.
        """
        plan.require_buffered("split")
        size_bytes, block_bytes = self.size_bytes, plan.block_bytes
        if size_bytes < block_bytes:
            raise PlanError(
                f"--split {size_bytes} would undo --align, which made extents multiples of "
                f"{block_bytes} bytes; split to at least that"
            )
        notes: tuple[Note, ...] = ()
        if size_bytes % block_bytes:
            size_bytes -= size_bytes % block_bytes
            notes = (Note(f"split to {size_bytes} bytes, whole blocks of align"),)
        applied = Applied("split", (("size_bytes", size_bytes),), notes)
        return _cut(plan, size_bytes, applied, "--split")


@dataclass(frozen=True)
class MaxRequest:
    """Cut every read and write as a network file system would, whatever it was made by before.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch("open a w+create+direct\\nwrite a 0 16384\\nclose a")
    >>> print(listing(MaxRequest(size_bytes=8192)(plan)))
    open a w+create+direct
    write a 0 8192
    write a 8192 8192
    close a
    """

    size_bytes: int

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("--max-request must be at least 1 byte")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with requests of at most that size.

        Raises:
            PlanError: direct I/O would no longer consist of whole blocks, or more than MOST_CUTS
                cuts would be made.
        """
        direct = [dict(a.parameters)["block_bytes"] for a in plan.history if a.name == "direct"]
        block_bytes = max(plan.block_bytes, *(int(str(block)) for block in direct), 1)
        if self.size_bytes % block_bytes:
            raise PlanError(
                f"--max-request {self.size_bytes} would part blocks of {block_bytes} bytes; "
                "make it a multiple of that"
            )
        applied = Applied("max_request", (("size_bytes", self.size_bytes),))
        return _cut(plan, self.size_bytes, applied, "--max-request")


def _cut(plan: Plan, size_bytes: int, applied: Applied, option: str) -> Plan:
    """Return the plan with reads and writes cut at multiples of `size_bytes` in their files."""
    requests = plan.requests
    chosen = np.flatnonzero(plan.is_data() & (requests["length"] > 0))
    if not len(chosen):
        return plan.derive(applied, requests)
    members = requests.take(chosen)
    low, high = members["offset"], members["offset"] + members["length"]
    starts = np.cumsum(members["length"]) - members["length"]
    first, count = low // size_bytes + 1, _cuts(low, high, size_bytes)
    if (made := int(count.sum())) > MOST_CUTS:
        least_bytes = 1 << size_bytes.bit_length()
        while int(_cuts(low, high, least_bytes).sum()) > MOST_CUTS:
            least_bytes *= 2
        raise PlanError(
            f"{option} {size_bytes} would make {len(requests) + made:,} requests, which takes too "
            f"much memory; use at least {_typed(least_bytes)}"
        )
    owner = np.repeat(np.arange(len(members)), count)
    cuts = spread(first, count) * size_bytes
    inner = starts[owner] + cuts - low[owner]
    bounds = distinct(np.concatenate([starts, inner, [members["length"].sum()]]))
    parent = np.searchsorted(starts, bounds[:-1], side="right") - 1
    offset = low[parent] + bounds[:-1] - starts[parent]
    line = packed(members, plan.pieces)
    rows, pieces = recut(requests, line, bounds, chosen[parent], offset)
    rows = rows.having_at(np.concatenate([[False], parent[1:] == parent[:-1]]), think_ns=0)
    others = all_but(len(requests), chosen)
    merged = merge((rows, chosen[parent], 0), (requests.take(others), others, 0))
    return plan.derive(applied, merged, pieces)


def _cuts(low: Ints, high: Ints, size_bytes: int) -> Ints:
    """Return how many multiples of `size_bytes` lie inside each extent."""
    return np.asarray((high - 1) // size_bytes - low // size_bytes)


def _typed(size_bytes: int) -> str:
    """Return a power of two as it is typed.

    >>> _typed(512), _typed(1 << 16)
    ('512', '64KiB')
    """
    power = min((size_bytes.bit_length() - 1) // 10, 6)
    return f"{size_bytes >> 10 * power}{('', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"
