"""The C replay loop as Python sees it: the tape, the two ways to run a job, whole files."""

import mmap
import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from iotrace.replay._loop import ffi, lib
from iotrace.replay.executors.executor import LoopOptions, LoopReport, Run
from iotrace.replay.job import TIMING, Job, check_job
from iotrace.replay.memory import affordable_tape_bytes
from iotrace.replay.refusal import run_error, uring_cause
from iotrace.replay.stoppable import call_stoppably
from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.words import sized

# Contiguous bytes behind any position: the most one system call moves.
SPAN_BYTES = 1 << 31

_FEATURES = {
    "single issuer": lib.LOOP_FEATURE_SINGLE_ISSUER,
    "deferred task work": lib.LOOP_FEATURE_DEFER_TASKRUN,
    "cooperative task work": lib.LOOP_FEATURE_COOP_TASKRUN,
    "no submission array": lib.LOOP_FEATURE_NO_SQARRAY,
    "registered buffers": lib.LOOP_FEATURE_REGISTERED_BUFFERS,
    "registered files": lib.LOOP_FEATURE_REGISTERED_FILES,
    "registered ring": lib.LOOP_FEATURE_REGISTERED_RING,
    "huge pages": lib.LOOP_FEATURE_HUGE_PAGES,
    "submission thread": lib.LOOP_FEATURE_SUBMISSION_THREAD,
}


class Tape:
    """The payload: byte `o` of recorded file `k` is a fixed random byte, with no stored copy.

    It is shared memory: workers forked after it was made share it. With it comes what reads land
    in, which each process that runs a job has for itself, and keeps until `close`.

    Args:
        size_bytes: period, rounded down to a prime number of pages; None: 256 MiB, or a
            64th of the memory where that is less.
        seed: which random bytes.
        span_bytes: longest contiguous run; a longer request is cut there. Costs address
            space only.

    Raises:
        ReplayError: there is not enough memory.
    """

    def __init__(
        self, size_bytes: int | None = None, seed: int = 0, span_bytes: int = SPAN_BYTES
    ) -> None:
        wanted = affordable_tape_bytes() if size_bytes is None else size_bytes
        error = ffi.new("int *")
        tape = lib.tape_new(wanted, span_bytes, seed % 2**64, error)
        if tape == ffi.NULL:
            cause = os.strerror(-error[0])
            raise ReplayError(
                f"no room for {sized(wanted)} of payload: {cause}; free memory or ask for less"
            )
        self._tape = ffi.gc(tape, lib.tape_free)

    @property
    def size_bytes(self) -> int:
        """The period in bytes."""
        return int(lib.tape_bytes(self._pointer()))

    def read(self, file: int, offset: int, length: int) -> bytes:
        """Return `length` bytes of recorded file `file` from `offset`; file -1 is zeros."""
        out = bytearray(length)
        lib.tape_read(self._pointer(), file, offset, length, ffi.from_buffer(out))
        return bytes(out)

    def compare(self, file: int, offset: int, data: bytes) -> int:
        """Return how many bytes of `data` differ from recorded file `file` at `offset`."""
        return int(
            lib.tape_compare(self._pointer(), file, offset, len(data), ffi.from_buffer(data))
        )

    def close(self) -> None:
        """Give the memory back; the tape cannot be used afterwards."""
        if self._tape is not None:
            ffi.release(self._tape)
            self._tape = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pointer(self) -> Any:
        if self._tape is None:
            raise ValueError("the tape is closed")
        return self._tape


class SharedRun:
    """What the workers of one run have in common: timings, progress, and the word to stop.

    Made before the workers are forked.

    Args:
        request_count: of the job.
        file_count: of the job.
        workers: that start together; 0: `start` is called.
    """

    def __init__(self, request_count: int, file_count: int, workers: int) -> None:
        size = ffi.sizeof("struct loop_progress")
        size += file_count * ffi.sizeof("struct loop_file_progress")
        self._memory = ffi.from_buffer(mmap.mmap(-1, size))
        self.progress = ffi.cast("struct loop_progress *", self._memory)
        self.progress.workers = workers
        rows = mmap.mmap(-1, max(request_count, 1) * TIMING.itemsize)
        self.timings = np.frombuffer(rows, TIMING, request_count)

    @property
    def done(self) -> int:
        """Requests complete."""
        return int(self.progress.done)

    @property
    def ready(self) -> bool:
        """Whether this worker is set up."""
        return bool(self.progress.ready)

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be started."""
        return bool(self.progress.stop)

    def stop(self) -> None:
        """Let no worker start anything more."""
        self.progress.stop = 1

    def start(self, start_ns: int) -> None:
        """Let workers that nobody counts start, at a CLOCK_MONOTONIC time."""
        self.progress.start_ns = start_ns

    def counts(self, files: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how far the job is: requests, fences over all, and both of each file given."""
        at = ffi.offsetof("struct loop_progress", "files")
        by_file = np.frombuffer(ffi.buffer(self._memory), np.uint32, offset=at).reshape(-1, 2)
        totals = [self.progress.done, self.progress.global_fences_done]
        return np.concatenate([np.array(totals, np.int64), by_file[files].ravel().astype(np.int64)])

    def add(self, files: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
        """Add what workers elsewhere have done, as `counts` tells it."""
        numbers = np.ascontiguousarray(files, np.int64)
        by_file = np.ascontiguousarray(counts[2:], np.uint32)
        lib.loop_progress_add(
            self.progress,
            int(counts[0]),
            int(counts[1]),
            _pointer("int64_t *", numbers),
            _pointer("struct loop_file_progress *", by_file),
            len(numbers),
        )


def run_uring(job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
    """Run `job` through one io_uring; see Executor.run."""
    return _run(lib.loop_run_uring, job, tape, root_fd, options)


def run_posix(job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
    """Run `job` with pread and pwrite, a thread per request in flight; see Executor.run."""
    return _run(lib.loop_run_posix, job, tape, root_fd, options)


def probe_uring() -> str | None:
    """Return None if io_uring can be used here, else the cause in words."""
    error = -int(lib.loop_probe_uring())
    return uring_cause(error) if error else None


def liburing_version() -> str:
    """Return the version of liburing this module was built with."""
    return str(ffi.string(lib.loop_liburing_version()).decode())


def open_beneath(root_fd: int, path: str, flags: int, mode: int = 0o666) -> int:
    """Open `path` below `root_fd` as the loop does: no `..` or symbolic link leads out.

    Raises:
        OSError: as open; EXDEV or ELOOP when the path would leave the root.
    """
    return _checked(lib.loop_open_beneath(root_fd, os.fsencode(path), flags, mode), path)


def fill_file(
    tape: Tape, fd: int, offset: int, length: int, file: int, payload_offset: int
) -> None:
    """Write payload of recorded file `file` from `payload_offset` to a range of an open file.

    Raises:
        OSError: as pwrite.
    """
    _checked(lib.loop_fill_file(tape._pointer(), fd, offset, length, file, payload_offset))


def check_file(
    tape: Tape, fd: int, offset: int, length: int, file: int, payload_offset: int
) -> int:
    """Return how many bytes of a range of an open file differ from the payload.

    Bytes past the end of the file differ.

    Raises:
        OSError: as pread.
    """
    mismatched = ffi.new("int64_t *")
    _checked(
        lib.loop_check_file(tape._pointer(), fd, offset, length, file, payload_offset, mismatched)
    )
    return int(mismatched[0])


def resident_bytes(fd: int) -> int:
    """Return how many bytes of an open file are in the page cache.

    Raises:
        OSError: as mincore.
    """
    return _checked(lib.loop_resident_bytes(fd))


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result), path)
    return int(result)


def _run(
    function: Callable[..., int], job: Job, tape: Tape, root_fd: int, options: LoopOptions
) -> Run:
    if options.shared is None:
        check_job(job)  # a share is of a job that was checked
    if not 1 <= options.queue_depth < 2**32:
        raise PlanError(f"queue depth {options.queue_depth} is not possible; use 1 or more")
    shared = options.shared
    timings = np.zeros(len(job.requests), TIMING) if shared is None else shared.timings
    report = ffi.new("struct loop_report *")
    names = [ffi.new("char[]", os.fsencode(path)) for path in job.paths]
    paths = ffi.new("char *[]", names)
    c_job = ffi.new("struct loop_job *")
    c_job.requests = _pointer("struct loop_request *", job.requests)
    c_job.request_count = len(job.requests)
    c_job.pieces = _pointer("struct loop_piece *", job.pieces)
    c_job.piece_count = len(job.pieces)
    c_job.stream_order = _pointer("int64_t *", job.stream_order)
    c_job.stream_starts = _pointer("int64_t *", job.stream_starts)
    if job.stream_leads is not None:
        c_job.stream_leads = _pointer("int32_t *", job.stream_leads)
    c_job.paths = ffi.cast("char const * const *", paths)
    c_job.path_count = len(job.paths)
    c_job.handle_count = job.handle_count
    c_job.file_count = job.file_count
    c_options = _c_options(job, root_fd, options)
    stop = ffi.new("uint8_t *")
    c_options.stop = stop
    c_options.progress = ffi.NULL if shared is None else shared.progress
    c_timings = _pointer("struct loop_timing *", timings)
    error = -call_stoppably(stop, function, c_job, c_options, tape._pointer(), c_timings, report)
    if error:
        raise run_error(error, probe_uring() if function is lib.loop_run_uring else None)
    timings.flags.writeable = False
    return Run(timings, _report(report))


def _pointer(kind: str, array: npt.NDArray[Any]) -> Any:
    # The arrays outlive the call: the caller holds them.
    return ffi.cast(kind, array.ctypes.data)


def _c_options(job: Job, root_fd: int, options: LoopOptions) -> Any:
    return ffi.new(
        "struct loop_options *",
        {
            "queue_depth": options.queue_depth,
            "stream_count": job.stream_count,
            "staging_bytes": options.staging_bytes,
            "landing_bytes": options.landing_bytes,
            "start_ns": options.start_ns,
            "round_trip_ns": options.round_trip_ns,
            "root_fd": root_fd,
            "check_reads": options.check_reads,
            "registered_buffers": options.registered_buffers,
            "registered_files": options.registered_files,
            "submission_thread": options.submission_thread,
            "uncached": options.uncached,
            "stop_on_error": options.stop_on_error,
        },
    )


def _report(report: Any) -> LoopReport:
    return LoopReport(
        features=_feature_names(report.features),
        refused=_feature_names(report.refused),
        in_flight_wanted=report.in_flight_wanted,
        in_flight_limit=report.in_flight_limit,
        submissions=report.submissions,
        resubmissions=report.resubmissions,
        retries=report.retries,
        cut_reads=report.cut_reads,
        staged_bytes=report.staged_bytes,
        mismatched_bytes=report.mismatched_bytes,
        first_mismatch=_index(report.first_mismatch),
        start_ns=report.start_ns,
        end_ns=report.end_ns,
        cpu_user_ns=report.cpu_user_ns,
        cpu_system_ns=report.cpu_system_ns,
        first_error=_index(report.first_error),
    )


def _feature_names(bits: int) -> tuple[str, ...]:
    return tuple(name for name, bit in _FEATURES.items() if bits & bit)


def _index(value: int) -> int | None:
    return None if value < 0 else value
