"""Go around the page cache."""

import os
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import growth_of, resets_of, sizes_before
from iotrace.replay.grouping import first_of_each, grouped, numbered
from iotrace.replay.job import Op
from iotrace.replay.pieces import (
    NEIGHBOUR,
    PADDING,
    PAST_END,
    Ints,
    Pieces,
    all_but,
    distinct,
    surround,
)
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError

OPS = ("read", "write")

Mask = npt.NDArray[np.bool_]

_CREATION = os.O_CREAT | os.O_EXCL | os.O_TRUNC


@dataclass(frozen=True)
class Direct:
    """Read and write with O_DIRECT what consists of whole blocks, and make it so where possible.

    A read is enlarged to whole blocks. A write is cut into the whole blocks inside it and what
    lies before and after them; these go through the page cache, by a second open of the file
    where both kinds are needed. The last write of a file is padded instead, and the file cut
    back to its size before anything but a write follows.

    Attributes:
        block_bytes: what offsets and lengths must be multiples of.
        ops: of `read` and `write`; the others use the page cache.
        least_bytes: as do requests of fewer bytes.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 0 5000
    ... write a 5000 5000
    ... close a
    ... open a r
    ... read a 100 200
    ... close a''')
    >>> print(listing(Direct(block_bytes=4096)(plan)))
    open a w+create
    open a w+direct
    write a 0 4096
    write a 4096 904
    write a 5000 3192
    write a 8192 4096  [8192+1808, padding 2288]
    truncate a 10000
    close a
    close a
    open a r+direct
    read a 0 4096  [beside 100, 100+200, beside 3796]
    close a
    """

    block_bytes: int = 4096
    ops: Collection[str] = OPS
    least_bytes: int = 0

    def __post_init__(self) -> None:
        if not set(self.ops) <= set(OPS):
            raise PlanError(f"direct I/O is for {' and '.join(OPS)}")
        if self.block_bytes < 512 or self.block_bytes & (self.block_bytes - 1):
            raise PlanError("the block of direct I/O must be a power of two of at least 512 bytes")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with O_DIRECT."""
        plan.require_buffered("direct")
        requests = plan.requests
        if "read" in self.ops and requests["mapping"].any():
            raise PlanError("a mapped file is in the page cache; make only writes direct")
        chosen = np.flatnonzero(plan.is_data() & (requests["length"] > 0))
        fit = np.isin(requests["op"][chosen], [Op[name.upper()] for name in self.ops])
        fit &= requests["length"][chosen] >= self.least_bytes
        padded = _pads_the_end(plan)[chosen] & fit
        rows, pieces, parent, direct = self._cut(plan, chosen, padded, fit)
        twins = _Twins.of(requests, rows, direct, plan.handle_count)
        handle = rows["handle"]
        rows = rows.having(handle=np.where(direct, twins.direct_handle[handle], handle))
        others = all_but(len(requests), chosen)
        merged = merge(
            (rows, parent, 0),
            (twins.original(requests.take(others)), others, 0),
            (*twins.opens(requests), 1),
            (*twins.closes(requests), -1),
            (*_cut_backs(requests, chosen[padded]), -2),
        )
        indirect = ~direct & fit[np.searchsorted(chosen, parent)]
        note = Note(
            "reads and writes not of whole blocks, through the page cache",
            int(indirect.sum()),
            int(rows["length"][indirect].sum()),
        )
        parameters: tuple[tuple[str, object], ...] = (("block_bytes", self.block_bytes),)
        if set(self.ops) != set(OPS):
            parameters += (("ops", tuple(self.ops)),)
        if self.least_bytes:
            parameters += (("least_bytes", self.least_bytes),)
        notes = (note,) if indirect.any() else ()
        return plan.derive(Applied("direct", parameters, notes), merged, pieces)

    def _cut(
        self, plan: Plan, chosen: Ints, padded: Mask, fit: Mask
    ) -> tuple[Requests, Pieces, Ints, Mask]:
        """Return the data requests anew, their pieces, their parents, and which are direct."""
        block = self.block_bytes
        members = plan.requests.take(chosen)
        reads = (members["op"] == Op.READ) & fit
        low, high = members["offset"], members["offset"] + members["length"]
        down, up = low // block * block, -(-high // block) * block
        before = np.where(reads, low - down, 0)
        after = np.where(reads | (padded & (-(-low // block) * block < high)), up - high, 0)
        size = sizes_before(plan.requests, plan.files.initial_size_bytes)[chosen]
        there = np.where(reads, (size - high).clip(0, after), after)
        line = surround(
            members,
            plan.pieces,
            Pieces.of(len(members), file=NEIGHBOUR, length=before),
            Pieces.of(len(members), file=np.where(reads, NEIGHBOUR, PADDING), length=there),
            Pieces.of(len(members), file=PAST_END, length=after - there),
        )
        may_be_short = (members["may_be_short"] > 0) | ((after > 0) & reads)
        members = members.having(may_be_short=may_be_short)
        low, high = low - before, high + after
        lengths = high - low
        starts = np.cumsum(lengths) - lengths
        first, last = -(-low // block) * block, high // block * block
        whole = (first < last) & fit
        edges = np.concatenate(
            [
                starts,
                (starts + first - low)[whole],
                (starts + last - low)[whole],
                [lengths.sum()],
            ]
        ).astype(np.int64)
        bounds = distinct(edges)
        owner = np.searchsorted(starts, bounds[:-1], side="right") - 1
        offset = low[owner] + bounds[:-1] - starts[owner]
        rows, pieces = recut(members, line, bounds, owner, offset)
        again = np.concatenate([[False], owner[1:] == owner[:-1]])[: len(rows)]
        rows = rows.having_at(again, think_ns=0)
        direct = (rows["offset"] % block == 0) & (rows["length"] % block == 0) & fit[owner]
        return rows, pieces, chosen[owner], direct


def _pads_the_end(plan: Plan) -> Mask:
    """Return which writes end where their file does, until it is emptied or cut."""
    rows = plan.requests
    file = rows["file"].astype(np.int64)
    resets = resets_of(rows) & (file >= 0)
    order = grouped(file)
    era = np.empty(len(rows), np.int64)
    era[order] = np.cumsum(resets[order] | np.concatenate([[True], np.diff(file[order]) != 0]))
    ends = growth_of(rows)
    most = np.zeros(int(era.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, era, ends)
    files, begin = np.unique(file, return_index=True)
    known = files >= 0
    sizes = plan.files.initial_size_bytes
    unreset = known & ~resets[begin]
    np.maximum.at(most, era[begin[unreset]], sizes[files[unreset]])
    return np.asarray((rows["op"] == Op.WRITE) & (ends > 0) & (ends == most[era]))


def _cut_backs(requests: Requests, padded: Ints) -> tuple[Requests, Ints]:
    """Return the truncations that undo the padding of `padded` writes, and where they stand."""
    count = len(requests) + 1
    stops = np.flatnonzero((requests["op"] != Op.WRITE) & (requests["file"] >= 0))
    keys = np.sort(requests["file"][stops].astype(np.int64) * count + stops)
    own = requests["file"][padded].astype(np.int64)
    following = np.searchsorted(keys, own * count + padded)
    key = np.append(keys, -1)[following]
    place = np.where(key // count == own, key % count, len(requests))
    kept = first_of_each(numbered(own, place))[1]
    source = requests.take(padded[kept])
    size_bytes = source["offset"] + source["length"]
    return source.beside(op=Op.TRUNCATE, length=size_bytes, due_ns=0), place[kept]


@dataclass(frozen=True, eq=False)
class _Twins:
    """Which handles are direct, and the second ones of those that must be both.

    Attributes:
        is_direct: per old handle, whether all its data are.
        is_mixed: per old handle, whether some are and some are not.
        direct_handle: per old handle, the one for direct data.
    """

    is_direct: Mask
    is_mixed: Mask
    direct_handle: Ints

    @classmethod
    def of(cls, requests: Requests, rows: Requests, direct: Mask, count: int) -> "_Twins":
        some = np.bincount(rows["handle"][direct], minlength=count) > 0
        others = np.bincount(rows["handle"][~direct], minlength=count) > 0
        handles = np.arange(count, dtype=np.int64)
        mixed = some & others
        handles[mixed] = count + np.arange(int(mixed.sum()))
        return cls(some & ~others, mixed, handles)

    def original(self, requests: Requests) -> Requests:
        """Return requests other than data with the flags of their opens set."""
        opens = np.flatnonzero(requests["op"] == Op.OPEN)
        handle = requests["handle"][opens]
        used = self.is_direct[handle] | self.is_mixed[handle]
        flags = requests["flags"][opens].astype(np.int64)
        flags = np.where(used, flags & ~(os.O_DIRECT | os.O_APPEND), flags & ~os.O_DIRECT)
        flags |= np.where(self.is_direct[handle], os.O_DIRECT, 0)
        return requests.having_at(opens, flags=flags)

    def opens(self, requests: Requests) -> tuple[Requests, Ints]:
        """Return the second opens, and the first ones they follow."""
        place = self._of_mixed(requests, Op.OPEN)
        rows = self._second(requests.take(place, mode=0))
        rows = rows.without_flags(np.arange(len(rows)), _CREATION | os.O_APPEND)
        return rows.having(flags=rows["flags"] | os.O_DIRECT), place

    def closes(self, requests: Requests) -> tuple[Requests, Ints]:
        """Return the closes of the second opens, and the first ones' that they precede."""
        place = self._of_mixed(requests, Op.CLOSE)
        return self._second(requests.take(place)), place

    def _of_mixed(self, requests: Requests, op: Op) -> Ints:
        place = np.flatnonzero(requests["op"] == op)
        return np.asarray(place[self.is_mixed[requests["handle"][place]]])

    def _second(self, rows: Requests) -> Requests:
        handle = self.direct_handle[rows["handle"]]
        return rows.having(handle=handle, source_row=-1, think_ns=0)
