"""Cut large requests into smaller ones."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.pieces import all_but, distinct, packed, spread
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError


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
        """Return the plan with small requests only."""
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
        return _cut(plan, size_bytes, applied)


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
            PlanError: direct I/O would no longer consist of whole blocks.
        """
        direct = [dict(a.parameters)["block_bytes"] for a in plan.history if a.name == "direct"]
        block_bytes = max(plan.block_bytes, *(int(str(block)) for block in direct), 1)
        if self.size_bytes % block_bytes:
            raise PlanError(
                f"--max-request {self.size_bytes} would part blocks of {block_bytes} bytes; "
                "make it a multiple of that"
            )
        return _cut(
            plan, self.size_bytes, Applied("max_request", (("size_bytes", self.size_bytes),))
        )


def _cut(plan: Plan, size_bytes: int, applied: Applied) -> Plan:
    """Return the plan with reads and writes cut at multiples of `size_bytes` in their files."""
    requests = plan.requests
    chosen = np.flatnonzero(plan.is_data() & (requests["length"] > 0))
    if not len(chosen):
        return plan.derive(applied, requests)
    members = requests[chosen]
    low, high = members["offset"], members["offset"] + members["length"]
    starts = np.cumsum(members["length"]) - members["length"]
    first = low // size_bytes + 1
    count = (high - 1) // size_bytes - first + 1
    owner = np.repeat(np.arange(len(members)), count)
    cuts = spread(first, count) * size_bytes
    inner = starts[owner] + cuts - low[owner]
    bounds = distinct(np.concatenate([starts, inner, [members["length"].sum()]]))
    parent = np.searchsorted(starts, bounds[:-1], side="right") - 1
    offset = low[parent] + bounds[:-1] - starts[parent]
    line = packed(members, plan.pieces)
    rows, pieces = recut(requests, line, bounds, chosen[parent], offset)
    rows["think_ns"][np.concatenate([[False], parent[1:] == parent[:-1]])] = 0
    others = all_but(len(requests), chosen)
    merged = merge((rows, chosen[parent], 0), (requests[others], others, 0))
    return plan.derive(applied, merged, pieces)
