"""`iotrace compare` and `iotrace merge` on small traces."""

import json
import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest

from iotrace.traces.changes import changes
from iotrace.traces.metadata import Host, Metadata
from iotrace.traces.reader import read_trace
from iotrace.traces.writer import write_trace

from .command import assert_fits, assert_one_line_error, iotrace
from .conftest import SIZE, Make

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"


def test_a_replay_is_the_recording_again(small_trace: Path, tmp_path: Path) -> None:
    """The same requests in the same order, seen by another command than the one that ran them."""
    result = tmp_path / "result.parquet"
    iotrace("replay", small_trace, "--root", tmp_path, "-o", result)
    done = iotrace("compare", small_trace, result, "--structure")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert "the same requests in the same order" in done.stdout
    assert "1 in both, 0 of them with other bytes moved; 0 in A only, 0 in B only" in " ".join(
        done.stdout.split()
    )


@pytest.mark.parametrize(
    ("kernels", "changed"),
    [
        (("6.18.44-fc-v509", "6.18"), []),
        (("6.18", "6.180.1"), ["kernel 6.18 -> 6.180.1"]),
        (("6.18.44", "6.18.43"), ["kernel 6.18.44 -> 6.18.43"]),
        (("6.18", ""), []),
    ],
)
def test_a_version_that_sharing_cut_has_not_changed(
    kernels: tuple[str, str], changed: list[str]
) -> None:
    """A shared trace tells 6.18 of 6.18.44."""
    a, b = (Metadata(hosts=(Host("n", kernel=kernel),)) for kernel in kernels)
    assert list(changes(a, b)) == changed


def test_results_of_two_sites_are_told_apart() -> None:
    """By host, cores and memory; a pseudonym, of another key each time, tells nothing."""
    here = Metadata(hosts=(Host("a1", cores=64, memory_bytes=(256 << 30) + 7),))
    there = Metadata(hosts=(Host("b1", cores=32, memory_bytes=256 << 30),))
    assert list(changes(here, there)) == ["host a1 -> b1", "cores 64 -> 32"]
    hidden = Metadata(hosts=(Host("host-bcdfghjklm", cores=64, memory_bytes=256 << 30),))
    assert list(changes(here, hidden)) == []


def test_a_result_shows_where_it_ran_and_where_it_was_recorded(tmp_path: Path) -> None:
    """The machine above the rates is the one they were measured on."""
    result = tmp_path / "result.parquet"
    iotrace("replay", "corpus:dcp", "--root", tmp_path, "-o", result)
    shown = iotrace("show", result).stdout
    host = re.search(r"^host +(\S+),", shown, re.MULTILINE)
    assert host and host[1] == platform.node()
    assert re.search(r"^recorded on +node, 6\.18", shown, re.MULTILINE)
    assert re.search(r"^recorded on +ext4 on /scratch", shown, re.MULTILINE)


@pytest.mark.parametrize("trace", sorted(CORPUS.glob("*.parquet")), ids=lambda path: path.stem)
def test_every_engine_is_replayed_in_its_own_order(trace: Path, tmp_path: Path) -> None:
    """Real saves and loads: every stream of the result equals the recorded one."""
    result = tmp_path / "result.parquet"
    done = iotrace("replay", trace, "--root", tmp_path, "-o", result)
    assert done.returncode == 0, done.stderr
    order = json.loads(iotrace("compare", trace, result, "--json", "-").stdout)["order"]
    if order["first_difference"] is None:
        assert order["equal"] is True
    else:  # mappings are counted and not replayed
        assert order["first_difference"][2].startswith("map, ")


@pytest.mark.parametrize(("runs", "kind"), [(3, "range"), (6, "interval")])
def test_two_results_are_compared_with_their_scatter(
    runs: int, kind: str, small_trace: Path, tmp_path: Path
) -> None:
    """A ratio of two medians means nothing without their scatter; few runs prove nothing."""
    results = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for result, options in zip(results, ((), ("--split", "4KiB")), strict=True):
        iotrace(
            *("replay", small_trace, "--root", tmp_path, "--repeat", runs, "-o", result, *options)
        )
    done = iotrace("compare", *results, "--json", tmp_path / "c.json")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert ("95 % interval" in done.stdout, "range of runs" in done.stdout) == (
        kind == "interval",
        kind == "range",
    )
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["a"]["bytes_written"] == found["b"]["bytes_written"] == SIZE
    assert found["order"]["equal"] is False
    for name in ("write_seconds", "read_seconds", "durable_seconds"):
        one = found["times"][name]
        assert one["a"]["low"] <= one["a"]["median"] <= one["a"]["high"]
        apart = one["a"]["high"] < one["b"]["low"] or one["b"]["high"] < one["a"]["low"]
        assert one["a"]["kind"] == one["b"]["kind"] == kind
        if kind == "range":
            runs_of_a = read_trace(results[0]).metadata.extra["replay"]["replayed"][name]
            assert [one["a"]["low"], one["a"]["high"]] == [min(runs_of_a), max(runs_of_a)]
            assert one["verdict"] == ("ranges do not overlap" if apart else "ranges overlap")
        else:
            assert (one["verdict"] == "no difference") is not apart


def test_padding_is_told_apart_from_what_was_saved_and_loaded(tmp_path: Path) -> None:
    """Aligned reads fetch whole blocks: no byte more of the checkpoint is read."""
    results = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for result, options in zip(results, ((), ("--align",)), strict=True):
        iotrace("replay", "corpus:dcp", "--root", tmp_path, "-o", result, *options)
    done = iotrace("compare", *results, "--json", tmp_path / "c.json")
    assert re.search(r"^padding besides +- +\S+ \S+$", done.stdout, re.MULTILINE)
    a, b = (json.loads((tmp_path / "c.json").read_text())[side] for side in "ab")
    for moved in ("bytes_written", "bytes_read"):
        assert a[moved] == b[moved] > 0
    told = read_trace(results[1]).metadata.extra["replay"]["replayed"]
    assert a["padding_bytes"] == 0 < told["padding_bytes"] == b["padding_bytes"]
    shown = json.loads(iotrace("show", results[1], "--json", "-").stdout)
    for moved in ("bytes_written", "bytes_read", "padding_bytes"):  # which rows do not tell
        assert shown[moved] == b[moved]
    rows = sum(file["bytes_written"] + file["bytes_read"] for file in shown["files"])
    assert rows == b["bytes_written"] + b["bytes_read"] + b["padding_bytes"]
    why = iotrace("why", results[1], "--no-probe").stdout
    assert "of all that was moved is padding" in " ".join(why.split())  # of a save and a load


def test_an_incomplete_side_says_so(make_trace: Make, small_trace: Path) -> None:
    """Half a capture is always faster."""
    half = make_trace(name="half.parquet", problem="12 records dropped")
    shown = iotrace("compare", small_trace, half).stdout
    assert shown.index("B: not to be taken") < shown.index("12 records dropped")
    assert "95 %" not in shown


def test_traces_are_merged_into_one(make_trace: Make, tmp_path: Path) -> None:
    """One file per node becomes one trace of the job."""
    first = make_trace(name="a.parquet")
    second = first.with_name("b.parquet")
    other = read_trace(first)
    (process,) = other.metadata.processes
    metadata = replace(other.metadata, processes=(replace(process, pid=4712),))
    write_trace(other.with_metadata(metadata), second)
    merged = tmp_path / "job.parquet"
    done = iotrace("merge", first, second, "-o", merged)
    assert done.returncode == 0, done.stderr
    trace = read_trace(merged)
    assert len(trace) == len(read_trace(first)) + len(read_trace(second))
    assert trace.metadata.history[-1].action == "merge"
    assert_one_line_error(iotrace("merge", first, second, "-o", merged), 2, "--force")
    refused = iotrace("merge", merged, first, "-o", merged, "--force")
    assert_one_line_error(refused, 2, "which is read")


def test_a_recording_is_not_merged_with_itself(small_trace: Path, tmp_path: Path) -> None:
    """It would have twice the bytes, and nothing would say so."""
    copy, merged = tmp_path / "copy.parquet", tmp_path / "job.parquet"
    copy.write_bytes(small_trace.read_bytes())
    for other in (small_trace, copy):
        done = iotrace("merge", small_trace, other, "-o", merged)
        assert_one_line_error(done, 2, f"{small_trace} and {other}", "the same recording twice")
    assert not merged.exists()
