"""Print two replays of one trace side by side, from their `--json` results."""

import json
import sys
from pathlib import Path
from statistics import median

GIB = 1 << 30


def rows(result: dict) -> list[tuple[str, str]]:
    """Return (label, text) of the figures to compare."""
    replayed = result["replayed"]
    write, read = median(replayed["write_seconds"]), median(replayed["read_seconds"])
    durable = median(replayed["durable_seconds"])
    written = replayed["bytes_written"]
    return [
        ("requests (reads and writes)", f"{replayed['data_requests']}"),
        ("write, to the last completion", f"{write:.3f} s  {written / write / GIB:.2f} GiB/s"),
        ("write, until durable", f"{durable:.3f} s  {written / durable / GIB:.2f} GiB/s"),
        ("read, cold", f"{read:.3f} s  {replayed['bytes_read'] / read / GIB:.2f} GiB/s"),
        ("every byte verified", {True: "yes", False: "NO", None: "not asked"}[result["verified"]]),
    ]


if __name__ == "__main__":
    recorded, reshaped = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    print(f"\n{'':32}{'as recorded':>22}{'--coalesce --direct':>24}")
    for (label, left), (_, right) in zip(rows(recorded), rows(reshaped), strict=True):
        print(f"{label:32}{left:>22}{right:>24}")
