"""Share a trace and check it, as two sites do."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from iotrace.traces.reader import read_trace

from .command import assert_fits, assert_one_line_error, iotrace
from .conftest import CHECKPOINT, Make, Row, checkpoint_rows

SECRETS = ("checkpoints", "run-7", "node1", "train.py", "/data")


def test_a_shared_trace_and_its_card_say_nothing_of_the_owner(
    small_trace: Path, tmp_path: Path
) -> None:
    """The whole walk: share, prove, compare, replay; and a card that a person reads."""
    public = tmp_path / "public.parquet"
    done = iotrace("share", small_trace, "-o", public, "--licence", "CC-BY-4.0")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "no leftovers found" in done.stderr
    assert f"iotrace check {public} --shared" in done.stderr
    card = (tmp_path / "public.md").read_text()
    assert "CC-BY-4.0" in card
    assert not [secret for secret in SECRETS if secret in card]

    proof = iotrace("check", public, "--shared", "--original", small_trace)
    assert proof.returncode == 0
    assert "clean         yes, no text of the paths, command" in proof.stdout
    assert_fits(proof.stdout)
    same = iotrace("check", public, "--digest", small_trace)
    assert same.returncode == 0
    assert "same work    yes" in same.stdout

    counts = []
    for trace in (small_trace, public):
        ran = iotrace("replay", trace, "--coalesce", "--root", tmp_path, "--json", "-")
        assert ran.returncode == 0
        figures = json.loads(ran.stdout)
        counts.append({key: figures[key] for key in ("recorded", "planned")})
        for times in ("write_seconds", "read_seconds"):
            counts[-1]["recorded"].pop(times)
    assert counts[0] == counts[1]


def test_what_is_not_shared_of_a_result_is_said(small_trace: Path, tmp_path: Path) -> None:
    """Its figures of all runs name transforms, folders and a machine; its requests do not."""
    result, public = tmp_path / "result.parquet", tmp_path / "public.parquet"
    assert iotrace("replay", small_trace, "--root", tmp_path, "-o", result).returncode == 0
    shared = iotrace("share", result, "-o", public)
    assert "not its transforms and its runs' times" in shared.stderr
    assert "its runs' times" not in iotrace("share", small_trace, "-o", public, "--force").stderr


@pytest.mark.parametrize("names", ["keep", "key"])
def test_what_was_not_searched_is_said(make_trace: Make, tmp_path: Path, names: str) -> None:
    """Tensor names that are kept may say what paths said: here two words."""
    named = Row("save", layer="tensor", name="checkpoints.run.0", dtype="float32", shape=(2,),
                offset=0, length=8, result=None)  # fmt: skip
    trace, public = make_trace([*checkpoint_rows(), named]), tmp_path / "public.parquet"
    shared = iotrace("share", trace, "-o", public, "--tensor-names", names)
    said = f"share paths keyed, tensor names {'kept' if names == 'keep' else 'keyed'}"
    assert said in " ".join(iotrace("show", public).stdout.split())
    asked = ("check", public, "--shared", "--original", trace)
    done, found = iotrace(*asked), json.loads(iotrace(*asked, "--json", "-").stdout)
    assert done.returncode == 0
    assert_fits(done.stdout)
    kept = names == "keep"
    assert ("tensor names are kept; --tensor-names key" in shared.stderr) is kept
    assert ("tensor names left" in done.stdout) is kept
    assert (f"tensor names  {'KEPT' if kept else 'none can be read'}") in done.stdout
    assert found["tensor_names_kept"] == (2 if kept else 0)
    assert found["words_in_tensor_names"] == (["checkpoints", "model"] if kept else [])
    alone = iotrace("check", public, "--shared").stdout
    assert "--original TRACE" in alone
    assert ("KEPT, 2 names can be read" in alone) is kept


def test_the_numbers_that_can_be_read_are_said(make_trace: Make, tmp_path: Path) -> None:
    """The largest first: they are what may be no count."""
    paths = [f"/d/step_{step}/rank_{step % 3}.pt" for step in range(0, 5000, 500)]
    paths.append("/d/ckpt_241105_143015.pt")
    trace, public = make_trace([Row("unlink", path=path) for path in paths]), tmp_path / "p.parquet"
    assert iotrace("share", trace, "-o", public).returncode == 0
    asked = ("check", public, "--shared", "--original", trace)
    done, found = iotrace(*asked), json.loads(iotrace(*asked, "--json", "-").stdout)
    assert done.returncode == 0
    assert "11 can be read in the paths, the largest: 4500, 4000, 3500" in done.stdout
    assert_fits(done.stdout)
    assert found["numbers_kept"] == [
        *("4500", "4000", "3500", "3000", "2500", "1500", "1000", "500", "2", "1", "0")
    ]


def test_the_original_itself_fails_the_proof(small_trace: Path) -> None:
    """With every reason, and status 1: the trace is good, but not clean."""
    done = iotrace("check", small_trace, "--shared")
    assert done.returncode == 1
    assert CHECKPOINT in done.stdout
    assert_fits(done.stdout)


def test_other_work_fails_the_comparison(small_trace: Path, make_trace: Make) -> None:
    """Status 1, and both digests to see."""
    other = make_trace(checkpoint_rows(sizes=(64, 4096, 1 << 20, 101)), "other.parquet")
    done = iotrace("check", small_trace, other, "--digest")
    assert done.returncode == 1
    assert "same work    NO" in done.stdout


def test_an_incomplete_trace_is_told_and_fails_only_when_asked(make_trace: Make) -> None:
    """Incomplete is not malformed: it can be used, with care."""
    trace = make_trace(problem="3 writes were not seen")
    done = iotrace("check", trace)
    assert done.returncode == 0
    assert "3 writes were not seen" in done.stdout
    assert iotrace("check", trace, "--strict").returncode == 1


def test_a_malformed_trace_fails_with_status_2(make_trace: Make) -> None:
    """Rows that contradict themselves are bad input."""
    trace = make_trace([Row("write", offset=-5, length=4, result=4)])
    done = iotrace("check", trace)
    assert done.returncode == 2
    assert "the offset is negative" in done.stdout


def test_the_findings_are_one_json_object(small_trace: Path) -> None:
    """For scripts that accept traces from others."""
    done = iotrace("check", small_trace, "--digest", "--shared", "--json", "-")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["malformed"] == []
    assert found["digest"].startswith("w1:")
    assert len(found["leftovers"]) > 5


def test_a_key_file_links_two_traces(small_trace: Path, tmp_path: Path) -> None:
    """The same file has one name in both; without the key it has two."""
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    paths = []
    for name, options in (("a", ("--key-file", key)), ("b", ("--key-file", key)), ("c", ())):
        public = tmp_path / f"{name}.parquet"
        assert iotrace("share", small_trace, "-o", public, *options).returncode == 0
        shown = json.loads(iotrace("show", public, "--json", "-").stdout)
        paths.append(shown["files"][0]["path"])
    assert paths[0] == paths[1] != paths[2]


def test_what_cannot_be_shared_is_refused_in_one_line(small_trace: Path, tmp_path: Path) -> None:
    """Before anything is written."""
    out = ("-o", tmp_path / "public.parquet")
    assert_one_line_error(iotrace("share", small_trace, *out, "--step", 9), 2, "no step 9")
    assert_one_line_error(iotrace("share", small_trace, *out, "--licence", "a b"), 2, "spdx.org")
    missing = ("--key-file", tmp_path / "none")
    assert_one_line_error(iotrace("share", small_trace, *out, *missing), 2, "/dev/urandom")
    (tmp_path / "short").write_bytes(b"x")
    short = ("--key-file", tmp_path / "short")
    assert_one_line_error(iotrace("share", small_trace, *out, *short), 2, "16 bytes")
    assert_one_line_error(iotrace("check", small_trace, small_trace), 2, "--digest")
    assert_one_line_error(iotrace("check", small_trace, "--original", "x"), 2, "--shared")
    (tmp_path / "public.md").touch()
    assert_one_line_error(iotrace("share", small_trace, *out), 2, "public.md", "--force")
    assert not (tmp_path / "public.parquet").exists()


def test_a_trace_that_contradicts_itself_is_not_shared(make_trace: Make, tmp_path: Path) -> None:
    """Who reads it could not tell a fault of the owner's from one of the way."""
    odd = [*checkpoint_rows(), Row("write", path="/d/x", offset=0, length=10, result=11)]
    done = iotrace("share", make_trace(odd), "-o", tmp_path / "public.parquet")
    assert_one_line_error(done, 2, "moved more bytes than asked", "iotrace check")
    assert not (tmp_path / "public.parquet").exists()


def test_shared_parts_show_all_checkpoints_again(make_trace: Make, tmp_path: Path) -> None:
    """Under one key with their times; under several one after another, which is said."""
    rows = [
        replace(row, step=step) for step in range(3) for row in checkpoint_rows(f"/d/step{step}.pt")
    ]
    trace, key = make_trace(rows), tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    for folder, options in (("one", ("--key-file", key)), ("several", ())):
        parts = tmp_path / folder
        parts.mkdir()
        for step in range(3):
            part = parts / f"part{step}.parquet"
            done = iotrace("share", trace, "--step", step, *options, "-o", part)
            assert done.returncode == 0, done.stderr
            proof = iotrace("check", part, "--shared", "--original", trace)
            assert proof.returncode == 0, proof.stdout
        for asked in ((), ("--original", trace)):
            proof = iotrace("check", parts, "--shared", *asked)
            assert proof.returncode == 0, proof.stdout
        shown = iotrace("show", parts).stdout
        assert "3 saves, 3 loads" in shown
        assert ("of 3 clocks that nothing joins" in shown) == (folder == "several")
        merged = iotrace("merge", parts, "-o", tmp_path / f"{folder}.parquet")
        assert ("times are of 3 clocks" in merged.stderr) == (folder == "several")
        dry = iotrace("replay", parts, "--dry-run")
        assert ("clocks nothing joins" in dry.stdout) == (folder == "several")


def test_a_folder_is_as_clean_as_each_of_its_parts(make_trace: Make, tmp_path: Path) -> None:
    """What is left over is told with its file; it hides behind no other part's card."""
    rows = [
        replace(row, step=step) for step in range(2) for row in checkpoint_rows(f"/d/step{step}.pt")
    ]
    trace, parts = make_trace(rows), tmp_path / "parts"
    parts.mkdir()
    for step in range(2):
        part = parts / f"part{step}.parquet"
        assert iotrace("share", trace, "--step", step, "-o", part).returncode == 0
    assert iotrace("check", parts, "--shared").returncode == 0
    own = make_trace(checkpoint_rows("/data/run-7/step2.pt"), "own.parquet")
    own.rename(parts / "part2.parquet")
    done = iotrace("check", parts, "--shared", "--json", "-")
    assert done.returncode == 1
    told = json.loads(done.stdout)["leftovers"]
    assert any("run-7" in one for one in told)
    assert {one.partition(":")[0] for one in told} == {"part2.parquet"}


def test_a_merge_of_shared_parts_has_a_card_of_the_whole(make_trace: Make, tmp_path: Path) -> None:
    """It is as the card of one that is shared at once, and as clean; a stale one is told."""
    whole, parts = tmp_path / "whole.parquet", []
    cards = []
    for step in range(2):
        rows = [replace(row, step=step) for row in checkpoint_rows(f"/d/step{step}.pt")]
        own = make_trace(rows, f"own{step}.parquet")
        parts.append(tmp_path / f"part{step}.parquet")
        done = iotrace("share", own, "-o", parts[-1], "--licence", "CC0-1.0")
        assert done.returncode == 0, done.stderr
        cards.append(read_trace(parts[-1]).metadata.extra["card"])
    assert iotrace("merge", *parts, "-o", whole).returncode == 0
    card = read_trace(whole).metadata.extra["card"]
    for field in ("requests", "data_requests", "tensors", "files", "bytes_written", "processes"):
        assert card[field] == sum(one[field] for one in cards) > 0
    assert card["licence"] == "CC0-1.0"
    assert card["made_by"][-1].startswith("merge")
    proof = iotrace("check", whole, "--shared")
    assert proof.returncode == 0, proof.stdout

    table = pq.read_table(whole)
    cut = tmp_path / "cut"
    cut.mkdir()
    for number, begin in enumerate((0, len(table) // 2)):
        rows_of_one = table.slice(begin, len(table) // 2 + number * len(table) % 2)
        pq.write_table(rows_of_one, cut / f"{number}.parquet")
    done = iotrace("check", cut, "--shared", "--json", "-")
    assert done.returncode == 1
    told = json.loads(done.stdout)["leftovers"]
    assert len(told) == 2
    assert all("tells of other rows (iotrace merge of all parts" in one for one in told)
    again = tmp_path / "again.parquet"
    assert iotrace("merge", cut, "-o", again).returncode == 0
    assert iotrace("check", again, "--shared").returncode == 0
    assert read_trace(again).metadata.extra["card"]["digest"] == card["digest"]
