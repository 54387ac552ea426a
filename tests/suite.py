"""Run the parts of the suite, two at a time, and tell how far they are: `make test`.

Each part is a process of its own: two run side by side, and what forks workers is small. What a
part says is in build/test-PART.log; of one that fails it is shown at the end.
"""

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
TOGETHER = 2
HEARTBEAT_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_DONE = re.compile(r"\[ *(\d+/\d+)\]")

_PYTEST = (sys.executable, "-m", "pytest", "-o", "console_output_style=count")
_OWN = ("capture", "integration", "replay")
PARTS = {
    "jobs": (*_PYTEST, "tests/capture", "tests/integration"),
    "lint": ("make", "--no-print-directory", "lint"),
    "replay": (*_PYTEST, "tests/replay"),
    "rest": (*_PYTEST, *(f"--ignore=tests/{folder}" for folder in _OWN)),
}


@dataclass(frozen=True)
class Part:
    """A part that runs or has run."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]
    begin: float

    @classmethod
    def start(cls, name: str, command: Sequence[str], folder: Path) -> Self:
        """Start a part; what it says goes to a log in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"test-{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        return cls(name, log, process, time.monotonic())

    @property
    def said(self) -> str:
        """What it has said."""
        return self.log.read_text(errors="replace").strip()

    @property
    def progress(self) -> str:
        """How many of its tests are over, as far as pytest has said."""
        done = _DONE.findall(self.said)
        return f"{self.name} {done[-1] if done else 'begins'}"

    @property
    def summary(self) -> str:
        """How it ended, in one line."""
        took = time.monotonic() - self.begin
        last = self.said.splitlines()[-1].strip("= ") if self.said else "said nothing"
        return f"{self.name}: {'failed: ' if self.process.returncode else ''}{last} ({took:.0f} s)"


def run(parts: Mapping[str, Sequence[str]], folder: Path) -> int:
    """Run the parts; return the exit status: 0 if none has failed."""
    waiting, running, ended = list(parts.items()), list[Part](), dict[Part, str]()
    begin = told = time.monotonic()
    while waiting or running:
        while waiting and len(running) < TOGETHER:
            running.append(Part.start(*waiting.pop(0), folder))
        time.sleep(_LOOK_SECONDS)
        for part in [one for one in running if one.process.poll() is not None]:
            running.remove(part)
            ended[part] = part.summary
        now = time.monotonic()
        if running and now - told >= HEARTBEAT_SECONDS:
            told = now
            shown = ", ".join(one.progress for one in running)
            print(f"  {now - begin:.0f} s: {shown}", flush=True)
    failed = [part for part in ended if part.process.returncode]
    for part in failed:
        print(f"\n== {part.log}\n{part.said}")
    print("", *ended.values(), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(run(PARTS, ROOT / "build"))
    except KeyboardInterrupt:  # the parts have had it too
        sys.exit(130)
