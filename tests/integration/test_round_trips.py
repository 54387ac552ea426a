"""Saves to storage on which every request takes a millisecond, and what is foretold of them.

The same job runs on a local disk. What `why` and `replay --rtt` make of that trace is held against
what the saves really take on a file system that answers so late. Best of several on both sides,
and all of it up to three times: both are times, of a machine that may be busy with something else.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import MaxRequest
from iotrace.traces.reader import read_trace
from tests.replay.slow_mount import REQUEST_BYTES, slow_mount
from tests.tools.command import iotrace

JOB = Path(__file__).parent / "jobs" / "small_tensors.py"
ENGINES = ("torch.save", "dcp", "safetensors")
TURNS = 3
ATTEMPTS = 3
DELAY_SECONDS = 0.001
WITHIN = 0.2

Episodes = list[dict[str, Any]]


@dataclass(frozen=True)
class Saves:
    """The job's saves.

    Attributes:
        near: trace of the job on a local disk; `far` on the slow storage.
        foretold: the verdict on it, for the slow storage.
        real: the verdict on the job on the slow storage; `said` as it is printed.
    """

    near: Path
    far: Path
    foretold: Episodes
    real: Episodes
    said: str


def run(*words: object, **more: str) -> str:
    """Run `iotrace`; return what it printed."""
    done = iotrace(*words, extra_env=more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measured(folder: Path) -> Saves:
    """Return the job, once here and once there."""
    here, there = folder / "here", folder / "there"
    near, far = folder / "near.parquet", folder / "far.parquet"
    here.mkdir()
    there.mkdir()
    cache = {"XDG_CACHE_HOME": str(folder)}
    run("capture", "-o", near, "--", sys.executable, JOB, here, TURNS)
    with slow_mount(there, DELAY_SECONDS):
        foretold = json.loads(run("why", near, "--root", there, "--json", "-", **cache))
        run("capture", "-o", far, "--", sys.executable, JOB, there, TURNS)
        real = json.loads(run("why", far, "--no-probe", "--json", "-", **cache))
        said = run("why", far, "--no-probe", **cache)
    return Saves(near, far, foretold["episodes"], real["episodes"], said)


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Iterator[Saves]]:
    """The job's saves, measured again only for who asks for more."""
    made: list[Saves] = []

    def each() -> Iterator[Saves]:
        for number in range(ATTEMPTS):
            if number == len(made):
                made.append(measured(tmp_path_factory.mktemp("round-trips")))
            yield made[number]

    return each


@pytest.fixture
def saves(attempts: Callable[[], Iterator[Saves]]) -> Saves:
    """The first of them: counts are the same in each."""
    return next(attempts())


def assert_foretold(attempts: Iterable[tuple[Saves, float, float]]) -> None:
    """Each has a time foretold and the real one: in one attempt they have to agree.

    Unless in none of them the storage answered as it was told to, for want of a processor.
    """
    seen, late = [], []
    for saves, foretold, real in attempts:
        seen.append(foretold / real)
        late.append(write_seconds(saves.far) / DELAY_SECONDS)
        if seen[-1] == pytest.approx(1, rel=WITHIN):
            return
    if min(late) > 1 + WITHIN:
        pytest.skip(f"the machine is too busy: round trips took {min(late):.1f} times as long")
    pytest.fail(f"foretold over real: {seen}, round trips over asked: {late}")


def write_seconds(location: Path) -> float:
    """Return the mean time of a write that is one round trip."""
    trace = read_trace(location)
    rows = trace.where(trace.row_mask(layer="request", op="write"))
    took = (rows.ints("end_ns") - rows.ints("start_ns"))[rows.ints("length") <= REQUEST_BYTES]
    return float(took.mean()) / 1e9


def of(episodes: Episodes, engine: str) -> Episodes:
    """Return the saves of an engine."""
    return [one for one in episodes if one["engine"] == engine]


def first_to_last(location: Path, episodes: Episodes) -> Iterator[float]:
    """Yield for each save the seconds from its first request to the end of its last."""
    trace = read_trace(location)
    rows = trace.where(trace.row_mask(layer="request"))
    for one in episodes:
        own = rows.where(rows.ints("step") == one["step"])
        yield float(own.ints("end_ns").max() - own.ints("start_ns").min()) / 1e9


@pytest.mark.parametrize("engine", ENGINES)
def test_the_number_of_round_trips_is_the_cause_where_it_is(saves: Saves, engine: str) -> None:
    """safetensors writes all of it at once: of it that must not be said."""
    causes = {one["cause"] for one in of(saves.real, engine)}
    if engine == "safetensors":
        assert causes == {None}
        return
    assert all(cause and "their number, not their size" in cause for cause in causes)
    least = 100 if engine == "torch.save" else 300
    assert all(least <= int(cause.split()[0]) < 1.1 * least for cause in causes if cause)
    assert "cause " in saves.said.split("\n\n")[0]  # of the longest, which is DCP's


@pytest.mark.parametrize("engine", ENGINES)
def test_why_foretells_the_time_on_slow_storage(
    attempts: Callable[[], Iterator[Saves]], engine: str
) -> None:
    """From a trace of local storage, and a probe of the slow one."""
    assert_foretold(
        (
            saves,
            min(one["predicted"]["seconds"] for one in of(saves.foretold, engine)),
            min(one["seconds"] for one in of(saves.real, engine)),
        )
        for saves in attempts()
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_replay_with_round_trips_takes_as_long(
    attempts: Callable[[], Iterator[Saves]], engine: str, tmp_path: Path
) -> None:
    """`--rtt 1ms --timing think` on this disk."""
    assert_foretold(
        (
            saves,
            replayed_seconds(saves, engine, tmp_path),
            min(first_to_last(saves.far, of(saves.real, engine))),
        )
        for saves in attempts()
    )


def replayed_seconds(saves: Saves, engine: str, root: Path) -> float:
    """Return how long the quickest save takes when each request takes a millisecond more."""
    trace = read_trace(saves.near)
    plan, recorded = plan_from_trace(trace), RecordedSummary.of(trace)
    quickest = min(of(saves.foretold, engine), key=lambda one: one["seconds"])
    plan = MaxRequest(REQUEST_BYTES)(Select(steps=(quickest["step"],))(plan))
    options = ReplayOptions(
        root=root, executor="posix", round_trip_seconds=DELAY_SECONDS, timing="think"
    )
    took: list[float] = []
    while len(took) < TURNS or sum(took) < 0.3:  # many of a short one
        done = replay(plan, recorded, options)
        assert done.errors == ()
        took.append(done.repetitions[0].write_seconds)
    return min(took)
