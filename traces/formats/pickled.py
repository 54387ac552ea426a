"""A pickle as a tree that nothing is executed for: calls stay calls, objects stay descriptions.

`pickletools` names the opcodes; the stack machine here knows what each leaves behind, and nothing
of the modules that a pickle names. A hostile pickle costs no more time and memory than a real one
of the largest checkpoints.
"""

from __future__ import annotations

import gc
import io
import pickletools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO, cast

from iotrace.traces.environment import available_memory_bytes

_MAX_ARGUMENT_BYTES = 256 << 20
_MAX_LINE_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20
# An index of DCP has 106 for each tensor, torch.save 30 to 40; a million tensors are large.
MAX_OPCODES = 1 << 27
# What they leave behind, in bytes of CPython; all else is a number or a place in a list. Real
# pickles take 40 on average.
_VALUE_BYTES = 40
_LIST_BYTES, _MEMO_BYTES, _OBJECT_BYTES = 80, 140, 240


class Pairs(list[tuple[Any, Any]]):
    """A dictionary: its pairs in order; keys may be anything."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Global:
    """A class or function by its name."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Persistent:
    """An object outside the pickle; torch keeps storages so."""

    key: Any


@dataclass(eq=False, slots=True)
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


def parse(
    source: bytes | BinaryIO, most_opcodes: int = MAX_OPCODES, limit_bytes: int | None = None
) -> Any:
    """Return the tree of one pickle; a file is left right behind it.

    Args:
        source: the pickle.
        most_opcodes: that it may have.
        limit_bytes: most memory that the tree may take; by default half of what is there.

    Raises:
        ValueError: it is no pickle, or a broken one, or takes more than that.
    """
    machine = _Machine()
    limit = left = limit_bytes or available_memory_bytes() // 2
    collects = gc.isenabled()
    gc.disable()  # or it goes through all that was built, again and again
    try:
        operations = pickletools.genops(cast(BinaryIO, _Bounded(source)))
        for count, (opcode, argument, _) in enumerate(operations):
            left -= _BYTES.get(opcode.name, _VALUE_BYTES)
            if isinstance(argument, str | bytes | bytearray):
                left -= 2 * len(argument)
            if left < 0:
                raise ValueError(f"a pickle that takes more than {limit:,} bytes of memory")
            if count >= most_opcodes:
                raise ValueError(f"a pickle of more than {most_opcodes:,} opcodes")
            machine.step(opcode.name, argument)
        return machine.stack.pop()
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError("a broken pickle") from error
    finally:
        if collects:
            gc.enable()


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
        if count <= _PIECE_BYTES:
            return self._file.read(count)
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
_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET", "LIST", "DICT"), _LIST_BYTES),
        **dict.fromkeys(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET"), _LIST_BYTES),
        **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _MEMO_BYTES),
        **dict.fromkeys(("GLOBAL", "STACK_GLOBAL", "PERSID", "BINPERSID"), _LIST_BYTES),
        **dict.fromkeys(("REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST"), _OBJECT_BYTES),
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
    """Yield what is in a container or an object, by key, position or attribute.

    What is passed over is None, for who counts: many objects may have one list of arguments.
    """
    if isinstance(node, Pairs):
        yield from _by_plain_key(node)
    elif isinstance(node, list | tuple):
        yield from enumerate(node)
    elif isinstance(node, Object):
        yield from _by_plain_key(node.pairs)
        yield from enumerate(node.items)
        for argument in node.arguments if isinstance(node.arguments, tuple) else ():
            if isinstance(argument, Pairs | list | tuple):
                yield from children(argument)
            else:
                yield "", argument if isinstance(argument, Object) else None
        for state in node.state if isinstance(node.state, tuple) else (node.state,):
            yield from _by_plain_key(state) if isinstance(state, Pairs) else (("", None),)


def _by_plain_key(pairs: Pairs) -> Iterator[tuple[object, Any]]:
    for index, (key, value) in enumerate(pairs):
        yield key if isinstance(key, str | int | float | bool | None) else index, value
