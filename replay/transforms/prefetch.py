"""Read files ahead of the loads, in large requests."""

import os
from dataclasses import dataclass, replace

import numpy as np

from iotrace.replay.grouping import numbered
from iotrace.replay.intervals import running_max
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import NEIGHBOUR, Ints, Pieces, spread
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.reshape import merge
from iotrace.traces.errors import PlanError
from iotrace.traces.phases import Phase

BLOCK_BYTES = 8 << 20
MOST_BLOCKS = 4_000_000  # 32 TiB of loads, in blocks of the usual size

_CHANGES = (Op.WRITE, Op.ALLOCATE, Op.TRUNCATE, Op.RENAME, Op.UNLINK, Op.LINK, Op.MKDIR, Op.RMDIR)
_MAKES = os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Prefetch:
    """Let a thread beside each one that loads bring the files into the page cache before it.

    It reads what the loads will, in the order they come to it, by blocks; what lies between the
    reads of a block comes too. No more than the window lies between where it reads and the last
    read that was started. The loads do not wait for it.

    Its opens, reads and closes are counted as requests, and its bytes as padding. Loads past the
    page cache are left alone, and those of files that were open before while names changed.

    Attributes:
        window_bytes: how far it reads ahead.
        block_bytes: of its requests; the window where that is less.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a r
    ... read a 0 100
    ... read a 100 100
    ... read a 300 100
    ... close a''')
    >>> print(listing(Prefetch(window_bytes=400, block_bytes=200)(plan)))
    open a r
    open a r
    read a 0 200  [beside 200]
    read a 300 100  [beside 100]
    close a
    read a 0 100
    read a 100 100
    read a 300 100
    close a
    """

    window_bytes: int
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        if self.window_bytes < 1 or self.block_bytes < 1:
            raise PlanError("--prefetch must be at least 1 byte")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with a stream that reads ahead beside each that loads."""
        plan.require_buffered("prefetch")
        block_bytes = min(self.block_bytes, self.window_bytes)
        parameters = (("window_bytes", self.window_bytes), ("block_bytes", block_bytes))
        blocks = _Blocks.of(plan, block_bytes)
        if not len(blocks.length):
            note = Note("no loads through the page cache to read ahead of")
            return plan.derive(Applied("prefetch", parameters, (note,)), plan.requests)
        opened, earliest = _openings(plan, blocks)
        fresh = np.concatenate([[True], blocks.stream[1:] != blocks.stream[:-1]])
        place = running_max(np.maximum(blocks.places(self.window_bytes), earliest), fresh)
        leads, leader = np.unique(blocks.stream, return_inverse=True)
        due_ns = plan.requests["due_ns"]
        reads = plan.requests.take(blocks.first_read).beside(
            op=Op.READ,
            stream=len(plan.streams) + leader,
            handle=plan.handle_count + blocks.group,
            offset=blocks.offset,
            length=blocks.length,
            first_piece=len(plan.pieces) + np.arange(len(leader)),
            piece_count=1,
            may_be_short=1,
            due_ns=due_ns[place],
        )
        first, last = blocks.ends()
        changes = _changes(plan.requests)
        stays = changes[place[first]] == changes[earliest[first]]
        opens_at = np.where(stays, place[first], earliest[first])
        path = plan.requests["path"][opened[first]]
        opens = reads.take(first).beside(op=Op.OPEN, path=path, due_ns=due_ns[opens_at])
        closes = reads.take(last).beside(op=Op.CLOSE)
        merged = merge(
            (plan.requests, np.arange(len(plan.requests)), 0),
            (opens, opens_at, 1),
            (reads, place, 2),
            (closes, place[last], 3),
        )
        note = Note("reads ahead", len(reads), int(blocks.length.sum()))
        ahead = Pieces.of(len(reads), file=NEIGHBOUR, length=blocks.length)
        pieces = Pieces.joined(plan.pieces, ahead)
        after = plan.derive(Applied("prefetch", parameters, (note,)), merged, pieces)
        beside = (replace(plan.streams[stream], leads=stream) for stream in leads.tolist())
        return replace(after, streams=(*plan.streams, *beside))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What is read ahead: by stream, in the order that it comes to it.

    Attributes:
        stream: that loads it.
        group: one number for each stream, step and file.
        first_read: the request that comes to it first.
        offset, length: in the file.
    """

    stream: Ints
    group: Ints
    first_read: Ints
    offset: Ints
    length: Ints

    @classmethod
    def of(cls, plan: Plan, block_bytes: int) -> "_Blocks":
        """Return the parts of blocks from the first to the last byte that a stream loads.

        Raises:
            PlanError: there are more than memory is for.
        """
        rows = plan.requests
        reads = _loads(plan)
        low, high = rows["offset"][reads], rows["offset"][reads] + rows["length"][reads]
        keys = numbered(*(rows.at(name, reads) for name in ("stream", "step", "file")))
        group = np.unique(keys, return_inverse=True)[1]
        first = low // block_bytes
        count = (high - 1) // block_bytes - first + 1
        if (made := float(count.sum(dtype=np.float64))) > MOST_BLOCKS:
            raise PlanError(
                f"--prefetch would read ahead in {made:,.0f} blocks, more than {MOST_BLOCKS:,}; "
                "leave it out, or select a part of the trace"
            )
        owner, block = np.repeat(np.arange(len(reads)), count), spread(first, count)
        order = np.lexsort((owner, block, group[owner]))
        owner, block = owner[order], block[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (block[1:] != block[:-1]) | (group[owner][1:] != group[owner][:-1])
        at = np.flatnonzero(begins)
        if not len(at):
            return cls(*(np.zeros(0, np.int64) for _ in range(5)))
        start = np.minimum.reduceat(np.maximum(low[owner], block * block_bytes), at)
        end = np.maximum.reduceat(np.minimum(high[owner], (block + 1) * block_bytes), at)
        lead = owner[at]
        stream = rows["stream"][reads[lead]].astype(np.int64)
        order = np.lexsort((start, reads[lead], stream))
        columns = (stream, group[lead], reads[lead], start, end - start)
        return cls(*(column[order] for column in columns))

    def places(self, window_bytes: int) -> Ints:
        """Return the request once which is started each block may be read; -1: at once."""
        reached = np.cumsum(self.length)
        fresh = np.concatenate([[True], self.stream[1:] != self.stream[:-1]])
        base = np.maximum.accumulate(np.where(fresh, reached - self.length, 0))
        behind = np.searchsorted(reached, reached - window_bytes)
        return np.where(reached - base > window_bytes, self.first_read[behind], -1)

    def ends(self) -> tuple[Ints, Ints]:
        """Return the first and the last block of each group."""
        first = np.unique(self.group, return_index=True)[1]
        last = len(self.group) - 1 - np.unique(self.group[::-1], return_index=True)[1]
        return first, last


def _loads(plan: Plan) -> Ints:
    """Return the reads of loads through the page cache, of files whose name is known."""
    rows = plan.requests
    opened = _opens(plan)[rows["handle"]]
    loads = rows["phase"] == Phase.LOAD
    begin = _begin_of_loads(plan)
    changes = _changes(rows)
    # The name of a file that was open before its load: not known if names changed since.
    known = (opened >= begin) | (changes[opened] == changes[begin])
    chosen = loads & (rows["op"] == Op.READ) & (rows["length"] > 0)
    direct = rows["flags"][opened] & os.O_DIRECT != 0
    return np.flatnonzero(chosen & ~direct & known)


def _openings(plan: Plan, blocks: _Blocks) -> tuple[Ints, Ints]:
    """Return the open that gives each block's file its name, and behind what it may be used.

    That is the first request of the load or, where names or files change in between, that open.
    """
    first, _ = blocks.ends()
    read = blocks.first_read[first[blocks.group]]
    opened = _opens(plan)[plan.requests["handle"][read]]
    begin = _begin_of_loads(plan)[read]
    changes = _changes(plan.requests)
    return opened, np.where(changes[begin] == changes[opened], begin, np.maximum(opened, begin))


def _opens(plan: Plan) -> Ints:
    """Return the open of each handle; of handle -1, anything."""
    place = np.flatnonzero(plan.requests["op"] == Op.OPEN)
    opened = np.zeros(plan.handle_count + 1, np.int64)
    opened[plan.requests["handle"][place]] = place
    return opened


def _begin_of_loads(plan: Plan) -> Ints:
    """Return, per request, the first request of its step's load; its own index if it has none."""
    rows = plan.requests
    loads = np.flatnonzero(rows["phase"] == Phase.LOAD)
    _, first, step = np.unique(rows["step"][loads], return_index=True, return_inverse=True)
    begin = np.arange(len(rows))
    begin[loads] = loads[first][step]
    return begin


def _changes(rows: Requests) -> Ints:
    """Return how often names, or files, had been changed once each request was done."""
    changes = is_op(rows["op"], _CHANGES)
    changes |= (rows["op"] == Op.OPEN) & (rows["flags"] & _MAKES != 0)
    return np.cumsum(changes)
