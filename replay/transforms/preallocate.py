"""Give files their size before they are written."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.replay.files import growth_of, resets_of
from iotrace.replay.grouping import grouped
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.transforms.reshape import merge


@dataclass(frozen=True)
class Preallocate:
    """Allocate what will be written of a file as soon as it is made or emptied by an open.

    Writes that extend a file, one after the other, cost the file system more than writes into
    it. Files that are there before, or that the job sizes itself, stay as they are.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch("open a w+create\\nwrite a 0 9\\nwrite a 9 5\\nclose a")
    >>> print(listing(Preallocate()(plan)))
    open a w+create
    allocate a 0 14
    write a 0 9
    write a 9 5
    close a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with an allocation after each such open."""
        plan.require_buffered("preallocate")
        requests = plan.requests
        at, size_bytes = _fresh_files(plan)
        rows = requests.take(at).beside(op=Op.ALLOCATE, length=size_bytes)
        # Appending to what is allocated would go behind it.
        sized = np.isin(requests["file"], requests["file"][at]) & (requests["op"] == Op.OPEN)
        requests = requests.without_flags(sized, os.O_APPEND)
        everything = np.arange(len(requests))
        merged = merge((requests, everything, 0), (rows, at, 1))
        return plan.derive(Applied("preallocate"), merged)


def _fresh_files(plan: Plan) -> tuple[Ints, Ints]:
    """Return the opens that begin a file that is then written, and the size it gets."""
    rows = plan.requests
    file = rows["file"].astype(np.int64)
    order = grouped(file)
    order = order[file[order] >= 0]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = file[order][1:] != file[order][:-1]
    resets = resets_of(rows)[order]
    era = np.cumsum(begins | resets) - 1
    most = np.zeros(int(era.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, era, growth_of(rows)[order])
    writes = np.zeros(len(most), np.bool_)
    writes[era[(rows["op"] == Op.WRITE)[order]]] = True
    sized = np.zeros(len(most), np.bool_)  # by the job itself
    sized[era[is_op(rows["op"], (Op.ALLOCATE, Op.TRUNCATE))[order]]] = True
    first = order[begins | resets]
    is_fresh = ~plan.files.exists[file[first]] | resets[begins | resets]
    is_open = (rows["op"][first] == Op.OPEN) & (rows["flags"][first] & os.O_ACCMODE != 0)
    chosen = writes & ~sized & is_fresh & is_open
    return first[chosen], most[chosen]
