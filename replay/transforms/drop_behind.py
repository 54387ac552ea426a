"""Leave the page cache to others."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.job import Op
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.transforms.reshape import merge


@dataclass(frozen=True)
class DropBehind:
    """Write each file out and drop its pages from the page cache before it is closed.

    The time that takes is the engine's, and counted.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> print(listing(DropBehind()(sketch("open a w+create\\nwrite a 0 9\\nclose a"))))
    open a w+create
    write a 0 9
    evict a
    close a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with an eviction before each close of what was written."""
        plan.require_buffered("drop-behind")
        requests = plan.requests
        writes = (requests["op"] == Op.WRITE) & (requests["length"] > 0)
        written = np.bincount(requests["handle"][writes], minlength=plan.handle_count) > 0
        at = np.flatnonzero(requests["op"] == Op.CLOSE)
        at = at[written[requests["handle"][at]]]
        rows = requests.take(at).beside(op=Op.EVICT)
        everything = np.arange(len(requests))
        return plan.derive(Applied("drop_behind"), merge((requests, everything, 0), (rows, at, -1)))
