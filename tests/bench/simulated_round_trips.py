"""`--rtt` and `--max-request` against a FUSE file system with that delay, in alternating pairs.

    python tests/bench/simulated_round_trips.py [--pairs 5] [--delay-ms 1]

A trace of the corpus is replayed on this disk with simulated round trips, and as recorded on a
file system in memory that answers every request so much later and takes 1 MiB at a time.
"""

import argparse
import statistics
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.transforms.split import MaxRequest
from iotrace.traces.reader import read_trace
from tests.replay.slow_mount import REQUEST_BYTES, slow_mount

CORPUS = ("torch-save", "dcp", "safetensors")


def seconds(plan: Plan, recorded: RecordedSummary, options: ReplayOptions) -> float:
    """Return the time of saving and loading."""
    done = replay(plan, recorded, options)
    if done.errors:
        raise SystemExit(f"a run failed: {done.errors[0]}")
    return done.repetitions[0].write_seconds + done.repetitions[0].read_seconds


def main() -> None:
    """Run the pairs and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=1.0)
    asked = parser.parse_args()
    delay_seconds = asked.delay_ms / 1e3
    print(f"{'trace':14}{'requests':>10}{'simulated s':>14}{'FUSE s':>10}{'ratio':>8}")
    for name in CORPUS:
        trace = read_trace(str(files("iotrace.traces") / "corpus" / f"{name}.parquet"))
        plan, recorded = plan_from_trace(trace), RecordedSummary.of(trace)
        cut = MaxRequest(REQUEST_BYTES)(plan)
        pairs = []
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            common = ReplayOptions(executor="posix", warm=True)
            far = {"root": Path(here), "round_trip_seconds": delay_seconds}
            for turn in range(asked.pairs):
                simulated = seconds(cut, recorded, ReplayOptions(**{**vars(common), **far}))
                with slow_mount(Path(there), delay_seconds):
                    near = {**vars(common), "root": Path(there)}
                    pairs.append((simulated, seconds(plan, recorded, ReplayOptions(**near))))
                print(f"\r{turn + 1}/{asked.pairs}", end="\r", file=sys.stderr)
        ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:14}{len(cut.requests):>10}{ours:>14.3f}{theirs:>10.3f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
