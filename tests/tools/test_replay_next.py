"""What `iotrace replay` says to type next: it runs as it stands there."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .command import iotrace


def hint(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the words after `iotrace` of the last line on stderr."""
    assert done.returncode == 0, done.stderr
    program, *words = shlex.split(done.stderr.splitlines()[-1].removeprefix("iotrace: next: "))
    assert program == "iotrace"
    return words


@pytest.fixture
def memory_root(tmp_path: Path) -> Iterator[Path]:
    """A folder whose file system has no direct I/O to speak of."""
    folder = tmp_path / "memory"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_what_to_type_next_keeps_what_was_given(small_trace: Path, root: Path) -> None:
    """Another folder, layer or op would be another measurement."""
    given = ("replay", small_trace, "--root", root, "--layer", "tensor", "--op", "read")
    for asked, added in (((), "--coalesce --direct"), (("--coalesce",), "--coalesce --verify")):
        done = iotrace(*given, *asked)
        assert done.returncode == 0, done.stderr
        words = shlex.join(["iotrace", *map(str, given)])
        assert done.stderr.splitlines()[-1] == f"iotrace: next: {words} {added}"


def test_a_file_of_figures_is_replaced_by_the_next_run(small_trace: Path, tmp_path: Path) -> None:
    """It is there by then, and a second one would be refused without --force."""
    given = ("replay", small_trace, "--root", tmp_path, "--coalesce", "--json", tmp_path / "x.json")
    words = hint(iotrace(*given))
    assert words == [*map(str, given), "--force", "--verify"]
    assert iotrace(*words).returncode == 0
    assert hint(iotrace(*words[:5], "--json", "-")) == [*words[:5], "--json", "-", "--verify"]


@pytest.mark.parametrize(
    "dry", [("--dry-run",), ("--executor", "null"), ("--executor=null",)], ids=" ".join
)
def test_after_a_dry_run_comes_the_run(small_trace: Path, root: Path, dry: tuple[str]) -> None:
    """The same words again would touch no file either."""
    given = ("replay", str(small_trace), *dry, "--root", str(root))
    assert hint(iotrace(*given)) == ["replay", str(small_trace), "--root", str(root)]


def test_direct_is_named_only_where_it_works(small_trace: Path, memory_root: Path) -> None:
    """A memory file system would make it end with status 1."""
    words = hint(iotrace("replay", small_trace, "--root", memory_root))
    assert words[-2:] == [str(memory_root), "--coalesce"]


def test_a_result_that_is_there_is_not_named_again(small_trace: Path, root: Path) -> None:
    """The last advice is to keep the result, under a name that is free."""
    given = ("replay", str(small_trace), "--direct", "--verify", "--repeat", "2")
    for name in ("result.parquet", "result-2.parquet", "result-3.parquet"):
        words = hint(iotrace(*given, cwd=root))
        assert words == [*given, "-o", name]
        (root / name).touch()


def test_a_result_is_compared_with_its_recording(small_trace: Path, root: Path) -> None:
    """What was made faster is the question that it was made for."""
    given = ("replay", str(small_trace), "--root", str(root), "-o", str(root / "made.parquet"))
    words = hint(iotrace(*given))
    assert words == ["compare", str(small_trace), str(root / "made.parquet")]
    assert iotrace(*words).returncode == 0


def test_files_are_not_kept_again(small_trace: Path, root: Path) -> None:
    """Each run that is tried would leave all its files behind."""
    given = ("replay", str(small_trace), "--root", str(root), "--direct", "--verify")
    assert hint(iotrace(*given, "--keep")) == [*given, "--repeat", "5"]
