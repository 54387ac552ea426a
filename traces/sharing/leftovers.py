"""Prove that a shared trace says nothing of where it was made: look at every text and every byte.

Two proofs. A shared trace may only hold what sharing makes: each text must be a word of the format,
a public word, or have the form of a pseudonym. And, where the original is at hand, none of its
strings may be in any byte: of the file as it is, of each page unpacked, of the metadata's texts.

Not looked for are texts of less than 4 bytes inside of others, texts that a public word holds too,
and, where tensor names are kept, these and what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces import metadata as metadata_types
from iotrace.traces.digest import is_digest
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.location import Location, locate, one_line
from iotrace.traces.metadata import Host, Metadata
from iotrace.traces.parquet_pages import chunks, footer, pages, unpack
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import (
    ACTIONS,
    COLUMNS,
    ENGINES,
    LAYERS,
    METADATA_KEY,
    OPS,
    TEXT_COLUMNS,
)
from iotrace.traces.sharing.arrow_schema import ARROW_KEY, arrow_schema, more_than_repeats
from iotrace.traces.sharing.card import CARD, Card, make_card_again
from iotrace.traces.sharing.clean_metadata import NOTES, UNSAID, clean_metadata
from iotrace.traces.sharing.leftover_search import Leftover, Search
from iotrace.traces.sharing.needles import Needles, find, needles_of
from iotrace.traces.sharing.pseudonyms import (
    Pseudonyms,
    is_host_pseudonym,
    is_keyed_name,
    is_keyed_path,
    is_pseudonym,
    numbers_in,
)
from iotrace.traces.sharing.public_words import (
    COUNTERS,
    DEVICE,
    DTYPE,
    EXTENSIONS,
    FILE_SYSTEMS,
    LIBRARIES,
    MACHINES,
    is_engine_name,
)
from iotrace.traces.sharing.share import KNOWN_WORDS
from iotrace.traces.trace import Trace

_CREATED_BY = re.compile(rb"parquet-cpp-arrow version \d{1,3}(\.\d{1,3}){1,3}(-SNAPSHOT)?")
_FORMAT_WORDS = (
    *("parquet-cpp-arrow version", "schema", "list", "element", "iotrace", "host", "python"),
    *("keyed", "kept", "processes_left_out", "Linux", "GiB memory", "cores"),
    *("other", "true", "false", "null"),
)
# Of the format itself: the kinds of a raw log's records stay in the dictionary of a captured
# trace's ops, though no row has them.
_OWN_WORDS = frozenset(("none", "file", "note", "thread", "seek", "taken")).union(
    *KNOWN_WORDS.values()
)
_LONGEST_JOB_NS = 366 * 86_400 * 10**9  # no wall clock is as low since 1971
_STALE = "metadata.card, which tells of other rows (iotrace merge of all parts makes it anew)"
_STEP_BYTES, _OVERLAP_BYTES = 1 << 24, 1 << 13  # no text is longer than a path


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


def find_leftovers(location: str, shared: Trace, original: Trace | None = None) -> list[Leftover]:
    """Return what identifies somebody in the shared trace at `location`; empty if nothing does.

    Each file is looked at alone, as sharing made it: joined they are another trace than the cards
    describe, and need not begin at 0.

    Args:
        location: of the file, or of the folder.
        shared: what `read_trace` made of it.
        original: the trace that it was made of; without it, forms and telling patterns are all
            that can be looked for.
    """
    files = locate(location).parts
    if len(files) == 1:
        return _of_file(files[0], shared, original)
    return [
        replace(one, where=f"{PurePath(file.paths[0]).name}: {one.where}")
        for file in files
        for one in _of_file(file, read_trace(file), original)
    ]


def _of_file(file: Location, shared: Trace, original: Trace | None) -> list[Leftover]:
    keyed = _card(shared.metadata).get("tensor_names") == "keyed"
    kept = () if keyed else _tensor_names(shared)
    found = [*_columns(shared, keyed), *_metadata_fields(shared)]
    public = _public(shared, kept)
    needles = Needles() if original is None else needles_of(original, public)
    found += _whole_components(shared, needles.components)
    named = "\0".join(part for part in _components(shared) if is_engine_name(part))
    found += _bytes(file, Search.of(needles.texts, named, public))
    return list(dict.fromkeys(found))


def kept_names(shared: Trace) -> tuple[str, ...]:
    """Return the tensor names that can be read, in order: those that are no pseudonyms."""
    return tuple(sorted(name for name in _tensor_names(shared) if not is_keyed_name(name)))


def kept_numbers(shared: Trace) -> tuple[str, ...]:
    """Return the numbers that can be read in the paths, the largest first."""
    numbers = {number for part in _components(shared) for number in numbers_in(part)}
    return tuple(sorted(numbers, key=lambda number: (-int(number), number)))


def hidden_words(shared: Trace, original: Trace) -> tuple[str, ...]:
    """Return the texts of the original that were not looked for: kept tensor names hold them."""
    names = "\0".join(kept_names(shared)).lower().encode("utf-8", "surrogatepass")
    asked = {
        text: text.decode("utf-8", "surrogatepass").lower().encode("utf-8", "surrogatepass")
        for text in needles_of(original, _public(shared, ())).texts
    }
    found = find(asked.values(), names)
    return tuple(text.decode(errors="replace") for text, lower in asked.items() if lower in found)


def _card(metadata: Metadata) -> dict[str, Any]:
    card = metadata.extra.get(CARD)
    return card if isinstance(card, dict) else {}


def _tensor_names(trace: Trace) -> tuple[str, ...]:
    tensors = trace.layer("tensor")
    return tuple({name for name in tensors.strings("name") if name is not None})


def _public(shared: Trace, kept: Collection[str]) -> str:
    """Return all text that a shared trace holds whoever made it."""
    own = [
        field.name
        for kind in vars(metadata_types).values()
        if is_dataclass(kind) and isinstance(kind, type)
        for field in fields(kind)
    ]
    own += [CARD, *(field.name for field in fields(Card))]
    own += [*COLUMNS, *LAYERS, *(op for ops in OPS.values() for op in ops)]
    own += [word for words in KNOWN_WORDS.values() for word in words]
    own += [*COUNTERS, *EXTENSIONS, *FILE_SYSTEMS, *LIBRARIES, *MACHINES, *ACTIONS]
    own += [DEVICE.pattern, DTYPE.pattern, NOTES.pattern, UNSAID, *_FORMAT_WORDS, *kept]
    own += [text for column in ("dtype", "device") for text in shared.codes(column)[1]]
    own += _strings_of(shared.metadata)
    return "\0".join(own)


def _strings_of(metadata: Metadata) -> Iterator[str]:
    """Yield the texts of the metadata that are checked one by one, by their form."""
    for place in metadata.places:
        for host in place.hosts:
            yield from (host.kernel, host.machine)
        for mount in place.mounts:
            yield from (mount.version, mount.options)
    for process in metadata.processes:
        yield from (process.python, *process.libraries.values())
    for entry in metadata.history:
        yield entry.tool_version
    yield from _strings(_card(metadata))


def _columns(shared: Trace, keyed: bool) -> Iterator[Leftover]:
    """Yield the texts in columns that sharing would not have made."""
    allowed: dict[str, Callable[[str], bool]] = {
        "path": is_keyed_path,
        "target": is_keyed_path,
        "dtype": lambda t: t == "other" or DTYPE.fullmatch(t) is not None,
        "device": lambda t: t == "other" or DEVICE.fullmatch(t) is not None,
    }
    for column in TEXT_COLUMNS:
        if column == "name":
            continue
        for text in shared.codes(column)[1]:
            check = allowed.get(column)
            if not (check(text) if check else text == "other" or text in _OWN_WORDS):
                yield Leftover(f"column {column}", text)
    yield from _names(shared, keyed)
    if shared.valid("address").any():
        yield Leftover("column address", "buffer addresses")
    begin_ns = int(shared.ints("start_ns").min()) if len(shared) else 0
    # A part keeps its place in the whole trace; whether that was one no part can tell.
    is_part = bool(_card(shared.metadata).get("selection")) or bool(_stale_fields(shared))
    if not 0 <= begin_ns <= (_LONGEST_JOB_NS if is_part else 0):
        yield Leftover("column start_ns", "times that do not begin with the first row")


def _names(shared: Trace, keyed: bool) -> Iterator[Leftover]:
    for layer in LAYERS:
        if layer == "tensor" and not keyed:
            continue
        for name in {n for n in shared.layer(layer).strings("name") if n is not None}:
            is_form = is_keyed_name if layer == "tensor" else is_pseudonym
            if not (is_form(name) or (layer == "counter" and name in COUNTERS)):
                yield Leftover(f"column name, layer {layer}", name)


def _components(shared: Trace) -> set[str]:
    """Return the components of all paths."""
    paths = [path for column in ("path", "target") for path in shared.codes(column)[1]]
    paths += [file.path for file in shared.metadata.completeness.files]
    paths += [mount.path for place in shared.metadata.places for mount in place.mounts]
    return {part for path in paths for part in path.split("/")}


def _whole_components(shared: Trace, components: Collection[str]) -> Iterator[Leftover]:
    for part in sorted(_components(shared) & set(components)):
        yield Leftover("a component of a path of the original", part)


class _AsTheyAre(Pseudonyms):
    """Keeps every name, to see what else cleaning would change."""

    def path(self, path: str) -> str:
        return path


def _metadata_fields(shared: Trace) -> Iterator[Leftover]:
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
    card = _card(metadata)
    licence, selection = str(card.get("licence", "")), str(card.get("selection", ""))
    if not re.fullmatch(r"[A-Za-z0-9.+-]{0,64}", licence):
        yield Leftover("metadata.card.licence", licence)
    if not re.fullmatch(r"((step|rank|span)( [a-z0-9]+)+(, )?)*", selection):
        yield Leftover("metadata.card.selection", selection)
    for key in metadata.extra.keys() - {CARD}:
        yield Leftover("metadata", key)
    stale = _stale_fields(shared)
    for key in _wrong_fields(shared):
        if key not in stale:
            yield Leftover(f"metadata.card.{key}", str(card[key]))
    if stale:
        yield Leftover(_STALE, ", ".join(stale))


def _wrong_fields(shared: Trace) -> list[str]:
    """Return the fields of the card that are not as sharing these rows would make them."""
    card = _card(shared.metadata)
    if not card:
        return []
    expected = make_card_again(shared, card).to_json()
    return [key for key, value in card.items() if value != expected.get(key)]


def _stale_fields(shared: Trace) -> list[str]:
    """Return those of them that only tell of other rows: numbers, digests and known words."""
    card = _card(shared.metadata)
    return [key for key in _wrong_fields(shared) if key in _OF_ROWS and _OF_ROWS[key](card[key])]


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


def _bytes(file: Location, search: Search) -> Iterator[Leftover]:
    """Yield what is in the bytes of a file: as they are, unpacked, and outside of the columns."""
    path = file.paths[0]
    try:
        with file.open(path) as source:
            described = pq.read_metadata(source)
            coded = (described.metadata or {}).get(ARROW_KEY, b"")
            plain = footer(source).replace(coded, b"") if coded else footer(source)
            yield from search.in_text("the footer and its statistics", plain)
            size = source.size()
            for begin in range(0, size, _STEP_BYTES):
                part = source.read_at(min(_STEP_BYTES + _OVERLAP_BYTES, size - begin), begin)
                yield from search.in_binary("the file as it is", part)
            for chunk in chunks(source):
                for page in pages(source, chunk):
                    content = unpack(source, chunk, page)
                    is_text = chunk.column in TEXT_COLUMNS and page.is_plain
                    look = search.in_text if is_text else search.in_binary
                    yield from look(f"a page of column {chunk.column}", content)
            yield from _outside_columns(described, search)
    except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
        raise TraceFormatError(f"{path} cannot be searched ({one_line(error)})") from error


def _outside_columns(described: pq.FileMetaData, search: Search) -> Iterator[Leftover]:
    for name in described.schema.names:
        if name not in (*COLUMNS, "element"):
            yield Leftover("a column", name)
    if not _CREATED_BY.fullmatch(described.created_by.encode()):
        yield Leftover("created_by", described.created_by)
    stored = described.metadata or {}
    for key, value in stored.items():
        if key == METADATA_KEY:
            said = "\0".join(_strings(parse_foreign_json(value)))
            yield from search.in_text("the metadata", said.encode("utf-8", "surrogatepass"))
        elif key == ARROW_KEY:
            message = arrow_schema(value)
            yield from more_than_repeats(message, stored.get(METADATA_KEY, b""))
            yield from search.in_text("the schema of Arrow", message)
        else:
            yield Leftover("a key of the file", key.decode(errors="replace"))


def _strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _strings(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _strings(item)
    elif isinstance(tree, str):
        yield tree
