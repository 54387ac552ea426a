"""What the metadata of a shared trace say that sharing would not have let them say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from iotrace.traces.digest import is_digest
from iotrace.traces.metadata import Host, Metadata
from iotrace.traces.schema import ENGINES, OPS
from iotrace.traces.sharing.card import CARD, make_card_again
from iotrace.traces.sharing.clean_metadata import clean_metadata
from iotrace.traces.sharing.leftover_search import Leftover
from iotrace.traces.sharing.pseudonyms import (
    Pseudonyms,
    is_host_pseudonym,
    is_keyed_path,
    is_pseudonym,
)
from iotrace.traces.trace import Trace

_SELECTION = re.compile(
    rf"(((step|rank)( \d+)+|span( ({'|'.join(OPS['span'])}))+)(, )?)*", re.ASCII
)
_STALE = "metadata.card, which tells of other rows (iotrace merge of all parts makes it anew)"


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: isinstance(values, list) and all(map(check, values))


# Fields of a card that tell of rows, and what they hold if they tell of no more.
_OF_ROWS: dict[str, Callable[[Any], bool]] = {
    "digest": lambda text: isinstance(text, str) and is_digest(text),
    "engines": _are(lambda word: word in ENGINES or word == "other"),
    **dict.fromkeys(
        ("requests", "data_requests", "tensors", "files", "bytes_written", "bytes_read"), _is_count
    ),
    "steps": _are(lambda step: type(step) is int),
    "ranks": _is_count,
    "processes": _is_count,
}


def metadata_leftovers(shared: Trace) -> Iterator[Leftover]:
    """Yield the fields of the metadata that sharing would have changed."""
    metadata = shared.metadata
    clean = clean_metadata(metadata, _AsTheyAre(bytes(32)))
    clean = replace(
        clean,
        format_version=metadata.format_version,
        clock=metadata.clock,
        hosts=_named_as(clean.hosts, metadata.hosts),
        recorded_on=replace(
            clean.recorded_on,
            hosts=_named_as(clean.recorded_on.hosts, metadata.recorded_on.hosts),
        ),
        extra={},
    )
    yield from _differences("metadata", metadata, clean)
    if metadata.clock and not is_pseudonym(metadata.clock):
        yield Leftover("metadata.clock", metadata.clock)
    for file in metadata.completeness.files:
        if not is_keyed_path(file.path):
            yield Leftover("metadata.completeness.files.path", file.path)
    for mount in (mount for place in metadata.places for mount in place.mounts):
        if not is_keyed_path(mount.path):
            yield Leftover("metadata.mounts.path", mount.path)
    card = card_of(metadata)
    licence, selection = str(card.get("licence", "")), str(card.get("selection", ""))
    if not re.fullmatch(r"[A-Za-z0-9.+-]{0,64}", licence):
        yield Leftover("metadata.card.licence", licence)
    if not _SELECTION.fullmatch(selection):
        yield Leftover("metadata.card.selection", selection)
    for key in metadata.extra.keys() - {CARD}:
        yield Leftover("metadata", key)
    stale = stale_fields(shared)
    for key in _wrong_fields(shared):
        if key not in stale:
            yield Leftover(f"metadata.card.{key}", str(card[key]))
    if stale:
        yield Leftover(_STALE, ", ".join(stale))


def stale_fields(shared: Trace) -> list[str]:
    """Return those of them that only tell of other rows: numbers, digests and known words."""
    card = card_of(shared.metadata)
    return [key for key in _wrong_fields(shared) if key in _OF_ROWS and _OF_ROWS[key](card[key])]


def card_of(metadata: Metadata) -> dict[str, Any]:
    """Return the trace card in the metadata, empty if there is none."""
    card = metadata.extra.get(CARD)
    return card if isinstance(card, dict) else {}


class _AsTheyAre(Pseudonyms):
    """Keeps every name, to see what else cleaning would change."""

    def path(self, path: str) -> str:
        return path


def _wrong_fields(shared: Trace) -> list[str]:
    """Return the fields of the card that are not as sharing these rows would make them."""
    card = card_of(shared.metadata)
    if not card:
        return []
    expected = make_card_again(shared, card).to_json()
    return [key for key, value in card.items() if value != expected.get(key)]


def _named_as(clean: Sequence[Host], stored: Sequence[Host]) -> tuple[Host, ...]:
    """Return the clean hosts with those stored names that are pseudonyms."""
    return tuple(
        replace(one, name=other.name) if is_host_pseudonym(other.name) else one
        for one, other in zip(clean, stored, strict=True)
    )


def _differences(where: str, stored: object, clean: object) -> Iterator[Leftover]:
    if stored == clean:
        return
    if is_dataclass(stored) and is_dataclass(clean):
        for field in fields(stored):
            if not (where == "metadata" and field.name == "extra"):
                yield from _differences(
                    f"{where}.{field.name}", getattr(stored, field.name), getattr(clean, field.name)
                )
    elif isinstance(stored, tuple) and isinstance(clean, tuple) and len(stored) == len(clean):
        for a, b in zip(stored, clean, strict=True):
            yield from _differences(where, a, b)
    else:
        yield Leftover(where, str(stored))
