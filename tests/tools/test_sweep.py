"""`iotrace sweep`: the answer, its command, and what is kept of it."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from iotrace.tools.durations import format_duration, parse_duration

from .command import assert_fits, assert_one_line_error, iotrace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
TRACE = "torchsnapshot.parquet"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """One short sweep: the file it wrote, and what it said."""
    folder = tmp_path_factory.mktemp("sweep")
    kept = folder / "sweep.json"
    done = iotrace(
        "sweep", TRACE, "--budget", "6s", "--op", "write", "--root", folder, "-o", kept,
        cwd=CORPUS, extra_env={"XDG_CACHE_HOME": str(folder / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return kept, done.stdout, done.stderr


def test_the_best_comes_with_the_command_that_does_it(swept: tuple[Path, str, str]) -> None:
    """The command is typed as it stands and replays."""
    _, shown, said = swept
    assert "settings of save" in said
    assert shown.splitlines()[2].startswith("save")
    command = next(line for line in shown.splitlines() if line.startswith("  iotrace replay"))
    done = iotrace(*shlex.split(command)[1:], "--dry-run", cwd=CORPUS)
    assert done.returncode == 0, done.stderr


def test_tables_fit_the_screen(swept: tuple[Path, str, str]) -> None:
    """All but the command itself, which is to be copied."""
    shown = swept[1]
    assert re.search("range of runs|range or 95 %|95 % interval", shown)
    assert "under direct" in shown
    assert_fits("\n".join(x for x in shown.splitlines() if not x.startswith("  iotrace")))


def test_an_interrupted_sweep_goes_on(swept: tuple[Path, str, str]) -> None:
    """Runs that were made are not made again, and another trace is refused."""
    kept = swept[0]
    before = json.loads(kept.read_text())
    root = kept.parent
    go_on = ("--op", "write", "--root", root, "-o", kept, "--resume")
    assert_one_line_error(iotrace("sweep", "dcp.parquet", *go_on, cwd=CORPUS), 2, "another trace")
    done = iotrace("sweep", TRACE, *go_on, "--budget", "1s", "--json", "-", cwd=CORPUS)
    assert done.returncode == 0, done.stderr
    after = json.loads(kept.read_text())
    assert after["runs"][: len(before["runs"])] == before["runs"]
    answers = json.loads(done.stdout)["answers"]
    assert answers["save"]["best"]["executor"] in ("io_uring", "posix")
    for one in answers["save"]["settings"]:
        assert one["runs"] >= 1
        assert 0 < one["seconds"]["low"] <= one["seconds"]["median"] <= one["seconds"]["high"]
    assert list(root.glob("iotrace-replay-*")) == []


def test_an_existing_file_is_not_replaced(swept: tuple[Path, str, str]) -> None:
    """A sweep is minutes of work."""
    assert_one_line_error(iotrace("sweep", TRACE, "-o", swept[0], cwd=CORPUS), 2, "--force")


def test_too_little_space_is_refused_before_anything_runs() -> None:
    """/proc has no space at all."""
    done = iotrace("sweep", TRACE, "--root", "/proc", "--dry-run", cwd=CORPUS)
    assert_one_line_error(done, 2, "--root")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400)]
)
def test_durations_are_written_as_people_do(text: str, seconds: float) -> None:
    """With a unit or in seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "told"), [("0s", "above 0"), ("0", "above 0"), ("5x", "not a dur"), ("", "not a dur")]
)
def test_what_is_no_duration_is_refused_by_what_is_wrong(text: str, told: str) -> None:
    """Nothing is a duration, but no budget."""
    with pytest.raises(typer.BadParameter, match=told) as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


def test_estimates_are_rounded() -> None:
    """Nobody needs seconds of hours."""
    assert [format_duration(x) for x in (45, 300, 5400)] == ["45 s", "5 min", "1 h 30 min"]
