"""Fully qualified names of the tensors in a nested object.

The walk follows what pickle would: mappings, sequences, sets, attributes and
slots. It calls no method of the job's classes, so it also never asks for a
`state_dict`; an object that has one is walked by its attributes. The modules of
torch are named as `named_parameters` names them.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from .emit import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Pairs = Iterable[tuple[object, object]]  # key or position, and what is there
    Parts = Callable[[Any], Pairs]

NODES_MAX = 5_000_000  # of one walk: 0.3 s if they are numbers
NAME_MAX_CHARS = 2048

PLAIN_TYPES = frozenset(
    (type(None), bool, int, float, complex, str, bytes, bytearray, type, type(len), type(lambda: 0))
)
PLAIN_KEYS = (str, int, float, bool, type(None))
MODULE_CHILDREN = ("_parameters", "_buffers", "_modules")


class Kinds(NamedTuple):
    """The classes that the walk treats apart; their subclasses too.

    Attributes:
        leaves: What is looked for, such as tensors and storages.
        modules: Objects whose children are in `_parameters`, `_buffers` and `_modules`.
        parts: Returns the named objects inside a leaf, none for most.
    """

    leaves: tuple[type, ...]
    modules: tuple[type, ...]
    parts: Parts


def walk(root: object, kinds: Kinds) -> Iterator[tuple[str, Any]]:
    """Yield each leaf in `root` with its name, in the order of the containers.

    A container is entered once, however often it occurs, so cycles end. A leaf
    is yielded once per name. The name of `root` itself is empty.
    """
    entered: set[int] = set()
    below: list[tuple[str, Iterator[tuple[object, object]]]] = [("", iter([("", root)]))]
    budget = NODES_MAX
    while below:
        prefix, pairs = below[-1]
        for key, node in pairs:
            budget -= 1
            if budget < 0:
                return
            kind = type(node)
            if kind in PLAIN_TYPES:
                continue
            if issubclass(kind, kinds.leaves):
                name = joined(prefix, key)
                yield name, node
                inner = named_parts(node, kinds.parts)
            elif id(node) in entered:
                continue
            else:
                entered.add(id(node))
                name = joined(prefix, key)
                inner = children(node, kind, kinds)
            if inner:
                below.append((name, iter(inner)))
                break
        else:
            below.pop()


def joined(name: str, key: object) -> str:
    """Return the name of a child; an empty key names it as its parent."""
    full = f"{name}.{key}" if name and key != "" else name or str(key)
    return shortened(full, NAME_MAX_CHARS)


def named_parts(leaf: object, parts: Parts) -> Pairs:
    """Return the parts of a leaf; a single one goes by the leaf's own name."""
    pairs = list(parts(leaf))
    return [("", pairs[0][1])] if len(pairs) == 1 else pairs


def children(node: object, kind: type, kinds: Kinds) -> Pairs:
    """Return the named children of a container, or of any other object."""
    if issubclass(kind, dict):
        return mapping_items(node)  # type: ignore[arg-type]
    if issubclass(kind, tuple):
        return chain(tuple_items(node, kind), attributes(node))  # type: ignore[arg-type]
    if issubclass(kind, (list, deque, set, frozenset)):
        return chain(enumerate(node), attributes(node))  # type: ignore[arg-type]
    if issubclass(kind, type) or kind.__module__ == "builtins":
        return ()
    if issubclass(kind, kinds.modules):
        return module_items(node)
    return attributes(node)


def mapping_items(mapping: dict[object, object]) -> Iterator[tuple[object, object]]:
    """Yield the values of a mapping by key; a key that is an object is walked as well."""
    for index, (key, value) in enumerate(dict.items(mapping)):
        if isinstance(key, PLAIN_KEYS):
            yield key, value
        else:
            yield f"{index}.key", key
            yield index, value
    yield from attributes(mapping)


def tuple_items(values: tuple[object, ...], kind: type) -> Pairs:
    """Return the items of a tuple: by field if it has fields, otherwise by position."""
    fields = getattr(kind, "_fields", ())
    if isinstance(fields, tuple) and len(fields) == len(values):
        return zip(fields, values)
    return enumerate(values)


def module_items(module: object) -> Iterator[tuple[object, object]]:
    """Yield parameters, buffers and submodules by name, then the other attributes."""
    rest = []
    for key, value in attributes(module):
        if key in MODULE_CHILDREN and isinstance(value, dict):
            yield from mapping_items(value)
        else:
            rest.append((key, value))
    yield from rest


def attributes(node: object) -> Iterator[tuple[str, object]]:
    """Yield the instance attributes and the filled slots of any object, without calling it."""
    with suppress(AttributeError):
        yield from list(object.__getattribute__(node, "__dict__").items())
    for base in type(node).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot in ("__dict__", "__weakref__"):
                continue
            try:
                yield slot, object.__getattribute__(node, slot)
            except AttributeError:
                continue
