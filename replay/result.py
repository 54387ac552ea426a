"""What a replay measured, and its two written forms: a JSON object and a trace."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from iotrace.replay.executors.executor import LoopReport
from iotrace.replay.fidelity import Fidelity
from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.measure import Moved, rank_seconds
from iotrace.replay.pieces import Ints, Rows
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import Prepared
from iotrace.replay.site import Site
from iotrace.replay.statistics import estimate, latency_us
from iotrace.replay.table import Column
from iotrace.replay.verify import unproved_bytes
from iotrace.traces.metadata import Completeness, HistoryEntry, Metadata
from iotrace.traces.phases import Phase
from iotrace.traces.summary import summarize
from iotrace.traces.sync_kind import syncs_folder
from iotrace.traces.trace import Ints as IntColumn
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.version import tool_version
from iotrace.traces.words import sized

_TIMES = (
    "source_seconds",
    "write_seconds",
    "read_seconds",
    "drain_seconds",
    "durable_seconds",
    "allocate_seconds",
)
_RECORDING = "the recording: "
_FLAGGED = (Op.OPEN, Op.SYNC, Op.ALLOCATE)
_RANGED = (Op.READ, Op.WRITE, Op.ALLOCATE, Op.TRUNCATE, Op.SYNC)


@dataclass(frozen=True)
class RecordedSummary:
    """Totals of the recording that a replay is compared with.

    Attributes:
        lent_memory: whether the recorded host's free memory went back to a hypervisor. A write
            into the page cache then took as long as finding memory again, which repeated runs do
            not: they reuse what the run before them freed.
    """

    requests: int
    data_requests: int
    files: int
    bytes_written: int
    bytes_read: int
    write_seconds: float
    read_seconds: float
    lent_memory: bool = False

    @classmethod
    def of(cls, trace: Trace) -> "RecordedSummary":
        """Return the totals of a trace."""
        summary = summarize(trace)
        return cls(
            requests=summary.requests,
            data_requests=summary.data_requests,
            files=len(summary.files),
            bytes_written=summary.bytes_written,
            bytes_read=summary.bytes_read,
            write_seconds=summary.write_seconds,
            read_seconds=summary.read_seconds,
            lent_memory=any(host.gives_memory_back for host in trace.metadata.hosts),
        )


@dataclass(frozen=True, eq=False)
class Repetition:
    """One timed run of a plan.

    Attributes:
        timings: TIMING rows, one per request of the plan.
        moved: bytes moved, by completions.
        write_seconds: of saving, see `iotrace.traces.elapsed.directed_seconds`.
        read_seconds: the same of loading.
        flush_seconds: of syncing files before loads, so that they can be made cold.
        sync_seconds: the final sync of every file not synced since it was written or, staged, the
            drain.
        prepared: files written before the run, off the clock.
        report: what the executor did.
        allocate_seconds: of taking the memory that loads read into, in the slowest worker; 0 for
            memory that was there before.
        source_seconds: of copying what is saved from its source to pinned memory, in the slowest
            worker; 0: not asked.
        lateness_us: percentiles of how long after its time a request started; None: as soon as
            possible.
        staged: whether the requests were issued in another place than the files belong to.
        failed: whether something went wrong, so that the times are not those of the whole plan.
    """

    timings: Rows
    moved: Moved
    write_seconds: float
    read_seconds: float
    flush_seconds: float
    sync_seconds: float
    prepared: Prepared
    report: LoopReport
    allocate_seconds: float = 0.0
    source_seconds: float = 0.0
    lateness_us: dict[str, float] | None = None
    staged: bool = False
    failed: bool = False

    @property
    def drain_seconds(self) -> float:
        """The time from the last request until all is durable where it belongs; 0: not staged."""
        return self.sync_seconds if self.staged else 0.0

    @property
    def durable_seconds(self) -> float:
        """The time of saving until all of it is on storage; 0 when nothing was written."""
        if not self.moved.bytes_written:
            return 0.0
        flushed = 0.0 if self.staged else self.flush_seconds  # durable in the tier only
        return self.write_seconds + flushed + self.sync_seconds


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything a replay gave.

    Attributes:
        plan: what was replayed, after transforms and degradations.
        recorded: totals of the recording.
        executor: name of the one that ran.
        repetitions: the timed runs, in order; none follows one that failed.
        verified: whether every byte was where it belongs, files that are `plan.unlike` those
            recorded left out; None: not asked.
        degraded: what was done otherwise than asked, one sentence each.
        refused: those of `degraded` that kept requests from being what the plan says.
        errors: what went wrong, one sentence each.
        workspace: where the files are, if they were kept.
        workers: processes that shared the requests out.
        round_trip_seconds: how much longer each request was made to take.
        fidelity: how like the recording the replay was; None where it was not meant to be.
        cold: whether files left the page cache before loads; `degraded` says why not, if asked.
        repeat: timed runs that were asked for.
        uncached: whether the page cache was not to keep what is not direct.
        site: where it ran.
    """

    plan: Plan
    recorded: RecordedSummary
    executor: str
    repetitions: tuple[Repetition, ...]
    verified: bool | None
    degraded: tuple[str, ...]
    errors: tuple[str, ...]
    workspace: str | None = None
    refused: tuple[str, ...] = ()
    workers: int = 1
    round_trip_seconds: float = 0.0
    fidelity: Fidelity | None = None
    cold: bool = True
    repeat: int = 1
    uncached: bool = False
    site: Site = field(default_factory=Site)

    @property
    def whole(self) -> tuple[Repetition, ...]:
        """The timed runs that did not fail: what figures are made of."""
        return tuple(one for one in self.repetitions if not one.failed)

    @property
    def submission_thread(self) -> bool:
        """Whether a thread of the kernel submitted the requests."""
        return any("submission thread" in one.report.features for one in self.repetitions)

    @property
    def failed(self) -> bool:
        """Whether the exit status must be 1."""
        return bool(self.errors) or self.verified is False or bool(self.refused)

    @property
    def simulated(self) -> tuple[str, ...]:
        """What was made as a network file system would, one sentence each; empty: nothing."""
        sentences = []
        if self.round_trip_seconds:
            sentences.append(f"each request took {self.round_trip_seconds * 1e3:g} ms longer")
        for applied in self.plan.history:
            if applied.name == "max_request":
                size_bytes = dict(applied.parameters)["size_bytes"]
                sentences.append(f"requests were cut to {sized(int(str(size_bytes)))}")
        return tuple(sentences)

    def to_json(self, trace: str) -> dict[str, object]:
        """Return the object of `replay --json`; `trace` is what was replayed, as given."""
        last = self.repetitions[-1].moved
        return {
            "trace": trace,
            "executor": self.executor,
            "submission_thread": self.submission_thread,
            "uncached": self.uncached,
            "transforms": [str(applied) for applied in self.plan.history[1:]],
            "layout": self.plan.layout,
            "recorded": asdict(self.recorded),
            "planned": asdict(self.plan.counts()),
            "replayed": {
                **asdict(last),
                **{name: self._of_each_run(name) for name in _TIMES},
                "latency_us": latency_us(self.latencies_ns()),
                "lateness_us": self.repetitions[-1].lateness_us,
                "copied_bytes": self.repetitions[-1].report.staged_bytes,
            },
            "verified": None if self.verified and self.plan.unlike else self.verified,
            "unproved_bytes": unproved_bytes(self.plan) if self.verified else None,
            "simulated": list(self.simulated),
            "degraded": list(self.degraded),
            "errors": list(self.errors),
            "workers": self.workers,
            "intervals": self._intervals(),
            "ranks": self.by_rank(),
            "fidelity": None if self.fidelity is None else asdict(self.fidelity),
        }

    def _of_each_run(self, name: str) -> list[float | None]:
        """Return a time of each run asked for; None: it failed, or was not begun after that."""
        seconds = [getattr(one, name) for one in self.whole]
        return seconds + [None] * (self.repeat - len(seconds))

    def by_rank(self) -> list[dict[str, object]]:
        """Return per recorded rank the seconds of saving and loading, one entry per run."""
        runs = [
            {
                name: rank_seconds(self.plan, one.timings, phase)
                for name, phase in (("write_seconds", Phase.SAVE), ("read_seconds", Phase.LOAD))
            }
            for one in self.whole
        ]
        missing: list[float | None] = [None] * (self.repeat - len(runs))
        ranks = sorted({rank for run in runs for seconds in run.values() for rank in seconds})
        return [
            {"rank": rank}
            | {
                name: [*(run[name].get(rank, 0.0) for run in runs), *missing]
                for name in ("write_seconds", "read_seconds")
            }
            for rank in ranks
        ]

    def _intervals(self) -> dict[str, object] | None:
        """Return median and range, or 95 % interval, of each time; None: one run has none."""
        if len(self.whole) < 2:
            return None
        found = {name: [getattr(one, name) for one in self.whole] for name in _TIMES}
        return {name: asdict(estimate(runs)) for name, runs in found.items() if any(runs)}

    def latencies_ns(self, *ops: Op) -> Ints:
        """Return the latency of every completed request of `ops` (default: reads and writes)."""
        chosen = np.isin(self.plan.requests["op"], ops or DATA_OPS)
        latencies = [
            (one.timings["end_ns"] - one.timings["start_ns"])[chosen & (one.timings["result"] >= 0)]
            for one in self.repetitions
        ]
        return np.concatenate(latencies)

    def to_trace(self, trace: str, metadata: Metadata) -> Trace:
        """Return the median repetition as rows of the layer `replay`.

        Args:
            trace: what was replayed, as given.
            metadata: of the recording; what it lacks the result lacks too.
        """
        median, now_ns = self._median(), time.time_ns()
        began_ns = median.report.start_ns
        entry = HistoryEntry("replay", f"{self.executor}, {trace}", now_ns, tool_version())
        known = replace(
            self.site.described(metadata),
            epoch_realtime_ns=now_ns - (time.monotonic_ns() - began_ns),
            epoch_monotonic_ns=began_ns,
            completeness=Completeness(notes=tuple(_lacking(metadata))),
            extra={**metadata.extra, "replay": self.to_json(trace)},
        )
        return Trace.from_columns(_columns(self.plan, median), known.with_history(entry))

    def _median(self) -> Repetition:
        ordered = sorted(
            self.whole or self.repetitions, key=lambda one: one.write_seconds + one.read_seconds
        )
        return ordered[(len(ordered) - 1) // 2]


def _lacking(recording: Metadata) -> Iterator[str]:
    """Yield what a replay of an incomplete recording did not do either."""
    for problem in recording.completeness.problems():
        yield problem if problem.startswith(_RECORDING) else f"{_RECORDING}{problem}"


def _columns(plan: Plan, repetition: Repetition) -> dict[str, IntColumn | Strings | Column]:
    rows, timings = plan.requests, repetition.timings
    count = len(rows)
    started = timings["start_ns"] > 0
    start_ns = np.where(started, timings["start_ns"] - repetition.report.start_ns, 0)
    end_ns = timings["end_ns"] - repetition.report.start_ns
    names = ["/" + path for path in (*plan.paths, "")]
    ranged = is_op(rows["op"], _RANGED)
    streams = plan.streams
    everything = np.ones(count, np.bool_)
    return {
        "layer": Strings.constant("replay", count),
        "op": Strings((rows["op"] - 1).astype(np.int32), [op.name.lower() for op in Op]),
        "rank": np.array([stream.rank for stream in streams], np.int32)[rows["stream"]],
        "process": np.array([stream.process for stream in streams], np.int32)[rows["stream"]],
        "thread": rows["stream"],
        "start_ns": start_ns,
        "end_ns": IntColumn(end_ns, started),
        "path": Strings(_paths(plan), names),
        "target": Strings(rows["target"], names),
        "file": IntColumn(rows["file"], rows["file"] >= 0),
        "offset": IntColumn(rows["offset"], ranged),
        "length": IntColumn(rows["length"], ranged),
        "result": IntColumn(timings["result"], everything),
        "flags": IntColumn(rows["flags"].astype(np.int64), is_op(rows["op"], _FLAGGED)),
        "step": IntColumn(rows["step"], rows["step"] >= 0),
    }


def _paths(plan: Plan) -> np.ndarray:
    """Return each request's path: its own, or the one its handle was opened by."""
    rows = plan.requests
    opens = rows["op"] == Op.OPEN
    opened = np.full(plan.handle_count + 1, -1, np.int32)
    opened[rows["handle"][opens]] = rows["path"][opens]
    root = (rows["op"] == Op.SYNC) & syncs_folder(rows["flags"]) & (rows["path"] < 0)
    opened_by = np.where(root, len(plan.paths), opened[rows["handle"]])
    return np.where(rows["path"] >= 0, rows["path"], opened_by)
