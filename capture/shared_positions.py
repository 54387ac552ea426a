"""Where writes went through a descriptor that several processes share.

Its position is one for all of them. Each asks the kernel for it after a write of its own, and may
be told what others have moved it to by then: such an offset is too high by whole writes of others,
two writes seem to lie at one place, and another place seems never to be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from iotrace.capture.clock import Clock
from iotrace.capture.completeness import NEVER, content_writes
from iotrace.capture.extents import Extents
from iotrace.capture.files import FileTable
from iotrace.capture.rawlog import RawLog
from iotrace.capture.requests import Requests, Rows, by_file
from iotrace.capture.thread_positions import is_of_seeked, overlapping
from iotrace.traces.words import plural


def put_in_order(requests: Requests, files: FileTable) -> dict[int, Rows]:
    """Give writes that raced for a position the places they can have had, marked `inferred`.

    A position only grows, so it was never above what was asked, and it grows by what is written:
    one after the other, in the order of the answers, the writes fill the file from where they
    began. Which of two at once came first stays unknown. Where that does not fit the answers, as
    after a seek, all stays as it was.

    Returns:
        Of each file where it does not fit: these writes.
    """
    block, unfit = requests.block, {}
    for file, rows, others in racing_writes(requests, files):
        answers = block["offset"][rows] + block["result"][rows]
        order = np.lexsort((block["start_ns"][rows], answers))
        rows, answers = rows[order], answers[order]
        ends = np.cumsum(block["result"][rows])
        begin = int(answers[-1] - ends[-1])
        begins = {0, int(files.opened_bytes[file]), extents_of(requests, others).prefix_bytes}
        if begin in begins and (begin + ends <= answers).all():
            block["offset"][rows] = begin + ends - block["result"][rows]
            block["offset_source"][rows] = requests.words.offset_source.code("inferred")
        else:
            unfit[file] = rows
    return unfit


def racing_writes(requests: Requests, files: FileTable) -> Iterator[tuple[int, Rows, Rows]]:
    """Yield file, writes at queried offsets, and others, where those of several threads raced.

    What they wrote twice is what they seem to have left out; more of it they overwrote.
    """
    block = requests.block
    if "offset_source" not in block:  # no process
        return
    writes, emptied_ns = content_writes(requests, files)
    is_queried = block["offset_source"][writes] == requests.words.offset_source.find("queried")
    at_once, _ = overlapping(requests)  # seeks and writes in turn are where they were told
    is_in_turn = ~np.isin(block["file"][writes], block["file"][at_once])
    is_queried &= ~(is_in_turn & is_of_seeked(requests, writes))
    queried, others = writes[is_queried], writes[~is_queried]
    for file, rows in by_file(block["file"][queried], queried):
        writers = (block["process"][rows].astype(np.int64) << 32) + block["thread"][rows]
        if (writers == writers[0]).all():
            continue
        own = extents_of(requests, rows)
        twice = int(block["result"][rows].sum() - (own.ends - own.starts).sum())
        if not twice:
            continue
        rest = others[block["file"][others] == file]
        before_bytes = int(files.opened_bytes[file]) if emptied_ns[file] == NEVER else 0
        whole = extents_of(requests, np.append(rows, rest), before_bytes)
        left_out = sum(end - start for start, end in whole.gaps(int(own.ends[-1])))
        if 0 < left_out <= twice:
            yield file, rows, rest


def mark_taken(requests: Requests, logs: Sequence[RawLog], files: FileTable, clock: Clock) -> int:
    """Mark offsets as `inferred` that another process may have moved with a descriptor it took.

    Who takes one (`pidfd_getfd`) asks the kernel for its position from then on; who had it cannot
    know of that, and goes on counting.

    Returns:
        How many requests that concerns.
    """
    block, sources = requests.block, requests.words.offset_source
    marked = 0
    for place, log in enumerate(logs):
        for record in log.slots[log.positions[log.rows("taken")]]:
            file = files.logs[place].ids[record["file"]]
            since_ns = clock.times(log, record["start_ns"])
            rows = requests.succeeded("read", "write")
            is_tracked = block["offset_source"][rows] == sources.find("tracked")
            rows = rows[is_tracked & (block["file"][rows] == file)]
            rows = rows[block["end_ns"][rows] >= since_ns]
            block["offset_source"][rows] = sources.code("inferred")
            marked += len(rows)
    return marked


def doubtful_since_taken(count: int) -> Iterator[str]:
    """Yield how many requests may have gone elsewhere."""
    if count:
        yield (
            f"{count:,} reads or writes through a descriptor that another process has taken: "
            "their offsets are not certain"
        )


def uncertain_offsets(racing: Mapping[int, Rows], files: FileTable) -> Iterator[str]:
    """Yield the files whose writes raced and could not be put in order."""
    for file, rows in racing.items():
        path = files.paths[files.last_paths[file]]
        yield (
            f"{path}: the offsets of {plural(len(rows), 'write')} are not certain: they were "
            "written at the same time through one descriptor"
        )


def extents_of(requests: Requests, rows: Rows, before_bytes: int = 0) -> Extents:
    """Return the union of some writes, and of what the file held before."""
    starts = requests.block["offset"][rows]
    ends = starts + requests.block["result"][rows]
    return Extents.union(np.append(starts, 0), np.append(ends, before_bytes))
