"""Where what is saved comes from: host memory or a GPU's, through pinned memory, on its own clock.

Tensors on a GPU go to pinned host memory before storage sees them. That copy has a phase of its
own: it runs before the requests, in each worker for its own bytes, and is in no other time. The
requests then write the payload as ever, so that the proof of what was written needs no GPU.
"""

import mmap
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from iotrace.traces.errors import ReplayError

SOURCES = ("host", "cuda")
# A replay may run on a machine with less memory than the job had, and many workers: pieces are
# used again.
_PIECE_BYTES = 1 << 26


class Source(Protocol):
    """Memory that is copied from, and pinned memory beside it."""

    def copy(self, size_bytes: int) -> None:
        """Copy so many bytes, and wait until they are there."""

    def is_whole(self) -> bool:
        """Whether what lies in pinned memory is what was copied."""


class _Host:
    """Host memory, as a GPU's is used, for machines without one."""

    def __init__(self, size_bytes: int, number: int) -> None:
        self._from, self._to = (
            np.frombuffer(mmap.mmap(-1, size_bytes), np.uint8) for _ in range(2)
        )
        self._from[:] = _pattern(size_bytes)
        self._to[:] = 255

    def copy(self, size_bytes: int) -> None:
        self._to[:size_bytes] = self._from[:size_bytes]

    def is_whole(self) -> bool:
        return np.array_equal(self._from, self._to)


class _Cuda:
    """Memory of the GPU whose turn it is: workers share the GPUs of a machine out."""

    def __init__(self, size_bytes: int, number: int) -> None:
        torch = _cuda_torch()
        device = f"cuda:{number % torch.cuda.device_count()}"
        self._wait: Callable[[str], None] = torch.cuda.synchronize
        self._from = torch.from_numpy(_pattern(size_bytes)).to(device)
        self._to = torch.full((size_bytes,), 255, dtype=torch.uint8).pin_memory()
        self._device = device
        self._wait(device)

    def copy(self, size_bytes: int) -> None:
        self._to[:size_bytes].copy_(self._from[:size_bytes], non_blocking=True)
        self._wait(self._device)

    def is_whole(self) -> bool:
        return bool((self._from.cpu() == self._to).all())


def _pattern(size_bytes: int) -> npt.NDArray[np.uint8]:
    """Return bytes that differ from their neighbours, and from 255."""
    return np.resize(np.arange(251, dtype=np.uint8), size_bytes)


def _cuda_torch() -> Any:
    """Return torch with a GPU.

    Raises:
        ReplayError: there is none.
    """
    try:
        import torch
    except ImportError as error:
        raise ReplayError(
            "--source cuda needs torch, which is not installed: `pip install torch`, or use "
            "--source host"
        ) from error
    if not torch.cuda.is_available():
        raise ReplayError("--source cuda needs a GPU, and torch finds none; use --source host")
    return torch


def copy_from(source: str, size_bytes: int, number: int = 0) -> float:
    """Copy so many bytes from a source to pinned memory; return the seconds.

    Taking and filling the memory is not counted. No more than 64 MiB are held on either side,
    beside what host memory takes for a moment to fill and compare them.

    Args:
        source: of SOURCES.
        size_bytes: how much.
        number: of the worker, which chooses the GPU.

    Raises:
        ReplayError: there is no such memory here, or a copy was not whole.
    """
    if size_bytes <= 0:
        return 0.0
    piece_bytes = min(size_bytes, _PIECE_BYTES)
    memory: Source = (_Cuda if source == "cuda" else _Host)(piece_bytes, number)
    begin_ns = time.monotonic_ns()
    for left in range(size_bytes, 0, -piece_bytes):
        memory.copy(min(left, piece_bytes))
    spent_ns = time.monotonic_ns() - begin_ns
    if not memory.is_whole():
        raise ReplayError(f"what was copied from {source} memory is not what lay there")
    return spent_ns / 1e9
