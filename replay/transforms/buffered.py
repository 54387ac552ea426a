"""Use the page cache for everything."""

import os
from dataclasses import dataclass

from iotrace.replay.job import Op
from iotrace.replay.plan import Applied, Note, Plan


@dataclass(frozen=True)
class Buffered:
    """Open every file without O_DIRECT.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch("open a w+create+direct\\nwrite a 0 4096\\nclose a")
    >>> print(listing(Buffered()(plan)))
    open a w+create
    write a 0 4096
    close a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan without O_DIRECT."""
        direct = (plan.requests["op"] == Op.OPEN) & (plan.requests["flags"] & os.O_DIRECT != 0)
        requests = plan.requests.without_flags(direct, os.O_DIRECT)
        notes = (Note("opens without O_DIRECT", int(direct.sum())),) if direct.any() else ()
        return plan.derive(Applied("buffered", (), notes), requests)
