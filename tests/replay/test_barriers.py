"""What ranks waited for each other with, in the recording, they wait with in a replay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Fence, Op
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import schedule
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.traces.metadata import Metadata
from iotrace.traces.trace import Ints, Strings, Trace

from .session_run import run

MS = 1_000_000
# rank, op, path, start and end in ms: rank 1 writes later, and rank 0 waits for it.
SAVE = [
    (0, "open", "a", 0, 1),
    (1, "open", "b", 0, 1),
    (0, "write", "a", 2, 3),
    (0, "barrier", None, 4, 90),
    (1, "write", "b", 80, 81),
    (1, "barrier", None, 85, 90),
    (0, "write", "a", 91, 92),
    (1, "write", "b", 91, 92),
    (0, "close", "a", 93, 94),
    (1, "close", "b", 93, 94),
]


def plan_of(rows: list[tuple[int, str, str | None, int, int]]) -> Plan:
    rank, op, path, start, end = zip(*rows, strict=True)
    seen: dict[str | None, int] = {}
    offset = [seen.update({p: seen.get(p, -1) + (o == "write")}) or seen[p]
              for o, p in zip(op, path, strict=True)]  # fmt: skip
    writes = np.array([name == "write" for name in op])
    is_span = np.array([name == "barrier" for name in op])
    columns = {
        "layer": Strings.of(["span" if name == "barrier" else "request" for name in op]),
        "op": Strings.of(op),
        "path": Strings.of(path),
        "rank": np.array(rank),
        "process": np.array(rank),
        "start_ns": np.array(start) * MS,
        "end_ns": np.array(end) * MS,
        "file": Ints(np.array(rank), ~is_span),
        "offset": Ints(np.array(offset) * 4096, writes),
        "length": Ints(np.full(len(rows), 4096), writes),
        "result": Ints(np.where(writes, 4096, 0), ~is_span),
        "flags": Ints(np.full(len(rows), 0o1101), np.array([name == "open" for name in op])),
    }
    return plan_from_trace(Trace.from_columns(columns, Metadata()))


def test_what_comes_after_waits_for_all_ranks(tmp_path: Path) -> None:
    """Rank 0 thinks for a short time only: without the barrier it would not wait for rank 1."""
    plan = plan_of(SAVE)
    fences = schedule(plan).job.requests["fence"]
    (place,) = np.flatnonzero(fences == Fence.ALL)
    assert plan.requests["due_ns"][place] == 91 * MS
    plan = replace(plan, requests=plan.requests.having_at(int(place), think_ns=0))
    outcome = run(plan, tmp_path, timing="think", executor="posix", verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)
    times = outcome.repetitions[0].timings
    assert times["start_ns"][place:].min() >= times["end_ns"][:place].max()


@pytest.mark.parametrize("layout", ["rank", "shared"])
def test_nothing_is_joined_across_a_barrier(layout: str) -> None:
    """Adjacent writes of a rank stay two, and the barrier between them, on new files too."""
    plan = Coalesce()(Aggregate(layout)(plan_of(SAVE)))
    job = schedule(plan).job.requests
    assert int((job["op"] == Op.WRITE).sum()) == 4
    (place,) = np.flatnonzero(job["fence"] == Fence.ALL)
    assert np.flatnonzero(job["op"] == Op.WRITE).tolist().index(place) == 2


def test_a_barrier_that_requests_were_in_flight_across_is_said() -> None:
    """A thread that writes in the background did not wait: the replay must not make it."""
    rows = [(r, o, p, s, 200 if (o, s) == ("write", 2) else e) for r, o, p, s, e in SAVE]
    plan = plan_of(rows)
    assert not len(plan.barriers_ns)
    assert any("barriers of all ranks not kept" in note.what for note in plan.notes)


def test_barriers_of_some_ranks_only_are_none() -> None:
    """Rank 1 was never there."""
    plan = plan_of([row for row in SAVE if row[:2] != (1, "barrier")])
    assert not len(plan.barriers_ns)
