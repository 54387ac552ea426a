"""Read each byte once."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.grouping import numbered
from iotrace.replay.intervals import first_claims
from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints, Pieces, append_pieces, parts_of, pieces_in_place
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.reshape import merge
from iotrace.replay.transforms.select import with_handles
from iotrace.traces.phases import Phase


@dataclass(frozen=True)
class Broadcast:
    """Let one rank read what several load in a step, and leave out the reads of the others.

    A byte is read by the first that did when recorded. That it is then handed to the others,
    over a network or in memory, takes time that no replay of files can show.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... process 0
    ... open a r
    ... read a 0 10
    ... close a
    ... process 1
    ... open a r
    ... read a 5 10
    ... close a''')
    >>> print(listing(Broadcast()(plan)))
    open a r
    read a 0 10
    close a
    open a r
    read a 10 5
    close a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with each byte read once per step."""
        plan.require_buffered("broadcast")
        rows = plan.requests
        loads = (rows["op"] == Op.READ) & (rows["phase"] == Phase.LOAD) & (rows["length"] > 0)
        index = np.flatnonzero(loads)
        reads, pieces, at = _first_reads(plan, index)
        others = np.flatnonzero(~loads)
        stay, pieces = append_pieces(rows.take(others), plan.pieces, pieces)
        kept = np.zeros(len(rows), np.bool_)
        kept[others] = True
        kept[at] = True
        kept = with_handles(rows, kept)
        merged = merge((reads, at, 0), (stay.compress(kept[others]), others[kept[others]], 0))
        used = merged["handle"] >= 0
        handles = np.unique(merged["handle"][used], return_inverse=True)[1]
        merged = merged.having_at(used, handle=handles)
        saved_bytes = int(rows["length"][index].sum() - reads["length"].sum())
        left_out = len(index) - len(np.unique(at))  # of one read, several parts may stay
        note = Note("reads left out: of bytes read before in their step", left_out, saved_bytes)
        return plan.derive(Applied("broadcast", (), (note,) if saved_bytes else ()), merged, pieces)


def _first_reads(plan: Plan, index: Ints) -> tuple[Requests, Pieces, Ints]:
    """Return the parts of reads that nobody read before in their step, pieces, and origins."""
    rows = plan.requests.take(index)
    group = numbered(rows["step"], rows["file"])
    line, owner, place = pieces_in_place(rows, plan.pieces)
    found = first_claims(
        group[owner], place, place + line["length"], np.arange(len(line), dtype=np.int64)
    )
    _, start, end, source = found
    order = np.lexsort((start, source))
    start, end, source = start[order], end[order], source[order]
    parts = parts_of(line, source, start - place[source], end - start)
    begins = np.ones(len(parts), np.bool_)
    begins[1:] = (owner[source][1:] != owner[source][:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    count = np.diff(np.append(first, len(parts)))
    owner = owner[source][first]
    again = np.concatenate([[False], owner[1:] == owner[:-1]])[: len(owner)]
    reads = rows.take(
        owner,
        offset=start[first],
        first_piece=first,
        piece_count=count,
        length=np.add.reduceat(parts["length"], first) if len(first) else 0,
        think_ns=np.where(again, 0, rows["think_ns"][owner]),
    )
    return reads, parts, index[owner]
