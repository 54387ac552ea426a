"""From a command to its trace, and from the raw logs of a killed run to one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path

import numpy as np

from iotrace.capture.collector import collect, read_folder
from iotrace.capture.fault_rings import watched_faults
from iotrace.capture.keeper import keeping
from iotrace.capture.launcher import run
from iotrace.capture.preload import job_environment, library_path, preloadable
from iotrace.capture.program import find_program, warnings_about
from iotrace.capture.rawdir import (
    RawDirInUseError,
    claimed,
    has_logs,
    is_whole,
    make_raw_dir,
    read_command,
    remove_raw_dir,
    write_command,
)
from iotrace.capture.rawlog import SUFFIX
from iotrace.capture.roster import read_roster, start_roster, unlogged
from iotrace.capture.scope import Scope
from iotrace.capture.small_files import without_small_files
from iotrace.traces.errors import CaptureError
from iotrace.traces.metadata import HistoryEntry
from iotrace.traces.remedies import OF_DESCRIPTORS, remedy, with_remedy
from iotrace.traces.stores import is_remote
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version
from iotrace.traces.words import plural
from iotrace.traces.writer import shortened

# Of the processes that outlive the first one, most are on their way out.
STRAGGLERS_SECONDS = 0.3
_NAME_BYTES = 255  # Linux takes no more


@dataclass(frozen=True)
class CaptureOptions:
    """How to watch a job.

    Attributes:
        raw_dir: folder for the raw logs; made if it is not there.
        include, exclude, everything: see `Scope.of`.
        least_file_bytes: files that never held as much are left out of the trace.
        log_limit_bytes: size that one process's raw log may grow to; None: the default, 4 GiB.
    """

    raw_dir: Path
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    everything: bool = False
    least_file_bytes: int = 0
    log_limit_bytes: int | None = None


@dataclass(frozen=True)
class Job:
    """A job that has run: what it left is never removed here, whatever else goes wrong.

    Attributes:
        status: its exit status, as a shell shows it.
        notes: what the user should know, one sentence each; no defects of the trace.
        unseen: what of it is known not to be in the raw logs.
        raw_dir: folder of the raw logs.
    """

    command: tuple[str, ...]
    status: int
    notes: tuple[str, ...]
    unseen: tuple[str, ...]
    raw_dir: Path


@dataclass(frozen=True)
class Captured:
    """What a capture gave.

    Attributes:
        status: exit status of the job, as a shell shows it.
        notes: what the user should know, one sentence each; no defects of the trace.
        raw_dir: folder of the raw logs, still there: `remove_raw_dir` once the trace is safe.
    """

    status: int
    trace: Trace
    notes: tuple[str, ...]
    raw_dir: Path


def raw_dir_beside(output: Path) -> Path:
    """Return where the raw logs of a trace go by default: here, if it goes to another machine."""
    if is_remote(output):
        return Path(output.name.partition("?")[0] + SUFFIX)
    return output.with_name(shortened(output.name, _NAME_BYTES - len(SUFFIX)) + SUFFIX)


def capture(command: Sequence[str], options: CaptureOptions) -> Captured:
    """Run a job to the end of its first process and return the trace of all its processes.

    Raises:
        CaptureError: the job cannot be started, or not be watched; nothing is left behind.
    """
    return collected(watch(command, options), options.least_file_bytes)


def watch(command: Sequence[str], options: CaptureOptions) -> Job:
    """Run a job to the end of its first process, for `collected` to make a trace of it.

    Raises:
        CaptureError: the job cannot be started, or not be watched; nothing is left behind.
    """
    if not command:
        raise CaptureError("no command; give one after --")
    program = find_program(command[0], os.environ.get("PATH", os.defpath))
    scope = Scope.of(options.include, options.exclude, options.everything)
    library = library_path()
    raw_dir, notes = make_raw_dir(options.raw_dir)
    status: int | None = None
    unseen: list[str] = []
    try:
        with claimed(raw_dir), preloadable(library) as link:
            write_command(raw_dir, command)
            start_roster(raw_dir)
            with keeping(raw_dir) as keeper:
                environ = job_environment(
                    os.environ, link, raw_dir, scope, options.log_limit_bytes, keeper
                )
                with watched_faults(raw_dir):
                    status = run(program, command, environ)
                wait_for_stragglers(raw_dir)
    except OSError as error:
        if status is None:
            remove_raw_dir(raw_dir)
            cause = with_remedy(error, "name another --raw-dir")
            what = "the job cannot be watched" if error.errno in OF_DESCRIPTORS else str(raw_dir)
            raise CaptureError(f"{what}: {cause}") from None
        unseen.append(f"the end of the job was not watched well: {error.strerror}")
    except RawDirInUseError:
        raise
    except CaptureError:
        remove_raw_dir(raw_dir)
        raise
    unseen += [*warnings_about(program), *_lost_logs(raw_dir)]
    return Job(tuple(command), status, tuple(notes), tuple(unseen), raw_dir)


def collected(job: Job, least_file_bytes: int = 0) -> Captured:
    """Return the trace of a job that has run.

    Raises:
        CaptureError: its raw logs cannot be read.
        OSError: the folder that it removed cannot be made again.
    """
    job.raw_dir.mkdir(parents=True, exist_ok=True)
    trace = without_small_files(collect(job.raw_dir, job.command), least_file_bytes)
    trace = with_history(with_problems(trace, job.unseen), "capture")
    return Captured(
        job.status, trace, (*job.notes, *job.unseen, *inferred_order(trace)), job.raw_dir
    )


def recover(raw_dir: Path) -> Trace:
    """Return the trace of a job whose capture was killed; its raw logs stay.

    Raises:
        CaptureError: there are no raw logs in the folder, or none that can be read.
    """
    if not has_logs(raw_dir):
        roster = read_roster(raw_dir)
        missing = next(unlogged(roster), None)
        if missing:
            helps = remedy(roster.refusal or ENOSPC, "name another --raw-dir")
            raise CaptureError(f"no raw logs in {raw_dir}: {missing}; {helps}, and capture again")
        if read_command(raw_dir):
            raise CaptureError(
                f"no raw logs in {raw_dir}: the job had touched no file in scope; "
                "an --include given to the capture may have narrowed it"
            )
        raise CaptureError(f"no raw logs in {raw_dir}; name the folder with the *{SUFFIX} files")
    logs, unreadable = read_folder(raw_dir)
    if not logs:
        raise CaptureError(unreadable[0])
    return with_history(collect(raw_dir, read_command(raw_dir)), "recover")


def wait_for_stragglers(raw_dir: Path) -> None:
    """Wait a moment for processes that end with the job, such as Python's resource tracker."""
    deadline = time.monotonic() + STRAGGLERS_SECONDS
    while time.monotonic() < deadline and read_roster(raw_dir).running():
        time.sleep(STRAGGLERS_SECONDS / 20)


def _lost_logs(raw_dir: Path) -> list[str]:
    if is_whole(raw_dir):
        return []
    return [f"the job removed the raw logs in {raw_dir}; keep them elsewhere with --raw-dir"]


def inferred_order(trace: Trace) -> Iterator[str]:
    """Yield how many offsets are right together, and may be swapped between writers."""
    rows = trace.row_mask(layer="request", op="write")
    for column, word in (("api", "posix"), ("offset_source", "inferred")):
        codes, words = trace.codes(column)
        rows = rows & (codes == (words.index(word) if word in words else len(words)))
    count = int(np.count_nonzero(rows))
    if count:
        yield (
            f"{plural(count, 'write')} went through descriptors that several writers share: "
            "which of those at one time came first is not certain"
        )


def with_problems(trace: Trace, problems: Sequence[str]) -> Trace:
    """Return a trace that says what else it is known not to hold."""
    completeness = trace.metadata.completeness
    notes = (*completeness.notes, *problems)
    return trace.with_metadata(
        replace(trace.metadata, completeness=replace(completeness, notes=notes))
    )


def with_history(trace: Trace, action: str) -> Trace:
    """Return a trace that says how it was made."""
    entry = HistoryEntry(action, realtime_ns=time.time_ns(), tool_version=tool_version())
    return trace.with_metadata(trace.metadata.with_history(entry))


__all__ = [
    "CaptureOptions",
    "Captured",
    "Job",
    "capture",
    "collected",
    "has_logs",
    "raw_dir_beside",
    "recover",
    "remove_raw_dir",
    "watch",
]
