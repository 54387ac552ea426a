"""The first second of the command, while it imports what it needs."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

SLOW_IMPORT = "import time; open('importing', 'w').close(); time.sleep(60)"


def test_an_interrupt_during_the_imports_is_silent(tmp_path: Path) -> None:
    """A user who mistyped presses Ctrl-C at once, and should not see the tool's insides."""
    (tmp_path / "typer.py").write_text(SLOW_IMPORT)
    command = subprocess.Popen(
        [sys.executable, "-m", "iotrace.tools", "--version"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not (tmp_path / "importing").exists():
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(signal.SIGINT)
    said, _ = command.communicate()
    assert (said, command.returncode) == ("", -signal.SIGINT)


def test_the_script_starts_where_the_module_does() -> None:
    """Both must be quiet when they are interrupted."""
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert scripts == {"iotrace": "iotrace.tools.__main__:main"}
