"""`iotrace replay --layer tensor`: what the engine meant, beside what was done for it."""

import json
from pathlib import Path

from .command import iotrace
from .conftest import SIZES, Make, Row, checkpoint_rows


def test_the_tensor_layer_gives_a_request_per_tensor(small_trace: Path, root: Path) -> None:
    """What the engine meant instead of what it did."""
    done = iotrace("replay", small_trace, "--root", root, "--layer", "tensor", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["planned"]["data_requests"] == 2


def test_tensors_alone_of_one_op_stand_beside_nothing(make_trace: Make, root: Path) -> None:
    """What the engine meant can be replayed where no request was recorded."""
    trace = make_trace([row for row in checkpoint_rows() if row.layer == "tensor"])
    done = iotrace("replay", trace, "--root", root, "--layer", "tensor", "--op", "write",
                   "--json", "-")  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["recorded"]["requests"] == result["recorded"]["bytes_written"] == 0
    assert result["replayed"]["bytes_written"] == SIZES[2]


def test_tensors_stand_beside_the_requests_on_their_files(make_trace: Make, root: Path) -> None:
    """What the job did to other files is no part of what the engine meant."""
    other = "/data/samples.bin"
    extra = [
        Row("open", path=other, file=1, flags=0),
        Row("read", path=other, file=1, offset=0, length=1 << 20, result=1 << 20),
        Row("close", path=other, file=1),
    ]
    recorded = []
    for name, rows in (("alone", checkpoint_rows()), ("beside", checkpoint_rows() + extra)):
        done = iotrace("replay", make_trace(rows, name), "--root", root, "--layer", "tensor",
                       "--dry-run", "--json", "-")  # fmt: skip
        assert done.returncode == 0, done.stderr
        recorded.append(json.loads(done.stdout)["recorded"])
    assert recorded[0]["bytes_read"] == sum(SIZES)
    assert recorded[1] == recorded[0]
