"""The processes that a launcher started together: torchrun, mpirun or srun, on any machines."""

import atexit
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import numpy as np

from iotrace.replay.pieces import Ints
from iotrace.traces.errors import IotraceError, ReplayError

T = TypeVar("T")

# Variables with a process's number and the number of processes, by launcher. A batch script has
# some of Slurm's too; only a step has SLURM_STEP_NUM_TASKS with more than one task.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_DEFAULT_PORT = 29511
_JOIN_SECONDS = 120.0
# The longest that one process may keep the others waiting outside a run, by preparing files, say.
_STEP_SECONDS = 3600.0
_PEER = re.compile(r"\[([0-9a-fA-F:.]+)\]:[0-9]+")


class Group(Protocol):
    """The processes of one replay."""

    @property
    def rank(self) -> int:
        """Number of this process; 0 keeps the workspace and writes the results."""

    @property
    def size(self) -> int:
        """Number of processes."""

    def sum(self, numbers: Ints) -> Ints:
        """Return the sum of what every process gives, element by element."""

    def tick(self, numbers: Ints) -> Ints:
        """Return the same during a run, where no process waits for another for long.

        Raises:
            ReplayError: one was lost, or gave nothing in the time of `join_group`. The others
                are alone from then on: what each gives is all there is.
        """

    @property
    def lost(self) -> bool:
        """Whether a process was lost."""

    def gather(self, value: Any) -> list[Any]:
        """Return what every process gives, in order of rank."""


@dataclass(frozen=True)
class Solo:
    """A replay that no launcher started."""

    rank: int = 0
    size: int = 1
    lost: bool = False

    def sum(self, numbers: Ints) -> Ints:
        """Return the numbers."""
        return numbers

    def tick(self, numbers: Ints) -> Ints:
        """Return the numbers."""
        return numbers

    def gather(self, value: Any) -> list[Any]:
        """Return the value."""
        return [value]


class TorchGroup:
    """Processes that talk through torch.distributed (gloo: on processors, over TCP).

    Args:
        rank: of this one.
        size: how many there are.
        patience_seconds: most time that a tick waits for.
    """

    def __init__(self, rank: int, size: int, patience_seconds: float) -> None:
        import torch.distributed as dist

        self.rank = rank
        self.size = size
        self.lost = False
        self._patience_seconds = patience_seconds
        self._steps = dist.new_group(timeout=timedelta(seconds=_STEP_SECONDS))
        self._ticks = dist.new_group(timeout=timedelta(seconds=patience_seconds))

    def sum(self, numbers: Ints) -> Ints:
        """See Group.sum."""
        return numbers if self.lost else self._sum(numbers, self._steps)

    def tick(self, numbers: Ints) -> Ints:
        """See Group.tick."""
        if self.lost:
            raise ReplayError("a process of the launch was lost before")
        return self._sum(numbers, self._ticks)

    def gather(self, value: Any) -> list[Any]:
        """See Group.gather."""
        import torch.distributed as dist

        found: list[Any] = [value] * self.size
        if not self.lost:
            with self._losing():
                dist.all_gather_object(found, value, group=self._steps)
        return found

    def _sum(self, numbers: Ints, group: Any) -> Ints:
        import torch
        import torch.distributed as dist

        tensor = torch.from_numpy(np.array(numbers, np.int64))
        with self._losing():
            dist.all_reduce(tensor, group=group)
        return np.asarray(tensor.numpy())

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            self.lost = True
            raise ReplayError(f"a process of the launch was lost: {self._cause(error)}") from error

    def _cause(self, error: RuntimeError) -> str:
        """Return what gloo says in a few words."""
        told = str(error)
        if "timeout" in told.lower() or "timed out" in told.lower():
            return f"it gave no answer in {self._patience_seconds:g} s (--timeout waits longer)"
        peer = _PEER.search(told)
        return f"the connection to {peer[1] if peer else 'it'} was closed"


def once(group: Group, action: Callable[[], T]) -> T:
    """Let the first process act; return its result, or raise its error, in all of them."""
    result: Any = None
    if group.rank == 0:
        try:
            result = action()
        except (IotraceError, OSError) as error:
            group.gather(error)
            raise
    first = group.gather(result)[0]
    if isinstance(first, IotraceError | OSError):
        raise first
    return first  # type: ignore[no-any-return]


def each(group: Group, action: Callable[[], T]) -> list[T]:
    """Let every process act; return the results, or raise the first error, in all of them."""
    told: Any = None
    try:
        told = action()
    except (IotraceError, OSError) as error:
        told = error
    everyones = group.gather(told)
    for one in everyones:
        if isinstance(one, IotraceError | OSError):
            raise one
    return everyones


def launched_size(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return the number of this process and how many there are, as the launcher says."""
    for rank, size in _LAUNCHERS:
        told = environment.get(rank, ""), environment.get(size, "")
        if all(number.isdigit() for number in told) and int(told[1]) > 1:
            return int(told[0]), int(told[1])
    return 0, 1


def join_group(patience_seconds: float = 300.0) -> Group:
    """Return the processes started together with this one, connected; `Solo` where it is alone.

    mpirun and srun do not say where the first process is: MASTER_ADDR must, beyond one machine.

    Args:
        patience_seconds: most time that a process waits for a sign of life of another in a run.

    Raises:
        ReplayError: torch is not installed, or the others cannot be reached.
    """
    rank, size = launched_size()
    if size == 1:
        return Solo()
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise ReplayError(
            f"{size} processes were launched, and they talk through torch.distributed; "
            "install the extra `torch`"
        ) from error
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = os.environ.get("MASTER_PORT", str(_DEFAULT_PORT))
    try:
        dist.init_process_group(
            "gloo",
            init_method="env://"
            if "TORCHELASTIC_RUN_ID" in os.environ
            else f"tcp://{address}:{port}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=_JOIN_SECONDS),
        )
        # Its threads would be ended by the exit otherwise, which aborts now and then.
        atexit.register(dist.destroy_process_group)
        return TorchGroup(rank, size, patience_seconds)
    except (RuntimeError, ValueError) as error:
        raise ReplayError(
            f"the {size} processes of this launch do not meet at {address}:{port}; "
            "set MASTER_ADDR to the first one's machine"
        ) from error
