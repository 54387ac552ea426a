"""What the timings of a run say about a plan: bytes, seconds, and requests that went wrong."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.pieces import Ints, Rows, is_payload, pieces_in_place
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import Schedule
from iotrace.replay.statistics import latency_us
from iotrace.traces.elapsed import busy_ns, directed_seconds
from iotrace.traces.phases import Phase
from iotrace.traces.words import plural

_ERRORS_SHOWN = 20


@dataclass(frozen=True)
class Moved:
    """What completions tell of a run. Bytes are payload; padding is apart."""

    requests: int
    data_requests: int
    files: int
    bytes_written: int
    bytes_read: int
    padding_bytes: int


def moved_by(plan: Plan, result: Ints) -> Moved:
    """Return the totals of what was done.

    Args:
        plan: what was to be done.
        result: per request, bytes moved, 0, or -errno.
    """
    rows = plan.requests
    done = result >= 0
    line, owner, place = pieces_in_place(rows, plan.pieces)
    into = place - rows["offset"][owner]
    arrived = np.minimum(line["length"], (result.clip(0)[owner] - into).clip(0))
    payload = is_payload(line["file"])  # of the rest, what is past a recorded end may be there now
    writes = rows["op"][owner] == Op.WRITE
    touched = np.zeros(len(plan.files) + 1, np.bool_)  # the last: no file
    touched[rows["file"][done]] = True
    return Moved(
        requests=int(done.sum()),
        data_requests=int((done & is_op(rows["op"], DATA_OPS)).sum()),
        files=plan.files.count_names(touched[:-1]),
        bytes_written=int(arrived[payload & writes].sum()),
        bytes_read=int(arrived[payload & ~writes].sum()),
        padding_bytes=int(arrived[~payload].sum()),
    )


def phase_seconds(plan: Plan, timings: Rows, phase: Phase) -> float:
    """Return how long saving or loading took, see `directed_seconds`."""
    return _seconds(plan, timings, np.flatnonzero(_is_done(plan, timings)), phase)


def rank_seconds(plan: Plan, timings: Rows, phase: Phase) -> dict[int, float]:
    """Return the time of saving or loading of each recorded rank by itself, as `phase_seconds`.

    Ranks that took no part in it are left out.
    """
    ranks = np.array([stream.rank for stream in plan.streams], np.int64)
    rank = ranks[plan.requests["stream"]]
    chosen = _is_done(plan, timings) & (rank >= 0)
    order = np.flatnonzero(chosen)[np.argsort(rank[chosen], kind="stable")]
    found, first = np.unique(rank[order], return_index=True)
    owned = zip(found.tolist(), np.split(order, first[1:]), strict=False)
    seconds = {number: _seconds(plan, timings, own, phase) for number, own in owned}
    return {number: taken for number, taken in seconds.items() if taken}


def _is_done(plan: Plan, timings: Rows) -> npt.NDArray[np.bool_]:
    return np.asarray((plan.requests["phase"] != Phase.OTHER) & (timings["start_ns"] > 0))


def _seconds(plan: Plan, timings: Rows, chosen: Ints, phase: Phase) -> float:
    rows, times = plan.requests.take(chosen), timings.take(chosen)
    return directed_seconds(
        rows["phase"] == Phase.SAVE,
        rows["op"] == Op.READ,
        reading=phase == Phase.LOAD,
        step=rows["step"],
        start_ns=times["start_ns"],
        end_ns=times["end_ns"],
        lingers=rows["op"] == Op.CLOSE,
    )


def flush_seconds(job: Schedule, timings: Rows, worker: Ints) -> float:
    """Return how long files were synced before loads, in the slowest worker, in seconds.

    Args:
        job: what was run.
        timings: of its requests.
        worker: per stream, who ran it.
    """
    rows = job.job.requests
    syncs = np.flatnonzero((job.origin < 0) & (rows["op"] == Op.SYNC) & (timings["start_ns"] > 0))
    owner, times = worker[rows["stream"][syncs]], timings[syncs]
    spent_ns = (
        busy_ns(times["start_ns"][owner == one], times["end_ns"][owner == one])
        for one in np.unique(owner).tolist()
    )
    return max(spent_ns, default=0.0) / 1e9


def lateness_us(
    plan: Plan, timings: Rows, start_ns: int, timing: str, time_scale: float
) -> dict[str, float] | None:
    """Return how long after its time each request started, in percentiles; None when asap.

    Args:
        plan: what was to be done.
        timings: of its requests.
        start_ns: of the run.
        timing: `recorded`: after the recorded time; `think`: after the recorded pause.
        time_scale: of both.
    """
    if timing == "asap":
        return None
    rows = plan.requests
    if timing == "recorded":
        due_ns = start_ns + (rows["due_ns"] * time_scale).astype(np.int64)
        timed = np.ones(len(rows), np.bool_)
    else:
        order = np.argsort(rows["stream"], kind="stable")
        follows = np.concatenate([[False], np.diff(rows["stream"][order]) == 0])
        before = np.where(follows, np.roll(timings["end_ns"][order], 1), start_ns)
        due_ns = np.empty(len(rows), np.int64)
        due_ns[order] = before + (rows["think_ns"][order] * time_scale).astype(np.int64)
        timed = rows["think_ns"] > 0
    timed &= timings["start_ns"] > 0
    return latency_us((timings["start_ns"] - due_ns)[timed].clip(0))


def find_errors(plan: Plan, result: Ints) -> tuple[str, ...]:
    """Return the requests that failed or moved too few bytes, in words; the first of many."""
    rows = plan.requests
    short = is_op(rows["op"], DATA_OPS) & (result >= 0) & (result < _least_moved(plan))
    there_already = is_op(rows["op"], (Op.MKDIR,)) & (result == -errno.EEXIST)
    cancelled = result == -errno.ECANCELED
    bad = np.flatnonzero(((result < 0) & ~there_already & ~cancelled) | short)
    shown = list(_in_words(plan, bad[:_ERRORS_SHOWN].tolist(), result))
    if len(bad) > _ERRORS_SHOWN:
        shown.append(f"and {plural(len(bad) - _ERRORS_SHOWN, 'request')} more failed")
    if cancelled.any():
        shown.append(f"{plural(int(cancelled.sum()), 'request')} left undone")
    return tuple(shown)


def find_eviction_errors(job: Schedule, result: Ints) -> tuple[str, ...]:
    """Return the evictions that failed, in words; the first of many.

    Args:
        job: what was run.
        result: per request of the job, 0 or -errno.
    """
    failed = (job.origin < 0) & (result < 0) & (result != -errno.ECANCELED)
    bad = np.flatnonzero(failed)[: 2 * _ERRORS_SHOWN]  # mostly a sync and its eviction
    path = job.job.requests["path"][bad]
    found = (
        f"cannot drop {job.job.paths[name] if name >= 0 else 'a file without a name'} "
        f"from the page cache: {os.strerror(-code)}"
        for name, code in zip(path.tolist(), result[bad].tolist(), strict=True)
    )
    return tuple(dict.fromkeys(found))[:_ERRORS_SHOWN]


def _least_moved(plan: Plan) -> Ints:
    """Return the bytes a data request must move: all, or of a read up to its last wanted one."""
    rows = plan.requests
    line, owner, place = pieces_in_place(rows, plan.pieces)
    wanted = is_payload(line["file"])
    ends = place + line["length"] - rows["offset"][owner]
    least = np.zeros(len(rows), np.int64)
    np.maximum.at(least, owner[wanted], ends[wanted])
    return np.where(rows["may_be_short"] > 0, least, rows["length"])


def _in_words(plan: Plan, bad: list[int], result: Ints) -> Iterator[str]:
    for index in bad:
        moved = int(result[index])
        cause = os.strerror(-moved) if moved < 0 else f"moved {plural(moved, 'byte')} only"
        yield f"{describe_request(plan, index)}: {cause} (request {index})"


def describe_request(plan: Plan, index: int) -> str:
    """Return a request in words, such as `write of 4096 bytes at 0, run/model.pt`."""
    row = plan.requests.take(np.array([index])).lowered()[0]
    what = Op(int(row["op"])).name.lower()
    if row["op"] in DATA_OPS:
        what += f" of {plural(int(row['length']), 'byte')} at {row['offset']:,}"
    if row["path"] >= 0:
        return f"{what}, {plan.paths[row['path']]}"
    return f"{what}, {plan.files[row['file']].path}" if row["file"] >= 0 else what
