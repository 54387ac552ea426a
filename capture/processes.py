"""The processes of a job: ranks, interpreters, and whether they have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from iotrace.capture.notes import Note
from iotrace.capture.rawlog import LogHeader, RawLog
from iotrace.traces.environment import boot_id
from iotrace.traces.metadata import Process

# In this order: a launcher inside another (torchrun under srun) knows the rank best.
RANK_VARIABLES = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
)
LOCAL_RANK_VARIABLES = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)
WORLD_SIZE_VARIABLES = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "FLUX_JOB_SIZE",
    "SLURM_NTASKS",
)


_RANKS = range(2**31)


class Place(NamedTuple):
    """Where a process is among the ranks of its job; None where that is not known."""

    rank: int | None
    local_rank: int | None
    world_size: int | None


def describe_process(log: RawLog, host: int, notes: Sequence[Note]) -> Process:
    """Return what is known about the process that wrote a log."""
    header = log.header
    interpreter = interpreter_of(notes)
    place = place_of(log, notes)
    return Process(
        pid=header.pid,
        host=host,
        parent_pid=header.parent_pid,
        start_ticks=header.pid_start_ticks,
        argv=header.argv,
        executable=header.executable,
        rank=or_none(place.rank),
        local_rank=or_none(place.local_rank),
        world_size=place.world_size,
        python=(interpreter and interpreter.text("python")) or "",
        prefix=(interpreter and interpreter.text("prefix")) or "",
        libraries=libraries(interpreter),
    )


def interpreter_of(notes: Sequence[Note]) -> Note | None:
    """Return the last note that a process wrote about itself."""
    return next((note for note in reversed(notes) if note.layer == "process"), None)


def rank_of(log: RawLog, notes: Sequence[Note]) -> int:
    """Return the global rank of a process, -1 outside a launcher and a group."""
    return or_none(place_of(log, notes).rank)


def place_of(log: RawLog, notes: Sequence[Note]) -> Place:
    """Return where a process is among the ranks of its job.

    A launcher knows, unless the job went on to start more processes than it did: they have its
    variables all the same, and what torch.distributed calls them counts.
    """
    variables = log.header.rank_variables
    given = Place(
        first_integer(variables, RANK_VARIABLES),
        first_integer(variables, LOCAL_RANK_VARIABLES),
        first_integer(variables, WORLD_SIZE_VARIABLES),
    )
    interpreter = interpreter_of(notes)
    if interpreter is None:
        return given
    rank, size = (interpreter.integer(name, _RANKS) for name in ("rank", "world_size"))
    if rank is None or size is None:
        return given
    is_finer = given.world_size is not None and given.world_size < size
    return Place(rank, None, size) if given.rank is None or is_finer else given


def or_none(rank: int | None) -> int:
    """Return a rank as its column says it."""
    return -1 if rank is None else rank


def first_integer(variables: Mapping[str, str], names: Iterable[str]) -> int | None:
    """Return the value of the first variable that holds a number of a rank or size."""
    values = (variables.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal() and len(value) < 10), None)


def libraries(interpreter: Note | None) -> dict[str, str]:
    """Return the versions that a process note tells."""
    found = interpreter.fields.get("libraries") if interpreter else None
    if not isinstance(found, dict):
        return {}
    return {str(name): str(version) for name, version in found.items()}


def has_ended(header: LogHeader) -> bool:
    """Return whether the process that wrote a log is over, as far as this host can tell."""
    return header.boot_id != boot_id() or not is_running(header.pid, header.pid_start_ticks)


def is_running(pid: int, start_ticks: int) -> bool:
    """Return whether this process of this boot, not a later one with its pid, still runs."""
    return start_ticks_of(pid) == start_ticks


def start_ticks_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot; None if none runs."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before it may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
