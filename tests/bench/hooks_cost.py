"""What the hooks of torch.save and torch.load cost per tensor: make bench, or alone.

The worst there is: thousands of tensors of hardly any bytes. The bare and the hooked job take
turns; each prints the shortest processor time of some runs.
"""

import json
import statistics
import tempfile
from pathlib import Path

from tests.capture.hooked_job import run_job

JOB = Path(__file__).parents[1] / "capture" / "jobs" / "torch_many.py"
TENSORS = 3000
PAIRS = 3


def main() -> None:
    """Print the microseconds per tensor that the hooks add to each call."""
    added: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pair in range(PAIRS):
            arguments = (JOB, folder, str(TENSORS))
            bare = json.loads(run_job(None, *arguments).done.stdout)
            hooked = json.loads(run_job(folder / f"logs{pair}", *arguments).done.stdout)
            for op, cost in hooked.items():
                added.setdefault(op, []).append(cost - bare[op])
    for op, costs in added.items():
        print(f"{op:5} {statistics.median(costs):5.1f} us per tensor added (median of the pairs)")


if __name__ == "__main__":
    main()
