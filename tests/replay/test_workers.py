"""Several workers run one plan: in order, together, and never waited for without end."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from iotrace.replay.build import plan_from_trace
from iotrace.replay.fidelity import compare_requests
from iotrace.replay.fold import fold
from iotrace.replay.job import REQUEST, TIMING
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan, Stream
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.traces.reader import read_trace

from .strategies import jobs
from .test_loop_order import assert_fences_hold

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return an empty directory on tmpfs."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def run(plan: Plan, root: Path, **options: object) -> Outcome:
    return replay(plan, NOTHING, ReplayOptions(root=root, **options))


def ranks(count: int, lines: str) -> Plan:
    """A plan of `count` processes that do the same side by side; `#` is the process's number."""
    return sketch(
        "\n".join(
            f"process {process}\n{line.replace('#', str(process))}"
            for line in lines.splitlines()
            for process in range(count)
        )
    )


SAVE = """open f# w+create
write f# 0 4096
write f# 4096 300000
sync f#
close f#"""


def children() -> set[int]:
    """The processes forked by this one that are still there, ended ones too.

    Other tests have left one of another program, tests/tools/warm.py: it is none of them.
    """
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if not is_other_program(pid)}


def is_other_program(pid: int) -> bool:
    """Whether a process has begun a program of its own."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:  # it was waited for meanwhile
        return True
    return words not in (b"", Path("/proc/self/cmdline").read_bytes())


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
@settings(max_examples=20, deadline=None)
@given(text=jobs(threads=3))
def test_workers_leave_what_one_process_leaves(executor: str, text: str) -> None:
    """Whatever ranks do to each other's files: every byte, and every read, is as recorded."""
    plan = sketch(text.replace("thread", "process"))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        outcome = run(plan, Path(root), executor=executor, queue_depth=4, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True


@pytest.mark.parametrize("queue_depth", [1, 8])
@pytest.mark.parametrize("executor", ["posix", "io_uring"])
def test_what_waits_for_another_ranks_request_starts_after_it(
    memory: Path, executor: str, queue_depth: int
) -> None:
    """Metadata come last, a reader sees what was written: order holds across processes."""
    rounds = "".join(
        f"process {i % 3}\nopen a rw\nwrite a {100 * i} 200\nread a {100 * i} 50\nclose a\n"
        for i in range(30)
    )
    plan = sketch("process 0\nopen a rw+create\nclose a\n" + rounds)
    outcome = run(plan, memory, executor=executor, queue_depth=queue_depth, warm=True)
    assert outcome.errors == ()
    job, timings = schedule(plan, queue_depth, warm=True).job, outcome.repetitions[0].timings
    assert len(job.requests) == len(timings)
    assert_fences_hold(job, timings)


def test_every_rank_of_a_real_job_is_a_worker(tmp_path: Path) -> None:
    """Two ranks of torch.distributed.checkpoint, each writing its shards, one the metadata."""
    plan = plan_from_trace(read_trace(CORPUS / "dcp.parquet"))
    folded = fold(plan.streams, plan.requests)
    assert folded.names == ("rank 0", "rank 1")
    outcome = run(plan, tmp_path, verify=True)
    assert outcome.verified is True
    counts, moved = plan.counts(), outcome.repetitions[0].moved
    assert (moved.bytes_written, moved.bytes_read) == (counts.bytes_written, counts.bytes_read)
    by_rank = outcome.by_rank()
    assert [one["rank"] for one in by_rank] == [0, 1]
    slowest = max(one["read_seconds"][0] for one in by_rank)
    assert 0 < slowest <= outcome.repetitions[0].read_seconds


def test_workers_start_together(memory: Path) -> None:
    """A rank whose set-up takes longer must not look like a slow one."""
    outcome = run(ranks(4, SAVE), memory, executor="posix")
    first = outcome.repetitions[0].timings["start_ns"][:4]
    report = outcome.repetitions[0].report
    assert first.min() >= report.start_ns
    assert outcome.errors == ()


def test_ranks_are_folded_onto_fewer_workers() -> None:
    """A trace of a thousand ranks is replayed on a laptop."""
    streams = tuple(Stream(process=p, thread=0, rank=p) for p in range(10))
    requests = np.zeros(10, REQUEST)
    requests["stream"], requests["handle"] = np.arange(10), np.arange(10)
    folded = fold(streams, requests, 4)
    assert folded.names == ("ranks 0 to 2", "ranks 3 to 4", "ranks 5 to 7", "ranks 8 to 9")
    assert np.all(np.diff(folded.worker) >= 0)
    assert fold(streams, requests, 20).count == 10


def test_ranks_that_share_an_open_file_share_a_worker() -> None:
    """A descriptor cannot be in two processes; the report says that they are fewer."""
    streams = tuple(Stream(process=p, thread=0, rank=p) for p in range(4))
    requests = np.zeros(6, REQUEST)
    requests["stream"] = [0, 1, 2, 3, 0, 2]
    requests["handle"] = [0, 1, 2, 3, 4, 4]
    folded = fold(streams, requests)
    assert folded.worker[0] == folded.worker[2]
    assert folded.count == 3
    assert "1 worker less" in folded.degraded[0]


def test_processes_that_follow_each_other_take_turns() -> None:
    """Outside a launcher, 2 starts after 0 ended and 3 after 1: two workers, not four."""
    streams = tuple(Stream(process=p, thread=0) for p in range(4))
    requests = np.zeros(8, REQUEST)
    requests["stream"] = requests["handle"] = [0, 1, 0, 2, 1, 3, 2, 3]
    folded = fold(streams, requests)
    assert folded.worker.tolist() == [0, 1, 0, 1]
    assert folded.names == ("process 0 and 1 other", "process 1 and 1 other")
    assert folded.degraded == ()
    assert fold(streams, requests, 4).count == 4
    of_ranks = tuple(Stream(process=p, thread=0, rank=p) for p in range(4))
    assert fold(of_ranks, requests).count == 4


def slow(processes: int = 2) -> Plan:
    """Processes that write in turn, every 100 ms, 1000 times each."""
    lines = ["open f# w+create", *(f"write f# {4096 * i} 4096" for i in range(1000))]
    plan = ranks(processes, "\n".join(lines))
    rows = plan.requests
    rows = rows.having(due_ns=np.arange(len(rows)) * 100_000_000)
    return plan.derive(plan.history[0], rows)


def later(action: int, count: int = 1, of: int = 2) -> threading.Thread:
    """Signal the last `count` of the workers once there are as many as `of`."""
    others = children()

    def work() -> None:
        deadline = time.monotonic() + 20
        while len(children() - others) < of and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        for pid in sorted(children() - others)[-count:]:
            os.kill(pid, action)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_worker_that_is_killed_ends_the_run_and_is_named(memory: Path) -> None:
    """The kernel kills for memory; the others stop, and what was done is told."""
    killer = later(signal.SIGKILL)
    begin = time.monotonic()
    outcome = run(slow(), memory, timing="recorded")
    killer.join()
    assert time.monotonic() - begin < 100
    assert outcome.failed
    assert "SIGKILL" in outcome.errors[0]
    assert "process 1" in outcome.errors[0]
    moved = outcome.repetitions[0].moved
    assert 0 < moved.requests < 2002
    assert any("left undone" in error for error in outcome.errors)
    assert not list(memory.iterdir())


def test_a_worker_lost_while_reads_are_compared_proves_nothing(memory: Path) -> None:
    """What was not compared must not count as equal."""
    reads = "\n".join(["read f# 0 4096"] * 100)
    plan = ranks(2, f"open f# rw+create\nwrite f# 0 4096\n{reads}")
    rows = plan.requests
    rows = rows.having(due_ns=np.arange(len(rows)) * 5_000_000)
    killers = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "verify" and not done:
            killers.append(later(signal.SIGKILL))

    options = ReplayOptions(root=memory, timing="recorded", verify=True)
    outcome = replay(plan.derive(plan.history[0], rows), NOTHING, options, progress)
    for killer in killers:
        killer.join()
    assert outcome.verified is False
    assert "SIGKILL" in outcome.errors[0]


@pytest.mark.parametrize("processes", [1, 2])
def test_workers_that_make_no_progress_are_given_up_on(memory: Path, processes: int) -> None:
    """A hung server must not hang a batch job until its limit, however few ranks it has."""
    others = children()
    stopper = later(signal.SIGSTOP, processes, processes)
    begin = time.monotonic()
    outcome = run(slow(processes), memory, timing="recorded", timeout_seconds=1.0)
    stopper.join()
    assert time.monotonic() - begin < 100
    assert outcome.failed
    assert "no request was completed in" in outcome.errors[0]
    assert children() <= others


def test_an_interrupt_ends_all_workers(memory: Path) -> None:
    """Ctrl-C leaves neither processes nor files."""
    others = children()
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(slow(), memory, timing="recorded")
    assert time.monotonic() - begin < 100
    assert children() <= others
    assert not list(memory.iterdir())


def test_an_interrupt_while_a_worker_ends_is_one(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has answered, and gives back its memory: no other error takes the interrupt's place."""
    others = children()
    leave = os._exit

    def leave_slowly(status: int) -> None:
        time.sleep(0.2)
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(0.3)
        leave(status)

    monkeypatch.setattr(os, "_exit", leave_slowly)
    with pytest.raises(KeyboardInterrupt):
        run(sketch(SAVE), memory)
    assert children() <= others
    assert not list(memory.iterdir())


def test_an_interrupt_after_a_worker_has_ended_is_one(memory: Path) -> None:
    """The first is gone, the second waits for its next write."""
    others = children()
    plan = ranks(2, SAVE)
    closes = np.array([-2, -1])
    rows = plan.requests.having_at(closes, due_ns=[500_000_000, 60_000_000_000])
    plan = plan.derive(plan.history[0], rows)

    def interrupt() -> None:
        deadline = time.monotonic() + 20
        while len(children() - others) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        while len(children() - others) != 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(plan, memory, timing="recorded")
    thread.join()
    assert children() <= others
    assert not list(memory.iterdir())


def test_likeness_to_the_recording_is_counted() -> None:
    """What was replayed in another order, or moved other bytes, is told in numbers."""
    trace = sketch_trace("open a w+create\nwrite a 0 100\nwrite a 100 50\nwrite a 150 25")
    plan = plan_from_trace(trace)
    timings = np.zeros(4, TIMING)
    timings["start_ns"] = [1000, 3000, 2000, 5000]
    timings["end_ns"] = [1500, 5500, 4000, 6000]
    timings["result"] = [0, 100, 50, 20]
    found = compare_requests(plan, timings, trace)
    assert found is not None
    assert (found.requests, found.order_inversions, found.result_mismatches) == (4, 1, 1)
    assert found.inter_arrival_us.recorded == {"p50": 1.0, "p99": 1.0, "max": 1.0}
    assert found.inter_arrival_us.replayed["max"] == 2.0
    assert found.latency_us.recorded["max"] == 0.5
    assert found.latency_us.replayed["max"] == 2.5
    assert found.in_flight.recorded == {"mean": 1.0, "max": 1}
    assert found.in_flight.replayed == {"mean": pytest.approx(5500 / 4000), "max": 2}
    assert compare_requests(Coalesce()(plan), timings, trace) is None
