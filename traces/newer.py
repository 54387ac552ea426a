"""Traces of a later minor version: words that this one does not know are left out, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iotrace.traces.columns import Mask, Strings
from iotrace.traces.schema import (
    APIS,
    FORMAT_VERSION,
    LAYERS,
    OFFSET_SOURCES,
    OPS,
    REQUEST_LAYERS,
)
from iotrace.traces.sync_kind import SyncKind
from iotrace.traces.trace import Trace
from iotrace.traces.words import listed, plural


def is_newer(version: str) -> bool:
    """Return whether a format is a later minor version than that of this package.

    >>> is_newer("1.0"), is_newer("1.999")
    (False, True)
    """
    return int(version.partition(".")[2]) > int(FORMAT_VERSION.partition(".")[2])


def known_words(trace: Trace, version: str) -> Trace:
    """Return what a trace of a newer version says in words that this version knows.

    Rows of another layer, op or kind of sync are left out; another api or source of offsets
    becomes null. A note in the completeness tells what was left out.
    """
    layers = _is_unknown(trace, "layer", LAYERS)
    ops = np.zeros(len(trace), np.bool_)
    for layer, known in OPS.items():
        ops |= trace.row_mask(layer=layer) & _is_unknown(trace, "op", known)
    flags = trace.ints("flags", null=0)
    syncs = trace.row_mask(layer=REQUEST_LAYERS, op="sync") & (flags > max(SyncKind))
    unknown = layers | ops | syncs
    named = [*_named(trace, "layer", layers), *_named(trace, "op", ops)]
    named += [f"sync of kind {kind}" for kind in np.unique(flags[syncs]).tolist()]
    whole = trace.metadata.completeness
    trace = trace.where(~unknown)
    for column, words in (("api", APIS), ("offset_source", OFFSET_SOURCES)):
        if column in trace.columns:
            trace = _null_unknown(trace, column, words)
    if not unknown.any():
        return trace
    note = (
        f"format {version} is newer than {FORMAT_VERSION}: {plural(int(unknown.sum()), 'row')} in "
        f"words not known here left out ({listed(named)}); install a newer iotrace"
    )
    completeness = replace(whole, notes=(*whole.notes, note))
    return trace.with_metadata(replace(trace.metadata, completeness=completeness))


def _is_unknown(trace: Trace, column: str, words: Sequence[str]) -> Mask:
    codes, texts = trace.codes(column)
    return np.array([*(text not in words for text in texts), True])[codes]


def _named(trace: Trace, column: str, rows: Mask) -> list[str]:
    codes, texts = trace.codes(column)
    return [f"{column} {texts[code][:40]!r}" for code in np.unique(codes[rows]).tolist()]


def _null_unknown(trace: Trace, column: str, words: Sequence[str]) -> Trace:
    codes, texts = trace.codes(column)
    kept = np.where(_is_unknown(trace, column, words), -1, codes)
    return trace.with_columns({column: Strings(kept, texts)})
