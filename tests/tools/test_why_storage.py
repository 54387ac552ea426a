"""`iotrace why` beside what a probe found the storage to give."""

import json
import shlex
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from iotrace.replay.probe import Capability, ProbePoint, probe
from iotrace.replay.probe_cache import load_probe, save_probe

from .command import assert_fits, iotrace, verdict_head
from .conftest import Make, checkpoint_rows

MIB, GIB = 1 << 20, 1 << 30
OPS = ("write", "read")


def test_a_kept_probe_is_used_and_stands_beside_the_requests(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of this storage come from an earlier run, without writing again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = probe(tmp_path, budget_seconds=0.5)
    save_probe(tmp_path, found)
    assert load_probe(tmp_path) == found
    done = iotrace("why", small_trace, "--root", tmp_path, "--json", "-")
    assert json.loads(done.stdout)["storage"] == json.loads(json.dumps(asdict(found)))
    shown = iotrace("why", small_trace, "--root", tmp_path).stdout
    assert "1 MiB: " in verdict_head(shown)["here"]
    assert "this storage" in shown


# op, bytes, depth, direct: GiB/s, against the 1.95 of the trace
ALIKE = {
    (op, size, depth, direct): 4.0
    for op in ("write", "read")
    for size, depth in ((4096, 1), (MIB, 1), (MIB, 8))
    for direct in (False, True)
}


FAST = {("write", MIB, 1, True): 40.0, ("write", MIB, 8, True): 30.0}


DEEP = {("write", MIB, 8, False): 40.0}


READ_AHEAD = {("read", 4096, 1, False): 90.0, ("read", MIB, 1, True): 40.0}


@pytest.mark.parametrize(
    ("faster", "options", "because"),
    [
        (FAST, "--direct", "40 GiB/s with O_DIRECT, 4 GiB/s buffered"),
        (DEEP, "--queue-depth 8", "40 GiB/s at depth 8, 4 GiB/s at depth 1"),
        (READ_AHEAD, None, ""),
        ({}, None, ""),
    ],
    ids=["direct", "depth", "reads", "alike"],
)
def test_storage_that_gives_more_is_asked_for_what_gives_it(
    faster: dict[tuple[str, int, int, bool], float],
    options: str | None,
    because: str,
    make_trace: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Depth helps only where the deeper point is faster; the proof changes that one thing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    points = tuple(
        ProbePoint(*kind, rate * GIB, rate * GIB, 100.0) for kind, rate in (ALIKE | faster).items()
    )
    save_probe(tmp_path, Capability("overlay", "overlay", time.time_ns(), points))
    trace = make_trace(checkpoint_rows(sizes=[MIB] * 40))
    why = ("why", trace, "--root", tmp_path, "--no-probe")
    advice = json.loads(iotrace(*why, "--json", "-").stdout)["advice"]
    own = [one for one in advice if "this storage gives" in one["because"]]
    given = f"iotrace replay {trace} --op write {options} --repeat 5 --root {tmp_path}"
    assert [one["command"] for one in own] == ([] if options is None else [given])
    assert all(because in one["because"] for one in own)
    shown = iotrace(*why).stdout
    assert_fits(shown.split("What to change")[0])
    best = {op: max(v for k, v in (ALIKE | faster).items() if k[:2] == (op, MIB)) for op in OPS}
    assert [f"{op}s {best[op]:.0f}" in verdict_head(shown)["here"] for op in OPS] == [True, True]


def test_a_trace_without_requests_is_held_against_no_storage(
    make_trace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept probe says nothing of a trace that has no save and no load."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    point = ProbePoint("write", MIB, 1, False, GIB, GIB, 100.0)
    save_probe(tmp_path, Capability("overlay", "overlay", time.time_ns(), (point,)))
    tensors = [row for row in checkpoint_rows() if row.layer == "tensor"]
    for rows, expected in ((tensors, False), (checkpoint_rows(), True)):
        trace = make_trace(rows, name=f"{expected}.parquet")
        done = iotrace("why", trace, "--root", tmp_path, "--no-probe")
        assert ("this storage (overlay" in done.stdout) is expected
        assert ("tensors and no requests" in done.stdout) is not expected
        assert (f"iotrace replay {trace} --layer tensor" in done.stderr) is not expected


def test_a_folder_that_takes_no_file_costs_only_the_comparison(
    small_trace: Path, tmp_path: Path
) -> None:
    """The verdict needs no storage."""
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    done = iotrace("why", small_trace, "--root", "/proc", extra_env=cache)
    assert done.returncode == 0
    assert "no probe" in done.stderr
    assert "here" not in verdict_head(done.stdout)


def test_a_broken_cache_of_probes_is_no_error(small_trace: Path, tmp_path: Path) -> None:
    """It is only a cache."""
    folder = tmp_path / "iotrace"
    folder.mkdir()
    (folder / "probes.json").write_text('{"a": [1')
    done = iotrace("why", small_trace, "--no-probe", extra_env={"XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_no_sweep_is_proposed_where_nothing_can_be_written(small_trace: Path) -> None:
    """It would fail there."""
    done = iotrace("why", small_trace, "--root", "/proc")
    assert done.returncode == 0, done.stderr
    assert "no probe" in done.stderr
    assert "next:" not in done.stderr


def test_proofs_are_run_where_the_probe_was(small_trace: Path, tmp_path: Path) -> None:
    """A replay in another folder would prove nothing of this storage."""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    place = tmp_path / "a folder"
    place.mkdir()
    done = iotrace("why", small_trace, "--root", place, "--no-probe", "--json", "-",
                   extra_env=cache)  # fmt: skip
    commands = [shlex.split(one["command"]) for one in json.loads(done.stdout)["advice"]]
    replays = [words for words in commands if words[1] == "replay"]
    assert replays
    for words in commands:
        assert words[-2:] == ["--root", str(place)] or words[1] == "show"
