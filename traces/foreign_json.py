"""JSON that others wrote, by accident or by malice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

MAX_DEPTH = 64  # of what any program writes; who walks such a tree may do so by calling itself


def parse_foreign_json(
    data: str | bytes,
    parse_float: Callable[[str], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
    *,
    unique_keys: bool = False,
) -> Any:
    """Return the value in `data`, nested by `MAX_DEPTH` at most.

    Args:
        data: one JSON text; bytes are UTF-8, UTF-16 or UTF-32.
        parse_float, parse_constant: as of `json.loads`.
        unique_keys: refuse an object that has a key twice.

    Raises:
        ValueError: `data` is no JSON, or nested too deeply.
    """
    try:
        tree = json.loads(
            data,
            parse_float=parse_float,
            parse_constant=parse_constant,
            object_pairs_hook=_without_doubles if unique_keys else None,
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | DoubledKeyError):
            raise
        raise ValueError("an integer of thousands of digits") from error
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _items(value) if type(item) in (dict, list)]
        if not level:
            return tree
    raise ValueError("nested too deeply")


def texts_in(tree: Any) -> Iterator[str]:
    """Yield every text in a JSON document: its keys and its values."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from texts_in(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from texts_in(item)
    elif isinstance(tree, str):
        yield tree


class DoubledKeyError(ValueError):
    """An object has a key twice."""


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise DoubledKeyError(f"the key {key[:40]!r} stands there twice")
    return found


def _items(value: Any) -> Any:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()
