"""The strings of an original that a shared trace must not hold, and the search for them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from iotrace.traces.metadata import Metadata
from iotrace.traces.sharing.clean_metadata import NOTES
from iotrace.traces.sharing.pseudonyms import Pseudonyms
from iotrace.traces.sharing.public_words import (
    FILE_SYSTEMS,
    LIBRARIES,
    MACHINES,
    MOUNT_OPTIONS,
)
from iotrace.traces.trace import Trace

MIN_TEXT_BYTES = 4  # in text; fewer bytes are found anywhere by chance
MIN_BINARY_BYTES = 7  # in compressed or numeric bytes, of which a trace has many millions
_MIN_WORD = 5  # of a word inside a component
_WINDOW = 1 << 22
_PARTS = re.compile(r"[/\s=,:;'\"@?&()\[\]{}<>|]+")
_WORDS = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Needles:
    """What must not be found.

    Attributes:
        components: whole components of paths and names, to be compared as such.
        texts: bytes to be searched for anywhere, at least `MIN_TEXT_BYTES` long.
    """

    components: frozenset[str] = frozenset()
    texts: tuple[bytes, ...] = ()


def needles_of(original: Trace, public: str) -> Needles:
    """Return what identifies `original`, besides what is in the text `public`.

    Every component of every path, each word of these, all of the command line, hosts, processes,
    mounts, libraries and notes are taken, unless sharing would leave them as they are for
    everybody (`__0_0.distcp`, `ext4`).
    """
    names = Pseudonyms(bytes(32))
    paths = [path for column in ("path", "target") for path in original.codes(column)[1]]
    metadata = original.metadata
    paths += [file.path for file in metadata.completeness.files]
    paths += [mount.path for place in metadata.places for mount in place.mounts]
    components = {part for path in paths for part in path.split("/") if names.path(part) != part}
    parts = set(components) | {part for text in _texts(metadata) for part in _PARTS.split(text)}
    parts |= {word for part in parts for word in _WORDS.findall(part) if len(word) >= _MIN_WORD}
    lowered = public.lower()
    searched = {
        part
        for part in parts
        if len(part.encode("utf-8", "surrogatepass")) >= MIN_TEXT_BYTES
        and _LETTER.search(part)
        and part.lower() not in lowered
        and names.path(part) != part
        and part not in FILE_SYSTEMS | LIBRARIES | MACHINES
    }
    texts = {variant for part in searched for variant in _spellings(part)}
    return Needles(frozenset(components), tuple(sorted(texts)))


def _spellings(part: str) -> Iterator[bytes]:
    """Yield how a text may be stored: as it is, in a trace's escapes, or in JSON's."""
    raw = part.encode("utf-8", "surrogateescape" if part.isprintable() else "surrogatepass")
    yield raw
    yield part.encode("ascii", "backslashreplace")
    yield part.encode("utf-8", "backslashreplace")


def _texts(metadata: Metadata) -> Iterator[str]:
    """Yield the texts of the metadata that sharing changes or drops."""
    yield from metadata.command
    for place in metadata.places:
        for host in place.hosts:
            yield from (host.name, host.boot_id, host.kernel, host.machine)
        for mount in place.mounts:
            yield from (mount.source, mount.file_system, mount.version)
            yield from (o for o in mount.options.split(",") if not MOUNT_OPTIONS.fullmatch(o))
    for process in metadata.processes:
        yield from (*process.argv, process.executable, process.prefix)
        yield from (*process.libraries, *process.libraries.values())
    yield from (note for note in metadata.completeness.notes if not NOTES.fullmatch(note))
    for entry in metadata.history:
        yield from (entry.action, entry.detail)
    for holder in _holders(metadata):
        yield from _free_texts(holder.extra)


def _holders(metadata: Metadata) -> Iterator[Any]:
    completeness = metadata.completeness
    yield from (metadata, completeness, metadata.recorded_on, *metadata.processes)
    for place in metadata.places:
        yield from (*place.hosts, *place.mounts)
    yield from (*completeness.files, *completeness.processes, *metadata.history)


def _free_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _free_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _free_texts(item)


def find(needles: Collection[bytes], content: bytes) -> set[bytes]:
    """Return which of `needles`, each of at least 4 bytes, are in `content`.

    Looks at the first two bytes of all places at once, then at the first four, then at the rest.
    """
    if not needles:
        return set()
    by_start: defaultdict[int, list[bytes]] = defaultdict(list)
    starts = np.zeros(1 << 16, np.bool_)
    for needle in needles:
        by_start[int.from_bytes(needle[:4], "little")].append(needle)
        starts[int.from_bytes(needle[:2], "little")] = True
    first_four = np.array(sorted(by_start), np.uint32)
    longest = max(map(len, needles))
    found: set[bytes] = set()
    for begin in range(0, len(content), _WINDOW):
        window = content[begin : begin + _WINDOW + longest]
        values = np.frombuffer(window, np.uint8)
        if len(values) < 4:
            break
        pairs = values[:-1].astype(np.uint16) | values[1:].astype(np.uint16) << 8
        places = np.flatnonzero(starts[pairs[:-2]])
        fours = pairs[places].astype(np.uint32) | pairs[places + 2].astype(np.uint32) << 16
        near = np.searchsorted(first_four, fours).clip(max=len(first_four) - 1)
        hits = first_four[near] == fours
        for place, four in zip(places[hits].tolist(), fours[hits].tolist(), strict=True):
            found.update(n for n in by_start[four] if window.startswith(n, place))
    return found
