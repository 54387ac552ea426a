"""Does the hook bind to the torch installed here? Capture a save and look into its file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from iotrace.tools.checkup import Check, Status
from iotrace.traces.errors import IotraceError
from iotrace.traces.reader import read_trace

NAME = "torch.save hook"
EXIT_NO_TORCH = 77
_TIMEOUT_SECONDS = 300  # the first import of torch from a slow disk takes a minute

# The same three tensors as `_expected`, of sizes around torch's 64-byte alignment.
JOB = f"""
import sys
try:
    import torch
except ImportError:
    sys.exit({EXIT_NO_TORCH})
torch.save({{
    "ramp": torch.arange(1000, dtype=torch.float32),
    "few": torch.arange(7, dtype=torch.int64),
    "bytes": (torch.arange(65536) % 251).to(torch.uint8),
}}, sys.argv[1])
print(torch.__version__)
"""


def check_hook(python: str) -> Check:
    """Capture `python` saving three tensors; report whether each was located in the file.

    Args:
        python: interpreter of the jobs to be captured.
    """
    with tempfile.TemporaryDirectory(prefix="iotrace-doctor-") as folder:
        trace_path, checkpoint = Path(folder, "trace.parquet"), Path(folder, "three.pt")
        # -P: a folder `iotrace` where the user stands, such as a clone, is not the package.
        command = [sys.executable, "-P", "-m", "iotrace.tools", "capture", "--quiet"]
        command += ["-o", str(trace_path), "--", python, "-c", JOB, str(checkpoint)]
        try:
            job = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            return Check(NAME, Status.FAIL, f"no answer from {python} in {_TIMEOUT_SECONDS} s")
        if job.returncode == EXIT_NO_TORCH:
            return Check(
                NAME,
                Status.NOTE,
                f"no torch in {python}; requests are captured all the same",
                "name the job's interpreter: iotrace doctor --python PATH",
            )
        if job.returncode != 0:
            said = job.stderr.strip().splitlines() or [f"exit status {job.returncode}"]
            return Check(NAME, Status.FAIL, f"the captured job failed: {said[-1]}")
        return _judge(trace_path, checkpoint, f"torch {job.stdout.strip()}")


def _judge(trace_path: Path, checkpoint: Path, version: str) -> Check:
    try:
        located = located_tensors(trace_path, checkpoint)
        problems = read_trace(trace_path).metadata.completeness.problems()
    except IotraceError as error:
        return Check(NAME, Status.FAIL, f"{version}: {error}")
    missed = [name for name, found in located.items() if not found]
    if missed:
        cause = problems[0] if problems else "the save was seen, its tensors were not"
        return Check(
            NAME,
            Status.FAIL,
            f"{version}: {', '.join(missed)} not located in the file ({cause})",
            "requests are captured all the same; replay with --layer request",
        )
    if problems:
        return Check(NAME, Status.NOTE, f"{version}: tensors located, but {problems[0]}")
    return Check(NAME, Status.OK, f"binds to {version}; every byte of 3 tensors found in the file")


def located_tensors(trace_path: Path, checkpoint: Path) -> Mapping[str, bool]:
    """Return for each tensor of JOB whether its trace row points at its bytes in the file."""
    tensors = read_trace(trace_path).layer("tensor")
    data = checkpoint.read_bytes()
    extents = {
        name: (int(offset), int(length))
        for name, offset, length in zip(
            tensors.strings("name"), tensors.ints("offset"), tensors.ints("length"), strict=True
        )
    }
    found = {}
    for name, expected in _expected().items():
        offset, length = extents.get(name, (-1, 0))
        found[name] = offset >= 0 and data[offset : offset + length] == expected
    return found


def _expected() -> Mapping[str, bytes]:
    return {
        "ramp": np.arange(1000, dtype=np.float32).tobytes(),
        "few": np.arange(7, dtype=np.int64).tobytes(),
        "bytes": (np.arange(65536) % 251).astype(np.uint8).tobytes(),
    }
