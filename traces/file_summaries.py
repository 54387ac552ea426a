"""The files of a trace, in numbers: columns, of which few rows are ever looked at."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.lazy_rows import LazyRows
from iotrace.traces.local_storage import owners
from iotrace.traces.renames import Renames
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.trace import Trace

_UNKNOWN = -1


@dataclass(frozen=True)
class FileSummary:
    """One file by its last name. `final_size` (bytes) is `None` where it is not known."""

    path: str
    bytes_written: int
    bytes_read: int
    final_size: int | None
    requests: int


@dataclass(frozen=True, eq=False)
class FileSummaries(LazyRows[FileSummary]):
    """The files in the order of their first use.

    Attributes:
        name: gives the path of the file at a place.
        bytes_written, bytes_read, requests: per file.
        final_size: per file, in bytes; -1: not known.
    """

    name: Callable[[int], str]
    bytes_written: IntArray
    bytes_read: IntArray
    final_size: IntArray
    requests: IntArray

    @classmethod
    def of(cls, requests: Trace) -> "FileSummaries":
        """Sum the requests by file identity, then the identities by last name."""
        codes = requests.text_codes("path")
        rows = np.flatnonzero(requests.valid("file"))
        keys = _key(requests.ints("process")[rows], requests.ints("file")[rows])
        identities, group = np.unique(keys, return_inverse=True)
        named = codes[rows] >= 0
        places, first = np.unique(group[named], return_index=True)
        order = np.argsort(first)
        places, first_row = places[order], rows[named][first[order]]
        joined, name = _joined(requests, codes[first_row].astype(np.int64), first_row)
        count = int(joined.max(initial=-1)) + 1
        whose = np.full(len(identities), count)  # the last: of no name
        whose[places] = joined
        owner = whose[group]
        sums = [np.zeros(count + 1, np.int64) for _ in range(3)]
        ops = (requests.row_mask(op=op)[rows] for op in reversed(DATA_OPS))
        result = requests.ints("result", null=0).clip(min=0)[rows]
        for total, mask in zip(sums, ops, strict=False):
            np.add.at(total, owner[mask], result[mask])
        np.add.at(sums[2], owner, 1)
        written, read, number = (column[:count] for column in sums)
        return cls(name, written, read, _sizes(requests, identities, places, joined), number)

    def __len__(self) -> int:
        return len(self.requests)

    def row(self, place: int) -> FileSummary:
        """Return one file."""
        size = int(self.final_size[place])
        return FileSummary(
            self.name(place),
            int(self.bytes_written[place]),
            int(self.bytes_read[place]),
            None if size == _UNKNOWN else size,
            int(self.requests[place]),
        )

    def busiest(self, most: int) -> tuple[FileSummary, ...]:
        """Return the files that most bytes were moved of, at most so many."""
        order = np.argsort(-(self.bytes_written + self.bytes_read), kind="stable")
        return tuple(self[place] for place in order[:most].tolist())


def _key(process: IntArray, file: IntArray) -> IntArray:
    return (process << 32) | (file & 0xFFFFFFFF)


def _joined(
    requests: Trace, codes: IntArray, first_row: IntArray
) -> tuple[IntArray, Callable[[int], str]]:
    """Return which file of the result each identity is part of, and what gives the names."""
    renames, owner = Renames(requests), owners(requests)
    if not renames and owner is None and requests.has_distinct_texts("path"):
        found, first, place = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        found = found[order]
        return rank[place], lambda index: requests.text("path", int(found[index]))
    paths = requests.codes("path")[1]
    whose = np.full(len(codes), -1) if owner is None else owner[first_row]
    names: dict[tuple[int, str], int] = {}
    joined = [
        names.setdefault((host, renames.final_name(paths[code], row)), len(names))
        for host, code, row in zip(whose.tolist(), codes.tolist(), first_row.tolist(), strict=True)
    ]
    return np.array(joined, np.int64), [name for _, name in names].__getitem__


def _sizes(requests: Trace, identities: IntArray, places: IntArray, joined: IntArray) -> IntArray:
    """Return the final size of each file: of several identities, the last one's that is known."""
    sizes = np.full(int(joined.max(initial=-1)) + 1, _UNKNOWN)
    known = [one for one in requests.metadata.completeness.files if one.final_size is not None]
    if not known or not len(identities):
        return sizes
    columns = ([one.process for one in known], [one.file for one in known])
    keys = _key(*(np.array(column, np.int64) for column in columns))
    place = np.searchsorted(identities, keys).clip(max=len(identities) - 1)
    met = identities[place] == keys
    own = np.full(len(identities), _UNKNOWN)
    own[place[met]] = np.array([one.final_size for one in known], np.int64)[met]
    own = own[places]
    sizes[joined[own != _UNKNOWN]] = own[own != _UNKNOWN]
    return sizes
