"""Runs a Python job under the real preload library and reads back what its hooks noted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrace.capture.rawlog import RawLog, read_raw_log

CAPTURE = Path(__file__).parents[2] / "capture"
LIBRARY = CAPTURE / "libiotrace_capture.so"
BOOT = CAPTURE / "hooks" / "boot.py"


@dataclass(frozen=True)
class Job:
    """A finished job: its process, and the raw logs it left."""

    done: subprocess.CompletedProcess[str]
    logs: tuple[RawLog, ...]

    def notes(self, layer: str, **fields: object) -> list[dict[str, Any]]:
        """Return the notes of one layer that have these fields, log by log, in order."""
        return [
            note
            for log in self.logs
            for note in notes_of(log)
            if note["layer"] == layer and fields.items() <= note.items()
        ]


def notes_of(log: RawLog) -> list[dict[str, Any]]:
    """Return the notes of one log with their times."""
    records = log.records
    return [
        json.loads(log.text(row))
        | {key: int(records[key][row]) for key in ("start_ns", "end_ns")}
        | {"thread": int(log.threads[row]), "pid": log.header.pid}
        for row in log.rows("note").tolist()
    ]


def requests_below(folder: Path, job: Job) -> list[tuple[str, int, int, int]]:
    """Return (op, offset, length, result) of each request on files in a folder, in order."""
    found = []
    for log in job.logs:
        files = {
            int(log.column("file")[row])
            for row in log.rows("file").tolist()
            if os.fsdecode(log.text(row)).startswith(f"{folder}/")
        }
        for record in log.records[log.column("op") > log.header.op_names.index("note")]:
            if int(record["file"]) in files:
                op = log.header.op_names[int(record["op"])]
                keys = ("offset", "length", "result")
                offset, length, result = (int(record[key]) for key in keys)
                found.append((op, offset, length, result))
    return found


def environment(log_dir: Path | None, boot: Path = BOOT) -> dict[str, str]:
    """Return what the launcher adds to a job's environment; nothing without a folder."""
    if log_dir is None:
        return {}
    return {
        "LD_PRELOAD": str(LIBRARY),
        "IOTRACE_LOG_DIR": str(log_dir),
        "IOTRACE_HOOKS": str(boot),
    }


def run_job(
    log_dir: Path | None,
    *arguments: str | Path,
    python: Sequence[str | Path] = (sys.executable,),
    environ: Mapping[str, str] | None = None,
    boot: Path = BOOT,
    stdin: str = "",
    check: bool = True,
) -> Job:
    """Run `python *arguments`, captured into `log_dir`, or bare if it is None."""
    if log_dir is not None:
        log_dir.mkdir(exist_ok=True)
    done = subprocess.run(
        [*map(str, python), *map(str, arguments)],
        env={**(os.environ if environ is None else environ), **environment(log_dir, boot)},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    paths = sorted(log_dir.glob("*.raw")) if log_dir is not None else []
    return Job(done, tuple(read_raw_log(path) for path in paths))
