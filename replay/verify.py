"""Proof that what was written is where it belongs, byte by byte."""

import os

import numpy as np

from iotrace.replay.files import EXTENT, by_place, resets_of, zeroes_of
from iotrace.replay.grouping import grouped_by_place
from iotrace.replay.intervals import first_claims, unions
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape, check_file, open_beneath
from iotrace.replay.pieces import PADDING, Ints, Rows, pieces_in_place
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests
from iotrace.traces.words import plural

_NO_LIMIT = np.iinfo(np.int64).max


def find_mismatch(plan: Plan, tape: Tape, root_fd: int) -> str | None:
    """Compare what was made or changed with the plan; return the first difference in words.

    Sizes, the payload of every written extent, and the zeros where bytes were cut off or punched
    out are compared, as read back from storage.

    Args:
        plan: what was replayed.
        tape: its payload.
        root_fd: the directory it was replayed in.
    """
    extents = np.concatenate([written_extents(plan), zeroed_extents(plan)])
    extents = by_place(extents) if plan.payload_is_placed else extents
    extents = extents.take(grouped_by_place(extents["file"], extents["offset"]))
    bounds = np.searchsorted(extents["file"], np.arange(len(plan.files) + 1))
    for file, spec in enumerate(plan.files):
        if not spec.changed or spec.final_path is None:
            continue
        own = extents[bounds[file] : bounds[file + 1]]
        try:
            problem = _check(spec.final_path, spec.final_bytes, own, tape, root_fd)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            return f"{spec.final_path}: {problem}"
    return None


def _check(path: str, size_bytes: int, extents: Rows, tape: Tape, root_fd: int) -> str | None:
    fd = open_beneath(root_fd, path, os.O_RDONLY)
    try:
        found_bytes = os.fstat(fd).st_size
        if found_bytes != size_bytes:
            return f"has {found_bytes} bytes instead of {size_bytes}"
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        columns = (extents[name].tolist() for name in ("offset", "length", "source", "origin"))
        for offset, length, source, origin in zip(*columns, strict=True):
            wrong = check_file(tape, fd, offset, length, source, origin)
            if wrong:
                first = _first_wrong(tape, fd, offset, length, source, origin)
                differ = "differs" if wrong == 1 else "differ"
                return f"{plural(wrong, 'byte')} {differ}, first at {first:,}"
        return None
    finally:
        os.close(fd)


def _first_wrong(tape: Tape, fd: int, offset: int, length: int, source: int, origin: int) -> int:
    """Return the first offset of an extent whose byte differs, by halving; there is one."""
    at = 0
    while length > 1:
        half = length // 2
        if check_file(tape, fd, offset + at, half, source, origin + at):
            length = half
        else:
            at, length = at + half, length - half
    return offset + at


def written_extents(plan: Plan) -> Rows:
    """Return what must lie in the files after the run: EXTENT rows by file and offset.

    `source` and `origin` are recorded file and offset. What a later truncation cut off, or a hole
    was punched into later, is left out.
    """
    left = _left(plan.requests, *_written(plan))
    return _joined(left.take(grouped_by_place(left["file"], left["offset"])))


def zeroed_extents(plan: Plan) -> Rows:
    """Return what must be zeros after the run, where bytes were: EXTENT rows, `source` PADDING.

    They were cut off or punched out, and have not been written since.
    """
    rows = plan.requests
    written, at = _written(plan)
    before = plan.initial_extents()
    cuts = np.flatnonzero((resets_of(rows) | zeroes_of(rows)) & (rows["file"] >= 0))
    first = np.full(len(plan.files), len(rows))
    np.minimum.at(first, written["file"], at)
    first[before["file"]] = -1
    cuts = cuts[cuts > first[rows["file"][cuts]]]
    if not len(cuts):
        return written[:0]
    there = np.concatenate([written, before])
    at = np.concatenate([at, np.full(len(before), -1)])
    chosen = np.isin(there["file"], rows["file"][cuts])
    there, at = there.compress(chosen), at[chosen]
    file, start, end = unions(
        there["file"].astype(np.int64), there["offset"], there["offset"] + there["length"]
    )
    end = np.minimum(end, plan.files.final_bytes[file])
    some = start < end
    file, start, end = file[some], start[some], end[some]
    kept = _left(rows, there, at)
    file, start, end, claim = first_claims(
        np.concatenate([kept["file"].astype(np.int64), file]),
        np.concatenate([kept["offset"], start]),
        np.concatenate([kept["offset"] + kept["length"], end]),
        np.repeat([0, 1], [len(kept), len(file)]),
    )
    lost = np.flatnonzero(claim == 1)
    zeros = np.zeros(len(lost), EXTENT)
    zeros["file"], zeros["source"] = file[lost], PADDING
    zeros["offset"], zeros["length"] = start[lost], (end - start)[lost]
    return zeros


def _written(plan: Plan) -> tuple[Rows, Ints]:
    """Return the payload of every write as EXTENT rows, and the request that writes each."""
    index = np.flatnonzero(plan.requests["op"] == Op.WRITE)
    line, owner, place = pieces_in_place(plan.requests, plan.pieces, index)
    extents = np.zeros(len(line), EXTENT)
    extents["file"] = plan.requests["file"][index[owner]]
    extents["source"], extents["origin"] = line["file"], line["offset"]
    extents["offset"], extents["length"] = place, line["length"]
    payload = (extents["source"] >= 0) & (extents["length"] > 0)
    return extents.compress(payload), index[owner[payload]]


def _left(rows: Requests, extents: Rows, at: Ints) -> Rows:
    """Return what is left of extents, written by requests `at`, at the end of the run."""
    extents = extents.copy()
    room = _sizes_after(rows, extents["file"].astype(np.int64), at) - extents["offset"]
    extents["length"] = np.minimum(extents["length"], room.clip(0))
    some = extents["length"] > 0
    extents, at = extents.compress(some), at[some]
    punches = np.flatnonzero(zeroes_of(rows))
    punched = np.isin(extents["file"], rows["file"][punches])
    if not punched.any():
        return extents
    parts = _unpunched(rows, extents.compress(punched), at[punched], punches)
    return np.concatenate([extents.compress(~punched), parts])


def _unpunched(rows: Requests, extents: Rows, at: Ints, punches: Ints) -> Rows:
    """Return the parts of extents, written by requests `at`, that none of `punches` hits later."""
    holes = rows.take(punches)
    file = np.concatenate([extents["file"], holes["file"]]).astype(np.int64)
    start = np.concatenate([extents["offset"], holes["offset"]])
    end = start + np.concatenate([extents["length"], holes["length"]])
    # The last request that touches a byte has the lowest claim on it; of equal ones, any.
    order = np.argsort(-np.concatenate([at, punches]), kind="stable")
    claim = np.empty(len(order), np.int64)
    claim[order] = np.arange(len(order))
    _, start, end, claim = first_claims(file, start, end, claim)
    owner = order[claim]
    lasts = owner < len(extents)
    parts, start, end = extents.take(owner[lasts]), start[lasts], end[lasts]
    parts["origin"] += start - parts["offset"]
    parts["offset"], parts["length"] = start, end - start
    return parts


def unproved_bytes(plan: Plan) -> int:
    """Return how many written bytes would be in their place without their write too.

    They were prepared, or written before, with the same content: a lost write does not show.
    """
    written, initial = written_extents(plan), plan.initial_extents()
    initial = _left(plan.requests, initial, np.full(len(initial), -1))
    there = int(initial["length"].sum())
    return int(written["length"].sum()) + there - _union_bytes(np.concatenate([written, initial]))


def _union_bytes(extents: Rows) -> int:
    start = extents["offset"]
    _, start, end = unions(extents["file"].astype(np.int64), start, start + extents["length"])
    return int((end - start).sum())


def _sizes_after(rows: Requests, asked: Ints, index: Ints) -> Ints:
    """Return the least size that requests after each of `index` (-1: all) give the files asked."""
    count = len(rows) + 1
    resets = np.flatnonzero(resets_of(rows) & (rows["file"] >= 0))
    resets = resets[np.lexsort((resets, rows["file"][resets]))]
    files = rows["file"][resets].astype(np.int64)
    sizes = np.where(rows["op"][resets] == Op.TRUNCATE, rows["length"][resets], 0)
    least = sizes.tolist()
    for place in range(len(least) - 2, -1, -1):
        if files[place] == files[place + 1]:
            least[place] = min(least[place], least[place + 1])
    following = np.searchsorted(files * count + resets, asked * count + index)
    known = np.array([*least, _NO_LIMIT], np.int64)
    same = np.append(files, -1)[following] == asked
    return np.where(same, known[following], _NO_LIMIT)


def _joined(extents: Rows) -> Rows:
    """Join extents that go on where the one before ends, in place and in origin."""
    if not len(extents):
        return extents
    before, after = extents[:-1], extents[1:]
    goes_on = (before["file"] == after["file"]) & (before["source"] == after["source"])
    for name in ("offset", "origin"):
        goes_on &= before[name] + before["length"] == after[name]
    first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    joined = extents.take(first)
    joined["length"] = np.add.reduceat(extents["length"], first)
    return joined
