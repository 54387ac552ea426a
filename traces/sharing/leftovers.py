"""Prove that a shared trace says nothing of where it was made: look at every text and every byte.

Two proofs. A shared trace may only hold what sharing makes: each text must be a word of the format,
a public word, or have the form of a pseudonym. And, where the original is at hand, none of its
strings may be in any byte: of the file as it is, of each page unpacked, of the metadata's texts.

Not looked for are texts of less than 4 bytes inside of others, texts that a public word holds too,
and, where tensor names are kept, these and what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePath

from iotrace.traces import metadata as metadata_types
from iotrace.traces.foreign_json import texts_in
from iotrace.traces.location import Location, locate
from iotrace.traces.metadata import Metadata
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import (
    ACTIONS,
    COLUMNS,
    LAYERS,
    OPS,
    TEXT_COLUMNS,
)
from iotrace.traces.sharing.card import CARD, Card
from iotrace.traces.sharing.clean_metadata import NOTES, UNSAID
from iotrace.traces.sharing.leftover_bytes import search_bytes
from iotrace.traces.sharing.leftover_metadata import card_of, metadata_leftovers, stale_fields
from iotrace.traces.sharing.leftover_search import Leftover, Search
from iotrace.traces.sharing.needles import Needles, find, needles_of
from iotrace.traces.sharing.pseudonyms import (
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
    keyed = card_of(shared.metadata).get("tensor_names") == "keyed"
    kept = () if keyed else _tensor_names(shared)
    found = [*_columns(shared, keyed), *metadata_leftovers(shared)]
    public = _public(shared, kept)
    needles = Needles() if original is None else needles_of(original, public)
    found += _whole_components(shared, needles.components)
    named = "\0".join(part for part in _components(shared) if is_engine_name(part))
    found += search_bytes(file, Search.of(needles.texts, named, public))
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
    yield from texts_in(card_of(metadata))


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
    is_part = bool(card_of(shared.metadata).get("selection")) or bool(stale_fields(shared))
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
