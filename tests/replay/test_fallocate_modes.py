"""Modes of fallocate that a file system refuses: replaced by what has the same content."""

import errno
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from iotrace.replay.fallocate_modes import fit_modes, modes_of, refused_modes
from iotrace.replay.result import Outcome
from iotrace.replay.sketch import listing, sketch
from iotrace.traces.errors import PlanError

from .seccomp import forbid
from .session_run import run

FALLOCATE = {"x86_64": 285, "aarch64": 47}
REFUSED = "Operation not supported"
ZERO, HOLE, RESERVE = 0x10, 0x03, 0x01
WRITES = "\n".join(f"write a {65536 * i} 65536" for i in range(4))
ZEROED = f"open a rw+create\n{WRITES}\nzero a 4096 8192\nsync a\nread a 0 16384\nclose a"


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return an empty directory on tmpfs, which does not know ZERO_RANGE."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
def test_a_range_is_zeroed_in_memory_too(memory: Path, tmp_path: Path, executor: str) -> None:
    """Every byte is as recorded, in the tier and at the destination; the report says how."""
    options = {"executor": executor, "verify": True}
    staged = run(sketch(ZEROED), tmp_path, stage=memory, keep=True, **options)
    rooted = run(sketch(ZEROED), memory, **options)
    for outcome in (staged, rooted):
        assert (outcome.errors, outcome.verified, outcome.failed) == ((), True, False)
        assert (
            "1 range punched instead of zeroed: tmpfs refuses fallocate with ZERO_RANGE "
            f"({REFUSED})" in outcome.degraded
        )
    data = (Path(str(staged.workspace)) / "a").read_bytes()
    assert len(data) == 4 * 65536
    assert data[4096:12288] == bytes(8192)
    assert 0 < data[:4096].count(0) < 100
    assert 0 < data[12288:].count(0) < 2000


def test_a_file_that_grows_when_a_range_is_zeroed_grows(memory: Path) -> None:
    """A hole does not make a file longer; what is read behind the old end is zeros."""
    text = "open a rw+create\nwrite a 0 100\nzero a 50 1000\nread a 0 1050 -> 1050\nclose a"
    plan = sketch(text)
    outcome = run(plan, memory, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert outcome.plan.files[0].final_bytes == plan.files[0].final_bytes == 1050
    lines = listing(outcome.plan).splitlines()
    assert [line.split("  ")[0] for line in lines[2:4]] == ["allocate a 50 1000", "punch a 50 1000"]


def test_what_works_is_left_alone(tmp_path: Path, memory: Path) -> None:
    """Only modes in use are tried, and those that zeroing can be made of."""
    assert modes_of(sketch("open a w+create\nwrite a 0 5")) == set()
    assert modes_of(sketch("open a w+create\nreserve a 0 5\npunch a 0 5")) == {RESERVE, HOLE}
    assert modes_of(sketch(ZEROED)) == {ZERO, HOLE, 0}
    assert refused_modes(memory, {0, RESERVE, HOLE, ZERO}) == {ZERO: REFUSED}
    assert not list(memory.iterdir())
    plan = sketch("open a w+create\nreserve a 0 5000\nallocate a 0 9000\npunch a 0 5\nclose a")
    assert fit_modes(plan, {ZERO: REFUSED}, "tmpfs") == (plan, ())
    outcome = run(plan, memory, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert not any("fallocate" in line for line in outcome.degraded)


def without_fallocate(text: str, root: Path) -> Outcome:
    forbid(FALLOCATE[platform.machine()], errno.EOPNOTSUPP)
    return run(sketch(text), root, verify=True, executor="posix")


def in_process(work: Callable[[], Outcome]) -> Outcome:
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(work).result()


def test_space_reserved_past_the_end_is_left_out(tmp_path: Path) -> None:
    """It holds no byte; the pause before it goes to the next request."""
    text = "open a w+create\nreserve a 0 50000\nwrite a 0 100\nclose a"
    outcome = in_process(partial(without_fallocate, text, tmp_path))
    assert (outcome.errors, outcome.verified) == ((), True)
    file_system = outcome.degraded[-1].split(": ")[1].split()[0]
    assert outcome.degraded[-1] == (
        f"1 allocation left out, of no content: {file_system} refuses fallocate with KEEP_SIZE "
        f"({REFUSED})"
    )
    plan, left = sketch(text), outcome.plan
    assert len(left.requests) == len(plan.requests) - 1
    assert left.requests["think_ns"].sum() == plan.requests["think_ns"].sum()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("punch a 0 50", "PUNCH_HOLE"),
        ("zero a 0 50", "ZERO_RANGE"),
        ("allocate a 0 500", "mode 0"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_the_start(
    tmp_path: Path, line: str, name: str
) -> None:
    """One line, exit 2, nothing left."""
    text = f"open a w+create\nwrite a 0 100\n{line}\nclose a"
    with pytest.raises(PlanError, match=f"refuses fallocate with .*{name}.*--stage$") as refusal:
        in_process(partial(without_fallocate, text, tmp_path))
    assert "1 request of the plan" in str(refusal.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("mode", "name"), [(0x80, "WRITE_ZEROES"), (0x400, "mode 0x400")])
def test_a_mode_of_a_newer_kernel_is_called_what_it_is(mode: int, name: str) -> None:
    """Linux 6.17 has WRITE_ZEROES; mode 0 is another."""
    plan = sketch("open a w+create\nallocate a 0 500\nclose a")
    plan = plan.derive(plan.history[0], plan.requests.having_at(1, flags=mode))
    with pytest.raises(PlanError, match=f"refuses fallocate with {name} "):
        fit_modes(plan, {mode: REFUSED}, "ext4")


def test_a_run_that_failed_has_one_cause(tmp_path: Path) -> None:
    """What differs after it, differs for that: the files are not compared."""
    plan = sketch("open a w+create\nwrite a 0 5\nclose a\nrename a b\nopen b r\nclose b")
    rows = plan.requests.having_at(3, target=plan.requests["path"][3])
    outcome = run(plan.derive(plan.history[0], rows), tmp_path, verify=True)
    assert outcome.errors == (
        "open, b: No such file or directory (request 4)",
        "1 request left undone",
        "not verified: the run failed",
    )
    assert outcome.verified is False
