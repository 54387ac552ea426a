"""What is most worth typing next, said on stderr; as it stands there, it runs."""

from __future__ import annotations

import shlex
from pathlib import Path

from iotrace.tools.say import PROGRAM, say_line


def say_next(*words: str) -> None:
    """Print a command of ours; `words` follow the program's name."""
    say_line(f"{PROGRAM}: next: {shlex.join([PROGRAM, *words])}")


def requests_of_tensors(location: str) -> tuple[str, ...]:
    """Return the command that makes requests of a trace of tensors alone."""
    return ("replay", location, "--layer", "tensor", "-o", free_name("result.parquet"))


def root_words(root: Path) -> tuple[str, ...]:
    """Return the option that names `root`, where it is not what is meant without."""
    return () if str(root) == "." else ("--root", str(root))


def free_name(name: str) -> str:
    """Return a file name that nothing has yet: `name`, or `name` with a number."""
    path = Path(name)
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{Path(name).stem}-{number}{path.suffix}")
    return str(path)
