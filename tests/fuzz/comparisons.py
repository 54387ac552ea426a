"""Comparisons that Atheris traces, without the reference to each result that it keeps.

So no array that a comparison made was ever freed: a child grew by 16 KiB with each input, and by
256 MiB with one that becomes a plan of a million requests.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

_LESS = 0  # `<` as an operand of Python's own instruction, in every version

_let_go = ctypes.pythonapi.Py_DecRef
_let_go.argtypes = [ctypes.py_object]
_let_go.restype = None


class _Marked:
    """What is less than anything, and says so with an object that nobody else has."""

    def __init__(self) -> None:
        self.mark = object()

    def __lt__(self, other: object) -> Any:
        return self.mark


def freed(compare: Callable[..., Any]) -> Callable[..., Any]:
    """Return the comparison with its results the caller's alone.

    Args:
        compare: Atheris's: of left, right, the operand, its own number of the place, and whether
            the left one is constant.
    """
    marked = _Marked()
    before = sys.getrefcount(marked.mark)
    compare(marked, 0, _LESS, 0, False)
    if sys.getrefcount(marked.mark) == before:
        return compare

    def compared(left: Any, right: Any, operand: int, place: int, is_constant: bool) -> Any:
        result = compare(left, right, operand, place, is_constant)
        if type(result) is not bool:  # most are, and these take no memory
            _let_go(result)
        return result

    return compared
