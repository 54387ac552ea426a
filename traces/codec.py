"""Frozen dataclasses as JSON objects, checked on the way in.

A type is described by its fields alone: int, float, str, bool, `X | None`, `tuple[X, ...]`,
`dict[str, X]` and other such dataclasses. A field called `extra` takes the keys that this
version does not know and gives them back when the value is written.
"""

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, TypeVar

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.text import decode_path, encode_path

T = TypeVar("T")

MAX_JSON_BYTES = 64 << 20  # 300 000 files of 200 bytes each
MAX_DEPTH = 32  # of what a later version may add
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


def dump_json(value: Any) -> bytes:
    """Return the JSON object of dataclass instance `value`, as ASCII.

    Raises:
        TraceFormatError: a number of it is one that `decode` refuses.
    """
    return json.dumps(_encode(value), separators=(",", ":"), allow_nan=False).encode("ascii")


def parse_json(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`, unchecked but of bounded size and depth.

    Raises:
        TraceFormatError: `data` is not a JSON object, or too large.
    """
    if len(data) > MAX_JSON_BYTES:
        raise TraceFormatError(
            f"the metadata takes {len(data)} bytes, more than {MAX_JSON_BYTES}: not a trace's"
        )
    try:
        tree = parse_foreign_json(data, parse_constant=_finite, parse_float=_finite)
    except ValueError as error:  # UnicodeDecodeError is a ValueError
        raise TraceFormatError(
            f"the metadata is not valid JSON ({_first_line(error)}); write the trace again"
        ) from error
    return typing.cast(dict[str, Any], _checked(dict, tree, ""))


def decode(cls: type[T], tree: dict[str, Any]) -> T:
    """Return the instance of dataclass `cls` that `tree` describes.

    Raises:
        TraceFormatError: a value is missing or has a wrong type.
    """
    return typing.cast(T, _decode(cls, tree, ""))


def _encode(value: Any) -> Any:
    if isinstance(value, str):
        return encode_path(value)
    if isinstance(value, dict):
        return {encode_path(key): _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if dataclasses.is_dataclass(value):
        known = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        extra = known.pop("extra", {})
        for name, item in known.items():
            if type(item) is int:
                _checked_int(item, name)
        return _encode({**extra, **known})
    return value


def _decode(expected: Any, value: Any, where: str) -> Any:
    """Check `value` against type `expected`; `where` is its dotted name for messages."""
    # First what there is most of.
    if expected is str:
        return decode_path(_checked(str, value, where))
    if expected is int:
        return _checked_int(value, where)
    origin, arguments = _parts(expected)
    if origin is types.UnionType:
        return None if value is None else _decode(arguments[0], value, where)
    if origin is tuple:
        items = _checked(list, value, where)
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin is dict:
        pairs = _checked(dict, value, where).items()
        return {decode_path(k): _decode(arguments[1], v, f"{where}.{k}") for k, v in pairs}
    if expected is object:
        return _decode_free(value)
    if dataclasses.is_dataclass(expected):
        return _decode_object(expected, _checked(dict, value, where), where)
    return _checked(expected, value, where)


def _decode_object(cls: Any, value: dict[str, Any], where: str) -> Any:
    hints = _type_hints(cls)
    known: dict[str, Any] = {}
    extra: dict[str, object] = {}
    for key, item in value.items():
        if key in hints and key != "extra":
            known[key] = _decode(hints[key], item, f"{where}.{key}".lstrip("."))
        else:
            extra[decode_path(key)] = _decode_free(item)
    if "extra" in hints:
        known["extra"] = extra
    missing = [f.name for f in dataclasses.fields(cls) if f.name not in known and not _optional(f)]
    if missing:
        raise TraceFormatError(
            f"the metadata lacks {f'{where}.{missing[0]}'.lstrip('.')!r}; write the trace again"
        )
    return cls(**known)


# Of the same few classes, for each of what may be a million objects.
_type_hints = functools.cache(typing.get_type_hints)


@functools.cache
def _parts(expected: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(expected), typing.get_args(expected)


def _optional(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _decode_free(value: Any, depth: int = 0) -> Any:
    """Decode a value of a type this version does not know."""
    if depth > MAX_DEPTH:
        raise TraceFormatError("the metadata is nested too deeply; write the trace again")
    if isinstance(value, str):
        return decode_path(value)
    if isinstance(value, list):
        return [_decode_free(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {decode_path(key): _decode_free(item, depth + 1) for key, item in value.items()}
    return value


def _checked(expected: type, value: Any, where: str) -> Any:
    if expected is float and type(value) is int:
        return float(_checked_int(value, where))
    if type(value) is not expected:
        raise TraceFormatError(
            f"the metadata's {where or 'value'!r} is of type {type(value).__name__}, "
            f"not {expected.__name__}; write the trace again"
        )
    return value


def _checked_int(value: Any, where: str) -> int:
    number: int = _checked(int, value, where)
    if not _INT_MIN <= number <= _INT_MAX:
        raise TraceFormatError(
            f"the metadata's {where!r} does not fit a signed integer of 64 bits; "
            "write the trace again"
        )
    return number


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"{literal[:40]} is not a finite number")
    return number


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
