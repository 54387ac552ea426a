"""Long work says on the terminal what it is, and leaves nothing of that behind."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import range_server

from .command import IOTRACE
from .warm import plain_environment

_SHOWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Screen:
    """A terminal that a command has as its stderr, and what it showed there so far."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes = b""

    def wait_for(self, words: str, seconds: float) -> bool:
        """Read until the words are there; return whether they came."""
        deadline = time.monotonic() + seconds
        while words not in self.text and (left := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                try:
                    self.bytes += os.read(self._descriptor, 1 << 16)
                except OSError:  # nobody writes any more
                    break
        return words in self.text

    @property
    def text(self) -> str:
        """All that was shown, also what is gone."""
        return _SHOWN.sub("", self.bytes.decode())


@contextmanager
def started(*command: object) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """Run a command with a terminal as stderr."""
    ours, theirs = pty.openpty()
    environment = {**plain_environment(), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([*map(str, command)], env=environment, stderr=theirs) as process:
        os.close(theirs)
        try:
            yield process, Screen(ours)
        finally:
            process.kill()
            os.close(ours)


def test_a_server_that_stalls_is_seen_to_be_waited_for(small_trace: Path) -> None:
    """Within seconds, with a clock that ticks."""
    with range_server({"/t.parquet": small_trace.read_bytes()}) as server:
        server.silent = True
        with started(IOTRACE, "show", f"{server.url}/t.parquet") as (process, screen):
            assert screen.wait_for(f"reading {server.url}/t.parquet", 30)
            assert screen.wait_for("0:00:03", 30)
            assert process.poll() is None


def waited(block: str) -> Screen:
    """Return what a block of Python shows that is waited for."""
    code = f"import time\nfrom iotrace.tools.progress import waiting\nwith waiting('[it]'): {block}"
    with started(sys.executable, "-c", code) as (process, screen):
        screen.wait_for("never", 60)
        assert process.wait(60) == 0
    return screen


def test_what_is_done_at_once_shows_no_clock() -> None:
    """A line that comes and goes within a blink only disturbs."""
    assert waited("pass").bytes == b""


def test_the_clock_leaves_nothing_behind() -> None:
    """What stays on the screen is the result."""
    screen = waited("time.sleep(3)")
    assert "[it] 0:00:01" in screen.text
    assert screen.bytes.rindex(b"\x1b[2K") > screen.bytes.rindex(b"[it]")


def test_a_stream_that_is_no_terminal_stays_clean(small_trace: Path) -> None:
    """Logs of batch jobs hold results and errors alone."""
    with range_server({"/t.parquet": small_trace.read_bytes()}) as server:
        server.silent = True
        command = [IOTRACE, "show", f"{server.url}/t.parquet"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=plain_environment())
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=6)
        process.kill()
        assert process.communicate()[1] == b""
