"""What is said on stderr: a sentence is folded on a terminal, and one line where it is piped."""

from __future__ import annotations

import sys
import textwrap

from iotrace.tools.render import Terminal

_INDENT = "  "


def say(sentence: str) -> None:
    """Print a sentence on stderr; a word wider than the terminal, such as a path, stays whole."""
    line = f"iotrace: {sentence}"
    if sys.stderr.isatty():
        line = textwrap.fill(
            line,
            Terminal(stderr=True).width,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    print(line, file=sys.stderr)
