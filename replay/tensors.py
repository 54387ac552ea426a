"""From a trace's tensors to a plan: what the engine meant, one request per extent."""

import os

import numpy as np
import numpy.typing as npt

from iotrace.replay.content import find_content
from iotrace.replay.files import describe_files
from iotrace.replay.folders import with_folders
from iotrace.replay.job import MAX_OFFSET_BYTES, Op
from iotrace.replay.paths import rebase
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Applied, Note, Plan, Stream
from iotrace.replay.recorded import with_hosts_apart
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.traces.errors import PlanError
from iotrace.traces.local_storage import owners
from iotrace.traces.phases import Phase
from iotrace.traces.trace import Trace

_GROUP = ("process", "thread", "step", "phase", "path")


def plan_from_tensors(trace: Trace) -> Plan:
    """Return the plan that moves each tensor's extent with one request.

    Tensors that share a storage are moved once. Each thread opens a file once per save or load.

    Raises:
        PlanError: the trace holds no tensors, or an extent no file could have.
    """
    extents, names, notes = _extents(trace)
    extents, shared = _distinct(extents)
    codes, paths = _number_paths(extents["path"], names)
    extents["path"] = codes
    requests, streams = _requests(trace, extents)
    is_new = np.zeros(len(requests), np.bool_)
    content = find_content(requests, requests["length"].copy(), is_new, len(paths))
    if shared:
        notes.append(Note("tensors in another's storage, moved with it", shared))
    relocation = Relocation()
    plan = Plan(
        files=describe_files(content.requests, paths, content.initial_bytes, relocation),
        paths=paths,
        streams=streams,
        requests=content.requests,
        pieces=content.pieces,
        relocation=relocation,
        history=(Applied("recorded", (("layer", "tensor"),), (*notes, *content.notes)),),
    )
    return with_folders(plan)


def _extents(trace: Trace) -> tuple[dict[str, Ints], list[str], list[Note]]:
    """Return the columns of the tensor rows that have an extent, the texts of `path`, and notes."""
    codes, names = _names(trace)
    saves = trace.row_mask(layer="tensor", op="save")
    chosen = saves | trace.row_mask(layer="tensor", op="load")
    offset, length = trace.ints("offset"), trace.ints("length")
    placed = (codes >= 0) & (offset >= 0) & (length > 0)
    notes = _left_out(chosen & ~placed & (length > 0), length)
    chosen &= placed
    row = np.flatnonzero(chosen)
    if not len(row):
        raise PlanError(
            "the trace holds no tensors with a place in a file; replay it with --layer request"
        )
    columns = {name: trace.ints(name)[row] for name in ("process", "thread", "step", "start_ns")}
    columns |= {"row": row, "path": codes[row].astype(np.int64)}
    columns |= {"offset": offset[row], "length": length[row]}
    columns["phase"] = np.where(saves[row], int(Phase.SAVE), int(Phase.LOAD))
    for name in ("offset", "length"):
        if columns[name].max() > MAX_OFFSET_BYTES // 2:
            raise PlanError(f"a tensor has {name} {columns[name].max()}; the trace is damaged")
    return columns, names, notes


def _names(trace: Trace) -> tuple[npt.NDArray[np.int32], list[str]]:
    codes, names = trace.codes("path")
    owner = owners(trace)
    if owner is None:
        return codes, names
    codes, texts = with_hosts_apart(codes, tuple(names), owner)
    return codes, list(texts)


def _left_out(lost: npt.NDArray[np.bool_], length: Ints) -> list[Note]:
    if not lost.any():
        return []
    size_bytes = int(length[lost].clip(max=MAX_OFFSET_BYTES).sum())
    return [Note("tensors without a place in a file, left out", int(lost.sum()), size_bytes)]


def _distinct(extents: dict[str, Ints]) -> tuple[dict[str, Ints], int]:
    """Drop the repeated extents of one save or load; return how many."""
    keys = np.stack([extents[name] for name in (*_GROUP, "offset", "length")])
    _, first = np.unique(keys, axis=1, return_index=True)
    first.sort()
    dropped = len(extents["row"]) - len(first)
    return {name: column[first] for name, column in extents.items()}, dropped


def _number_paths(codes: Ints, names: list[str]) -> tuple[Ints, tuple[str, ...]]:
    used, place = np.unique(codes, return_inverse=True)
    relative = [rebase(names[code]) for code in used.tolist()]
    index = {name: i for i, name in enumerate(dict.fromkeys(relative))}
    return np.array([index[name] for name in relative], np.int64)[place], tuple(index)


def _requests(trace: Trace, extents: dict[str, Ints]) -> tuple[Requests, tuple[Stream, ...]]:
    keys = np.stack([extents[name] for name in _GROUP])
    _, first, group = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    group = group.ravel()
    begin_ns = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(begin_ns, group, extents["start_ns"])
    order = np.argsort(begin_ns, kind="stable")  # groups in order of time
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))

    count, rows = len(first), len(group)
    source = np.concatenate([np.arange(rows), first, first])
    in_group = np.concatenate([place[group], place, place])
    rank = np.repeat([1, 0, 2], [rows, count, count])
    op = np.where(extents["phase"] == Phase.SAVE, int(Op.WRITE), int(Op.READ))
    threads = np.stack([extents["process"], extents["thread"]])
    unique, stream = np.unique(threads, axis=1, return_inverse=True)
    requests = Requests.of(
        len(source),
        op=np.concatenate([op, np.full(count, Op.OPEN), np.full(count, Op.CLOSE)]),
        source_row=np.where(rank == 1, extents["row"][source], -1),
        offset=np.where(rank == 1, extents["offset"][source], 0),
        length=np.where(rank == 1, extents["length"][source], 0),
        file=extents["path"][source],
        path=np.where(rank == 0, extents["path"][source], -1),
        handle=in_group,
        step=extents["step"][source],
        phase=extents["phase"][source],
        stream=stream.ravel()[source],
    )
    requests = requests.take(np.lexsort((extents["offset"][source], rank, in_group)))
    requests = _with_flags(requests)
    ranks = dict(zip(trace.ints("process").tolist(), trace.ints("rank").tolist(), strict=True))
    hosts = hosts_of(trace)
    return requests, tuple(
        Stream(process, thread, ranks[process], hosts.get(process, 0))
        for process, thread in unique.T.tolist()
    )


def hosts_of(trace: Trace) -> dict[int, int]:
    """Return the index of the machine that each process ran on."""
    return {index: process.host for index, process in enumerate(trace.metadata.processes)}


def _with_flags(requests: Requests) -> Requests:
    """Let the first thread that saves a file in a step empty it, and the others add to it."""
    opens = np.flatnonzero(requests["op"] == Op.OPEN)
    rows = requests.take(opens)
    saves = rows["phase"] == Phase.SAVE
    keys = np.stack([rows["file"], rows["step"], rows["phase"]])
    _, first = np.unique(keys, axis=1, return_index=True)
    empties = np.zeros(len(rows), np.bool_)
    empties[first] = True
    flags = np.where(saves, os.O_WRONLY | os.O_CREAT, os.O_RDONLY)
    flags = flags | np.where(saves & empties, os.O_TRUNC, 0)
    return requests.having_at(opens, flags=flags, mode=np.where(saves, 0o644, 0))
