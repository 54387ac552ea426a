"""What a trace does not hold: recorded bytes against files as they are and the kernel's counts."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iotrace.capture.accounts import Account
from iotrace.capture.blocks import NULLS
from iotrace.capture.extents import Extents, data_bytes
from iotrace.capture.files import FileTable
from iotrace.capture.overlaps import clusters_of
from iotrace.capture.rawlog import RawLog
from iotrace.capture.requests import Bytes, Requests, Rows, by_file
from iotrace.traces.metadata import FileCompleteness, ProcessCompleteness
from iotrace.traces.words import plural

PROT_WRITE = 2  # <sys/mman.h>
# The kernel adds what these move to no process's count.
UNCOUNTED_APIS = ("io_uring", "libaio")
NEVER = np.iinfo(np.int64).min
OTHERS_MOVED = "others at the same time moved the same position or the end of the same file"
NOBODY_TO_ASK = "no descriptor of the file was open by which the kernel tells its position or end"


class Placeless(NamedTuple):
    """How many writes went to unknown places of a file, and their bytes."""

    writes: int
    moved_bytes: int


@dataclass(frozen=True)
class Written:
    """What was written to each file, by identity: since it was last emptied, if it was.

    Attributes:
        extents: union of the recorded writes.
        before_bytes: size of the content from before the trace.
        is_mapped: files that may also have been written through memory.
        placeless: what was written as well, at unknown places.
    """

    extents: Mapping[int, Extents]
    before_bytes: Bytes
    is_mapped: npt.NDArray[np.bool_]
    placeless: Mapping[int, Placeless]

    def recorded_bytes(self, file: int) -> int:
        """Return the end of what was written without a hole; all bytes where places are unknown."""
        extents, placeless = self.extents.get(file), self.placeless.get(file)
        if extents is None:
            return placeless.moved_bytes if placeless else 0
        if not placeless:
            return extents.prefix_bytes
        return int((extents.ends - extents.starts).sum()) + placeless.moved_bytes


def content_writes(requests: Requests, files: FileTable) -> tuple[Rows, Bytes]:
    """Return the writes that moved bytes since their file was last emptied, and when that was."""
    block = requests.block
    emptied_ns = np.full(len(files), NEVER)
    opens = requests.succeeded("open")
    empties = opens[(block["flags"][opens] & os.O_TRUNC != 0) & is_writable(block["flags"][opens])]
    truncates = requests.succeeded("truncate")
    empties = np.append(empties, truncates[block["length"][truncates] == 0])
    np.maximum.at(emptied_ns, block["file"][empties], block["start_ns"][empties])

    writes = requests.succeeded("write")
    file = block["file"][writes]
    writes = writes[
        (requests.moved_bytes(writes) > 0)
        & (block["offset"][writes] >= 0)
        & (block["start_ns"][writes] >= emptied_ns[file])
    ]
    return writes, emptied_ns


def placeless_writes(requests: Requests, emptied_ns: Bytes) -> Mapping[int, Placeless]:
    """Return by file what was written since it was emptied to places that nobody could tell.

    Several asynchronous writes at once to the end of a file, or at a position.
    """
    block = requests.block
    rows = placeless(requests, "write")
    rows = rows[block["start_ns"][rows] >= emptied_ns[block["file"][rows]]]
    return {
        file: Placeless(len(own), int(block["result"][own].sum()))
        for file, own in by_file(block["file"][rows], rows)
    }


def placeless(requests: Requests, *ops: str) -> Rows:
    """Return the requests that moved bytes nobody knows where."""
    block = requests.block
    rows = requests.succeeded(*ops)
    return rows[(requests.moved_bytes(rows) > 0) & (block["offset"][rows] < 0)]


def unknown_places(requests: Requests) -> Iterator[str]:
    """Yield how many requests have no offset."""
    block = requests.block
    rows = placeless(requests, "read", "write")
    if not len(rows):
        return
    moving = requests.rows("read", "write")  # those that failed, too: that was known only later
    is_named = block["offset_source"][moving] == requests.words.offset_source.find("argument")
    moving = moving[~is_named & np.isin(block["file"][moving], block["file"][rows])]
    is_ended = block["end_ns"][moving] != NULLS["end_ns"]
    unended = block["file"][moving[~is_ended]]
    moving, clusters = clusters_of(block, moving[is_ended], "file")
    is_alone = np.isin(rows, moving[(np.bincount(clusters) == 1)[clusters]])
    is_alone &= ~np.isin(block["file"][rows], unended)
    for count, reason in (
        (int(np.count_nonzero(~is_alone)), OTHERS_MOVED),
        (int(np.count_nonzero(is_alone)), NOBODY_TO_ASK),
    ):
        if count:
            yield f"{plural(count, 'request')} without an offset: {reason}"


def written_files(requests: Requests, files: FileTable) -> Written:
    """Return what the recorded requests put into each file."""
    block = requests.block
    writes, emptied_ns = content_writes(requests, files)
    extents = {
        file: Extents.union(block["offset"][rows], block["offset"][rows] + block["result"][rows])
        for file, rows in by_file(block["file"][writes], writes)
    }
    # Whatever a file that was opened for writing holds by now needs an explanation.
    opens = requests.succeeded("open")
    writable = block["file"][opens[is_writable(block["flags"][opens])]]
    for file in np.union1d(writable, np.flatnonzero(emptied_ns != NEVER)).tolist():
        extents.setdefault(file, Extents.union(np.empty(0, np.int64), np.empty(0, np.int64)))
    return Written(
        extents=extents,
        before_bytes=np.where(emptied_ns == NEVER, files.opened_bytes, 0),
        is_mapped=np.isin(np.arange(len(files)), block["file"][writable_maps(requests)]),
        placeless=placeless_writes(requests, emptied_ns),
    )


def is_writable(flags: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return whether open flags allow writing."""
    return np.asarray((flags & os.O_ACCMODE) != os.O_RDONLY)


def writable_maps(requests: Requests) -> Rows:
    """Return the mappings that may change their file: a private one needs no writable open."""
    block = requests.block
    maps = requests.succeeded("map")
    writable: Rows = maps[(block["flags"][maps] & PROT_WRITE != 0) & block["on_writable"][maps]]
    return writable


def file_completeness(
    requests: Requests, written: Written, files: FileTable, boot: str, racing: Container[int]
) -> Iterator[FileCompleteness]:
    """Yield for each file, in each process that used it, whether the writes explain it.

    Args:
        racing: files whose writes explain it by their number of bytes, at uncertain offsets.
        boot: id of the running boot; the files of another cannot be looked at.
    """
    block = requests.block
    rows = np.flatnonzero(block["file"] >= 0)
    pairs = np.unique(block["process"][rows].astype(np.int64) * len(files) + block["file"][rows])
    sizes: dict[int, int | None] = {}
    completes: dict[int, bool] = {}
    for process, file in (divmod(pair, len(files)) for pair in pairs.tolist()):
        if file not in sizes:
            sizes[file] = final_size(files, file, boot)
            completes[file] = file in racing or is_explained(written, files, file, sizes[file])
        yield FileCompleteness(
            path=files.paths[files.last_paths[file]],
            process=process,
            file=file,
            recorded_bytes_written=written.recorded_bytes(file),
            final_size=sizes[file],
            complete=completes[file],
        )


def final_size(files: FileTable, file: int, boot: str) -> int | None:
    """Return the size of a file now, None if it is gone or another file has its name."""
    file_boot, device, inode = files.inodes[file]
    if files.is_gone[file] or file_boot != boot:
        return None
    try:
        found = os.stat(files.paths[files.last_paths[file]])
    except OSError:
        return None
    is_same = (found.st_dev, found.st_ino) == (device, inode) and S_ISREG(found.st_mode)
    return found.st_size if is_same else None


def is_explained(written: Written, files: FileTable, file: int, size_bytes: int | None) -> bool:
    """Return whether recorded writes and what was there before account for a file's content."""
    extents = written.extents.get(file)
    if size_bytes is None or (extents is None and not written.is_mapped[file]):
        return True  # gone, or only read
    starts = extents.starts if extents else np.empty(0, np.int64)
    ends = extents.ends if extents else np.empty(0, np.int64)
    known = Extents.union(np.append(starts, 0), np.append(ends, written.before_bytes[file]))
    left_out = sum(end - start for start, end in known.gaps(size_bytes))
    writes, placeless_bytes = written.placeless.get(file, Placeless(0, 0))
    if left_out <= placeless_bytes:
        return True  # whether or not the file can be read
    path = Path(files.paths[files.last_paths[file]])
    try:
        block_bytes = path.stat().st_blksize
        stretches = data_bytes(path, known.gaps(size_bytes), block_bytes)
    except OSError:
        return False
    unexplained = sum(stretches)
    if unexplained < left_out:  # between holes each write may begin and end inside of a block
        placeless_bytes += 2 * block_bytes * min(len(stretches), writes)
    return unexplained <= placeless_bytes


def process_completeness(
    requests: Requests, logs: Sequence[RawLog], accounts: Sequence[Account | None]
) -> Iterator[ProcessCompleteness]:
    """Yield for each process what was recorded and what the kernel counted.

    The kernel counts nowhere what io_uring and libaio move; it is added to its count, and the
    preload library's own are taken off, so that the numbers can be compared.

    Args:
        accounts: the kernel's count of each log's process.
    """
    is_uncounted = np.isin(requests.block["api"], requests.codes("api", UNCOUNTED_APIS))
    reads, writes = requests.rows("read"), requests.rows("write")
    totals = [
        bytes_by_process(requests, rows, len(logs))
        for rows in (reads, writes, reads[is_uncounted[reads]], writes[is_uncounted[writes]])
    ]
    for place, (log, account, read, written, read_uncounted, written_uncounted) in enumerate(
        zip(logs, accounts, *totals, strict=True)
    ):
        outside = log.header.outside
        seen_read = seen_written = None
        if account is not None:
            seen_read = account.bytes_read + read_uncounted - outside.own_bytes_read
            seen_read = max(0, seen_read)  # threads may read after the kernel was asked
            all_written = account.bytes_written + written_uncounted - outside.own_bytes_written
            seen_written = account._replace(bytes_written=all_written).without_harmless(
                written + outside.other_bytes_written + outside.ignored_bytes_written
            )
        yield ProcessCompleteness(
            process=place,
            recorded_bytes_read=read,
            recorded_bytes_written=written,
            kernel_bytes_read=seen_read,
            kernel_bytes_written=seen_written,
            other_bytes_read=outside.other_bytes_read,
            other_bytes_written=outside.other_bytes_written,
            ignored_bytes_read=outside.ignored_bytes_read,
            ignored_bytes_written=outside.ignored_bytes_written,
            ignored_opens=outside.ignored_opens,
        )


def bytes_by_process(requests: Requests, rows: Rows, processes: int) -> list[int]:
    """Return the bytes that some data requests moved in each process."""
    totals = np.zeros(processes, np.int64)
    np.add.at(totals, requests.block["process"][rows], requests.moved_bytes(rows))
    return totals.tolist()


def unread_direct(requests: Requests, files: FileTable) -> Iterator[str]:
    """Yield the files that were opened for direct reads, of which none was recorded.

    Nobody opens a file so without reading it: an io_uring inside a library that calls the kernel
    by itself has read it, and no count of the kernel tells.
    """
    block = requests.block
    opens = requests.succeeded("open")
    flags = block["flags"][opens]
    direct = opens[(flags & os.O_DIRECT != 0) & (flags & os.O_ACCMODE == os.O_RDONLY)]
    touched = block["file"][requests.succeeded("read", "map")]
    for file in np.setdiff1d(block["file"][direct], touched).tolist():
        if files.opened_bytes[file]:
            path = files.paths[files.last_paths[file]]
            yield (
                f"{path} was opened for direct reads and none was seen: a library that calls the "
                "kernel by itself may have read it"
            )


def lost_names(written: Written, files: FileTable, boot: str) -> Iterator[str]:
    """Yield the written files that lost their name by calls that nobody could see."""
    written_here = (file for file in written.extents if files.inodes[file][0] == boot)
    kept = (file for file in written_here if not files.is_gone[file])
    paths = [files.paths[files.last_paths[file]] for file in kept]
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing:
        yield (
            f"{plural(len(missing), 'written file')} gone by a rename or removal that was not "
            f"seen; the first is {missing[0]}"
        )
