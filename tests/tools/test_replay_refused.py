"""What `iotrace replay` refuses, before it runs or while it does."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.small_disk import mounted_tmpfs

from .command import assert_one_line_error, iotrace
from .conftest import Make, checkpoint_rows


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB, half of what the small trace writes."""
    with mounted_tmpfs(tmp_path / "small", "512k") as folder:
        yield folder


def assert_refused(root: Path, status: int, trace: Path, *options: object, words: str) -> None:
    """The replay is refused in one line and nothing is left in its root."""
    done = iotrace("replay", trace, "--root", root, *options)
    assert_one_line_error(done, status, words)
    assert not root.is_dir() or list(root.glob("iotrace-replay-*")) == []


def test_an_output_that_exists_is_refused_before_the_run(
    small_trace: Path, root: Path, tmp_path: Path
) -> None:
    """An earlier result must not be lost; nor an hour of replaying."""
    precious = tmp_path / "result"
    precious.write_text("precious")
    for option in ("-o", "--json"):
        assert_refused(root, 2, small_trace, option, precious, words="--force")
        assert precious.read_text() == "precious"
    done = iotrace("replay", small_trace, "--root", root, "-o", precious, "--force")
    assert done.returncode == 0, done.stderr


def test_a_root_that_is_not_there_is_refused(small_trace: Path, tmp_path: Path) -> None:
    """A typo must not create folders."""
    assert_refused(tmp_path / "none", 2, small_trace, words="none")
    assert not (tmp_path / "none").exists()


def test_a_root_without_permission_is_refused(small_trace: Path) -> None:
    """/sys refuses new folders to everyone, root included."""
    assert_refused(Path("/sys"), 2, small_trace, words="--root")


def test_a_file_longer_than_the_free_space_is_refused(make_trace: Make, root: Path) -> None:
    """The disk is not filled first."""
    rows = checkpoint_rows()
    far = 1 << 50
    rows[1] = replace(rows[1], length=far, result=far)
    assert_refused(root, 2, make_trace(rows, size=far), words="free")


def test_a_disk_that_is_too_small_is_refused(small_trace: Path, small_disk: Path) -> None:
    """Sizes are checked against the free space before the first write."""
    assert_refused(small_disk, 2, small_trace, words="free")
    assert list(small_disk.iterdir()) == []


def test_a_disk_without_any_room_is_refused(small_trace: Path, small_disk: Path) -> None:
    """Room is looked at before anything is tried in the folder."""
    (small_disk / "ballast").write_bytes(bytes(512 << 10))
    assert_refused(small_disk, 2, small_trace, words="free")
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_a_result_does_not_replace_its_recording(small_trace: Path, root: Path) -> None:
    """--force is for old results; the recording cannot be made again."""
    before = small_trace.read_bytes()
    assert_refused(root, 2, small_trace, "-o", small_trace, "--force", words="which is read")
    assert small_trace.read_bytes() == before


def test_a_result_that_does_not_fit_the_disk_costs_no_figures(
    small_trace: Path, root: Path, small_disk: Path
) -> None:
    """The table is on the screen, the failure in one line, and no half file is left."""
    (small_disk / "ballast").write_bytes(bytes(512 << 10))
    for option, name in (("-o", "result.parquet"), ("--json", "result.json")):
        done = iotrace("replay", small_trace, "--root", root, option, small_disk / name)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            f"iotrace: error: cannot write {small_disk / name}: No space left on device; "
            "free some space or choose another folder"
        ]
        assert "latency" in done.stdout
        assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_a_trace_without_requests_is_refused(make_trace: Make, root: Path) -> None:
    """Nothing to replay is said, not shown as zeros."""
    tensors = [row for row in checkpoint_rows() if row.layer == "tensor"]
    assert_refused(root, 2, make_trace(tensors), words="replay")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gather",), "--coalesce"),
        (("--direct", "--buffered"), "exclude each other"),
        (("--stripe-size", "1MiB"), "--aggregate"),
        (("--aggregate", "rank", "--stripe-size", "1MiB"), "--aggregate shared"),
        (("--align-size", "3"), "a multiple of 512"),
        (("--align-size", "1000"), "a multiple of 512"),
        (("--dry-run", "--verify"), "--dry-run"),
        (("--dry-run", "--keep"), "--dry-run"),
        (("--executor", "null", "--verify"), "--executor null"),
        (("--executor", "uring"), "io_uring"),
        (("--repeat", "0"), "--repeat"),
        (("--time-scale", "2"), "--timing"),
        (("--timeout", "0"), "--timeout"),
        (("--workers", "0"), "--workers"),
        (("--queue-depth", "0"), "--queue-depth"),
        (("--queue-depth", "99999999999"), "65536"),
    ],
)
def test_options_that_contradict_are_refused(
    small_trace: Path, root: Path, options: tuple[str, ...], words: str
) -> None:
    """Ignoring one of them silently would answer another question."""
    assert_refused(root, 2, small_trace, *options, words=words)


def test_strict_turns_a_degradation_into_a_failure(small_trace: Path, small_disk: Path) -> None:
    """tmpfs is memory: direct I/O and cold reads are not what they say there."""
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    asked = ("replay", small_trace, "--root", small_disk, "--coalesce", "--direct")
    degraded = iotrace(*asked)
    assert degraded.returncode == 1, degraded.stderr
    assert degraded.stdout.index("DEGRADED") < degraded.stdout.index("latency")
    assert "reads are warm" in degraded.stdout and "cold reads" not in degraded.stdout
    assert_one_line_error(iotrace(*asked, "--strict"), 1, "--strict")
    assert list(small_disk.iterdir()) == []
