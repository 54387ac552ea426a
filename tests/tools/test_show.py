"""`iotrace show` on a small trace."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from iotrace.traces.metadata import Host
from iotrace.traces.writer import write_trace

from .command import assert_fits, assert_one_line_error, iotrace
from .conftest import CHECKPOINT, SIZE, SIZES, Make, Row, build, checkpoint_rows, metadata


def test_the_first_screen_says_who_moved_how_much_how_fast(small_trace: Path) -> None:
    """The user's first question is answered without an option."""
    done = iotrace("show", small_trace)
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    lines = {line.split("  ")[0].strip(): line for line in done.stdout.splitlines()}
    assert "torch.save" in lines["engine"]
    assert lines["bytes"].split()[1:] == ["1.00", "MiB", "1.00", "MiB"]
    assert lines["requests"].split()[1:] == [str(len(SIZES))] * 2
    assert "/s" in lines["bandwidth"]
    assert "yes" in lines["complete"]
    assert any(line.startswith(CHECKPOINT) for line in lines)


def test_time_inside_requests_tells_storage_from_computing(make_trace: Make) -> None:
    """`Is it the disk or the CPU?`: each request takes half a tick, the other half is not I/O."""
    rows = checkpoint_rows()
    rows.remove(next(row for row in rows if row.op == "read"))
    lines = iotrace("show", make_trace(rows)).stdout.splitlines()
    line = next(line for line in lines if line.startswith("of it inside requests"))
    # Saving (open, 4 writes, sync; close) takes 5.5 + 0.5 ticks, loading (open, 3 reads; close)
    # 3.5 + 0.5.
    assert line.split()[-4:] == ["33", "%", "38", "%"]


@pytest.mark.parametrize("layers", [("request",), ("request", "tensor")])
def test_saves_and_loads_are_counted_apart(make_trace: Make, layers: tuple[str, ...]) -> None:
    """Both are counted from 0: one save and two loads have two numbers. Also without an engine."""
    rows = checkpoint_rows()
    rows += [replace(row, step=1) for row in rows if row.op in ("read", "load")]
    trace = make_trace([row for row in rows if row.layer in layers])
    assert "1 save, 2 loads," in iotrace("show", trace).stdout


def test_an_incomplete_trace_says_so_before_any_figure(make_trace: Make) -> None:
    """Numbers of half a capture must not be taken for the whole."""
    trace = make_trace(problem="12 MiB were mapped and not seen")
    shown = iotrace("show", trace).stdout
    assert shown.index("INCOMPLETE") < shown.index("bandwidth")
    assert "12 MiB were mapped and not seen" in shown
    assert "complete  yes" not in shown


def test_failed_requests_are_counted(make_trace: Make) -> None:
    """A full disk hides behind `unexpected pos`; the trace shows what really happened."""
    rows = checkpoint_rows()
    rows[2] = replace(rows[2], result=-28)
    trace = make_trace(rows)
    assert "1 request failed or fell short: write 1" in iotrace("show", trace).stdout
    assert "ENOSPC" in iotrace("show", trace, "--requests").stdout


def test_a_failed_request_of_any_kind_counts(make_trace: Make) -> None:
    """As many as a replay leaves out."""
    rows = checkpoint_rows()
    place = next(i for i, row in enumerate(rows) if row.op == "open")
    trace = make_trace([*rows, replace(rows[place], result=-13)])
    assert "1 request failed or fell short: open 1" in iotrace("show", trace).stdout
    assert json.loads(iotrace("show", trace, "--json", "-").stdout)["failed_requests"] == 1
    left_out = iotrace("replay", trace, "--dry-run").stdout
    assert "requests that failed when recorded, left out: 1" in " ".join(left_out.split())


def test_results_that_are_no_error_number_are_listed_as_they_are(make_trace: Make) -> None:
    """Of a foreign trace."""
    rows = checkpoint_rows()
    rows[2] = replace(rows[2], result=-(2**63))
    listed = iotrace("show", make_trace(rows), "--requests")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"error {2**63}" in " ".join(listed.stdout.split())


def test_json_has_the_documented_keys(small_trace: Path) -> None:
    """Scripts rely on them."""
    done = iotrace("show", small_trace, "--json", "-")
    shown = json.loads(done.stdout)
    assert shown["requests"] == 2 * len(SIZES) + 5
    assert shown["data_requests"] == 2 * len(SIZES)
    assert shown["tensors"] == 2
    assert shown["bytes_written"] == shown["bytes_read"] == SIZE
    assert shown["files"] == [
        {
            "path": CHECKPOINT,
            "bytes_written": SIZE,
            "bytes_read": SIZE,
            "final_size": SIZE,
            "requests": 2 * len(SIZES) + 5,
        }
    ]
    assert shown["engines"] == ["torch.save"]
    assert shown["steps"] == [0]
    assert shown["processes"] == 1
    assert shown["completeness"]["complete"] is True
    assert shown["completeness"]["problems"] == []


def test_json_goes_to_a_file_beside_the_screen(small_trace: Path, tmp_path: Path) -> None:
    """`--json FILE` adds to the output; it does not replace it."""
    target = tmp_path / "shown.json"
    done = iotrace("show", small_trace, "--json", target)
    assert "bandwidth" in done.stdout
    assert json.loads(target.read_text())["bytes_read"] == SIZE


def test_json_does_not_overwrite_without_force(small_trace: Path, tmp_path: Path) -> None:
    """As every output of the tool."""
    target = tmp_path / "shown.json"
    target.write_text("precious")
    refused = iotrace("show", small_trace, "--json", target)
    assert_one_line_error(refused, 2, "shown.json", "--force")
    assert target.read_text() == "precious"
    assert iotrace("show", small_trace, "--json", target, "--force").returncode == 0
    assert json.loads(target.read_text())


def test_tensors_are_listed_with_their_place(small_trace: Path) -> None:
    """The map from names to bytes is what makes a trace of an engine worth having."""
    done = iotrace("show", small_trace, "--tensors")
    assert_fits(done.stdout)
    row = next(line for line in done.stdout.splitlines() if "model.0.weight" in line)
    assert row.split() == ["model.0.weight", "float32", "512x512", "4,160", "1,048,576"]


def test_lists_end_at_the_limit_and_say_what_is_left(small_trace: Path) -> None:
    """A million requests must not flood the terminal; the rest is one option away."""
    done = iotrace("show", small_trace, "--requests", "--limit", 3)
    assert len(done.stdout.splitlines()) == 4
    assert "10 more; --limit 0 lists all" in done.stderr
    everything = iotrace("show", small_trace, "--requests", "--limit", 0)
    assert len(everything.stdout.splitlines()) == 14
    assert everything.stderr == ""


def test_lists_of_some_files_alone(make_trace: Make) -> None:
    """A file is known by the names it had on the way too: a temporary one, and its last."""
    rows = checkpoint_rows("/c/0.tmp")[:7] + [
        replace(row, file=1) for row in checkpoint_rows("/c/1.pt")[:7]
    ]
    rows.append(Row("rename", path="/c/0.tmp", target="/c/0.pt"))
    trace = make_trace(rows)
    for glob, count, names in (
        ("*/0.pt", 8, ["/c/0.pt"]),
        ("/c/0.tmp", 8, []),
        ("*.pt", 15, ["/c/0.pt", "/c/1.pt"]),
        ("/d/*", 0, []),
    ):
        lists = ("--requests", "--files", "--include", glob)
        found = json.loads(iotrace("show", trace, *lists, "--json", "-").stdout)
        assert len(found["request_rows"]) == count
        assert [file["path"] for file in found["files"]] == names
        shown = iotrace("show", trace, *lists, "--limit", 0).stdout
        assert ("none is on a file that --include matches" in shown) is (len(names) == 0)
    assert_one_line_error(iotrace("show", trace, "--include", "*"), 2, "add --requests")


def test_long_paths_keep_their_ends_on_a_narrow_screen(make_trace: Make) -> None:
    """The last components tell files apart."""
    path = "/" + "/".join(["a_rather_long_folder_name"] * 6) + "/model-00001-of-00002.pt"
    trace = make_trace(checkpoint_rows(path))
    for option in ("--files", "--requests", "--tensors"):
        done = iotrace("show", trace, option)
        assert_fits(done.stdout)
        assert "-00001-of-00002.pt" in done.stdout


def test_a_folder_and_a_uri_are_traces_too(make_trace: Make) -> None:
    """One file per rank is read as one trace; a URI as the file it names."""
    for rank in (0, 1):
        trace = make_trace(name=f"rank{rank}.parquet", pid=100 + rank)
    both = json.loads(iotrace("show", trace.parent, "--json", "-").stdout)
    assert both["bytes_written"] == 2 * SIZE
    one = json.loads(iotrace("show", trace.as_uri(), "--json", "-").stdout)
    assert one["bytes_written"] == SIZE


def test_a_trace_without_requests_is_shown(make_trace: Make) -> None:
    """A job that saved nothing is no error; nothing is divided by zero."""
    only_tensors = [row for row in checkpoint_rows() if row.layer == "tensor"]
    for rows in (only_tensors, [Row("open", flags=0)]):
        done = iotrace("show", make_trace(rows, name=f"{len(rows)}.parquet"))
        assert done.returncode == 0, done.stderr
        assert_fits(done.stdout)
        assert ("--layer tensor" in done.stderr) is (rows is only_tensors)
        assert ("bandwidth" in done.stdout) is (rows is not only_tensors)


def test_what_a_trace_of_tensors_alone_is_good_for_is_said(
    make_trace: Make, tmp_path: Path
) -> None:
    """A sweep has no --layer; the command that is named makes what it sweeps."""
    trace = make_trace([row for row in checkpoint_rows() if row.layer == "tensor"])
    refused = iotrace("sweep", trace, "--root", tmp_path, "--budget", "1s")
    assert_one_line_error(refused, 2, f"`iotrace replay {trace} --layer tensor -o result.parquet`")
    made = iotrace("replay", trace, "--layer", "tensor", "-o", "result.parquet", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "1 save, 1 load" in iotrace("show", tmp_path / "result.parquet").stdout


def test_a_trace_without_tensors_says_so_when_they_are_asked_for(make_trace: Make) -> None:
    """An empty list could be a broken one."""
    requests = [row for row in checkpoint_rows() if row.layer == "request"]
    assert "no tensors" in iotrace("show", make_trace(requests), "--tensors").stdout


def test_of_many_gaps_the_first_are_listed(tmp_path: Path) -> None:
    """One for each process of a large job must not hide the figures; `check` has as many."""
    described = metadata()
    gaps = tuple(f"gap {i}" for i in range(500))
    whole = replace(described.completeness, notes=gaps)
    trace = tmp_path / "t.parquet"
    write_trace(build(checkpoint_rows(), replace(described, completeness=whole)), trace)
    for verb in ("show", "check"):
        shown = iotrace(verb, trace).stdout
        assert shown.count("! gap ") == 20 and "! and 480 more; --json lists all" in shown
    assert (
        len(json.loads(iotrace("show", trace, "--json", "-").stdout)["completeness"]["problems"])
        == 500
    )


def test_a_job_of_many_hosts_has_a_first_screen_too(tmp_path: Path) -> None:
    """A line for each of a thousand would hide all others."""
    described = metadata()
    hosts = tuple(Host(name=f"node{i}", cores=64) for i in range(1000))
    mounts = tuple(replace(described.mounts[0], host=i) for i in range(1000))
    trace = build(checkpoint_rows(), replace(described, hosts=hosts, mounts=mounts))
    write_trace(trace, tmp_path / "t.parquet")
    shown = iotrace("show", tmp_path / "t.parquet").stdout
    assert shown.count("node") == 4 and shown.count("and 996 more; --json lists all") == 2
    shared = iotrace("share", tmp_path / "t.parquet", "-o", tmp_path / "p.parquet")
    assert shared.returncode == 0, shared.stderr
    assert "| hosts | 1,000 of 64 cores |" in (tmp_path / "p.md").read_text()


def test_a_trace_may_have_any_name(small_trace: Path) -> None:
    """A file name is bytes; an old Latin-1 one is no reason to fail."""
    other = os.fsdecode(os.fsencode(small_trace.parent) + b"/caf\xe9.parquet")
    os.rename(small_trace, other)
    for location in (other, small_trace.parent):
        done = iotrace("show", location)
        assert done.returncode == 0, done.stderr


def test_huge_numbers_are_rounded_where_they_do_not_fit(make_trace: Make) -> None:
    """An offset of petabytes is a clock or a driver gone wrong; the table holds all the same."""
    rows = checkpoint_rows()
    rows[1] = replace(rows[1], offset=1 << 62, length=1 << 61, result=1 << 61)
    done = iotrace("show", make_trace(rows), "--requests")
    assert_fits(done.stdout)
    assert "4 EiB" in done.stdout


def test_a_result_of_several_runs_says_so(small_trace: Path, tmp_path: Path) -> None:
    """Its rows are of one run; the figures of all stand above them."""
    result = tmp_path / "result.parquet"
    done = iotrace("replay", small_trace, "--root", tmp_path, "--coalesce", "--repeat", "3",
                   "-o", result, "--json", tmp_path / "figures.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = iotrace("show", result, "--json", tmp_path / "shown.json")
    assert "of the median one of 3 runs" in shown.stdout
    for label in ("write, completed", "write, durable", "read"):
        (line,) = [line for line in shown.stdout.splitlines() if line.startswith(f"{label}  ")]
        assert "(range of runs " in line
    assert_fits(shown.stdout)
    told = json.loads((tmp_path / "shown.json").read_text())["replayed"]
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert told["transforms"] == figures["transforms"]
    for name in ("write_seconds", "durable_seconds", "read_seconds"):
        assert told["seconds"][name] == figures["replayed"][name]


def test_a_result_of_an_incomplete_recording_is_incomplete(
    make_trace: Make, tmp_path: Path
) -> None:
    """What was not recorded was not replayed; a result of the result says it once."""
    trace = make_trace(problem="12 records dropped")
    for name in ("first.parquet", "second.parquet"):
        done = iotrace("replay", trace, "--root", tmp_path, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
        trace = tmp_path / name
        shown = iotrace("show", trace).stdout
        assert "INCOMPLETE" in shown
        assert "! the recording: 12 records dropped" in shown
