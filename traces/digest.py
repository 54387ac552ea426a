"""A digest of the work in a trace, the same wherever and under whatever names it was done.

It depends on the requests and tensors in their order: op, api, engine, rank, stream, file identity,
offsets, lengths, results, flags, steps, the shape of the file tree below the common folder, and the
tensors' dtypes, shapes and places. It does not depend on names, times, hosts, addresses, spans or
counters. A trace and what `share` makes of it have one digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from iotrace.traces.columns import IntArray
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace

SCHEME = "w1"  # changes whenever the same trace would get another digest
_Hash: TypeAlias = "hashlib._Hash"
_NULL = np.iinfo(np.int64).min
_WORDS = ("layer", "op", "api", "engine", "dtype")
_NUMBERS = ("rank", "offset", "length", "result", "flags", "step", "tensor_offset")


def workload_digest(trace: Trace) -> str:
    """Return the digest of the requests and tensors of `trace`, as `w1:` and 64 hex digits."""
    work = trace.layer(*REQUEST_LAYERS, "tensor")
    order = np.lexsort((work.ints("seq"), work.ints("process"), work.ints("start_ns")))
    process = work.ints("process")[order]
    hashed = hashlib.sha256(f"{SCHEME} {len(order)}".encode())
    for column in _WORDS:
        _add_texts(hashed, work, column, order)
    for column in _NUMBERS:
        _add(hashed, column, work.ints(column, null=0)[order])
        _add(hashed, "valid", work.valid(column)[order].astype(np.int64))
    _add(hashed, "process", _ordinals(process))
    for column in ("thread", "file"):
        value = np.where(work.valid(column), work.ints(column), _NULL)[order]
        _add(hashed, column, np.where(value == _NULL, -1, _ordinals(process, value)))
    _add_tree(hashed, work, order)
    _add(hashed, "name", _ordinals(work.codes("name")[0][order]))
    _add_shapes(hashed, work, order)
    return f"{SCHEME}:{hashed.hexdigest()}"


def is_digest(text: str) -> bool:
    """Return whether `text` is of the form of a digest."""
    return re.fullmatch(r"w\d{1,3}:[0-9a-f]{64}", text, re.ASCII) is not None


def _add(hashed: _Hash, what: str, values: npt.NDArray[np.int64]) -> None:
    hashed.update(what.encode() + np.ascontiguousarray(values, "<i8").tobytes())


def _add_texts(hashed: _Hash, work: Trace, column: str, order: IntArray) -> None:
    codes, texts = work.codes(column)
    ordinals, firsts = _numbered(codes[order])
    listed = [texts[code] if code >= 0 else "" for code in codes[order][firsts].tolist()]
    hashed.update("\0".join(listed).encode("utf-8", "surrogatepass"))
    _add(hashed, column, ordinals)


def _ordinals(*keys: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> IntArray:
    """Return, per row, when its keys were first seen: 0, 1, 2, ..."""
    if len(keys) == 1:
        return _numbered(keys[0])[0]
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    return _numbered(group.ravel())[0]


def _numbered(
    values: npt.NDArray[np.int64] | npt.NDArray[np.int32],
) -> tuple[IntArray, IntArray]:
    """Return the ordinal of each value by first appearance, and the rows of these."""
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    ordinal = np.empty(len(first), np.int64)
    ordinal[appearance] = np.arange(len(first))
    return ordinal[group.ravel()], first[appearance].astype(np.int64)


def _add_tree(hashed: _Hash, work: Trace, order: IntArray) -> None:
    """Add the paths: which are equal, and which lie in one folder, but not their names."""
    columns = [work.codes(column) for column in ("path", "target")]
    used = [np.unique(codes[codes >= 0]).tolist() for codes, _ in columns]
    paths = [texts[i] for (_, texts), own in zip(columns, used, strict=True) for i in own]
    above = _common_depth(paths)
    seen: dict[str, int] = {}
    for codes, texts in columns:
        ordinals, firsts = _numbered(codes[order])
        for code in codes[order][firsts].tolist():
            parts = texts[code].split("/")[above:] if code >= 0 else []
            places = [seen.setdefault(part, len(seen)) for part in parts]
            _add(hashed, "path" if code >= 0 else "none", np.array(places, np.int64))
        _add(hashed, "paths", ordinals)


def _common_depth(paths: Sequence[str]) -> int:
    """Return how many components all folders of `paths` share at their beginning."""
    folders = [path.split("/")[:-1] for path in paths]
    if not folders:
        return 0
    low, high = min(folders), max(folders)
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(differ, min(len(low), len(high)))


def _add_shapes(hashed: _Hash, work: Trace, order: IntArray) -> None:
    shapes = work.shapes()
    listed: Iterable[str] = (repr(shapes[row]) for row in order.tolist())
    hashed.update("\n".join(listed).encode())
