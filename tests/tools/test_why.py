"""`iotrace why` on the traces that come with the project, and on small ones."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from iotrace.tools.render import format_seconds
from iotrace.tools.verdict.shapes import request_shape
from iotrace.traces.verdict.shape import Shape
from iotrace.traces.writer import write_trace

from .command import assert_fits, assert_one_line_error, iotrace, verdict_head
from .conftest import Make, Row, build, checkpoint_rows, metadata

MIB = 1 << 20
CORPUS = Path(__file__).parents[2] / "traces" / "corpus"


@pytest.mark.parametrize("trace", sorted(CORPUS.glob("*.parquet")), ids=lambda path: path.stem)
def test_the_verdict_on_every_engine_fits_the_screen(trace: Path, tmp_path: Path) -> None:
    """Engine, times, requests, bytes and durability come first, within 80 columns."""
    done = iotrace(
        "why", trace.name, "--no-probe", cwd=CORPUS, extra_env={"XDG_CACHE_HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    found = verdict_head(done.stdout)
    saving = set() if trace.stem.endswith("-restore") else {"save", "writes", "durable"}
    assert {"trace", "load", "bytes", "slowest"} | saving <= set(found)
    assert "I/O" in found["save" if saving else "load"]
    advised = "iotrace replay" in done.stdout or "iotrace sweep" in done.stdout
    assert advised or trace.stem == "torch-restore"  # its one read per tensor needs no advice
    assert "iotrace sweep" in done.stderr


def test_count_times_size_is_the_bytes_and_ranks_are_said_to_be_together() -> None:
    """13 requests of 10 MiB and 10 of 4 KiB are not 23 of 10 MiB; one rank is not eight."""
    alone = Shape("write", 23, 130 * MIB + 40960, 1, 10 * MIB, 3180, 0, 0, 0, 0.5, 1.0, 1, 0.4, 0,
                  23, 0, 0.5)  # fmt: skip
    assert request_shape(alone) == (
        "23 of 5.65 MiB mean (10 MiB median), one at a time, 3.18 ms each = 260 MiB/s"
    )
    several = replace(alone, bytes=230 * MIB, processes=8, depth=2.0)
    assert request_shape(several) == (
        "23 of 10 MiB, 2.0 at a time in each of 8 processes, 3.18 ms each = 460 MiB/s together"
    )


def test_the_number_of_round_trips_is_named_as_the_cause(make_trace: Make) -> None:
    """Each request takes half a millisecond whatever its size: joining them is the way out."""
    shown = iotrace("why", make_trace(checkpoint_rows(sizes=[4096] * 40)), "--no-probe").stdout
    found = verdict_head(shown)
    assert "round trips of 500 µs = 20 ms" in found["cause"]
    assert "write through a buffer" in shown and "instead of" in shown


def test_the_median_of_two_saves_lies_between_them(make_trace: Make, tmp_path: Path) -> None:
    rows = [
        replace(row, step=step, file=step)
        for step, count in enumerate((3, 9))
        for row in checkpoint_rows(f"/c/{step}", [1 << 20] * count)[: count + 3]
    ]
    told = tmp_path / "told.json"
    shown = iotrace("why", make_trace(rows), "--no-probe", "--json", told).stdout
    saves = [one["seconds"] for one in json.loads(told.read_text())["episodes"]]
    assert len(set(saves)) == 2
    assert f"median {format_seconds(sum(saves) / 2)})" in shown
    assert "save 1, the longest (median" in verdict_head(shown)["save"]


def test_a_save_without_a_step_is_named_by_its_engine(make_trace: Make) -> None:
    """Where its engine is known it is not of none."""
    rows = [
        replace(row, step=step, file=file, engine="dcp")
        for file, (step, count) in enumerate(((-1, 9), (0, 3)))
        for row in checkpoint_rows(f"/c/{file}", [1 << 20] * count)[: count + 3]
    ]
    shown = iotrace("why", make_trace(rows), "--no-probe").stdout
    assert " in save (dcp), the longest (median" in verdict_head(shown)["save"]


def test_an_advice_on_several_saves_says_of_how_many(make_trace: Make) -> None:
    """None of the three was synced: one line, which does not read as if it were of the first."""
    rows = [
        replace(row, step=step, file=step, engine=engine)
        for step, engine in enumerate(("dcp", "torch.save", "safetensors"))
        for row in checkpoint_rows(f"/c/{step}", [1 << 20] * 3)[:6]
        if row.op != "sync"
    ]
    advice = json.loads(iotrace("why", make_trace(rows), "--no-probe", "--json", "-").stdout)
    (about,) = (one["about"] for one in advice["advice"] if "fsync" in one["change"])
    assert re.fullmatch(r"save \d \((dcp|torch.save|safetensors)\) and 2 more", about)


@pytest.mark.parametrize("saves", [1, 2])
def test_padding_is_said_to_be_of_what_it_is_of(saves: int, tmp_path: Path) -> None:
    """It is told of the whole replay: of one save's bytes only where there is no other."""
    rows = [
        replace(row, step=step, file=step)
        for step in range(saves)
        for row in checkpoint_rows(f"/c/{step}", [1 << 20] * 3)[:6]
    ]
    told = {"executor": "posix", "transforms": ["align"], "replayed": {"padding_bytes": 4096}}
    write_trace(build(rows, replace(metadata(), extra={"replay": told})), tmp_path / "r.parquet")
    found = verdict_head(iotrace("why", tmp_path / "r.parquet", "--no-probe").stdout)["bytes"]
    assert (
        found
        == {
            1: "wrote 3.00 MiB and 4 KiB of padding (1 open)",
            2: "save 0 wrote 3 MiB (1 open); 4 KiB of all that was moved is padding",
        }[saves]
    )


def test_lines_of_the_head_say_which_of_several_they_are_of(make_trace: Make) -> None:
    """The longest, the first of two engines here; whether they last is told of both.

    Each advice says what it is about, and is told once.
    """
    saves = [
        replace(row, step=step, file=step, engine=engine)
        for step, (engine, count) in enumerate((("dcp", 30), ("torch.save", 8)))
        for row in checkpoint_rows(f"/c/{step}.pt", [1 << 20] * count)[: count + 3 - 2 * step]
    ]
    done = iotrace("why", make_trace(saves), "--no-probe", "--json", "-")
    trace = json.loads(done.stdout)
    assert [one["engine"] for one in trace["episodes"]] == ["dcp", "torch.save"]
    found = verdict_head(iotrace("why", trace["trace"], "--no-probe").stdout)
    assert " in save 0 (dcp), the longest (median" in found["save"]
    assert found["writes"].startswith("save 0 (dcp): 30 of 1 MiB")
    assert found["bytes"] == "save 0 (dcp) wrote 30 MiB (1 open)"
    assert found["slowest"].startswith("save 0 (dcp): ")
    assert found["durable"] == (
        "no: 1 of 2 saves; save 1 (torch.save): 0 of 1 file synced at return; in place: a kill "
        "leaves a torn file"
    )
    advice = trace["advice"]
    assert {one["about"].removesuffix(" and 1 more") for one in advice} <= {
        "save 0 (dcp)",
        "save 1 (torch.save)",
    }
    assert len({(one["because"], one["command"]) for one in advice}) == len(advice)
    assert found["change"].startswith(f"{advice[0]['about']}: ")
    assert advice[0]["gain_seconds"] == max(one["gain_seconds"] for one in advice)


def test_a_file_that_was_open_before_is_no_file_of_0_opens(make_trace: Make) -> None:
    """torch.save into a file object: the job itself had opened it."""
    written = checkpoint_rows()[1:6]
    found = verdict_head(iotrace("why", make_trace(written), "--no-probe").stdout)
    assert found["bytes"] == "wrote 1.00 MiB"


def test_a_report_says_of_which_save_an_advice_is(make_trace: Make, tmp_path: Path) -> None:
    """As `why` does."""
    rows = [
        replace(row, step=step, file=step, engine=engine)
        for step, engine in enumerate(("dcp", "torch.save"))
        for row in checkpoint_rows(f"/c/{step}", [1 << 20] * 3)[:4]
    ]
    trace = make_trace(rows)
    one, *_ = json.loads(iotrace("why", trace, "--no-probe", "--json", "-").stdout)["advice"]
    page = tmp_path / "page.html"
    assert iotrace("report", trace, "-o", page).returncode == 0
    assert re.search(r"save \d \((dcp|torch.save)\) and 1 more", one["about"])
    assert f"<li>{one['about']}: {one['change']}" in page.read_text()


def test_what_is_synced_behind_the_job_needs_no_fsync(make_trace: Make) -> None:
    """An asynchronous save that is not waited for is late, and stored all the same."""
    rows = [
        Row("save", layer="span", engine="dcp", api=None, file=None, result=None),
        *(replace(row, engine="dcp") for row in checkpoint_rows(sizes=[MIB] * 3)[:6]),
    ]
    trace = make_trace(rows)
    assert (
        "written after the save returned"
        in verdict_head(iotrace("why", trace, "--no-probe").stdout)["durable"]
    )
    found = json.loads(iotrace("why", trace, "--no-probe", "--json", "-").stdout)
    assert found["episodes"][0]["durability"]["synced"] == 1
    assert not [one for one in found["advice"] if "fsync" in one["change"]]


def test_times_and_counts_of_an_advice_are_of_one_rank() -> None:
    """Rank 1 wrote 204 times and opened, closed and synced; rank 0 as often again."""
    found = json.loads(iotrace("why", "corpus:dcp", "--no-probe", "--json", "-").stdout)
    save = found["episodes"][0]
    slow = next(one for one in save["ranks"] if one["rank"] == save["slowest_rank"] == 1)
    assert slow["requests"] == 208 and save["requests"]["write"]["count"] == 409
    because = found["advice"][0]["because"]
    gap = slow["between_seconds"]
    assert because.startswith(f"{format_seconds(gap)} go by between 208 requests of rank 1")
    io = format_seconds(slow["io_seconds"] + slow["sync_seconds"])
    assert f"({format_seconds(gap / 208)} each), {io} in them" in because


def test_an_incomplete_trace_says_so_first(make_trace: Make) -> None:
    """Its figures are lower bounds."""
    trace = make_trace(problem="12 MiB were mapped and not seen")
    shown = iotrace("why", trace, "--no-probe").stdout
    assert shown.startswith("INCOMPLETE")
    assert "12 MiB were mapped and not seen" in shown


def test_the_first_error_comes_before_the_times(make_trace: Make) -> None:
    """What failed is what the user came for; the way out is the first advice."""
    rows = checkpoint_rows()
    rows[2] = replace(rows[2], result=-28)
    found = verdict_head(iotrace("why", make_trace(rows), "--no-probe").stdout)
    assert list(found)[:2] == ["trace", "error"]
    assert "No space left on device (ENOSPC)" in found["error"]
    assert "free some space" in found["change"]
    told = iotrace("why", make_trace(rows, "again.parquet"), "--no-probe", "--json", "-").stdout
    first = json.loads(told, parse_constant=pytest.fail)["advice"][0]
    assert first["gain_seconds"] is None  # JSON knows no infinity


def test_json_has_a_list_of_saves_and_loads(small_trace: Path) -> None:
    """Scripts rely on the keys."""
    found = json.loads(iotrace("why", small_trace, "--no-probe", "--json", "-").stdout)
    assert [episode["op"] for episode in found["episodes"]] == ["save", "load"]
    save = found["episodes"][0]
    (rank,) = save["ranks"]
    parts = ("io_seconds", "sync_seconds", "rank_seconds", "between_seconds")
    assert sum(rank[part] for part in parts) == pytest.approx(rank["seconds"])
    assert save["durability"]["synced"] == save["durability"]["files"] == 1
    assert save["amplification"]["over_ranks"] == 1


def test_a_trace_without_times_tells_what_needs_none(tmp_path: Path) -> None:
    """How many bytes and opens at this scale, and what is synced before it is written."""
    made = ("--ranks", "2", "--engine", "dcp", "--scale", "1/1024", "-o", tmp_path / "t.parquet")
    assert iotrace("synth", "llama-3.2-3b", *made).returncode == 0
    shown = iotrace("why", tmp_path / "t.parquet", "--no-probe").stdout
    assert_fits(shown.split("What to change")[0])
    found = verdict_head(shown.split("no times\n")[1])
    assert found["trace"].endswith(": dcp, 1 save, 1 load, 2 ranks")
    assert found["save"] == found["load"] == "its times are not known"
    assert re.match(r"[\d,]+ of [\d.]+ KiB mean \(873 B median\)$", found["writes"])
    assert "the tensors, 3 opens); read " in found["bytes"]
    assert found["durable"].startswith("no: .metadata.tmp is synced before its last write")
    assert "slowest" not in found and " 0 ns" not in shown


def test_options_that_exclude_each_other_are_refused(small_trace: Path) -> None:
    """Before anything is probed."""
    assert_one_line_error(iotrace("why", small_trace, "--no-probe", "--probe-again"), 2, "exclude")
