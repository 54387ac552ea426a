"""The file that a sweep is kept in."""

from __future__ import annotations

from pathlib import Path

from iotrace.replay.sweep_result import SweepResult
from iotrace.traces.codec import parse_json
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.regular import open_regular, read_regular


def is_sweep(location: str) -> bool:
    """Is it a local file that begins as a JSON object does? No trace does."""
    path = Path(location)
    if "://" in location or not path.is_file():
        return False
    with open_regular(path) as file:
        return file.read(1) == b"{"


def read_sweep(path: Path) -> SweepResult:
    """Return the sweep stored in `path`.

    Raises:
        TraceFormatError: it is none.
    """
    try:
        tree = parse_json(read_regular(path))
    except (OSError, TraceFormatError) as error:
        raise TraceFormatError(f"{path} is not a sweep; make one with `iotrace sweep`") from error
    if isinstance(tree, dict) and "replayed" in tree:
        raise TraceFormatError(
            f"{path} is the JSON of a replay; `iotrace replay -o RESULT` writes what report draws"
        )
    try:
        return SweepResult.from_json(tree)
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from error
