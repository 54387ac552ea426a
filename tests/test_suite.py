"""What `make test` shows of its parts."""

import sys
from pathlib import Path

import pytest

from tests import suite


def test_a_part_that_fails_is_shown_and_fails_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While parts run, what is done is told; in the end each has a line."""
    monkeypatch.setattr(suite, "HEARTBEAT_SECONDS", 0.0)
    slow = "import time; print('t.py .. [ 2/9]', flush=True); time.sleep(1); print('9 passed')"
    bad = "print('why it failed'); print('= 1 failed ='); raise SystemExit(1)"
    parts = {name: (sys.executable, "-c", code) for name, code in (("a", slow), ("b", bad))}
    assert suite.run(parts, tmp_path) == 1
    shown = capsys.readouterr().out
    assert "a 2/9" in shown
    assert "why it failed" in shown
    a, b = sorted(shown.splitlines()[-2:])
    assert a.startswith("a: 9 passed (") and b.startswith("b: failed: 1 failed (")


def test_every_folder_of_tests_is_in_one_part() -> None:
    """What two parts name themselves, the third leaves out."""
    named = [word for part in suite.PARTS.values() for word in part if word.startswith("tests/")]
    left_out = [word.removeprefix("--ignore=") for word in suite.PARTS["rest"] if "=tests/" in word]
    assert sorted(named) == sorted(left_out)
