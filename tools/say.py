"""What is said on stderr: a sentence is folded on a terminal, and one line where it is piped.

With `Terminal` the only place where the program prints: text that strangers wrote is made plain.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence

from iotrace.tools.render import ELLIPSIS, Terminal, plain

PROGRAM = "iotrace"
_INDENT = "  "
_FEW, _MAX_SENTENCE = 10, 500  # of what a stranger may have made as much as they like
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


def say_few(sentences: Sequence[str], rest: str) -> None:
    """Print the first few of some sentences; `rest` tells what to do about the others."""
    for sentence in sentences[:_FEW]:
        is_long = len(sentence) > _MAX_SENTENCE
        say(sentence[:_MAX_SENTENCE] + ELLIPSIS if is_long else sentence)
    if len(sentences) > _FEW:
        say(f"and {len(sentences) - _FEW:,} more; {rest}")


def say_line(line: str) -> None:
    """Print one line on stderr as it is, for copying."""
    print(plain(line), file=sys.stderr)
