"""The plan: what a replay will do, as a value. Transforms make new plans from it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import Files, describe_files, initial_extents
from iotrace.replay.job import DATA_OPS, MAX_OFFSET_BYTES, Op, is_op
from iotrace.replay.pieces import (
    PADDING,
    Pieces,
    Rows,
    is_padding,
    is_payload,
    pieces_in_place,
)
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.traces.errors import PlanError

_BY_HANDLE = (Op.OPEN, Op.CLOSE, Op.READ, Op.WRITE, Op.ALLOCATE)


@dataclass(frozen=True)
class Stream:
    """What one thread issues, in order.

    Attributes:
        process: in the trace.
        thread: in the process.
        rank: of the process; -1: none.
        host: index of its machine.
        leads: the stream that this one reads ahead of: it starts nothing before that one has
            started all that stands before in the plan; -1: none.
    """

    process: int
    thread: int
    rank: int = -1
    host: int = 0
    leads: int = -1

    @property
    def region(self) -> tuple[int, int]:
        """Who the bytes belong to: the rank or, outside a launcher, the process."""
        return (0, self.rank) if self.rank >= 0 else (1, self.process)


@dataclass(frozen=True)
class Note:
    """Something the plan does not do as recorded, with how often and how many bytes.

    Attributes:
        files: recorded names of those that end otherwise for it; no proof holds for them.
    """

    what: str
    count: int = 0
    size_bytes: int = 0
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        counted = f"{self.what}: {self.count}" if self.count else self.what
        return f"{counted} ({self.size_bytes} bytes)" if self.size_bytes else counted


@dataclass(frozen=True)
class Applied:
    """One entry of a plan's history: how it was built, or a transform."""

    name: str
    parameters: tuple[tuple[str, object], ...] = ()
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.name}({shown})"


@dataclass(frozen=True)
class Counts:
    """Totals of a plan. Bytes are payload; padding is apart."""

    requests: int
    data_requests: int
    files: int
    bytes_written: int
    bytes_read: int
    padding_bytes: int


@dataclass(frozen=True, eq=False)
class Plan:
    """An immutable schedule of requests.

    Attributes:
        files: what must be there before and what will be there after, per file index.
        paths: names relative to the root, indexed by the requests' `path` and `target`.
        streams: who issued the requests, indexed by their `stream`.
        requests: in order of issue; `due_ns` and `think_ns` hold the recorded times.
        pieces: of the reads and writes, which index them.
        relocation: where the recorded extents lie now.
        history: how the plan came to be.
        barriers_ns: when all ranks waited for each other, as `due_ns` counts: what is due before
            is done before the rest begins.
    """

    files: Files
    paths: tuple[str, ...]
    streams: tuple[Stream, ...]
    requests: Requests
    pieces: Pieces
    relocation: Relocation
    history: tuple[Applied, ...]
    barriers_ns: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def handle_count(self) -> int:
        """Number of opens."""
        return int(self.requests["handle"].max(initial=-1)) + 1

    @property
    def notes(self) -> tuple[Note, ...]:
        """Everything the plan does not do as recorded."""
        return tuple(note for applied in self.history for note in applied.notes)

    @property
    def unlike(self) -> tuple[str, ...]:
        """Recorded names of the files that do not end as they did in the recording."""
        return tuple(sorted({name for note in self.notes for name in note.files}))

    @property
    def layout(self) -> str:
        """Which files the bytes lie in: `recorded`, or what `aggregate` made of it last."""
        for applied in reversed(self.history):
            if applied.name == "aggregate":
                return str(dict(applied.parameters)["layout"])
        return "recorded"

    @property
    def block_bytes(self) -> int:
        """What `align` made the places of extents multiples of; 1 if it was not applied."""
        blocks = [dict(a.parameters)["block_bytes"] for a in self.history if a.name == "align"]
        return int(str(blocks[-1])) if blocks else 1

    @property
    def payload_is_placed(self) -> bool:
        """Whether payload is numbered by where it lies, and not by where it was recorded.

        So is an engine's that aligns: its buffers are as its file is, and no byte is copied to
        suit direct I/O. Either way a byte is known by its number alone, as the relocation is a
        bijection and `validate` holds every piece against it.
        """
        return self.block_bytes > 1

    def initial_bytes(self) -> npt.NDArray[np.int64]:
        """Return, per recorded file, how many of its bytes must be there before the run."""
        return self.files.initial_bytes

    def initial_extents(self) -> Rows:
        """Return what must lie in the files before the run: EXTENT rows by file and offset."""
        return initial_extents(self.initial_bytes(), self.relocation)

    def require_buffered(self, transform: str) -> None:
        """Refuse a transform that would undo the alignment of direct I/O, or what is read ahead.

        Raises:
            PlanError: `direct` has been applied, or `prefetch` and `transform` is not `direct`.
        """
        if any(applied.name == "direct" for applied in self.history):
            raise PlanError(f"{transform} comes before direct; apply direct once, and last")
        if transform != "direct" and any(applied.name == "prefetch" for applied in self.history):
            raise PlanError(f"{transform} comes before prefetch; apply prefetch once, and last")

    def require_new_files(self, transform: str) -> None:
        """Refuse a transform that would give bytes places where no old blocks are.

        Raises:
            PlanError: `overwrite` has been applied.
        """
        if any(applied.name == "overwrite" for applied in self.history):
            raise PlanError(f"{transform} comes before overwrite; apply overwrite after it")

    def is_data(self) -> npt.NDArray[np.bool_]:
        """Return which requests read or write."""
        return is_op(self.requests["op"], DATA_OPS)

    def derive(
        self,
        applied: Applied,
        requests: Requests,
        pieces: Pieces | None = None,
        relocation: Relocation | None = None,
        initial_bytes: npt.NDArray[np.int64] | None = None,
        paths: tuple[str, ...] | None = None,
        old_bytes: npt.NDArray[np.int64] | None = None,
    ) -> "Plan":
        """Return the plan that `applied` makes of this one; what is not given stays.

        Args:
            applied: the entry for the history.
            requests: in order of issue.
            pieces: what they index.
            relocation: where recorded extents lie.
            initial_bytes: per file, recorded bytes to be there before the run; as many as there
                are files.
            paths: what requests name.
            old_bytes: per file, how many bytes of an older checkpoint are to be written over.
        """
        pieces = self.pieces if pieces is None else pieces
        relocation = self.relocation if relocation is None else relocation
        initial_bytes = self.initial_bytes() if initial_bytes is None else initial_bytes
        paths = self.paths if paths is None else paths
        return replace(
            self,
            files=describe_files(requests, paths, initial_bytes, relocation, self.files, old_bytes),
            paths=paths,
            requests=requests,
            pieces=pieces,
            relocation=relocation,
            history=(*self.history, applied),
        )

    def counts(self) -> Counts:
        """Return the totals of the plan."""
        data = np.flatnonzero(self.is_data())
        line, owner, _ = pieces_in_place(self.requests, self.pieces, data)
        writes = (self.requests["op"] == Op.WRITE)[data[owner]]
        payload, padding = is_payload(line["file"]), is_padding(line["file"])
        length = line["length"]
        touched = np.zeros(len(self.files) + 1, np.bool_)
        touched[self.requests["file"]] = True
        return Counts(
            requests=len(self.requests),
            data_requests=len(data),
            files=self.files.count_names(touched[:-1]),
            bytes_written=int(length[payload & writes].sum()),
            bytes_read=int(length[payload & ~writes].sum()),
            padding_bytes=int(length[padding].sum()),
        )

    def explain(self) -> str:
        """Return the plan in words, for people: totals, history, files."""
        counts = self.counts()
        lines = [
            f"{counts.requests} requests in {len(self.streams)} streams, "
            f"{counts.data_requests} of them reads and writes, on {counts.files} files",
            f"{counts.bytes_written} bytes written, {counts.bytes_read} read, "
            f"{counts.padding_bytes} of padding besides",
        ]
        for applied in self.history:
            lines += [f"{applied}", *(f"  {note}" for note in applied.notes)]
        for spec in self.files:
            if spec.written or spec.read:
                lines.append(f"{spec}")
        return "\n".join(lines)

    def validate(self) -> None:
        """Check the laws that every plan obeys.

        Raises:
            PlanError: naming the first law that is broken.
        """
        for problem in self._problems():
            raise PlanError(f"this plan cannot be replayed: {problem}; please report it")

    def _problems(self) -> Iterator[str]:
        yield from self._range_problems()
        yield from self._piece_problems()
        yield from self._handle_problems()
        yield from self._place_problems()

    def _range_problems(self) -> Iterator[str]:
        rows = self.requests
        limits = (
            ("file", len(self.files), -1),
            ("path", len(self.paths), -1),
            ("target", len(self.paths), -1),
            ("stream", len(self.streams), 0),
            ("offset", MAX_OFFSET_BYTES, 0),
            ("length", MAX_OFFSET_BYTES, 0),
        )
        for name, limit, least in limits:
            if np.any((rows[name] < least) | (rows[name] >= limit)):
                yield f"a request's {name} is out of range"
        if np.any(~is_op(rows["op"], Op)):
            yield "a request has no known op"

    def _piece_problems(self) -> Iterator[str]:
        data = self.requests.compress(self.is_data())
        first, count = data["first_piece"], data["piece_count"].astype(np.int64)
        if np.any((first < 0) | (count < 0) | (first + count > len(self.pieces))):
            yield "a request's pieces are out of range"
            return
        total = np.concatenate([[0], np.cumsum(self.pieces["length"])])
        if np.any(total[first + count] - total[first] != data["length"]):
            yield "a request's pieces do not add up to its length"
        line, owner, _ = pieces_in_place(data, self.pieces)
        if np.any((data["op"] == Op.WRITE)[owner] & (line["file"] < PADDING)):
            yield "a write has pieces that only a read can have"

    def _handle_problems(self) -> Iterator[str]:
        rows = self.requests
        order = np.arange(len(rows))
        if np.any(is_op(rows["op"], _BY_HANDLE) & (rows["handle"] < 0)):
            yield "a request lacks its handle"
            return
        by_handle = rows["handle"] >= 0
        opens, closes = rows["op"] == Op.OPEN, rows["op"] == Op.CLOSE
        opened = np.full(self.handle_count, len(rows))
        opened[rows["handle"][opens]] = order[opens]
        closed = np.full(self.handle_count, len(rows))
        closed[rows["handle"][closes]] = order[closes]
        if np.bincount(rows["handle"][opens], minlength=1).max() > 1:
            yield "a handle is opened twice"
        used = rows["handle"][by_handle]
        if np.any(order[by_handle] < opened[used]):
            yield "a handle is used before it is opened"
        if np.any(order[by_handle] > closed[used]):
            yield "a handle is used after it is closed"
        of_handle = np.full(self.handle_count, -1)
        of_handle[rows["handle"][opens]] = rows["file"][opens]
        if np.any(of_handle[used] != rows["file"][by_handle]):
            yield "a handle is used for another file than it opened"

    def _place_problems(self) -> Iterator[str]:
        if not self.relocation.is_bijection():
            yield "two recorded bytes have one place"
            return
        data = np.flatnonzero(self.is_data())
        line, owner, place = pieces_in_place(self.requests, self.pieces, data)
        recorded = line["file"] >= 0
        line, owner, place = line.compress(recorded), owner[recorded], place[recorded]
        file, offset, room = self.relocation.locate(line["file"], line["offset"])
        misplaced = (
            (file != self.requests["file"][data[owner]])
            | (offset != place)
            | (room < line["length"])
        )
        if np.any(misplaced):
            yield "a recorded byte is not where the relocation map has it"
