"""What is said on stderr: a sentence is folded on a terminal, and one line where it is piped.

With `Terminal` the only place where the program prints: text that strangers wrote is made plain.
"""

from __future__ import annotations

import re
import sys
import textwrap

from iotrace.tools.render import Terminal, plain

PROGRAM = "iotrace"
_INDENT = "  "
_COMMAND = re.compile(r"`[^`]*`")
_GLUE = "\0"  # in the place of a blank where no line may end


def say(sentence: str) -> None:
    """Print a sentence on stderr; a path and a command in backticks stay whole."""
    line = plain(f"{PROGRAM}: {sentence}")
    if sys.stderr.isatty():
        line = textwrap.fill(
            _COMMAND.sub(lambda command: command[0].replace(" ", _GLUE), line),
            Terminal(stderr=True).width,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        ).replace(_GLUE, " ")
    print(line, file=sys.stderr)


def say_line(line: str) -> None:
    """Print one line on stderr as it is, for copying."""
    print(plain(line), file=sys.stderr)
