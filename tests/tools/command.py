"""Run the command as a user does, on a terminal of 80 columns."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .warm import plain_environment, warm_process

IOTRACE = Path(sys.executable).with_name("iotrace")
COLUMNS = 80


def iotrace(
    *arguments: object, extra_env: Mapping[str, str] = MappingProxyType({}), **run: object
) -> subprocess.CompletedProcess[str]:
    """Run `iotrace` with `arguments`; stdout and stderr are captured as text.

    `extra_env` adds to the environment; the rest goes to `subprocess.run`. Where there is no rest
    but a folder, the command is a copy of a process that has imported it, see warm.py.
    """
    environment = {**plain_environment(), "COLUMNS": str(COLUMNS), **extra_env}
    command = [str(IOTRACE), *map(str, arguments)]
    if run.keys() <= {"cwd"}:
        return warm_process().run(command, Path(run.get("cwd", Path.cwd())), environment)
    return subprocess.run(command, capture_output=True, text=True, env=environment, **run)


def assert_one_line_error(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The failure is one line on stderr with `words`, nothing on stdout, and `status`."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("iotrace: error: ")
    for word in words:
        assert word in lines[0], lines[0]


def assert_fits(text: str) -> None:
    """No line is wider than the terminal, and none has colour codes or trailing blanks."""
    for line in text.splitlines():
        assert len(line) <= COLUMNS, line
        assert "\x1b" not in line
        assert line == line.rstrip(), repr(line)
