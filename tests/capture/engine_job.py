"""A captured job of a checkpoint engine: its rows, and what strace saw of the same script."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess
from typing import Any, NamedTuple

import numpy as np

from iotrace.capture.collector import collect
from iotrace.capture.rawlog import read_raw_log
from iotrace.traces.trace import Trace
from tests.integration.strace import FileCalls, file_calls

from .hooked_job import Job, environment, run_job

JOBS = Path(__file__).parent / "jobs"
TEXTS = ("layer", "op", "path", "name", "dtype", "device", "engine")
NUMBERS = (
    *("rank", "process", "thread", "step", "file"),
    *("offset", "length", "result", "tensor_offset"),
)

Row = dict[str, Any]


class Calls(NamedTuple):
    """Successful calls and bytes on one file."""

    reads: int
    bytes_read: int
    writes: int
    bytes_written: int


@dataclass(frozen=True)
class EngineJob:
    """A finished job whose files are in one folder.

    Attributes:
        kernel: what strace saw of this very run, by name in the folder, if it was asked to look.
    """

    folder: Path
    job: Job
    trace: Trace
    launch: tuple[str, ...] = (sys.executable,)
    kernel: Mapping[str, Calls] = field(default_factory=dict)

    def rows(self, layer: str, *, below: str = "", **fields: object) -> list[Row]:
        """Return the rows on files in the folder, or in one below it, that have these fields."""
        trace = self.trace.layer(layer)
        columns = {name: trace.strings(name) for name in TEXTS}
        columns |= {name: trace.ints(name).tolist() for name in NUMBERS}
        columns |= {"start_ns": trace.ints("start_ns").tolist()}
        columns |= {"end_ns": trace.ints("end_ns").tolist(), "shape": trace.shapes()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        inside = f"{self.folder / below}/"
        return [
            row
            for row in rows
            if f"{row['path']}/".startswith(inside) and fields.items() <= row.items()
        ]

    def calls(self) -> dict[str, Calls]:
        """Return the reads and writes of each file by its name in the folder."""
        counts: dict[str, np.ndarray] = {}
        for row in self.rows("request"):
            if row["op"] in ("read", "write") and row["result"] >= 0:
                count = counts.setdefault(self.name(row), np.zeros(4, int))
                place = 0 if row["op"] == "read" else 2
                count[place : place + 2] += (1, row["result"])
        return {name: Calls(*count.tolist()) for name, count in counts.items()}

    def name(self, row: Row) -> str:
        """Return the name of a row's file in the folder."""
        return os.path.relpath(row["path"], self.folder)

    def bytes_at(self, row: Row) -> bytes:
        """Return what lies in the file where a row says."""
        with open(row["path"], "rb") as file:
            file.seek(row["offset"])
            return file.read(row["length"])


def launch_of(launcher: str, ranks: int) -> tuple[str, ...]:
    """Return what runs a script on several ranks of this machine; of one, the interpreter."""
    if not ranks:
        return (sys.executable,)
    if launcher == "mpirun":
        return (
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            str(ranks),
            sys.executable,
        )
    module = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks))
    return (sys.executable, *module)


def run_engine_job(
    tmp_path: Path, script: str, *arguments: str, ranks: int = 0, launcher: str = "torchrun"
) -> EngineJob:
    """Run a script of tests/capture/jobs under the preload library, on ranks if asked."""
    folder = tmp_path / "traced"
    folder.mkdir()
    launch = launch_of(launcher, ranks)
    job = run_job(tmp_path / "raw", JOBS / script, folder, *arguments, python=launch)
    return EngineJob(folder, job, collect(tmp_path / "raw", [script]), launch)


def run_watched_engine_job(
    tmp_path: Path, script: str, *arguments: str, ranks: int = 0
) -> EngineJob:
    """Run a script as `run_engine_job` does, under strace as well: one run is both views."""
    folder, raw = tmp_path / "traced", tmp_path / "raw"
    folder.mkdir()
    raw.mkdir()
    launch = launch_of("torchrun", ranks)
    settings = [f"--env={name}={value}" for name, value in environment(raw).items()]
    command = [*settings, *launch, str(JOBS / script), str(folder), *arguments]
    kernel = calls_below(folder, file_calls(command, tmp_path / "strace", stderr=DEVNULL))
    logs = tuple(read_raw_log(path) for path in sorted(raw.glob("*.raw")))
    job = Job(CompletedProcess(command, 0, "", ""), logs)
    return EngineJob(folder, job, collect(raw, [script]), launch, kernel)


def kernel_calls(job: EngineJob, script: str, *arguments: str) -> dict[str, Calls]:
    """Run the same script bare under strace; its folder's name is as long as the job's."""
    folder = job.folder.with_name("kernel")
    folder.mkdir()
    command = [*job.launch, str(JOBS / script), str(folder), *arguments]
    return calls_below(folder, file_calls(command, job.folder.with_name("strace"), stderr=DEVNULL))


def calls_below(folder: Path, found: Mapping[str, FileCalls]) -> dict[str, Calls]:
    """Return what strace saw on the files of a folder, by their names there."""
    return {
        os.path.relpath(path, folder): Calls(
            seen.reads, seen.bytes_read, seen.writes, seen.bytes_written
        )
        for path, seen in found.items()
        if path.startswith(f"{folder}/")
    }
