"""Where the recorded bytes lie now: the map from recorded extents to places."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrace.replay.pieces import distinct, spread

Ints = npt.NDArray[np.int64]

ENTRY = np.dtype(
    [
        ("file", "<i4"),
        ("to_file", "<i4"),
        ("offset", "<i8"),
        ("length", "<i8"),
        ("to_offset", "<i8"),
    ]
)
# More room than any extent needs: a file without entries lies where it was recorded.
UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Segments:
    """Parts of extents, each in one piece at its new place.

    Attributes:
        extent: index of the extent each part belongs to, ascending.
        offset: recorded offset.
        length: in bytes.
        to_file: where it lies; -1: nowhere.
        to_offset: likewise.
    """

    extent: Ints
    offset: Ints
    length: Ints
    to_file: Ints
    to_offset: Ints


@dataclass(frozen=True, eq=False)
class Relocation:
    """An injective map from (recorded file, offset) to (file, offset), in whole extents.

    A file without entries lies where it was recorded; a file with entries lies in these alone.

    >>> moved = Relocation.of(file=[0, 0], offset=[0, 100], length=[100, 50],
    ...                       to_file=[0, 0], to_offset=[0, 4096])
    >>> parts = moved.split(np.array([0]), np.array([90]), np.array([20]))
    >>> list(zip(parts.offset.tolist(), parts.length.tolist(), parts.to_offset.tolist()))
    [(90, 10, 90), (100, 10, 4096)]
    """

    entries: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ENTRY))

    @classmethod
    def of(
        cls,
        file: npt.ArrayLike,
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
        to_file: npt.ArrayLike,
        to_offset: npt.ArrayLike,
    ) -> "Relocation":
        """Return the map with these entries, in any order."""
        entries = np.zeros(len(np.asarray(file)), ENTRY)
        entries["file"], entries["offset"], entries["length"] = file, offset, length
        entries["to_file"], entries["to_offset"] = to_file, to_offset
        entries = entries.compress(entries["length"] > 0)
        return cls(entries.take(np.lexsort((entries["offset"], entries["file"]))))

    def files(self) -> Ints:
        """Return the recorded files that have entries."""
        return np.unique(self.entries["file"]).astype(np.int64)

    def locate(self, file: npt.NDArray[np.integer], offset: Ints) -> tuple[Ints, Ints, Ints]:
        """Return file and offset of the place of each recorded byte, and the bytes that follow it.

        Returns:
            `to_file` (-1 where the byte has no place), `to_offset`, and how many bytes from
            there on lie as recorded.
        """
        entries = self.entries
        if not len(entries):
            return file.astype(np.int64), offset, np.full(len(offset), UNBOUNDED)
        at = self.place(file, offset).clip(0)
        into = offset - entries["offset"][at]
        room = entries["length"][at] - into
        inside = (entries["file"][at] == file) & (into >= 0) & (room > 0)
        to_file = np.where(inside, entries["to_file"][at], np.int64(-1))
        to_offset = np.where(inside, entries["to_offset"][at] + into, -1)
        room = np.where(inside, room, 0)
        own = np.flatnonzero(~np.isin(file, self.files()))
        to_file[own], to_offset[own], room[own] = file[own], offset[own], UNBOUNDED
        return to_file, to_offset, room

    def split(self, file: npt.NDArray[np.integer], offset: Ints, length: Ints) -> Segments:
        """Return the parts of recorded extents; parts without a place are left out."""
        extents = np.arange(len(file), dtype=np.int64)
        to_file, to_offset, room = self.locate(file, offset)
        if np.all(room >= length) and np.all(length > 0):
            return Segments(extents, offset, length, to_file, to_offset)
        known = np.isin(file, self.files())
        plain = extents[~known]
        moved = self._split_moved(extents[known], file[known], offset[known], length[known])
        if not len(plain):
            return Segments(*moved)
        parts = Segments(
            *(
                np.concatenate(pair)
                for pair in zip(
                    (
                        plain,
                        offset[plain],
                        length[plain],
                        file[plain].astype(np.int64),
                        offset[plain],
                    ),
                    moved,
                    strict=True,
                )
            )
        )
        order = np.lexsort((parts.offset, parts.extent))
        return Segments(*(column[order] for column in vars(parts).values()))

    def _split_moved(
        self, extents: Ints, file: npt.NDArray[np.integer], offset: Ints, length: Ints
    ) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        entries = self.entries
        first = self.place(file, offset).clip(0)
        count = (self.place(file, offset + length - 1) - first + 1).clip(0)
        owner, at = np.repeat(np.arange(len(file)), count), spread(first, count)
        ends = entries["offset"] + entries["length"]
        start = np.maximum(entries["offset"][at], offset[owner])
        end = np.minimum(ends[at], (offset + length)[owner])
        keep = (entries["file"][at] == file[owner]) & (end > start)
        if not keep.all():
            owner, at, start, end = owner[keep], at[keep], start[keep], end[keep]
        shift = entries["to_offset"] - entries["offset"]
        to_file = entries["to_file"].astype(np.int64)
        return extents[owner], start, end - start, to_file[at], start + shift[at]

    def joined(self) -> "Relocation":
        """Return the same map with entries that go on where the one before ends made one."""
        rows = self.entries
        if not len(rows):
            return self
        before, after = rows[:-1], rows[1:]
        goes_on = (before["file"] == after["file"]) & (before["to_file"] == after["to_file"])
        for name in ("offset", "to_offset"):
            goes_on &= before[name] + before["length"] == after[name]
        first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
        entries = rows.take(first)
        entries["length"] = np.add.reduceat(rows["length"], first)
        return Relocation(entries)

    def compose(self, later: "Relocation") -> "Relocation":
        """Return the map that moves by this one and then by `later`."""
        mine = self.entries
        parts = later.split(mine["to_file"], mine["to_offset"], mine["length"])
        origin = mine.take(parts.extent)
        from_offset = origin["offset"] + parts.offset - origin["to_offset"]
        # What this one moves bytes into, no recorded bytes have as their own place.
        fresh = later.entries[
            ~np.isin(later.entries["file"], np.union1d(mine["file"], mine["to_file"]))
        ]
        return Relocation.of(
            file=np.concatenate([origin["file"], fresh["file"]]),
            offset=np.concatenate([from_offset, fresh["offset"]]),
            length=np.concatenate([parts.length, fresh["length"]]),
            to_file=np.concatenate([parts.to_file, fresh["to_file"]]),
            to_offset=np.concatenate([parts.to_offset, fresh["to_offset"]]),
        )

    def is_bijection(self) -> bool:
        """Return whether no byte has two places and no place two bytes."""
        rows = self.entries
        return _are_disjoint(rows["file"], rows["offset"], rows["length"]) and _are_disjoint(
            rows["to_file"], rows["to_offset"], rows["length"]
        )

    def place(self, file: npt.NDArray[np.integer], offset: Ints) -> Ints:
        """Return the index of the last entry at or before each byte, or -1."""
        rows = self.entries
        # File and offset in one number: an offset counts by how many of the entries' are below.
        offsets = distinct(rows["offset"])
        scale = len(offsets) + 1
        keys = rows["file"] * np.int64(scale) + np.searchsorted(
            offsets, rows["offset"], side="right"
        )
        asked = file * np.int64(scale) + np.searchsorted(offsets, offset, side="right")
        return np.searchsorted(keys, asked, side="right") - 1


def _are_disjoint(file: npt.NDArray[np.int32], offset: Ints, length: Ints) -> bool:
    order = np.lexsort((offset, file))
    file, start, end = file[order], offset[order], (offset + length)[order]
    return not np.any((file[1:] == file[:-1]) & (start[1:] < end[:-1]))
