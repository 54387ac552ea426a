"""A small trace, written with the library, that every verb can read."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.metadata import (
    Completeness,
    FileCompleteness,
    Host,
    Metadata,
    Mount,
    Process,
    ProcessCompleteness,
)
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from iotrace.traces.writer import write_trace

CHECKPOINT = "/data/checkpoints/run-7/model.pt"
SIZES = (64, 4096, 1 << 20, 100)
SIZE = sum(SIZES)
_TICK_NS = 1_000_000

Make = Callable[..., Path]


@dataclass(frozen=True)
class Row:
    """One row of a trace; None is null."""

    op: str
    layer: str = "request"
    api: str | None = "posix"
    engine: str | None = None
    path: str = CHECKPOINT
    target: str | None = None
    file: int | None = 0
    offset: int | None = None
    length: int | None = None
    result: int | None = 0
    flags: int | None = None
    step: int | None = 0
    name: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    device: str | None = None
    tensor_offset: int | None = None


def checkpoint_rows(path: str = CHECKPOINT, sizes: Sequence[int] = SIZES) -> list[Row]:
    """A file written and synced in requests of `sizes`, then read back in the same."""
    offsets = np.cumsum([0, *sizes])[:-1].tolist()
    extents = list(zip(offsets, sizes, strict=True))
    creating = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return [
        Row("open", path=path, flags=creating),
        *(Row("write", path=path, offset=o, length=n, result=n) for o, n in extents),
        Row("sync", path=path, flags=0),
        Row("close", path=path),
        Row("open", path=path, flags=os.O_RDONLY),
        *(Row("read", path=path, offset=o, length=n, result=n) for o, n in extents),
        Row("close", path=path),
        *(
            Row(
                op,
                layer="tensor",
                api=None,
                engine="torch.save",
                path=path,
                file=None,
                offset=offsets[2],
                length=sizes[2],
                result=None,
                name="model.0.weight",
                dtype="float32",
                shape=(512, 512),
                device="cpu",
                tensor_offset=0,
            )
            for op in ("save", "load")
        ),
    ]


def metadata(problem: str | None = None, size: int = SIZE, pid: int = 4711) -> Metadata:
    """What a capture on one machine says; `problem` makes it incomplete."""
    file = FileCompleteness(CHECKPOINT, 0, 0, size, size, True)
    return Metadata(
        epoch_realtime_ns=1_700_000_000_000_000_000,
        tool_version="0.1.0",
        command=("python", "train.py", "--out", CHECKPOINT),
        hosts=(Host(name="node1", kernel="6.18.0", cores=2, memory_bytes=32 << 30),),
        mounts=(Mount("/data", file_system="ext4", free_bytes=1 << 40, block_bytes=4096),),
        processes=(Process(pid, argv=("python", "train.py"), python="3.11.7"),),
        completeness=Completeness(
            files=(file,),
            processes=(ProcessCompleteness(0, size, size),),
            notes=() if problem is None else (problem,),
        ),
    )


def build(rows: Sequence[Row], described: Metadata) -> Trace:
    """Return `rows` as a trace; row i starts at i ms and takes half of one."""
    start_ns = np.arange(len(rows), dtype=np.int64) * _TICK_NS
    columns: dict[str, object] = {"start_ns": start_ns, "end_ns": start_ns + _TICK_NS // 2}
    for field in ("op", "layer", "api", "engine", "path", "target", "name", "dtype", "device"):
        columns[field] = Strings.of([getattr(row, field) for row in rows])
    for field in ("file", "offset", "length", "result", "flags", "step", "tensor_offset"):
        values = [getattr(row, field) for row in rows]
        known = np.array([value is not None for value in values])
        columns[field] = Ints(np.array([value or 0 for value in values], np.int64), known)
    columns["shape"] = Shapes.of([row.shape for row in rows])
    return Trace.from_columns(columns, described)


@pytest.fixture
def make_trace(tmp_path: Path) -> Make:
    """Write a trace of given rows into the test's folder; return its path."""

    def make(
        rows: Sequence[Row] | None = None, name: str = "trace.parquet", **described: object
    ) -> Path:
        folder = tmp_path / "traces"
        folder.mkdir(exist_ok=True)
        trace = build(checkpoint_rows() if rows is None else rows, metadata(**described))
        write_trace(trace, folder / name)
        return folder / name

    return make


@pytest.fixture
def small_trace(make_trace: Make) -> Path:
    """A trace of one checkpoint, saved and loaded."""
    return make_trace()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder to replay in."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder
