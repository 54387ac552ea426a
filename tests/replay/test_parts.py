"""A dry run part by part tells what one of the whole does."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.parts import Part, parts_of
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch_trace
from iotrace.replay.tally import Tally, tally_parts
from iotrace.traces import writer
from iotrace.traces.errors import PlanError, TraceFormatError
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace
from tests.bench.plan_speed import dry_run, write_recording
from tests.tools.command import assert_one_line_error, iotrace

from .strategies import jobs

CORPUS = sorted((Path(__file__).parent.parent.parent / "traces" / "corpus").glob("*.parquet"))
STEP = """
mkdir run/step-{0}
open run/step-{0}/model.tmp w+create+trunc
write run/step-{0}/model.tmp 0 4096
sync run/step-{0}/model.tmp
close run/step-{0}/model.tmp
rename run/step-{0}/model.tmp run/step-{0}/model
open log w+append
write log {1} 10
close log
"""
MAKE = "open {0} w+create\nwrite {0} 0 100\nclose {0}\n"
READ = "open {0} r\nread {0} 0 100\nclose {0}\n"
# What comes between jobs.
BETWEEN = (
    *(
        "mkdir of",
        "mkdir of/1",
        "rmdir of/1",
        "rmdir of",
        "rename of elsewhere",
        "rename of/1 of/9",
    ),
    *("sync of/", "sync of/1/", "sync of/new/", "sync elsewhere/", "sync /"),
    *("open of r\nsync of\nclose of", "open log w+create\nwrite log 0 10\nclose log"),
    *("open log r\nread log 0 10 -> 10\nclose log", "open log r\nread log 0 99 -> 10\nclose log"),
    *("open log rw", "close log", "write log 10 5", "unlink log", "sync log", "stat of/1/a"),
    *("open log w+create+excl\nclose log", "link log of/1/a", "link of/1/a other"),
    *(
        "open log w+create\nopen other r as log\nclose other\nclose log",
        "truncate log 0",
        "unlink other",
        "rename log log.1",
    ),
)


def whole(path: Path) -> Tally:
    """What the plan of the whole gives."""
    trace = read_trace(path)
    plan = plan_from_trace(trace)
    outcome = replay(plan, RecordedSummary.of(trace), ReplayOptions(executor="null"))
    return Tally.of(outcome, trace.metadata)


def write(trace: Trace, path: Path, rows_per_group: int) -> Path:
    before = writer.ROWS_PER_GROUP
    try:
        writer.ROWS_PER_GROUP = rows_per_group
        write_trace(trace, path, force=True)
    finally:
        writer.ROWS_PER_GROUP = before
    return path


def parts(path: Path) -> list[Part]:
    return list(parts_of(path, least_rows=1))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rows_per_group", [7, 100_000])
def test_parts_of_the_corpus_tell_what_the_whole_does(
    path: Path, rows_per_group: int, tmp_path: Path
) -> None:
    """Real engines' files come and go between the parts."""
    copy = write(read_trace(path), tmp_path / "t.parquet", rows_per_group)
    assert tally_parts(parts(copy)) == whole(path)


@st.composite
def long_jobs(draw: st.DrawFn) -> str:
    """Jobs one after the other, most of them in folders of their own."""
    lines: list[str] = []
    for number in range(draw(st.integers(2, 5))):
        folder = draw(st.sampled_from([f"of/{number}/", f"of/{number}/", f"{number}/", "of/", ""]))
        names = ("a", "b", "c", "d")
        for line in draw(jobs(steps=12)).splitlines():
            words = [folder + word if word in names else word for word in line.split(" ")]
            lines.append(" ".join(words))
        lines += draw(st.lists(st.sampled_from(BETWEEN), max_size=3))
    return "\n".join(lines)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(text=long_jobs(), size=st.integers(1, 30))
def test_parts_of_any_job_tell_what_the_whole_does(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    """Whatever files a job opens, leaves open, renames, links and removes."""
    trace = sketch_trace(text)
    path = write(trace, tmp_path_factory.mktemp("t") / "t.parquet", size)
    try:
        expected = whole(path)
    except PlanError as error:
        with pytest.raises(PlanError, match="^" + str(error)[:20]):
            tally_parts(parts(path))
    else:
        assert tally_parts(parts(path)) == expected


def test_a_job_of_many_steps_is_cut_between_them(tmp_path: Path) -> None:
    """One log that each step opens again does not keep them together."""
    text = "".join(STEP.format(step, 10 * step) for step in range(20))
    path = write(sketch_trace(text), tmp_path / "t.parquet", 13)
    found = parts(path)
    assert len(found) >= 20
    assert sum(len(part.rows) for part in found) == len(read_trace(path))
    assert [part.before for part in found] == [
        sum(len(part.rows) for part in found[:place]) for place in range(len(found))
    ]
    assert tally_parts(found) == whole(path)


@pytest.mark.parametrize(
    "text",
    [
        f"{MAKE.format('t/a')}{MAKE.format('z')}rename t u\n{MAKE.format('y')}{READ.format('u/a')}",
        f"{MAKE.format('a')}{MAKE.format('z')}open a r\nread a 0 200 -> 50\nclose a\n",
        f"mkdir t\n{MAKE.format('t/a')}{MAKE.format('z')}{MAKE.format('t/b/a')}",
        f"{MAKE.format('t/a')}unlink t/a\nrmdir t\n{MAKE.format('z')}{MAKE.format('t/a')}",
    ],
    ids=[
        *("a folder is renamed", "a read gets less than there is"),
        *("a folder in one that is made", "a folder comes again"),
    ],
)
def test_what_is_known_from_before_counts(tmp_path: Path, text: str) -> None:
    """A part alone would not know that a file has another name, or that there is more of it."""
    path = write(sketch_trace(text), tmp_path / "t.parquet", 4)
    assert tally_parts(parts(path)) == whole(path)


def test_a_file_open_or_renamed_is_not_cut(tmp_path: Path) -> None:
    """What is open, and what gets another name later, is in one part."""
    text = "open a w+create\n" + STEP.format(0, 0) + "write a 0 10\nclose a\n" + STEP.format(1, 10)
    path = write(sketch_trace(text), tmp_path / "t.parquet", 5)
    found = parts(path)
    assert len(found[0].rows) == 12
    assert tally_parts(found) == whole(path)


def test_opens_never_closed_last_as_long_as_they_are_used(tmp_path: Path) -> None:
    """A job that leaks an open with each step can be cut all the same."""
    text = "".join(f"open {i} w+create\nwrite {i} 0 10\nwrite {i} 10 10\n" for i in range(9))
    path = write(sketch_trace(text), tmp_path / "t.parquet", 4)
    found = parts(path)
    assert [len(part.rows) for part in found] == [3] * 9
    assert tally_parts(found) == whole(path)


def test_what_is_not_in_order_is_one_part(tmp_path: Path) -> None:
    """The rows of a stranger's file are sorted first."""
    trace = sketch_trace("".join(STEP.format(step, step) for step in range(3)))
    rows = np.random.default_rng(1).permutation(len(trace))
    path = tmp_path / "t.parquet"
    write(Trace(trace.table.take(pa.array(rows)), trace.metadata), path, 4)
    assert len(parts(path)) == 1
    assert tally_parts(parts(path)) == whole(path)


def test_files_of_a_folder_are_one_part(tmp_path: Path) -> None:
    """Their rows are joined first."""
    for number in range(2):
        write_trace(sketch_trace(STEP.format(number, 0)), tmp_path / f"{number}.parquet")
    assert len(parts(tmp_path)) == 1
    assert tally_parts(parts(tmp_path)) == whole(tmp_path)


def test_progress_moves_to_the_end(tmp_path: Path) -> None:
    """Both times that the rows are gone through."""
    text = "".join(STEP.format(step, 10 * step) for step in range(5))
    path = write(sketch_trace(text), tmp_path / "t.parquet", 7)
    told: list[tuple[str, int, int]] = []
    list(parts_of(path, 1, lambda *stage: told.append(stage)))
    count = len(read_trace(path))
    for stage in ("look", "plan"):
        done = [at for name, at, total in told if name == stage and total == count]
        assert done == sorted(done)
        assert len(done) > 3
        assert done[-1] == count


def test_a_file_that_is_broken_in_the_middle_is_refused_as_by_the_reader(tmp_path: Path) -> None:
    """One clear line, whichever row group it is in."""
    text = "".join(STEP.format(step, 10 * step) for step in range(50))
    path = write(sketch_trace(text), tmp_path / "t.parquet", 50)
    whole_file = path.read_bytes()
    footer = pq.read_metadata(path)
    groups = range(footer.num_row_groups)
    for group in (0, groups[-1] // 2, groups[-1]):
        at = footer.row_group(group).column(footer.schema.names.index("start_ns")).data_page_offset
        path.write_bytes(whole_file[: at + 30] + b"\xff" * 20 + whole_file[at + 50 :])
        with pytest.raises(TraceFormatError) as expected:
            read_trace(path)
        with pytest.raises(TraceFormatError) as found:
            tally_parts(parts_of(path, least_rows=1))
        assert str(found.value) == str(expected.value)
        done = iotrace("replay", path, "--executor", "null")
        assert_one_line_error(done, 2, "t.parquet")


def test_the_memory_of_a_dry_run_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """Two million requests of 200 B and a plan of 290 B each would take a GB."""
    path = tmp_path / "t.parquet"
    write_recording(2_000_000, path, rows_per_group=1 << 17)
    assert dry_run(path) < 500 * 10**6
