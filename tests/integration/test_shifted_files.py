"""A file whose data fallocate shifted: left out of the replay by name, never said to be proven."""

import json
from pathlib import Path

import pytest

from tests.tools.command import iotrace

BLOCK = 65536
JOB = (
    "for name in whole shifted; do dd if=/dev/zero of=$name bs=64k count=4 2>/dev/null; done; "
    "fallocate {mode} -o 65536 -l 65536 shifted"
)


@pytest.mark.parametrize(("mode", "blocks"), [("-c", 3), ("-i", 5)])
def test_a_shifted_file_is_named_and_not_proven(tmp_path: Path, mode: str, blocks: int) -> None:
    """COLLAPSE_RANGE and INSERT_RANGE move bytes that the replay leaves where they were written."""
    words = ("--", "sh", "-c", JOB.format(mode=mode))
    trace = tmp_path / "trace.parquet"
    done = iotrace("capture", "-o", trace, *words, cwd=tmp_path)
    if "not supported" in done.stderr:
        pytest.skip("this file system shifts no data")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shifted").stat().st_size == blocks * BLOCK
    asked = ("replay", trace, "--root", tmp_path, "--verify", "--keep")
    shown = iotrace(*asked, "--json", tmp_path / "told.json")
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert "of all but 1 file, see DEGRADED, every byte is in its place" in said
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["verified"] is None
    assert [str(tmp_path / "shifted") in one for one in told["degraded"]].count(True) == 1
    assert str(tmp_path / "whole") not in str(told["degraded"])
    sizes = {
        path.name: path.stat().st_size for path in tmp_path.glob("iotrace-replay-*/**/shifted")
    }
    assert sizes == {"shifted": 4 * BLOCK}
    assert iotrace(*asked[:-1], "--strict").returncode != 0
