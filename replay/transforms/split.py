"""Cut large requests into smaller ones."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.pieces import packed, spread
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError


@dataclass(frozen=True)
class Split:
    """Cut every read and write at multiples of `size_bytes` in its file.

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
        applied = Applied("split", (("size_bytes", self.size_bytes),))
        requests = plan.requests
        chosen = np.flatnonzero(plan.is_data() & (requests["length"] > 0))
        if not len(chosen):
            return plan.derive(applied, requests)
        members = requests[chosen]
        low, high = members["offset"], members["offset"] + members["length"]
        starts = np.cumsum(members["length"]) - members["length"]
        first = low // self.size_bytes + 1
        count = (high - 1) // self.size_bytes - first + 1
        owner = np.repeat(np.arange(len(members)), count)
        cuts = spread(first, count) * self.size_bytes
        inner = starts[owner] + cuts - low[owner]
        bounds = np.unique(np.concatenate([starts, inner, [members["length"].sum()]]))
        parent = np.searchsorted(starts, bounds[:-1], side="right") - 1
        offset = low[parent] + bounds[:-1] - starts[parent]
        line = packed(members, plan.pieces)
        rows, pieces = recut(requests, line, bounds, chosen[parent], offset)
        rows["think_ns"][np.concatenate([[False], parent[1:] == parent[:-1]])] = 0
        others = np.setdiff1d(np.arange(len(requests)), chosen)
        merged = merge((rows, chosen[parent], 0), (requests[others], others, 0))
        return plan.derive(applied, merged, pieces)
