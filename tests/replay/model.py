"""A file system in memory whose bytes know where they come from, to run plans on."""

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from iotrace.replay.files import KEEP_SIZE, zeroes_of
from iotrace.replay.job import Fence, Job, Op
from iotrace.replay.pieces import HOLE
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import Schedule

ZERO = -1
OLD = -2  # a byte of an older checkpoint
FILE_SHIFT = 40


def token(file: int, offset: int, length: int) -> np.ndarray:
    """The payload of an extent: one number per byte, different for every byte of every file."""
    return (int(file) << FILE_SHIFT) + np.arange(offset, offset + length)


@dataclass
class Model:
    """Runs requests of a plan, in any order the caller likes."""

    plan: Plan
    names: dict[str, int] = field(default_factory=dict)
    inodes: list[np.ndarray] = field(default_factory=list)
    handles: dict[int, tuple[int, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    read: int = 0

    def __post_init__(self) -> None:
        self.pieces = self.plan.pieces.lowered()
        inodes: dict[int, int] = {}
        for file, spec in enumerate(self.plan.files):
            if spec.exists:
                assert spec.path not in self.names, "two files are prepared under one name"
                self.names[spec.path] = inodes[file] = self._new(spec.initial_size_bytes)
                self.inodes[inodes[file]][: spec.old_bytes] = OLD
        for extent in self.plan.initial_extents():
            at, length = int(extent["offset"]), int(extent["length"])
            content = self.inodes[inodes[int(extent["file"])]]
            content[at : at + length] = token(extent["source"], extent["origin"], length)

    def _new(self, size: int) -> int:
        self.inodes.append(np.full(size, ZERO))
        return len(self.inodes) - 1

    def run(self, row: np.void) -> None:
        """Carry out one request; what goes wrong becomes a problem."""
        op = Op(int(row["op"]))
        try:
            getattr(self, "_" + op.name.lower())(row)
        except (KeyError, AssertionError) as error:
            self.problems.append(f"{op.name} {row['offset']}+{row['length']}: {error!r}")

    def content(self, file: int) -> np.ndarray | None:
        """The bytes of a file by its final name."""
        path = self.plan.files[file].final_path
        return None if path is None else self.inodes[self.names[path]]

    def _path(self, row: np.void) -> str:
        return self.plan.paths[row["path"]]

    def _open(self, row: np.void) -> None:
        path, flags = self._path(row), int(row["flags"])
        if flags & os.O_CREAT and flags & os.O_EXCL:
            assert path not in self.names, "exists"
        if flags & os.O_CREAT and path not in self.names:
            self.names[path] = self._new(0)
        inode = self.names[path]
        if flags & os.O_TRUNC:
            self.inodes[inode] = self.inodes[inode][:0]
        self.handles[int(row["handle"])] = (inode, flags)

    def _close(self, row: np.void) -> None:
        del self.handles[int(row["handle"])]

    def _pieces(self, row: np.void) -> np.ndarray:
        first = int(row["first_piece"])
        return self.pieces[first : first + int(row["piece_count"])]

    def _check_direct(self, row: np.void, flags: int) -> None:
        if flags & os.O_DIRECT and row["length"]:
            assert row["offset"] % 512 == 0, "unaligned offset"
            assert row["length"] % 512 == 0, "unaligned length"

    def _write(self, row: np.void) -> None:
        inode, flags = self.handles[int(row["handle"])]
        assert flags & os.O_ACCMODE != os.O_RDONLY, "not open for writing"
        self._check_direct(row, flags)
        parts = [
            token(p["file"], p["offset"], p["length"]) if p["file"] >= 0
            else np.full(p["length"], ZERO)
            for p in self._pieces(row)
        ]  # fmt: skip
        data = np.concatenate([np.zeros(0, np.int64), *parts])
        content = self.inodes[inode]
        at = int(row["offset"])
        if len(data):
            self._resize(inode, max(len(content), at + len(data)))
            self.inodes[inode][at : at + len(data)] = data

    def _read(self, row: np.void) -> None:
        inode, flags = self.handles[int(row["handle"])]
        assert flags & os.O_ACCMODE != os.O_WRONLY, "not open for reading"
        self._check_direct(row, flags)
        at = int(row["offset"])
        for piece in self._pieces(row):
            length = int(piece["length"])
            found = self.inodes[inode][at : at + length]
            if piece["file"] >= 0:
                wanted = token(piece["file"], piece["offset"], length)
                assert np.array_equal(found, wanted), "read other bytes"
                self.read += length
            elif piece["file"] == HOLE:
                assert (found == ZERO).all(), "read bytes where the job found none"
            at += length
        whole = at <= len(self.inodes[inode]) or not row["length"]
        assert whole or row["may_be_short"], "short"

    def _resize(self, inode: int, size: int) -> None:
        content = self.inodes[inode]
        grown = np.full(max(size - len(content), 0), ZERO)
        self.inodes[inode] = np.concatenate([content[:size], grown])

    def _truncate(self, row: np.void) -> None:
        by_handle = int(row["handle"]) in self.handles
        inode = self.handles[int(row["handle"])][0] if by_handle else self.names[self._path(row)]
        self._resize(inode, int(row["length"]))

    def _sync(self, row: np.void) -> None:
        assert row["handle"] < 0 or int(row["handle"]) in self.handles, "not open"

    def _rename(self, row: np.void) -> None:
        self.names[self.plan.paths[row["target"]]] = self.names.pop(self._path(row))

    def _unlink(self, row: np.void) -> None:
        del self.names[self._path(row)]

    def _mkdir(self, row: np.void) -> None:
        assert self._path(row) not in self.names, "a file has this name"

    def _evict(self, row: np.void) -> None:
        by_handle = int(row["handle"]) in self.handles
        assert by_handle or self._path(row) in self.names, "nothing to evict"

    def _allocate(self, row: np.void) -> None:
        inode, flags = self.handles[int(row["handle"])]
        assert flags & os.O_ACCMODE != os.O_RDONLY, "not open for writing"
        if not row["flags"] & KEEP_SIZE:
            end = int(row["offset"] + row["length"])
            self._resize(inode, max(end, len(self.inodes[inode])))
        if zeroes_of(row):
            self.inodes[inode][row["offset"] : row["offset"] + row["length"]] = ZERO


def run_in_order(plan: Plan) -> Model:
    """Run a plan's requests as they stand."""
    model = Model(plan)
    for row in plan.requests.lowered():
        model.run(row)
    return model


def run_at_random(plan: Plan, scheduled: Schedule, queue_depth: int, seed: int) -> Model:
    """Run a job as the loop might: any request that may start starts, and ends at any time."""
    choose = random.Random(seed)
    model = Model(plan)
    job = scheduled.job
    with_pieces = _with_plan_pieces(plan, scheduled)
    progress = _Progress(job)
    queues = [
        job.stream_order[job.stream_starts[s] : job.stream_starts[s + 1]].tolist()
        for s in range(job.stream_count)
    ]
    in_flight: dict[int, list[int]] = defaultdict(list)
    while any(queues) or any(in_flight.values()):
        ready = [
            s
            for s, queue in enumerate(queues)
            if queue and len(in_flight[s]) < queue_depth and progress.may_start(queue[0])
        ]
        ending = [index for flying in in_flight.values() for index in flying]
        assert ready or ending, "the fences wait for each other"
        if ready and (not ending or choose.random() < 0.6):
            stream = choose.choice(ready)
            index = queues[stream].pop(0)
            in_flight[stream].append(index)
            progress.start(index)
        else:
            index = choose.choice(ending)
            in_flight[int(job.requests["stream"][index])].remove(index)
            model.run(with_pieces[index])
            progress.end(index)
    return model


def _with_plan_pieces(plan: Plan, scheduled: Schedule) -> np.ndarray:
    """The job's rows, with the plan's pieces: the model knows all kinds of them."""
    rows = scheduled.job.requests.copy()
    own = scheduled.origin >= 0
    for name in ("first_piece", "piece_count"):
        rows[name][own] = plan.requests[name]
    return rows


class _Progress:
    """The rules of loop_api.h, literally."""

    def __init__(self, job: Job) -> None:
        self.rows = job.requests
        self.done: set[int] = set()
        self.flying: set[int] = set()
        self.by_file = list(_by_file(job))

    def may_start(self, index: int) -> bool:
        row = self.rows[index]
        earlier = range(index)
        if any(self.rows["fence"][i] == Fence.ALL and i not in self.done for i in earlier):
            return False
        if row["fence"] == Fence.ALL:
            return all(i in self.done for i in earlier)
        if row["op"] == Op.CLOSE and any(
            self.rows["handle"][i] == row["handle"] for i in self.flying
        ):
            return False
        if row["file"] < 0:
            return True
        before = [i for i in self.by_file[row["file"]] if i < index]
        if row["fence"]:
            return all(i in self.done for i in before)
        return all(i in self.done for i in before if self.rows["fence"][i])

    def start(self, index: int) -> None:
        self.flying.add(index)

    def end(self, index: int) -> None:
        self.flying.remove(index)
        self.done.add(index)


def _by_file(job: Job) -> Iterator[list[int]]:
    for file in range(job.file_count):
        yield np.flatnonzero(job.requests["file"] == file).tolist()


def written_before(plan: Plan, row_of_trace: int) -> set[int]:
    """The payload bytes of a barrier's file (or stream, without a file) written before it."""
    rows, pieces = plan.requests.lowered(), plan.pieces.lowered()
    places = np.flatnonzero(rows["source_row"] == row_of_trace)  # several, on a file in parts
    barriers = rows[places]
    found: set[int] = set()
    for row in rows[: places[0]]:
        same = row["file"] in barriers["file"] or row["stream"] == barriers["stream"][0]
        if row["op"] == Op.WRITE and same:
            first = int(row["first_piece"])
            for piece in pieces[first : first + int(row["piece_count"])]:
                if piece["file"] >= 0:
                    found.update(token(piece["file"], piece["offset"], piece["length"]).tolist())
    return found
