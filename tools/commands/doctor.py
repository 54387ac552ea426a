"""`iotrace doctor`: what this machine can do."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from iotrace.capture.preload import library_path
from iotrace.replay.loop import liburing_version, probe_uring
from iotrace.replay.target import Target, probe_target
from iotrace.tools.arguments import ForceOption, JsonOption, root_option
from iotrace.tools.checkup import (
    Check,
    Status,
    check_io_uring,
    check_kernel,
    check_memlock,
    check_preload,
    check_python,
    check_shared_memory,
    check_storage,
)
from iotrace.tools.output import STDOUT, check_json, write_json
from iotrace.tools.render import Terminal, facts
from iotrace.tools.selftest import check_hook
from iotrace.traces.errors import IotraceError
from iotrace.traces.mounts import find_mounts

_STYLES = {Status.OK: "green", Status.NOTE: "yellow", Status.FAIL: "bold red"}


def doctor(
    root: Annotated[Path, root_option("Folder whose storage is looked at.")] = Path("."),
    python: Annotated[
        str, typer.Option(metavar="EXE", help="Interpreter of the jobs you will capture.")
    ] = sys.executable,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> int:
    """Try what a capture and a replay need, and say what works here.

    Ends with status 1 when something a capture or a replay cannot do without fails.

    \b
    Examples:
      iotrace doctor
      iotrace doctor --root /lustre/scratch --python ~/venv/bin/python
    """
    if shutil.which(python) is None:
        raise IotraceError(f"no interpreter {python}; name the job's own with --python")
    check_json(json_to, force=force)
    checks = examine(root.resolve(), python)
    if json_to is not None:
        write_json(to_json(checks), json_to)
    if json_to != STDOUT:
        _print(Terminal(), checks)
    return 1 if any(check.status is Status.FAIL for check in checks) else 0


def examine(root: Path, python: str) -> list[Check]:
    """Return all findings about this machine, the storage of `root` and the torch of `python`."""
    (mount,) = find_mounts([f"{root}/file"], host=0)
    target: Target | OSError
    try:
        target = probe_target(root)
    except OSError as error:  # read-only, full, or another user's
        target = error
    return [
        check_python(),
        check_kernel(),
        check_io_uring(probe_uring(), liburing_version()),
        *check_storage(root, mount, target),
        check_memlock(),
        check_shared_memory(),
        check_preload(library_path()),
        check_hook(python),
    ]


def to_json(checks: list[Check]) -> dict[str, Any]:
    """Return the findings as one JSON object."""
    return {
        "ok": all(check.status is not Status.FAIL for check in checks),
        "checks": [
            {
                "name": check.name,
                "status": check.status.name.lower(),
                "detail": check.detail,
                "remedy": check.remedy,
            }
            for check in checks
        ],
    }


def _print(terminal: Terminal, checks: list[Check]) -> None:
    """Print a line per check, its remedy under it."""
    pairs, styles = [], []
    for check in checks:
        pairs.append((f"{check.status.value:4}  {check.name}", check.detail))
        styles.append(_STYLES[check.status])
        if check.remedy:
            pairs.append(("", f"-> {check.remedy}"))
            styles.append("")
    label = max(len(name) for name, _ in pairs)
    for (name, value), style in zip(pairs, styles, strict=True):
        for line in facts([(f"{name:{label}}", value)], terminal.width):
            text = Text(line)
            text.stylize(style, 0, 4)
            terminal.print(text)
