"""Issue requests by their place in the file."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.grouping import grouped, grouped_by_place
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.transforms.chains import exchangeable

_OF_THE_PLACE = ("due_ns", "think_ns")  # what stays when requests change places


@dataclass(frozen=True)
class Reorder:
    """Issue what a stream moves through one handle by offset, inside what must keep its order.

    Requests change places among those of one op, phase and step that no sync, close, rename,
    truncation or conflicting request parts. Pauses and times stay where they are.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 10 5
    ... write a 0 5
    ... sync a
    ... write a 5 5
    ... close a''')
    >>> print(listing(Reorder()(plan)))
    open a w+create
    write a 0 5
    write a 10 5
    sync a
    write a 5 5
    close a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan in order of offsets."""
        requests = plan.requests
        index, key = exchangeable(plan)
        in_time = grouped(key)
        by_offset = grouped_by_place(key, requests.at("offset", index))
        places, sources = index[in_time], index[by_offset]
        origin = np.arange(len(requests))
        origin[places] = sources
        rows = requests.take(origin, **{name: requests[name] for name in _OF_THE_PLACE})
        moved = int((places != sources).sum())
        note = Note("requests in another order than recorded", moved)
        return plan.derive(Applied("reorder", (), (note,) if moved else ()), rows)
