"""`iotrace replay` at the command line: what is shown and left behind."""

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from iotrace.tools.render import format_rate
from iotrace.traces.reader import read_trace
from iotrace.traces.writer import write_trace

from .command import IOTRACE, assert_fits, iotrace
from .conftest import SIZE, SIZES, Make, checkpoint_rows

KEYS = {
    *("trace", "executor", "submission_thread", "uncached", "transforms", "layout"),
    *("recorded", "planned", "replayed"),
    *(
        "unproved_bytes",
        "verified",
        "degraded",
        "errors",
        "workers",
        "intervals",
        "ranks",
        "fidelity",
        "simulated",
    ),
}


COUNTS = {"requests", "data_requests", "files", "bytes_written", "bytes_read"}


def test_a_replay_is_compared_with_its_recording(small_trace: Path, root: Path) -> None:
    """One table: what was recorded, what was replayed, and by how much it differs."""
    done = iotrace("replay", small_trace, "--root", root)
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert ["recorded", "replayed", "ratio"] in map(str.split, done.stdout.splitlines())
    lines = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["reads and writes"][-3:] == [str(2 * len(SIZES))] * 2 + ["1x"]
    assert lines["bytes written"][-1] == "1x"
    assert {"write, completed", "write, durable", "read"} <= lines.keys()
    assert {"latency p50", "latency p99", "latency max"} <= lines.keys()
    assert ("cold reads" in " ".join(done.stdout.split())) != ("DEGRADED" in done.stdout)
    assert "--coalesce --direct" in done.stderr
    assert list(root.iterdir()) == []


def test_json_has_the_documented_keys(small_trace: Path, root: Path) -> None:
    """Scripts rely on them."""
    done = iotrace("replay", small_trace, "--root", root, "--json", "-", "--repeat", 2)
    result = json.loads(done.stdout)
    assert result.keys() == KEYS
    assert result["recorded"].keys() >= COUNTS
    assert COUNTS | {"padding_bytes"} <= result["planned"].keys()
    assert COUNTS | {"padding_bytes"} <= result["replayed"].keys()
    assert result["replayed"]["bytes_written"] == result["recorded"]["bytes_written"] == SIZE
    for key in ("write_seconds", "read_seconds", "durable_seconds"):
        assert len(result["replayed"][key]) == 2
        assert all(seconds > 0 for seconds in result["replayed"][key])
    assert result["replayed"]["latency_us"].keys() == {"p50", "p99", "max"}
    assert result["verified"] is None
    assert result["errors"] == []
    for name, found in result["intervals"].items():
        assert found["low"] <= found["median"] <= found["high"], name
        assert found["kind"] == "range"
        assert found["low"] == min(result["replayed"][name])
    assert result["fidelity"]["requests"] == result["planned"]["requests"]
    assert result["fidelity"]["order_inversions"] == result["fidelity"]["result_mismatches"] == 0
    assert result["replayed"]["lateness_us"] is None


@pytest.mark.parametrize(("runs", "title"), [(2, "range of 2 runs"), (6, "95 % interval")])
def test_repeated_runs_show_their_scatter(
    runs: int, title: str, small_trace: Path, root: Path
) -> None:
    """A single number hides the noise; fewer than 6 runs have no 95 % interval of the median."""
    told = root.parent / "told.json"
    done = iotrace("replay", small_trace, "--root", root, "--repeat", runs, "--json", told)
    assert_fits(done.stdout)
    assert title in done.stdout
    assert f"medians of {runs} runs" in done.stdout
    # The rate is that of the time above it; the mean of two runs' rates is not.
    lines = done.stdout.splitlines()
    for name, label in (("write_seconds", "write, completed"), ("read_seconds", "read  ")):
        rate = format_rate(SIZE, median(json.loads(told.read_text())["replayed"][name]))
        at = next(i for i, line in enumerate(lines) if line.startswith(label))
        assert f" {rate} " in lines[at + 1]


def test_latencies_of_other_requests_have_no_ratio(small_trace: Path, root: Path) -> None:
    """One request of 8 MiB takes longer than one of 8 KiB whatever the storage."""
    for asked, has_ratio in (((), True), (("--coalesce",), False)):
        done = iotrace("replay", small_trace, "--root", root, *asked)
        line = next(line for line in done.stdout.splitlines() if line.startswith("latency max"))
        assert line.rstrip().endswith("x") == has_ratio


def test_recorded_times_are_kept_and_lateness_told(small_trace: Path, root: Path) -> None:
    """A schedule that was not kept must not look as if it was."""
    asked = ("replay", small_trace, "--root", root, "--timing", "recorded", "--time-scale", 5)
    done = iotrace(*asked, "--json", root.parent / "timed.json")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert "late " in done.stdout
    result = json.loads((root.parent / "timed.json").read_text())
    # The sync starts 6 ms after the open, times 5, of which the open may be late; asap it is none.
    assert result["replayed"]["write_seconds"][0] > 0.015
    assert result["replayed"]["lateness_us"]["p50"] >= 0


def test_fresh_memory_is_timed_apart(small_trace: Path, root: Path) -> None:
    """Half of a restore can be the kernel's giving of pages; it is not the storage's time."""
    done = iotrace("replay", small_trace, "--root", root, "--allocate", "fresh")
    assert done.returncode == 0, done.stderr
    assert "allocate  " in done.stdout
    assert "allocate" not in iotrace("replay", small_trace, "--root", root).stdout


def test_options_reshape_the_requests(small_trace: Path, root: Path) -> None:
    """Fewer requests, the same bytes, proven."""
    done = iotrace(
        *("replay", small_trace, "--root", root, "--coalesce", "--align", "--direct"),
        *("--verify", "--json", "-"),
    )
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert result["planned"]["data_requests"] < result["recorded"]["data_requests"]
    assert result["replayed"]["bytes_written"] == SIZE
    assert result["verified"] is True
    assert len(result["transforms"]) == 3
    assert result["fidelity"] is None


@pytest.mark.parametrize("layout", ["rank", "host", "shared"])
def test_files_are_put_together(small_trace: Path, root: Path, layout: str) -> None:
    """Another layout, proven, and named in the result."""
    done = iotrace("replay", small_trace, "--root", root, "--aggregate", layout, "--verify",
                   "--json", "-")  # fmt: skip
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert result["layout"] == layout
    assert result["verified"] is True


def test_a_plan_is_explained_change_by_change(small_trace: Path, root: Path) -> None:
    """What each option does to the requests, before any is run."""
    done = iotrace("replay", small_trace, "--root", root, "--aggregate", "rank", "--coalesce",
                   "--align", "--explain")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    table = [line.split()[:3] for line in done.stdout.split("\n\n")[0].splitlines()[1:]]
    names = [name for name, _, _ in table]
    assert names == ["recorded", "aggregate", "coalesce", "align"]
    counts = [int(requests) for _, requests, _ in table]
    assert counts[0] > counts[2] == counts[3]
    assert "  write step-0-process-0 0 " in done.stdout
    assert list(root.iterdir()) == []


def test_a_size_switches_its_transform_on(small_trace: Path, root: Path) -> None:
    """`--coalesce-size 8MiB` without `--coalesce` can only mean one thing."""
    done = iotrace("replay", small_trace, "--root", root, "--coalesce-size", "1MiB", "--json", "-")
    result = json.loads(done.stdout)
    assert result["planned"]["data_requests"] < result["recorded"]["data_requests"]


def test_one_op_alone_is_replayed(small_trace: Path, root: Path) -> None:
    """Savers and loaders are studied apart, beside what was recorded of the same."""
    cases = (("write", "bytes_read", len(SIZES) + 3), ("read", "bytes_written", len(SIZES) + 2))
    for op, other, requests in cases:
        done = iotrace("replay", small_trace, "--root", root, "--op", op, "--json", "-")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        for one in (result["recorded"], result["replayed"]):
            assert one[other] == 0
            assert one["bytes_written"] + one["bytes_read"] == SIZE
        assert result["recorded"]["requests"] == result["planned"]["requests"] == requests
        assert result["fidelity"]["requests"] == requests
        assert result["fidelity"]["result_mismatches"] == 0


def test_the_latencies_of_one_op_stand_beside_those_recorded_of_it(
    small_trace: Path, tmp_path: Path, root: Path
) -> None:
    """Writes of 3 us and reads of 7 us are not mixed, whichever layer is replayed."""
    trace = read_trace(small_trace)
    taken_ns = np.where(trace.row_mask(op="write"), 3_000, 7_000)
    slow = trace.with_columns({"end_ns": trace.ints("start_ns") + taken_ns})
    write_trace(slow, tmp_path / "slow.parquet")
    for op, recorded_us in (("write", "3"), ("read", "7")):
        for layer in ("request", "tensor"):
            done = iotrace("replay", tmp_path / "slow.parquet", "--root", root, "--op", op,
                           "--layer", layer)  # fmt: skip
            assert done.returncode == 0, done.stderr
            lines = [line.split() for line in done.stdout.splitlines()]
            shown = {line[1]: line[2:4] for line in lines if line[:1] == ["latency"]}
            assert shown["p50"][0] == shown["max"][0] == recorded_us, shown
            (counts,) = (line for line in lines if line[:3] == ["reads", "and", "writes"])
            assert counts[3:5] == [str(len(SIZES)), str(1 if layer == "tensor" else len(SIZES))]


def test_a_dry_run_touches_nothing(small_trace: Path, root: Path) -> None:
    """A plan can be judged without a disk."""
    before = root.stat().st_mtime_ns
    done = iotrace("replay", small_trace, "--root", root, "--coalesce", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert ["recorded", "planned", "ratio"] in map(str.split, done.stdout.splitlines())
    assert "durable" not in done.stdout
    assert root.stat().st_mtime_ns == before


def test_kept_files_are_named(small_trace: Path, root: Path) -> None:
    """--keep is useless if the folder must be searched for."""
    done = iotrace("replay", small_trace, "--root", root, "--keep")
    (kept,) = root.iterdir()
    assert kept.name in done.stdout.replace("\n", "").replace(" ", "")
    assert [path.stat().st_size for path in kept.rglob("*.pt")] == [SIZE]


def test_an_incomplete_trace_says_so_when_replayed(make_trace: Make, root: Path) -> None:
    """Fewer bytes than the job moved must not look like a faster replay."""
    trace = make_trace(problem="12 records dropped")
    shown = iotrace("replay", trace, "--root", root).stdout
    assert shown.index("INCOMPLETE") < shown.index("12 records dropped") < shown.index("latency")


def test_the_result_is_a_trace(small_trace: Path, root: Path, tmp_path: Path) -> None:
    """Every verb that reads traces reads results."""
    result = tmp_path / "result.parquet"
    done = iotrace("replay", small_trace, "--root", root, "-o", result)
    assert done.returncode == 0, done.stderr
    assert f"iotrace compare {small_trace} {result}" in done.stderr
    assert len(read_trace(result).layer("replay")) == 2 * len(SIZES) + 5
    shown = iotrace("show", result)
    assert shown.returncode == 0, shown.stderr
    assert "1.00 MiB" in shown.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_replay_that_is_ended_leaves_nothing(
    make_trace: Make, root: Path, number: signal.Signals
) -> None:
    """Gigabytes on a shared file system must not outlive a job's time limit."""
    trace = make_trace(checkpoint_rows(sizes=[1 << 20] * 256), size=256 << 20)
    replay = subprocess.Popen(
        [str(IOTRACE), "replay", trace, "--root", root, "--repeat", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # nohup has SIGHUP ignored
    )
    deadline = time.monotonic() + 60
    while not list(root.rglob("model.pt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    replay.send_signal(number)
    shown, said = replay.communicate(timeout=60)
    assert (replay.returncode, shown, said) == (128 + number, "", "")
    assert list(root.iterdir()) == []


def test_a_recording_on_lent_memory_is_not_compared_without_a_word(
    small_trace: Path, tmp_path: Path, root: Path
) -> None:
    """The first use of memory that a hypervisor took back costs; later runs reuse it."""
    trace = read_trace(small_trace)
    (host,) = trace.metadata.hosts
    lent = replace(trace.metadata, hosts=(replace(host, gives_memory_back=True),))
    write_trace(replace(trace, metadata=lent), tmp_path / "lent.parquet")
    assert "hypervisor" not in iotrace("replay", small_trace, "--root", root).stdout
    done = iotrace("replay", tmp_path / "lent.parquet", "--root", root, "--json", tmp_path / "j")
    assert "compare" in done.stdout and "lent by a hypervisor" in " ".join(done.stdout.split())
    assert json.loads((tmp_path / "j").read_text())["recorded"]["lent_memory"] is True


def test_a_block_of_any_whole_sectors_is_aligned_to(small_trace: Path, root: Path) -> None:
    """A stripe need not be a power of two; each write is padded to whole ones."""
    done = iotrace("replay", small_trace, "--root", root, "--align-size", "1536", "--op", "write",
                   "--verify", "--json", "-")  # fmt: skip
    result = json.loads(done.stdout)
    assert (done.returncode, result["verified"]) == (0, True)
    moved = result["replayed"]
    assert moved["bytes_written"] == SIZE
    assert moved["padding_bytes"] == sum(-size % 1536 for size in SIZES)


def test_how_requests_were_issued_is_shown(tmp_path: Path) -> None:
    """By whom they were submitted, and what the page cache was not to keep; also in the JSON."""
    asked = ("replay", "corpus:dcp", "--op", "write", "--root", tmp_path)
    told = tmp_path / "told.json"
    done = iotrace(*asked, "--sqpoll", "--uncached", "--json", told)
    if "RWF_DONTCACHE fails" in done.stdout:
        pytest.skip("this file system knows no RWF_DONTCACHE")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "submitted by a kernel thread" in said and "leaves the page cache at once" in said
    assert "--uncached --coalesce" not in done.stderr  # direct I/O is the other way to the same
    result = json.loads(told.read_text())
    assert (result["submission_thread"], result["uncached"]) == (True, True)
