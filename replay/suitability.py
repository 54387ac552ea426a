"""What the target cannot do as asked: found out before a run, and measured after it."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.loop import open_beneath, resident_bytes
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests
from iotrace.replay.result import Repetition
from iotrace.replay.target import Target, file_system_of, writes_in_place
from iotrace.replay.transforms.buffered import Buffered
from iotrace.traces.phases import Phase
from iotrace.traces.words import plural

_TOLERATED_SHARE = 0.05  # of bytes in the page cache that should not be there
_NAMES_SHOWN = 3


def direct_requests(plan: Plan) -> npt.NDArray[np.bool_]:
    """Return which reads and writes go through a handle opened with O_DIRECT."""
    rows = plan.requests
    opens = rows.compress(rows["op"] == Op.OPEN)
    direct = np.zeros(plan.handle_count + 1, np.bool_)
    direct[opens["handle"]] = opens["flags"] & os.O_DIRECT != 0
    return np.asarray(is_op(rows["op"], DATA_OPS) & direct[rows["handle"]])


def fit_to_target(plan: Plan, target: Target) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan as the target can carry it out, and what was given up for that."""
    direct = direct_requests(plan)
    if not direct.any():
        return plan, ()
    if target.direct_refusal:
        return Buffered()(plan), (f"buffered instead of direct: {target.direct_refusal}",)
    block_bytes = target.offset_alignment_bytes or 1
    rows = plan.requests.compress(direct)
    odd = int(np.sum((rows["offset"] % block_bytes != 0) | (rows["length"] % block_bytes != 0)))
    if odd:
        return Buffered()(plan), (
            f"buffered instead of direct: {plural(odd, 'request')} off the multiples of "
            f"{block_bytes} bytes that {target.file_system} asks for; add --direct or --align",
        )
    if not target.direct_is_effective:
        return plan, (
            f"direct I/O requested, not effective: {target.file_system} takes O_DIRECT and uses "
            "the page cache all the same",
        )
    return plan, ()


def unlike_files(plan: Plan) -> tuple[str, ...]:
    """Return which files do not end as recorded, if there are such."""
    names = plan.unlike
    if not names:
        return ()
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {plural(more, 'other')}" if more > 0 else "")
    return (f"not as recorded, as the notes say why, and not proven to be: {shown}",)


def copied_on_write(plan: Plan, directory: Path) -> tuple[str, ...]:
    """Return why blocks are not written over in `directory`, if they are to be and are not."""
    if not plan.files.old_bytes.any() or writes_in_place(directory):
        return ()
    name = file_system_of(directory)
    return (f"not over old blocks: {name} writes what changes to new ones (copy on write)",)


def warm_reads(plan: Plan, target: Target) -> tuple[str, ...]:
    """Return why loads cannot be cold here, if they cannot."""
    loads = np.any((plan.requests["op"] == Op.READ) & (plan.requests["phase"] == Phase.LOAD))
    if target.evicts or not loads:
        return ()
    return (f"reads are warm: {target.file_system} does not let go of cached pages",)


def stayed_warm(one: Repetition, target: Target) -> tuple[str, ...]:
    """Return that prepared files were in the page cache, as measured, if they were."""
    prepared = one.prepared
    if not target.evicts or prepared.resident_bytes <= _TOLERATED_SHARE * prepared.size_bytes:
        return ()
    return (
        f"{prepared.resident_bytes} of {prepared.size_bytes} prepared bytes stayed in the "
        "page cache: reads of them were warm",
    )


def surprises(one: Repetition) -> tuple[str, ...]:
    """Return what else a run did otherwise than asked, as measured after it."""
    report, found = one.report, []
    if report.in_flight_limit < report.in_flight_wanted:
        found.append(
            f"queue depth not reached: at most {report.in_flight_limit} of "
            f"{report.in_flight_wanted} requests were in flight"
        )
    if "submission thread" in report.refused:
        found.append("submitted by system calls: the kernel refuses a submission thread")
    if report.cut_reads:
        found.append(
            f"{plural(report.cut_reads, 'read')} cut: the memory for what is in flight holds no "
            "more at a time; lower --queue-depth or --workers"
        )
    return tuple(found)


def cached_direct(plan: Plan, root_fd: int, target: Target) -> tuple[str, ...]:
    """Return in words that direct writes went through the page cache, if they did."""
    writes = plan.requests["op"] == Op.WRITE
    data = is_op(plan.requests["op"], DATA_OPS)
    direct = direct_requests(plan)
    if not (writes & direct).any() or not target.direct_is_effective:
        return ()
    files = np.unique(plan.requests["file"][writes & direct])
    others = data & ~direct & np.isin(plan.requests["file"], files)
    cached = sum(_cached(plan, file, root_fd) for file in files.tolist())
    written = int(plan.requests["length"][writes & direct].sum())
    allowed = _reach_bytes(plan.requests.compress(others)) + _TOLERATED_SHARE * written
    if cached <= allowed:
        return ()
    return (
        f"direct I/O not effective: {cached} bytes of the files are in the page cache, "
        f"{int(allowed)} at most were to be expected",
    )


def _cached(plan: Plan, file: int, root_fd: int) -> int:
    path = plan.files[file].final_path
    if path is None:
        return 0
    try:
        fd = open_beneath(root_fd, path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        return resident_bytes(fd)
    except OSError:  # a folder took the name
        return 0
    finally:
        os.close(fd)


def _reach_bytes(buffered: Requests) -> int:
    """Return the bytes of whole pages that buffered requests may leave in the cache."""
    page = os.sysconf("SC_PAGE_SIZE")
    first = buffered["offset"] // page
    last = -(-(buffered["offset"] + buffered["length"]) // page)
    return int((last - first).sum()) * page
