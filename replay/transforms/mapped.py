"""Read through a mapped file."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.replay.job import Mapping, Op
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.traces.errors import PlanError

ADVICE = tuple(mapping.name.lower() for mapping in Mapping if mapping)


@dataclass(frozen=True)
class Mapped:
    """Map each file that is read when it is opened, and copy from there instead of reading.

    A copy touches the pages in order, and waits for those that are not in memory; how many the
    kernel then brings in at a time is up to its read-ahead and to the advice it was given. An open
    with O_DIRECT that is only read through loses it; reads through one that is written through as
    well stay reads.

    Attributes:
        advice: given on each mapping: `plain` for none, `sequential`, `random` or `willneed`.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch("open a r+direct\\nread a 0 4096\\nclose a")
    >>> print(listing(Mapped()(plan)))
    open a r
    read a 0 4096 mapped
    close a
    """

    advice: str = "plain"

    def __post_init__(self) -> None:
        if self.advice not in ADVICE:
            raise PlanError(f"--mmap-advice must be one of {', '.join(ADVICE)}")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with its reads from mapped files."""
        plan.require_buffered("--as mmap")
        requests = plan.requests
        opens = requests["op"] == Op.OPEN
        handle = requests["handle"]
        direct = np.zeros(plan.handle_count + 1, np.bool_)
        direct[handle[opens]] = requests["flags"][opens] & os.O_DIRECT != 0
        written = np.zeros(plan.handle_count + 1, np.bool_)
        written[handle[requests["op"] == Op.WRITE]] = True
        mixed = direct & written
        reads = (requests["op"] == Op.READ) & (requests["length"] > 0)
        chosen = reads & ~mixed[handle]
        used = np.zeros(plan.handle_count + 1, np.bool_)
        used[handle[chosen]] = True
        cleared = opens & (direct & used)[handle]
        requests = requests.without_flags(cleared, os.O_DIRECT)
        requests = requests.having_at(chosen, mapping=Mapping[self.advice.upper()])
        left = reads & ~chosen
        notes = []
        if cleared.any():
            notes.append(Note("opens without O_DIRECT", int(cleared.sum())))
        if left.any():
            what = "reads through opens that write directly too, not mapped"
            notes.append(Note(what, int(left.sum()), int(requests["length"][left].sum())))
        parameters = (("interface", "mmap"), ("advice", self.advice))
        return plan.derive(Applied("as", parameters, tuple(notes)), requests)
