"""What `iotrace sweep` recommends against the best of all settings, on this storage.

    python -m tests.bench.sweep_against_grid [FOLDER] [--large 16] [--budget 60] [--grid 1]

Saves by torch.save, 8 MiB per large tensor: 128 make a trace of 1 GiB. After the sweep, which has
its budget, every setting that differs in what is done is run, `--grid` times, in random order. The
fastest of these and the recommended one then take turns; the gap is that of their medians, and of
the ratios within a turn. Being the fastest of many once is luck as well: it is the turns that tell.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iotrace.replay.factors import Setting, default_levels, factorial
from iotrace.replay.plan import Plan
from iotrace.replay.statistics import estimate
from iotrace.replay.sweep import distinct
from iotrace.tools.commands.sweep import layouts_of, shape_of
from iotrace.tools.sweep_file import read_sweep
from iotrace.traces.reader import read_trace

from .study.engine import capture_once
from .study.replayed import Replays
from .study.rows import Clock, Row, Side, take_turns

FINALISTS = 5
OP = "write"


def recommended(trace: Path, root: Path, budget_seconds: float) -> tuple[Setting, float]:
    """Return what a sweep recommends, and how long it took."""
    found = root / "sweep.json"
    command = (sys.executable, "-m", "iotrace.tools", "sweep", str(trace), "--op", OP)
    begin = time.monotonic()
    subprocess.run(
        [*command, "--budget", f"{budget_seconds}s", "--root", str(root), "-o", str(found)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    took = time.monotonic() - begin
    best = read_sweep(found).best(OP)
    if best is None:
        raise SystemExit("the sweep recommends nothing")
    return best, took


def settings_of(trace: Path, replays: Replays) -> tuple[Setting, ...]:
    """Return every setting, those with the same plan and way to run once."""

    def build(op: str, setting: Setting) -> Plan:
        return replays.reshaped(shape_of(op, setting))

    levels = default_levels(layouts_of(read_trace(str(trace))))
    return distinct(OP, factorial(levels), build)[0].settings


def median(rows: list[Row], side: str) -> float:
    """Return the median time until durable."""
    return statistics.median(row.durable_seconds for row in rows if row.side == side)


def main() -> None:
    """Sweep, run the grid, let the best take turns, and print the gap."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build"))
    parser.add_argument("--large", type=int, default=16, help="tensors of 8 MiB")
    parser.add_argument("--budget", type=float, default=60.0, help="of the sweep, in seconds")
    parser.add_argument("--grid", type=int, default=1, help="runs of every setting")
    parser.add_argument("--turns", type=int, default=12, help="of the last alternation")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    clock = Clock(float("inf"))
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=asked.folder) as name:
        root = Path(name)
        trace = capture_once("torch.save", root, asked.large)
        choice, took = recommended(trace, root, asked.budget)
        clock.say(f"the sweep took {took:.0f} s of {asked.budget:.0f} s")
        replays = Replays.of(trace, root)
        settings = settings_of(trace, replays)

        def side(setting: Setting) -> Side:
            shape = shape_of(OP, setting)
            return replays.side(shape, setting.queue_depth, executor=setting.executor)

        sides = {str(setting): side(setting) for setting in settings}
        grid = take_turns("grid", "", sides, asked.grid, clock)
        ranked = sorted(sides, key=lambda one: median(grid, one))
        finalists = dict.fromkeys([*ranked[:FINALISTS], str(choice)])
        last = take_turns("last", "", {one: sides[one] for one in finalists}, asked.turns, clock)
    best = min(finalists, key=lambda one: median(last, one))
    for one in sorted(finalists, key=lambda one: median(last, one)):
        print(f"{median(last, one):.3f} s  {'recommended  ' if one == str(choice) else ''}{one}")
    gap = median(last, str(choice)) / median(last, best) - 1
    pairs = zip(
        (row.durable_seconds for row in last if row.side == str(choice)),
        (row.durable_seconds for row in last if row.side == best),
        strict=True,
    )
    found = estimate([ours / theirs - 1 for ours, theirs in pairs])
    print(
        f"{len(settings)} settings; the sweep took {took:.0f} s of {asked.budget:.0f} s and is "
        f"{gap:.1%} from the best; within turns {found.median:.1%} "
        f"({found.low:.1%} to {found.high:.1%})"
    )


if __name__ == "__main__":
    main()
