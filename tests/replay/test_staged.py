"""A staged replay: requests in a fast tier, what they wrote drained to where it belongs."""

import os
import resource
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.lasting import drain
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.reader import read_trace
from tests.tools.command import assert_fits, assert_one_line_error, iotrace

from .slow_mount import slow_mount

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
SAVE = """mkdir run
open run/model w+create
write run/model 0 300000
write run/model 304176 100
sync run/model
close run/model
open scratch w+create
write scratch 0 4096
close scratch
unlink scratch
open config r
read config 0 5000
close config"""


@pytest.fixture
def tier() -> Iterator[Path]:
    """Return an empty folder in memory; the destination is on disk."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def staged(plan: Plan, tier: Path, root: Path, **options: object) -> Outcome:
    return replay(plan, NOTHING, ReplayOptions(root=root, stage=tier, verify=True, **options))


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
def test_what_is_left_lies_at_the_destination_alone(
    executor: str, tier: Path, tmp_path: Path
) -> None:
    """Neither what was removed nor what was only read is drained, and the tier is empty after."""
    plan = sketch(SAVE)
    outcome = staged(plan, tier, tmp_path, executor=executor, keep=True, repeat=2)
    assert (outcome.errors, outcome.verified) == ((), True)
    kept = Path(str(outcome.workspace))
    assert [str(one.relative_to(kept)) for one in kept.rglob("*") if one.is_file()] == ["run/model"]
    model = (kept / "run/model").stat()
    assert model.st_size == 304276
    assert list(tier.iterdir()) == []
    for one in outcome.repetitions:
        assert one.drain_seconds > 0
        assert one.durable_seconds == one.write_seconds + one.drain_seconds


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_without_a_byte_reach_the_destination(
    overwrite: bool, tier: Path, tmp_path: Path
) -> None:
    """What was made empty, sized, cut or only made as a folder is part of a checkpoint too."""
    plan = sketch(
        "open full w+create\nwrite full 0 100\nclose full\n"
        "open empty w+create\nclose empty\n"
        "open sized w+create\ntruncate sized 5000\nclose sized\n"
        "open allocated w+create\nallocate allocated 0 6000\nclose allocated\n"
        "open cut w+create\nwrite cut 0 100\ntruncate cut 0\nclose cut\n"
        "mkdir folder\nmkdir gone\nrmdir gone\nopen old r\nread old 0 10\nclose old"
    )
    outcome = staged(Overwrite()(plan) if overwrite else plan, tier, tmp_path, keep=True)
    assert (outcome.errors, outcome.verified) == ((), True)
    kept = Path(str(outcome.workspace))
    sizes = {one.name: one.stat().st_size if one.is_file() else None for one in kept.iterdir()}
    assert sizes == {
        "full": 100, "empty": 0, "sized": 5000, "allocated": 6000, "cut": 0, "folder": None
    }  # fmt: skip


def test_a_file_that_was_only_made_is_proven_to_be_there(
    tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is all there is to prove, and that it is there."""

    def lossy(plan: Plan, tier_fd: int, root_fd: int, copiers: int) -> float:
        seconds = drain(plan, tier_fd, root_fd, copiers)
        os.unlink("empty", dir_fd=root_fd)
        return seconds

    monkeypatch.setattr("iotrace.replay.runner.drain", lossy)
    outcome = staged(sketch("open empty w+create\nclose empty"), tier, tmp_path)
    assert outcome.verified is False
    assert "empty: No such file" in outcome.errors[0]


@pytest.mark.parametrize("transforms", [(), (Aggregate("shared"), Coalesce(1 << 20))], ids=len)
@pytest.mark.parametrize("name", ["dcp", "torchsnapshot"])
def test_real_jobs_are_staged_on_any_layout(
    name: str, transforms: tuple[object, ...], tier: Path, tmp_path: Path
) -> None:
    """The loads find what they want in the tier, and every byte reaches the destination."""
    plan = plan_from_trace(read_trace(CORPUS / f"{name}.parquet"))
    for transform in transforms:
        plan = transform(plan)  # type: ignore[operator]
    outcome = staged(plan, tier, tmp_path)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert list(tmp_path.iterdir()) == list(tier.iterdir()) == []


def test_a_byte_lost_by_the_drain_is_found(
    tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven is the destination, not only the tier."""

    def lossy(plan: Plan, tier_fd: int, root_fd: int, copiers: int) -> float:
        seconds = drain(plan, tier_fd, root_fd, copiers)
        fd = os.open("run/model", os.O_WRONLY, dir_fd=root_fd)
        os.pwrite(fd, b"\0\0\0\0\0\0\0\0", 1000)
        os.close(fd)
        return seconds

    monkeypatch.setattr("iotrace.replay.runner.drain", lossy)
    outcome = staged(sketch(SAVE), tier, tmp_path)
    assert outcome.verified is False
    assert "run/model" in outcome.errors[0]


def test_holes_are_drained_as_holes(tier: Path, tmp_path: Path) -> None:
    """A sparse file of 1 GiB must not fill the destination."""
    far = 1 << 30
    plan = sketch(f"open a w+create\nwrite a 0 4096\nwrite a {far} 4096\nclose a")
    outcome = staged(plan, tier, tmp_path, keep=True)
    assert outcome.verified is True
    (found,) = Path(str(outcome.workspace)).iterdir()
    assert found.stat().st_size == far + 4096
    assert found.stat().st_blocks * 512 <= 1 << 20


def test_data_that_cannot_be_found_are_no_hole(tmp_path: Path) -> None:
    """What the tier fails to tell must not become zeros at the destination."""
    tier, root = tmp_path / "tier", tmp_path / "root"
    tier.mkdir()
    root.mkdir()
    with slow_mount(tier, 0.0) as mount:
        mount.failing = "lseek"
        (tier / "a").write_bytes(b"data")
        with pytest.raises(OSError, match="Input/output error"):
            drain_of("a", tier, root)


def test_an_interrupt_ends_a_drain(tier: Path, tmp_path: Path) -> None:
    """A checkpoint on its way to slow storage takes long, and nobody waits for the rest of it."""
    (tier / "a").write_bytes(b"x" * (64 << 20))
    with slow_mount(tmp_path, 0.002) as mount:

        def interrupt() -> None:
            while not mount.seen["write"]:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            drain_of("a", tier, tmp_path)
        thread.join()
        assert (tmp_path / "a").read_bytes()[-1] == 0
        assert not mount.seen["fsync"]


def drain_of(name: str, tier: Path, root: Path) -> float:
    """Drain a file of one folder to another."""
    fds = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in (tier, root)]
    try:
        return drain(sketch(f"open {name} w+create\nwrite {name} 0 4\nclose {name}"), *fds, 1)
    finally:
        for fd in fds:
            os.close(fd)


def test_a_drain_that_fails_names_the_destination(
    tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the destination that is full, say; there is nothing to be found in the tier."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(plan: Plan, tier_fd: int, root_fd: int, copiers: int) -> float:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        try:
            return drain(plan, tier_fd, root_fd, copiers)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr("iotrace.replay.runner.drain", limited)
    with pytest.raises(ReplayError, match=f"File too large; look at {tmp_path}$"):
        staged(sketch(SAVE), tier, tmp_path)


def test_a_tier_without_room_is_named(tier: Path, tmp_path: Path) -> None:
    """The option to change is not --root; nothing is written to either."""
    too_much = os.statvfs(tier).f_blocks * os.statvfs(tier).f_frsize
    plan = sketch(f"open a w+create\nwrite a 0 {too_much}\nclose a")
    with pytest.raises(PlanError, match="--stage"):
        staged(plan, tier, tmp_path)
    assert list(tmp_path.iterdir()) == list(tier.iterdir()) == []


def test_round_trips_are_refused(tier: Path, tmp_path: Path) -> None:
    """The drain knows none, so that the time until all is durable would mix two things."""
    options = ReplayOptions(root=tmp_path, stage=tier, round_trip_seconds=0.001)
    with pytest.raises(PlanError, match=r"--stage .* --rtt"):
        replay(sketch(SAVE), NOTHING, options)
    assert list(tmp_path.iterdir()) == []


def test_a_launch_is_refused(tier: Path, tmp_path: Path) -> None:
    """The tiers of other machines are not seen from here."""

    class Two:
        rank, size, lost = 0, 2, False

        def gather(self, value: object) -> list[object]:
            return [value, value]

    options = ReplayOptions(root=tmp_path, stage=tier)
    with pytest.raises(PlanError, match="--stage"):
        replay(sketch(SAVE), NOTHING, options, group=Two())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_both_times_are_told(tier: Path, tmp_path: Path) -> None:
    """Until the job goes on, and until the checkpoint outlives the machine."""
    done = iotrace("replay", "corpus:dcp", "--stage", tier, "--root", tmp_path, "--verify")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert f"{tier}, drained to {tmp_path}" in " ".join(done.stdout.split())
    labels = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert labels.index("write, staged") < labels.index("drain") < labels.index("write, durable")
    refused = iotrace("replay", "corpus:dcp", "--stage", tier / "none", "--root", tmp_path)
    assert_one_line_error(refused, 2, "--stage", "none")
