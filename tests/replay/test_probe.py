"""What storage gives: repeated until it is known, or said how well it is known."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from iotrace.replay.probe import Capability, ProbePoint, probe
from iotrace.replay.probe_cache import cache_folder, load_probe, save_probe

from .slow_mount import slow_mount

SETTLED = ProbePoint(
    "write",
    4096,
    1,
    False,
    100.0,
    100.0,
    40.0,
    runs=3,
    low_bytes_per_second=98.0,
    high_bytes_per_second=102.0,
)
HOUR_NS = 3600 * 10**9


def test_requests_are_found_to_take_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way is tried a few times; those that scatter again, while there is time."""
    monkeypatch.setattr("iotrace.replay.probe._POINTS", ((4096, 1),))  # large ones take long here
    monkeypatch.setattr("iotrace.replay.probe._FIRST_COUNT", 8)
    with slow_mount(tmp_path, 0.01):  # beside which a busy machine's delays are small
        found = probe(tmp_path, budget_seconds=2)
    assert found.file_system == "fuse"
    assert min(point.runs for point in found.points) >= 3
    point = found.find("write", 4096, 1, direct=False)
    assert point and 10_000 < point.p50_us < 20_000
    low, high = point.low_bytes_per_second, point.high_bytes_per_second
    assert low and high and low <= point.durable_bytes_per_second <= high
    small = found.one_by_one_us("write", 100, direct=False)
    assert small == pytest.approx(point.p50_us)


def test_the_scatter_says_whether_a_point_is_known() -> None:
    """One run tells nothing of it."""
    assert SETTLED.scatter == pytest.approx(0.02) and SETTLED.is_settled
    assert not replace(SETTLED, low_bytes_per_second=50.0).is_settled
    once = replace(SETTLED, runs=1)
    assert once.scatter is None and not once.is_settled


@pytest.mark.parametrize(
    ("point", "hours", "lasts"),
    [
        (SETTLED, 2, True),
        (SETTLED, 24 * 8, False),
        (replace(SETTLED, high_bytes_per_second=200.0), 0.5, True),
        (replace(SETTLED, high_bytes_per_second=200.0), 2, False),
    ],
)
def test_a_probe_that_scatters_is_soon_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: ProbePoint, hours: float, lasts: bool
) -> None:
    """The machine was busy; a week of that would be too long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Capability("ext4", "/dev/x", time.time_ns() - int(hours * HOUR_NS), (point,))
    save_probe(tmp_path, made)
    assert load_probe(tmp_path) == (made if lasts else None)


@pytest.mark.parametrize("brackets", [500, 100_000])
def test_a_cache_that_is_nested_too_deeply_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brackets: int
) -> None:
    """Whatever the file holds, it is only a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_folder().mkdir(parents=True)
    text = '{"x":' + "[" * brackets + "]" * brackets + "}"
    (cache_folder() / "probes.json").write_text(text)
    assert load_probe(tmp_path) is None
    made = Capability("ext4", "/dev/x", time.time_ns(), (SETTLED,))
    save_probe(tmp_path, made)
    assert load_probe(tmp_path) == made
