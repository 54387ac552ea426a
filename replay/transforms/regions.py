"""Where bytes go that get a file in common: whose they are, and in which order they lie."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.intervals import first_claims, unions
from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints, is_payload, pieces_in_place
from iotrace.replay.plan import Plan

_READ_ONLY, _WRITTEN = 0, 1


@dataclass(frozen=True, eq=False)
class Wanted:
    """The reads and writes of the files to be put together, and what of them is wanted.

    Attributes:
        index: requests of the plan.
        file: whose bytes they move.
        start: in the file.
        end: of a read, where its last wanted byte ends.
        is_write: which ones write.
    """

    index: Ints
    file: Ints
    start: Ints
    end: Ints
    is_write: Ints

    @classmethod
    def of(cls, plan: Plan, index: Ints) -> "Wanted":
        """Return what the requests at `index` want; reads that want nothing are left out."""
        requests = plan.requests
        file = requests.at("file", index).astype(np.int64)
        start = requests.at("offset", index)
        end = start + requests.at("length", index)
        is_write = requests.at("op", index) == Op.WRITE
        reads = np.flatnonzero(~is_write)
        line, owner, place = pieces_in_place(requests, plan.pieces, index[reads])
        kept = is_payload(line["file"]) & (line["length"] > 0)
        owner, place, length = owner[kept], place[kept], line["length"][kept]
        other = owner[1:] != owner[:-1]
        first = np.flatnonzero(np.concatenate([[True], other])[: len(owner)])
        last = np.flatnonzero(np.concatenate([other, [True]])[: len(owner)])
        end[reads] = start[reads]
        start[reads[owner[first]]] = place[first]
        end[reads[owner[last]]] = (place + length)[last]
        some = end > start
        if some.all():
            return cls(index, file, start, end, is_write)
        return cls(index[some], file[some], start[some], end[some], is_write[some])


@dataclass(frozen=True, eq=False)
class Groups:
    """The files made of others.

    Attributes:
        of_file: per old file, its step and kind as a number; -1: left as it is.
        steps: per such number, the step; -1: of none, or of several.
        is_written: per such number, whether these files are written.
    """

    of_file: Ints
    steps: Ints
    is_written: Ints

    @classmethod
    def of(cls, plan: Plan, wanted: Wanted) -> "Groups":
        """Group the files by the step that writes them or, of others, first reads them.

        Files that several steps write go together: usually all of them are written anew.
        """
        count, most = len(plan.files), np.iinfo(np.int64).max
        step = plan.requests["step"][wanted.index].astype(np.int64)
        written = np.zeros(count, np.bool_)
        written[wanted.file[wanted.is_write]] = True
        counts = (step >= 0) & (wanted.is_write == written[wanted.file])
        least, greatest = np.full(count, most), np.full(count, -1)
        np.minimum.at(least, wanted.file[counts], step[counts])
        np.maximum.at(greatest, wanted.file[counts], step[counts])
        own = np.where((least == greatest) | (~written & (least < most)), least, -1)
        chosen = np.flatnonzero(np.bincount(wanted.file, minlength=count))
        keys = np.stack([own, np.where(written, _WRITTEN, _READ_ONLY)])[:, chosen]
        found, place = np.unique(keys, axis=1, return_inverse=True)
        of_file = np.full(count, -1)
        of_file[chosen] = place.ravel()
        return cls(of_file, found[0], found[1])


@dataclass(frozen=True, eq=False)
class Cells:
    """Touched parts of old files, disjoint: `file`, `start`, `end`, and whose `region` it is."""

    file: Ints
    start: Ints
    end: Ints
    region: Ints

    @classmethod
    def of(cls, wanted: Wanted, region: Ints) -> "Cells":
        """Give every touched byte to the first region that writes it, or else reads it.

        Args:
            wanted: what is touched.
            region: per row of it, whose it is.
        """
        count = int(region.max(initial=0)) + 1
        files = int(wanted.file.max(initial=-1)) + 1
        least, greatest = np.full(files, count), np.full(files, -1)
        np.minimum.at(least, wanted.file, region)
        np.maximum.at(greatest, wanted.file, region)
        contested = least < greatest
        claim = np.where(wanted.is_write | ~contested[wanted.file], region, region + count)
        keys, start, end = unions(wanted.file * 2 * count + claim, wanted.start, wanted.end)
        file, claim = np.divmod(keys, 2 * count)
        rest = ~contested[file]
        found = first_claims(file[~rest], start[~rest], end[~rest], claim[~rest])
        columns = [
            np.concatenate([column[rest], part])
            for column, part in zip((file, start, end, claim), found, strict=True)
        ]
        order = np.lexsort((columns[1], columns[0]))
        file, start, end, claim = (column[order] for column in columns)
        return cls(file, start, end, claim % count)


def place_cells(
    cells: Cells, target: Ints, order: tuple[Ints, ...], unit_bytes: Ints, stripe_bytes: int
) -> tuple[Ints, Ints]:
    """Return where each cell lies in its target, and where each target ends.

    The cells of a region lie one after the other. Regions follow each other in their order, each
    at the exclusive prefix sum of the sizes before it, every size rounded up to a stripe.

    Args:
        cells: what to place.
        target: per cell, the file it goes into, numbered from 0.
        order: keys that sort the cells of a region, the last one first.
        unit_bytes: per target, what the offset in a block is kept of; 1: nothing.
        stripe_bytes: what the regions of a target begin at multiples of.
    """
    if not len(target):
        return target, target
    unit = unit_bytes[target]
    lead = cells.start % unit
    room = _round_up(lead + cells.end - cells.start, unit)
    sorting = np.lexsort((*order, cells.region, target))
    key = np.stack([target, cells.region])[:, sorting]
    fresh = np.flatnonzero(np.concatenate([[True], np.any(key[:, 1:] != key[:, :-1], axis=0)]))
    sizes = np.add.reduceat(room[sorting], fresh)
    stripe = _round_up(np.full(len(fresh), stripe_bytes), unit[sorting][fresh])
    base = _exclusive(_round_up(sizes, stripe), key[0][fresh])
    within = _exclusive(room[sorting], np.repeat(fresh, np.diff(np.append(fresh, len(sorting)))))
    place = np.empty(len(target), np.int64)
    place[sorting] = within + np.repeat(base, np.diff(np.append(fresh, len(sorting))))
    place += lead
    ends = np.zeros(int(target.max()) + 1, np.int64)
    np.maximum.at(ends, target, place + cells.end - cells.start)
    return place, ends


def _round_up(size: Ints, unit: Ints) -> Ints:
    return -(-size // unit) * unit


def _exclusive(values: Ints, group: Ints) -> Ints:
    """Return the sum of the values before each, within runs of equal `group`."""
    before = np.cumsum(values) - values
    fresh = np.concatenate([[True], group[1:] != group[:-1]])
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(values)), 0))
    return np.asarray(before - before[first])
