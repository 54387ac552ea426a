"""Make a trace safe to publish: every text keyed, allowed or dropped; every time relative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from iotrace.traces.check import check_trace, contradiction
from iotrace.traces.columns import Column, Ints, Strings
from iotrace.traces.errors import IotraceError, TraceFormatError
from iotrace.traces.metadata import HistoryEntry
from iotrace.traces.regular import open_regular
from iotrace.traces.schema import APIS, ENGINES, OFFSET_SOURCES, OPS
from iotrace.traces.selection import Selection
from iotrace.traces.sharing.card import CARD, make_card
from iotrace.traces.sharing.clean_metadata import clean_metadata
from iotrace.traces.sharing.pseudonyms import Pseudonyms
from iotrace.traces.sharing.public_words import COUNTERS, DEVICE, DTYPE
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version

KEEP, KEY = "keep", "key"
_INT64 = np.iinfo(np.int64)
_MAX_KEY_FILE_BYTES = 1 << 20

# The words of each column; sharing turns another into `other`.
KNOWN_WORDS: Final = {
    "layer": frozenset(OPS),
    "op": frozenset(word for words in OPS.values() for word in words),
    "api": frozenset(APIS),
    "engine": frozenset(ENGINES),
    "offset_source": frozenset(OFFSET_SOURCES),
}


@dataclass(frozen=True)
class ShareOptions:
    """How to share.

    Attributes:
        key: of the pseudonyms; empty: to be drawn, and forgotten (see `publish`).
        tensor_names: `keep` or `key`.
        selection: the rows to share.
        licence: an SPDX identifier, such as `CC-BY-4.0`; empty for none.
    """

    key: bytes = field(default=b"", repr=False)
    tensor_names: str = KEEP
    selection: Selection = field(default_factory=Selection)
    licence: str = ""


def read_key(path: Path) -> bytes:
    """Return the key in a file: its bytes as they are.

    Raises:
        IotraceError: it cannot be read, or is no key.
    """
    try:
        with open_regular(path) as file:
            key = file.read(_MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise IotraceError(
            f"cannot read the key {path}: {error.strerror}; "
            "make one with `head -c 32 /dev/urandom > FILE`"
        ) from error
    Pseudonyms(key)
    return key


def share_trace(trace: Trace, options: ShareOptions) -> Trace:
    """Return what of `trace` may be published.

    The rows stay in their order, with their sizes, offsets, results and identities, and with times
    since the first start of `trace`, so that the parts of one trace are joined as they were apart;
    a plan made of them is the plan made of the original. Needs all columns.

    Raises:
        SelectionError: nothing of the trace is selected.
        TraceFormatError: what is selected contradicts itself.
        PseudonymError: two names got one pseudonym, which another key avoids.
    """
    chosen = options.selection(trace)
    if problems := check_trace(chosen, gaps=False):
        raise TraceFormatError(contradiction(problems))
    names = Pseudonyms(options.key)
    first_ns = int(trace.ints("start_ns").min()) if len(trace) else 0
    columns: dict[str, Column] = {
        "path": _mapped(chosen, "path", names.path),
        "target": _mapped(chosen, "target", names.path),
        "name": _names(chosen, names, options.tensor_names == KEY),
        "dtype": _mapped(chosen, "dtype", lambda t: t if DTYPE.fullmatch(t) else "other"),
        "device": _mapped(chosen, "device", lambda t: t if DEVICE.fullmatch(t) else "other"),
        "address": Ints(np.zeros(len(chosen), np.uint64), np.zeros(len(chosen), np.bool_)),
        **_since(first_ns, chosen),
    }
    for column, known in KNOWN_WORDS.items():
        columns[column] = _mapped(chosen, column, lambda t, known=known: _known(t, known))  # type: ignore[misc]
    shared = chosen.with_columns(columns)
    metadata = clean_metadata(chosen.metadata, names).with_history(
        HistoryEntry("share", tool_version=tool_version())
    )
    # The same for all parts of one trace under one key: it joins their times again.
    epoch = trace.metadata.to_json().decode()
    metadata = replace(metadata, clock=names.word("clock", epoch))
    shared = shared.with_metadata(metadata)
    card = make_card(shared, options.licence, options.tensor_names, str(options.selection))
    return shared.with_metadata(replace(metadata, extra={CARD: card.to_json()}))


def _mapped(trace: Trace, column: str, change: Callable[[str], str]) -> Strings:
    codes, texts = trace.codes(column)
    return _used(codes, texts, change)


def _used(codes: np.ndarray, texts: Sequence[str], change: Callable[[str], str]) -> Strings:
    """Return the changed texts of the rows; a text that no row uses is left out."""
    used = np.unique(codes[codes >= 0])
    place = np.full(len(texts) + 1, -1, np.int32)
    place[used] = np.arange(len(used))
    return Strings(place[codes], [change(texts[i]) for i in used.tolist()])


def _known(text: str, known: frozenset[str]) -> str:
    return text if text in known else "other"


def _names(trace: Trace, names: Pseudonyms, keyed: bool) -> Strings:
    """Return tensor names as asked, counters by name, and any other label keyed as a whole."""
    codes, texts = trace.codes("name")
    tensor, counter = (trace.row_mask(layer=layer) for layer in ("tensor", "counter"))
    # One code per text and kind of row: a counter may be called like a tensor.
    kind = np.where(tensor, 0, np.where(counter, 1, 2))
    split = np.where(codes < 0, -1, codes * 3 + kind).astype(np.int32)
    triple = [text for text in texts for _ in range(3)]
    used = np.unique(split[split >= 0])
    place = np.full(len(triple) + 1, -1, np.int32)
    place[used] = np.arange(len(used))

    def change(i: int) -> str:
        text, of = triple[i], i % 3
        if of == 0 and not keyed:
            return text
        if of == 1 and text in COUNTERS:
            return text
        return names.name(text) if of == 0 else names.word("label", text)

    return Strings(place[split], [change(i) for i in used.tolist()])


def _since(first_ns: int, trace: Trace) -> dict[str, Column]:
    """Return the times since `first_ns`, the first start of all that the trace is part of."""
    start_ns = trace.ints("start_ns")
    if int(start_ns.max(initial=first_ns)) - first_ns > _INT64.max:
        raise TraceFormatError("the trace's times span more than 292 years; it is damaged")
    valid = trace.valid("end_ns")
    end_ns = np.where(valid, trace.ints("end_ns"), first_ns)
    floor, ceiling = max(_INT64.min, first_ns + _INT64.min), min(_INT64.max, first_ns + _INT64.max)
    return {
        "start_ns": start_ns - first_ns,
        "end_ns": Ints(end_ns.clip(floor, ceiling) - first_ns, valid),
    }
