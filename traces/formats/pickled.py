"""A pickle as a tree that nothing is executed for: calls stay calls, objects stay descriptions.

`pickletools` names the opcodes; the stack machine here knows what each leaves behind, and nothing
of the modules that a pickle names. A hostile pickle costs time and memory in proportion to its
size.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO, cast

_MAX_ARGUMENT_BYTES = 256 << 20
_MAX_LINE_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20


class Pairs(list[tuple[Any, Any]]):
    """A dictionary: its pairs in order; keys may be anything."""


@dataclass(frozen=True)
class Global:
    """A class or function by its name."""

    module: str
    name: str


@dataclass(frozen=True)
class Persistent:
    """An object outside the pickle; torch keeps storages so."""

    key: Any


@dataclass(eq=False)
class Object:
    """What calling something would have made, and what was put into it.

    Attributes:
        maker: a `Global`, or anything a broken pickle calls.
        arguments: of the call.
        state: its attributes, as the object would have been given them.
        items: appended to it.
        pairs: stored in it by key.
    """

    maker: Any
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)
    pairs: Pairs = field(default_factory=Pairs)

    def is_a(self, module: str, name: str) -> bool:
        """Return whether it is made by something of this name in this module or package."""
        maker = self.maker
        return (
            isinstance(maker, Global)
            and maker.name == name
            and (maker.module == module or maker.module.startswith(f"{module}."))
        )

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name; the slots too."""
        states = self.state if isinstance(self.state, tuple) else (self.state,)
        return {
            key: value
            for state in states
            if isinstance(state, Pairs)
            for key, value in state
            if isinstance(key, str)
        }


class _Mark:
    """Where the arguments of an opcode begin on the stack."""


_MARK = _Mark()


def parse(source: bytes | BinaryIO) -> Any:
    """Return the tree of one pickle; a file is left right behind it.

    Raises:
        ValueError: it is no pickle, or a broken one.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(cast(BinaryIO, _Bounded(source))):
            machine.step(opcode.name, argument)
        return machine.stack.pop()
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError("a broken pickle") from error


class _Bounded:
    """A file whose reader asks for what is not there: a few bytes of a pickle name any length."""

    def __init__(self, source: bytes | BinaryIO) -> None:
        self._file = io.BytesIO(source) if isinstance(source, bytes) else source

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def read(self, count: int) -> bytes:
        """Return `count` bytes, or as many as there are.

        Raises:
            ValueError: that is more than a description of tensors holds.
        """
        if count > _MAX_ARGUMENT_BYTES:
            raise ValueError(f"an argument of {count} bytes in a pickle")
        pieces = []
        while count > 0 and (piece := self._file.read(min(count, _PIECE_BYTES))):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        """Return a line.

        Raises:
            ValueError: as `read`.
        """
        line = self._file.readline(_MAX_LINE_BYTES + 1)
        if len(line) > _MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {_MAX_LINE_BYTES} bytes in a pickle")
        return line


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """Do what one opcode says."""
        if name in _PUSHED:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _IGNORED:
            raise ValueError(f"the opcode {name} in a pickle")

    def since_mark(self) -> list[Any]:
        """Take what lies above the last mark, and the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError
        taken = self.stack[place + 1 :]
        del self.stack[place:]
        return taken

    def top(self, count: int) -> tuple[Any, ...]:
        """Take the last `count` objects."""
        if len(self.stack) < count:
            raise IndexError
        taken = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return taken

    def get(self, argument: Any) -> None:
        self.stack.append(self.memo[int(argument)])

    def put(self, argument: Any) -> None:
        self.memo[int(argument)] = self.stack[-1]

    def memoize(self, argument: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        (target.items if isinstance(target, Object) else target).extend(values)

    def store(self, values: list[Any]) -> None:
        target = self.stack[-1]
        pairs = target.pairs if isinstance(target, Object) else target
        if not isinstance(pairs, Pairs) or len(values) % 2:
            raise TypeError
        pairs.extend(zip(values[::2], values[1::2], strict=True))

    def make(self, maker: Any, arguments: Any) -> None:
        self.stack.append(Object(maker, arguments))

    def named(self, argument: Any) -> None:
        module, _, name = str(argument).partition(" ")
        self.stack.append(Global(module, name))

    def stack_named(self, argument: Any) -> None:
        module, name = self.top(2)
        self.stack.append(Global(str(module), str(name)))

    def instance(self, argument: Any) -> None:
        arguments = self.since_mark()
        self.named(argument)
        self.make(self.stack.pop(), tuple(arguments))

    def object(self, argument: Any) -> None:
        maker, *arguments = self.since_mark()
        self.make(maker, tuple(arguments))

    def build(self, argument: Any) -> None:
        target, state = self.stack[-2], self.stack.pop()
        if isinstance(target, Object):
            target.state = state


def _paired(values: list[Any]) -> Pairs:
    return Pairs(zip(values[::2], values[1::2], strict=True))


_PUSHED = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
        *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("EXT1", "EXT2", "EXT4", "NEXT_BUFFER"),
    )
)
_CONSTANTS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "NONE": lambda: None,
        "NEWTRUE": lambda: True,
        "NEWFALSE": lambda: False,
        "EMPTY_LIST": list,
        "EMPTY_TUPLE": tuple,
        "EMPTY_DICT": Pairs,
        "EMPTY_SET": list,
        "MARK": lambda: _MARK,
    }
)
_IGNORED = ("PROTO", "FRAME", "STOP", "READONLY_BUFFER")
_ACTIONS: Mapping[str, Callable[[_Machine, Any], object]] = MappingProxyType(
    {
        "LIST": lambda m, a: m.stack.append(m.since_mark()),
        "TUPLE": lambda m, a: m.stack.append(tuple(m.since_mark())),
        "TUPLE1": lambda m, a: m.stack.append(m.top(1)),
        "TUPLE2": lambda m, a: m.stack.append(m.top(2)),
        "TUPLE3": lambda m, a: m.stack.append(m.top(3)),
        "FROZENSET": lambda m, a: m.stack.append(m.since_mark()),
        "DICT": lambda m, a: m.stack.append(_paired(m.since_mark())),
        "APPEND": lambda m, a: m.append([m.stack.pop()]),
        "APPENDS": lambda m, a: m.append(m.since_mark()),
        "ADDITEMS": lambda m, a: m.append(m.since_mark()),
        "SETITEM": lambda m, a: m.store(list(m.top(2))),
        "SETITEMS": lambda m, a: m.store(m.since_mark()),
        **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
        **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.put),
        "MEMOIZE": _Machine.memoize,
        "GLOBAL": _Machine.named,
        "STACK_GLOBAL": _Machine.stack_named,
        "INST": _Machine.instance,
        "OBJ": _Machine.object,
        "REDUCE": lambda m, a: m.make(*m.top(2)),
        "NEWOBJ": lambda m, a: m.make(*m.top(2)),
        "NEWOBJ_EX": lambda m, a: m.make(*m.top(3)[:2]),
        "BUILD": _Machine.build,
        "PERSID": lambda m, a: m.stack.append(Persistent(a)),
        "BINPERSID": lambda m, a: m.stack.append(Persistent(m.stack.pop())),
        "POP": lambda m, a: m.stack.pop(),
        "POP_MARK": lambda m, a: m.since_mark(),
        "DUP": lambda m, a: m.stack.append(m.stack[-1]),
    }
)


def children(node: Any) -> Iterator[tuple[object, Any]]:
    """Yield what is in a container or an object, by key, position or attribute."""
    if isinstance(node, Pairs):
        yield from _by_plain_key(node)
    elif isinstance(node, list | tuple):
        yield from enumerate(node)
    elif isinstance(node, Object):
        yield from _by_plain_key(node.pairs)
        yield from enumerate(node.items)
        if isinstance(node.arguments, tuple):
            for argument in node.arguments:
                if isinstance(argument, Pairs | list | tuple | Object):
                    yield from (
                        children(argument)
                        if not isinstance(argument, Object)
                        else (("", argument),)
                    )
        yield from node.attributes().items()


def _by_plain_key(pairs: Pairs) -> Iterator[tuple[object, Any]]:
    for index, (key, value) in enumerate(pairs):
        yield key if isinstance(key, str | int | float | bool | None) else index, value
