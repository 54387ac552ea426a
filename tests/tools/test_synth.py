"""`iotrace synth` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .command import assert_one_line_error, iotrace


def test_a_model_becomes_a_trace_that_replays_and_is_labelled(tmp_path: Path) -> None:
    """From a name to a plan in two commands; no number goes by without the label."""
    out = tmp_path / "t.parquet"
    options = ("--ranks", "2", "--engine", "dcp", "--scale", "1/1024", "-o", out)
    done = iotrace("synth", "llama-3-8b", *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert "synthetic" in done.stderr and "by 2 ranks" in done.stderr
    shown = iotrace("show", out)
    assert "SYNTHETIC" in shown.stdout
    planned = iotrace("replay", out, "--coalesce", "--dry-run", "--json", "-")
    assert json.loads(planned.stdout)["planned"]["bytes_read"] > 0


def test_a_model_that_is_none_lists_what_there_is(tmp_path: Path) -> None:
    """One line."""
    done = iotrace("synth", "gpt-9", "-o", tmp_path / "t.parquet")
    assert_one_line_error(done, 2, "gpt-9", "llama-3-8b")
    done = iotrace("synth", "llama-3-8b", "--scale", "small", "-o", tmp_path / "t.parquet")
    assert_one_line_error(done, 2, "--scale small")


@pytest.mark.parametrize("scale", ["0", "-1", "2000", "1e+400", "nan"])
def test_a_scale_out_of_range_is_named(scale: str, tmp_path: Path) -> None:
    """And not the ranks, which are fine."""
    done = iotrace("synth", "llama-3-8b", f"--scale={scale}", "-o", tmp_path / "t.parquet")
    assert_one_line_error(done, 2, f"scale {float(scale):g}:", "above 0, up to 1024")
    assert "ranks" not in done.stderr
