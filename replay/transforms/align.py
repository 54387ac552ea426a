"""Move extents to block boundaries."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import zeroes_of
from iotrace.replay.intervals import clusters, running_max
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import (
    PADDING,
    PAST_END,
    Ints,
    Pieces,
    is_payload,
    packed,
    parts_of,
    pieces_in_place,
    surround,
)
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError
from iotrace.traces.intervals import Intervals

# Stripes that no block fits in would leave more of a file empty than any file has.
_MOST_UNIT_BYTES = 1 << 40


@dataclass(frozen=True)
class Align:
    """Begin every written extent at a multiple of `block_bytes`, and pad it to one.

    The files get the layout that an engine with aligned buffers would have given them; a file
    that is only read is laid out as if its reads had been writes. Requests that overlap move
    together. After `aggregate`, the regions of ranks still begin at stripes. Reads follow; a read
    of several extents reads the padding between them too.

    Memory is aligned with it: with direct I/O, only blocks that are not whole are copied.

    Attributes:
        block_bytes: what places become multiples of.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 0 100
    ... write a 100 50
    ... close a
    ... open a r
    ... read a 0 150
    ... close a''')
    >>> print(listing(Align(block_bytes=4096)(plan)))
    open a w+create
    write a 0 4096  [0+100, padding 3996]
    write a 4096 4096  [100+50, padding 4046]
    close a
    open a r
    read a 0 4146  [0+100, padding 3996, 100+50]
    close a
    """

    block_bytes: int = 4096

    def __post_init__(self) -> None:
        if self.block_bytes < 1:
            raise PlanError("--align-size must be at least 1 byte")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with its extents moved."""
        plan.require_buffered("align")
        plan.require_new_files("align")
        layout = _Layout.of(plan, self.block_bytes)
        requests = plan.requests
        has_bytes = plan.is_data() & (requests["length"] > 0)
        writes = np.flatnonzero(has_bytes & (requests["op"] == Op.WRITE))
        reads = np.flatnonzero(has_bytes & (requests["op"] == Op.READ))
        others = np.flatnonzero(~has_bytes)
        resized = _move_sizes(requests.take(others), layout)
        # What was between extents may have no room any more, and no range is empty.
        kept = (resized["op"] != Op.ALLOCATE) | (resized["length"] > 0)
        written, write_pieces = _move_writes(plan, writes, layout)
        read, read_pieces, parent = _move_reads(plan, reads, layout)
        read = read.having(first_piece=read["first_piece"] + len(write_pieces))
        return plan.derive(
            Applied("align", (("block_bytes", self.block_bytes),)),
            merge(
                (resized.compress(kept), others[kept], 0), (written, writes, 0), (read, parent, 0)
            ),
            Pieces.joined(write_pieces, read_pieces),
            plan.relocation.compose(layout.step),
        )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the extents of the files go: columns of equal length, by file and old offset.

    Attributes:
        file: whose extent it is.
        start: old offset.
        end: old end.
        to: new offset, a multiple of `block_bytes`.
        block_bytes: likewise what the room of each extent is a multiple of.
        places: the map from old to new places.
        step: the same of the files in which something moves.
    """

    file: Ints
    start: Ints
    end: Ints
    to: Ints
    block_bytes: int
    places: Relocation
    step: Relocation

    @classmethod
    def of(cls, plan: Plan, block_bytes: int) -> "_Layout":
        file, start, end = _extents(plan)
        room = -(-(end - start) // block_bytes) * block_bytes
        fresh = np.concatenate([[True], file[1:] != file[:-1]])[: len(file)]
        # What ranks have of a file that they share begins anew at a stripe, however it grows.
        stripe_bytes, begins = _regions(plan, file, start)
        begins |= fresh
        origin = np.where(fresh, 0, start)[begins]
        of = np.cumsum(begins) - 1
        least = -(-(start - origin[of]) // block_bytes) * block_bytes
        # Each extent begins at its own block or, if that is taken, where the one before ends.
        within = _after_each_other(least, room, begins)
        lasts = np.append(begins[1:], True)[: len(begins)]
        unit = math.lcm(block_bytes, stripe_bytes)
        unit = unit if unit <= _MOST_UNIT_BYTES else block_bytes
        taken = -(-(within + room)[lasts] // unit) * unit
        to = _after_each_other(-(-origin // unit) * unit, taken, fresh[begins])[of] + within
        places = Relocation.of(file, start, end - start, file, to)
        step = Relocation(places.entries[np.isin(file, file[to != start])]).joined()
        return cls(file, start, end, to, block_bytes, places, step)

    def edge(self, file: Ints, value: Ints) -> Ints:
        """Return the new place of positions that are no byte's own, such as a file's size."""
        keys, key = self.start, value - 1  # the extent that lies before the position
        order = np.lexsort((np.repeat([0, 1], [len(keys), len(key)]), np.append(keys, key),
                            np.append(self.file, file)))  # fmt: skip
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(order < len(keys)) - 1
        place = place[len(keys) :]
        known = (place >= 0) & (np.append(self.file, -1)[place] == file)
        start, end, to = (np.append(c, 0)[np.where(known, place, -1)] for c in
                          (self.start, self.end, self.to))  # fmt: skip
        moved = -(-(to + value - start) // self.block_bytes) * self.block_bytes
        following = np.append(self.file[1:], -1)
        limit = np.append(np.append(self.to[1:], 0), 0)[np.where(known, place, -1)]
        bounded = known & (value > end) & (np.append(following, -1)[place] == file)
        return np.asarray(np.where(bounded, np.minimum(moved, limit), moved))

    def inside(self, file: Ints, place: Ints, otherwise: Ints) -> Ints:
        """Return the new places of bytes of extents; of bytes between them, `otherwise`."""
        to_file, to_offset, _ = self.places.locate(file, place)
        return np.where(to_file >= 0, to_offset, otherwise)


def _after_each_other(least: Ints, room: Ints, fresh: npt.NDArray[np.bool_]) -> Ints:
    """Return places of at least `least`, each with room before the next, begun anew at `fresh`."""
    before = np.cumsum(room) - room
    return before + running_max(least - before, fresh)


def _regions(plan: Plan, file: Ints, start: Ints) -> tuple[int, npt.NDArray[np.bool_]]:
    """Return the stripe of aggregated files, and which extents begin a region at one.

    Args:
        plan: that may have been aggregated.
        file: of the extents, by file and start.
        start: likewise.
    """
    stripes = [dict(a.parameters).get("stripe_bytes") for a in plan.history]
    stripe_bytes = int(str(next((stripe for stripe in reversed(stripes) if stripe), 1)))
    if stripe_bytes == 1 or not len(file):
        return 1, np.zeros(len(file), np.bool_)
    rows = plan.requests
    data = np.flatnonzero(plan.is_data() & (rows["length"] > 0))
    regions = sorted({stream.region for stream in plan.streams})
    place_of = {region: place for place, region in enumerate(regions)}
    number = np.array([place_of[stream.region] for stream in plan.streams], np.int64)
    owner = np.full(len(file), 2 * len(regions))
    extents = Relocation.of(file, start, np.ones(len(file), np.int64), file, start)
    place = extents.place(rows["file"][data], rows["offset"][data])
    # A byte is its lowest writer's or, if only read, its lowest reader's.
    claim = number[rows["stream"][data]] + (rows["op"][data] == Op.READ) * len(regions)
    np.minimum.at(owner, place.clip(0), claim)
    owner %= len(regions)
    other = np.append(True, owner[1:] != owner[:-1])
    return stripe_bytes, other & (start % stripe_bytes == 0)


def _extents(plan: Plan) -> tuple[Ints, Ints, Ints]:
    """Return the extents that move as one: file, start and end."""
    rows = plan.requests
    writes = rows.compress((rows["op"] == Op.WRITE) & (rows["length"] > 0))
    written = clusters(
        writes["file"].astype(np.int64), writes["offset"], writes["offset"] + writes["length"]
    )
    read = clusters(*_wanted(plan))
    only_read = ~np.isin(read[0], written[0])
    extra = _unwritten_reads(written, tuple(column[~only_read] for column in read))
    parts = [
        np.concatenate([w, r[only_read], e]) for w, r, e in zip(written, read, extra, strict=True)
    ]
    order = np.lexsort((parts[1], parts[0]))
    return parts[0][order], parts[1][order], parts[2][order]


def _wanted(plan: Plan) -> tuple[Ints, Ints, Ints]:
    """Return file, start and end of what each read brings."""
    rows = plan.requests
    reads = rows.compress(rows["op"] == Op.READ)
    line, owner, place = pieces_in_place(reads, plan.pieces)
    payload = is_payload(line["file"])
    start = np.full(len(reads), np.iinfo(np.int64).max)
    end = np.zeros(len(reads), np.int64)
    np.minimum.at(start, owner[payload], place[payload])
    np.maximum.at(end, owner[payload], (place + line["length"])[payload])
    some = end > 0
    return reads["file"][some].astype(np.int64), start[some], end[some]


def _unwritten_reads(
    written: tuple[Ints, Ints, Ints], read: tuple[Ints, ...]
) -> tuple[Ints, Ints, Ints]:
    """Return what is read and not written, of files that are written elsewhere."""
    file, start, end = read
    known = Relocation.of(written[0], written[1], written[2] - written[1], written[0], written[1])
    parts = known.split(file, start, end - start)
    covered = np.bincount(parts.extent, weights=parts.length, minlength=len(file))
    found: list[tuple[int, int, int]] = []
    for lacking in np.unique(file[covered < end - start]).tolist():
        mine, theirs = file == lacking, written[0] == lacking
        there = Intervals.of(written[1][theirs], written[2][theirs])
        gaps = Intervals.of(start[mine], end[mine]).without(there)
        ends = zip(gaps.starts.tolist(), gaps.ends.tolist(), strict=True)
        found += [(lacking, low, high) for low, high in ends]
    columns = np.array(found, np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _move_sizes(rows: Requests, layout: _Layout) -> Requests:
    """Return requests without bytes with what they say of places moved."""
    file = rows["file"].astype(np.int64)
    ends = layout.edge(file, rows["offset"] + rows["length"])
    starts = layout.edge(file, rows["offset"].copy())
    sizes = layout.edge(file, rows["length"].copy())
    ranged = is_op(rows["op"], (Op.ALLOCATE, Op.SYNC)) & (rows["length"] > 0)
    empty = is_op(rows["op"], (Op.READ, Op.WRITE))
    # What is zeroed is no byte more than it was: what lies beside it in its block is another's.
    holes = zeroes_of(rows) & ranged
    starts[holes] = layout.inside(file[holes], rows["offset"][holes], starts[holes])
    last = (rows["offset"] + rows["length"])[holes] - 1
    ends[holes] = layout.inside(file[holes], last, ends[holes] - 1) + 1
    length = np.where(ranged, ends - starts, rows["length"])
    return rows.having(
        length=np.where(rows["op"] == Op.TRUNCATE, sizes, length),
        offset=np.where(ranged | empty, starts, rows["offset"]),
    )


def _move_writes(plan: Plan, writes: Ints, layout: _Layout) -> tuple[Requests, Pieces]:
    """Return the writes moved, those that end an extent padded, and their pieces."""
    rows = plan.requests.take(writes)
    file, ends = rows["file"].astype(np.int64), rows["offset"] + rows["length"]
    _, offset, room = layout.places.locate(file, rows["offset"])
    is_last = room == rows["length"]
    padding = np.where(is_last, layout.edge(file, ends) - offset - rows["length"], 0)
    after = Pieces.of(len(rows), file=PADDING, length=padding)
    line = surround(rows, plan.pieces, after.having(length=0), after)
    bounds = np.concatenate([[0], np.cumsum(rows["length"] + padding)])
    return recut(rows, line, bounds, np.arange(len(rows)), offset)


def _move_reads(plan: Plan, reads: Ints, layout: _Layout) -> tuple[Requests, Pieces, Ints]:
    """Return the reads cut and joined as the layout has it, their pieces, and their parents."""
    rows = plan.requests.take(reads)
    line, owner, place = pieces_in_place(rows, plan.pieces)
    payload = is_payload(line["file"])
    lost = np.flatnonzero(np.bincount(owner[payload], minlength=len(rows)) == 0)
    parts = layout.places.joined().split(
        rows["file"][owner[payload]].astype(np.int64), place[payload], line["length"][payload]
    )
    own = owner[payload][parts.extent]
    payload_at = np.flatnonzero(payload)
    shift = parts.offset - place[payload][parts.extent]
    gap = parts.to_offset[1:] - (parts.to_offset + parts.length)[:-1]
    apart = (own[1:] != own[:-1]) | (gap < 0) | (gap >= layout.block_bytes)
    begins = np.concatenate([[True], apart])[: len(own)]
    rest = np.zeros(len(rows), np.int64)
    past = line["file"] == PAST_END
    np.add.at(rest, owner[past], line["length"][past])
    ends_owner = np.concatenate([own[1:] != own[:-1], [True]])[: len(own)]
    slots = (
        Pieces.of(len(own), length=np.where(begins, 0, np.concatenate([[0], gap])[: len(own)])),
        parts_of(line, payload_at[parts.extent], shift, parts.length),
        Pieces.of(len(own), file=PAST_END, length=np.where(ends_owner, rest[own], 0)),
    )
    first = np.flatnonzero(begins)
    lengths = sum((slot["length"] for slot in slots), np.zeros(len(own), np.int64))
    total = np.add.reduceat(lengths, first) if len(first) else lengths
    kept = Pieces.placed(slots, [len(slots) * np.arange(len(own)) + k for k in range(len(slots))])
    bounds = np.concatenate([[0], np.cumsum(total)])
    cut_rows, pieces = recut(
        rows, kept.compress(kept["length"] > 0), bounds, own[first], parts.to_offset[first]
    )
    again = np.concatenate([[False], own[first][1:] == own[first][:-1]])[: len(first)]
    cut_rows = cut_rows.having_at(again, think_ns=0)
    still, still_pieces = _keep(plan, rows.take(lost), layout)
    still = still.having(first_piece=still["first_piece"] + len(pieces))
    parent = np.concatenate([reads[own[first]], reads[lost]])
    return Requests.joined(cut_rows, still), Pieces.joined(pieces, still_pieces), parent


def _keep(plan: Plan, rows: Requests, layout: _Layout) -> tuple[Requests, Pieces]:
    """Return reads that bring no payload, such as those at the end of a file, moved whole."""
    line = packed(rows, plan.pieces)
    bounds = np.concatenate([[0], np.cumsum(rows["length"])])
    offset = layout.edge(rows["file"].astype(np.int64), rows["offset"].copy())
    return recut(rows, line, bounds, np.arange(len(rows)), offset)
