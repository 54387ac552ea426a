"""An engine's own saves, one at a time, and what a capture of them tells."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from iotrace.traces.elapsed import busy_ns
from iotrace.traces.reader import read_trace

from .rows import Row

JOB = Path(__file__).parents[3] / "docs" / "study" / "job.py"
CAPTURE = (sys.executable, "-m", "iotrace.tools", "capture", "--force", "-o")
ENGINES = {
    "torch.save": "torch",
    "dcp": "torch.distributed.checkpoint",
    "torchsnapshot": "torchsnapshot",
    "safetensors": "safetensors",
    "datastates-llm": "datastates.ckpt.src",
}

LIMIT_SECONDS = 120.0  # of a job's answer: imports and captures of a loaded machine take long


def is_there(engine: str) -> bool:
    """Say whether the engine can be imported, without doing so."""
    try:
        return importlib.util.find_spec(ENGINES[engine]) is not None
    except ModuleNotFoundError:
        return False


def capture_once(engine: str, folder: Path, large: int) -> Path:
    """Return the trace of one save and one load."""
    trace = folder / f"{engine}.parquet"
    job = (sys.executable, str(JOB), engine, str(folder), str(large))
    done = subprocess.run(
        [*CAPTURE, str(trace), "--", *job], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    if done.returncode:
        raise SystemExit(f"a capture of {engine} failed: {done.stderr}")
    subprocess.run(["rm", "-rf", str(folder / "checkpoint")], check=True)
    return trace


@dataclass(frozen=True)
class Turn:
    """When a save began and its last write was done, in ns of CLOCK_MONOTONIC."""

    begin_ns: int
    written_ns: int


class Saves:
    """A job that saves when it is told to.

    Args:
        engine: by which.
        folder: where to; it is made.
        large: tensors of 8 MiB.
        captured: under `iotrace capture`, so that `io_seconds` can be asked for.
    """

    def __init__(self, engine: str, folder: Path, large: int, *, captured: bool) -> None:
        folder.mkdir()
        self._trace = folder / "saves.parquet"
        self._turns: list[Turn] = []
        job = (sys.executable, str(JOB), engine, str(folder), str(large), "pairs")
        command = (*CAPTURE, str(self._trace), "--", *job) if captured else job
        pipe = subprocess.PIPE
        self._complaints = folder / "stderr"
        with self._complaints.open("w") as complaints:
            self._job = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=complaints, text=True, process_group=0
            )
        self._once(0.0, 0)  # modules are imported in the first save

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def save(self, pause_seconds: float = 0.0, warmup: int = 0) -> Row:
        """Save once.

        Args:
            pause_seconds: between the removal of the last checkpoint and the save. Without, the
                page cache gets the memory that the removal gives back; in a pause a hypervisor
                takes it.
            warmup: saves right before, whose memory this one gets.
        """
        turn, row = self._once(pause_seconds, warmup)
        self._turns.append(turn)
        return row

    def end(self) -> None:
        """Let the job end."""
        try:
            self._job.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise self._failure("does not end") from None

    def with_io(self, rows: Sequence[Row]) -> list[Row]:
        """End the job; return its rows with how long requests were under way."""
        self.end()
        trace = read_trace(str(self._trace))
        trace = trace.where(trace.row_mask(layer="request"))
        epoch_ns = trace.metadata.epoch_monotonic_ns or 0
        start_ns, end_ns = trace.ints("start_ns") + epoch_ns, trace.ints("end_ns") + epoch_ns
        out = []
        for row, turn in zip(rows, self._turns, strict=True):
            inside = (start_ns >= turn.begin_ns) & (end_ns <= turn.written_ns)
            out.append(replace(row, io_seconds=busy_ns(start_ns[inside], end_ns[inside]) / 1e9))
        return out

    def _once(self, pause_seconds: float, warmup: int) -> tuple[Turn, Row]:
        if self._job.stdin is None or self._job.stdout is None:
            raise RuntimeError("the job has no pipes")
        self._job.stdin.write(f"{pause_seconds} {warmup}\n")
        self._job.stdin.flush()
        if not select.select([self._job.stdout], [], [], LIMIT_SECONDS + pause_seconds)[0]:
            raise self._failure("does not answer")
        words = self._job.stdout.readline().split()
        if len(words) != 5:
            raise self._failure("failed")
        begin_ns, returned_ns, written_ns, durable_ns = (int(word) for word in words[:4])
        row = Row(
            seconds=(returned_ns - begin_ns) / 1e9,
            durable_seconds=(durable_ns - begin_ns) / 1e9,
            system_seconds=float(words[4]),
        )
        return Turn(begin_ns, written_ns), row

    def _failure(self, how: str) -> SystemExit:
        with suppress(ProcessLookupError):
            os.killpg(self._job.pid, signal.SIGKILL)
        return SystemExit(f"a save {how}: {self._job.args!r}\n{self._complaints.read_text()}")
