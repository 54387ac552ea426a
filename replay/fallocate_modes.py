"""Modes of fallocate that the target's file system refuses, and what has the same content there."""

import ctypes
import errno
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from iotrace.replay.files import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, zeroes_of
from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.transforms.reshape import carried_think, merge
from iotrace.traces.errors import PlanError
from iotrace.traces.words import plural

_GROW, _PUNCH = 0, PUNCH_HOLE | KEEP_SIZE
_NAMES = {
    KEEP_SIZE: "KEEP_SIZE",
    PUNCH_HOLE: "PUNCH_HOLE",
    ZERO_RANGE: "ZERO_RANGE",
    0x40: "UNSHARE_RANGE",
    0x80: "WRITE_ZEROES",
}
_PROBE_BYTES = 16 << 10


def modes_of(plan: Plan) -> frozenset[int]:
    """Return the modes that the plan uses, and those that others can be made of."""
    rows = plan.requests.compress(plan.requests["op"] == Op.ALLOCATE)
    modes = frozenset(np.unique(rows["flags"]).tolist())
    return modes | {_GROW, _PUNCH} if any(mode & ZERO_RANGE for mode in modes) else modes


def refused_modes(directory: Path, modes: Iterable[int]) -> dict[int, str]:
    """Return which of `modes` fail here, and the cause: tried once each, in a small file.

    Raises:
        OSError: the file cannot be written.
    """
    refused: dict[int, str] = {}
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    for mode in sorted(modes):
        with tempfile.TemporaryFile(dir=directory, prefix="probe-") as probe:
            os.pwrite(probe.fileno(), bytes(_PROBE_BYTES), 0)
            failed = fallocate(probe.fileno(), mode, _PROBE_BYTES // 2, _PROBE_BYTES // 4)
            error = ctypes.get_errno() if failed else 0
        if error == errno.ENOSPC:
            raise OSError(error, os.strerror(error))
        if error:
            refused[mode] = os.strerror(error)
    return refused


def fit_modes(
    plan: Plan, refused: Mapping[int, str], file_system: str
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with other modes in place of the refused ones, and what was given up.

    A range is zeroed by punching a hole, after it was allocated if the file is to grow; space
    that is reserved past the end without a byte of content is not.

    Raises:
        PlanError: nothing of the same content is known to work there.
    """
    degraded: list[str] = []
    for mode, cause in refused.items():
        rows = plan.requests
        chosen = (rows["op"] == Op.ALLOCATE) & (rows["flags"] == mode)
        if not chosen.any():
            continue
        count, name = int(chosen.sum()), _name(mode)
        refusal = f"{file_system} refuses fallocate with {name} ({cause})"
        needed = {_PUNCH} if mode & KEEP_SIZE else {_PUNCH, _GROW}
        if mode & ZERO_RANGE and not needed & refused.keys():
            plan = _punched(plan, chosen.nonzero()[0], bool(mode & KEEP_SIZE))
            degraded.append(f"{plural(count, 'range')} punched instead of zeroed: {refusal}")
        elif mode & KEEP_SIZE and not zeroes_of(rows)[chosen].any():
            plan = _without(plan, chosen.nonzero()[0])
            degraded.append(f"{plural(count, 'allocation')} left out, of no content: {refusal}")
        else:
            raise PlanError(
                f"{refusal}, which {plural(count, 'request')} of the plan cannot do without; "
                "choose another place with --root or --stage"
            )
    return plan, tuple(degraded)


def _punched(plan: Plan, at: Ints, keeps_size: bool) -> Plan:
    """Punch holes in place of requests `at`; unless they keep their file's size, allocate first."""
    requests = plan.requests.having_at(at, flags=_PUNCH if keeps_size else _GROW)
    if not keeps_size:
        holes = plan.requests.take(at, flags=_PUNCH, source_row=-1, think_ns=0)
        requests = merge((requests, np.arange(len(requests)), 0), (holes, at, 1))
    return plan.derive(Applied("punch instead of zero"), requests)


def _without(plan: Plan, at: Ints) -> Plan:
    requests = plan.requests
    dropped = np.zeros(len(requests), np.bool_)
    dropped[at] = True
    think_ns = requests["think_ns"] + carried_think(requests, dropped)
    kept = requests.having(think_ns=think_ns).compress(~dropped)
    return plan.derive(Applied("without reservations"), kept)


def _name(mode: int) -> str:
    names = [name for bit, name in _NAMES.items() if mode & bit]
    return " and ".join(names) or (f"mode {mode:#x}" if mode else "mode 0")
