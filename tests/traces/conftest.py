"""Small traces for the tests of this folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.traces.metadata import (
    Completeness,
    FileCompleteness,
    HistoryEntry,
    Host,
    Metadata,
    Mount,
    Process,
    ProcessCompleteness,
    RecordedOn,
)
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from iotrace.traces.writer import write_trace

ODD_PATH = "/data/caf\udce9 \\ ü/x\udcff.pt"  # bytes e9 and ff are not UTF-8


def rich_metadata() -> Metadata:
    """Return metadata in which no field has its default."""
    return Metadata(
        epoch_realtime_ns=1_700_000_000_000_000_000,
        epoch_monotonic_ns=12_345,
        clock="bcdfghjklm",
        clocks=2,
        tool_version="0.1.0",
        command=("python", "train.py", ODD_PATH),
        hosts=(Host("n1", "boot-1", "6.18", "x86_64", 8, 1 << 34, 1 << 33, True, {"numa": 2}),),
        recorded_on=RecordedOn((Host("n0", kernel="5.14"),), (Mount("/old"),), {"site": "a"}),
        mounts=(
            Mount("/data", 0, "/dev/sda", "xfs", "5", "rw", 4096, 512, 4, 131072, 0, 1, 9, 8, {}),
        ),
        processes=(
            Process(7, 0, 1, 99, ("a", "b"), "/bin/py", 3, 1, 4, "3.11", "/usr", {"t": "2"}),
        ),
        completeness=Completeness(
            files=(FileCompleteness(ODD_PATH, 0, 1, 10, None, False),),
            processes=(ProcessCompleteness(0, 1, 2, 3, 4, 5, 6, 7, 8, 9),),
            dropped_records=1,
            unknown_descriptors=2,
            unmatched_completions=3,
            cut_texts=4,
            torn_records=5,
            notes=("1 MiB was mapped and not seen",),
        ),
        history=(HistoryEntry("capture", "by hand", 5, "0.1.0"),),
        extra={"site": {"name": "here", "racks": [1, None, 2.5, True]}},
    )


def rich_columns() -> dict[str, Any]:
    """Return three rows in which every column has a value, and a null where it may."""
    some = np.array([True, False, True])

    def words(first: str, last: str) -> Strings:
        return Strings.of([first, None, last])

    return {
        "layer": Strings.of(["request", "tensor", "span"]),
        "op": Strings.of(["write", "save", "save"]),
        "api": words("posix", "io_uring"),
        "engine": words("torch.save", "dcp"),
        "rank": np.array([3, -1, 3]),
        "process": np.array([0, 0, 0]),
        "thread": np.array([0, 1, 2]),
        "seq": np.array([0, 1, 2]),
        "start_ns": np.array([1, 2, 1 << 62]),
        "end_ns": Ints(np.array([2, 0, (1 << 62) + 1]), some),
        "path": words(ODD_PATH, "/data/日本/😀.pt"),
        "target": words("/data/new", ODD_PATH),
        "file": Ints(np.array([1, 0, 2]), some),
        "offset": Ints(np.array([0, 0, (1 << 63) - 1]), some),
        "length": Ints(np.array([4096, 0, 7]), some),
        "result": np.ma.MaskedArray([4096, 0, -28], mask=~some),
        "offset_source": words("argument", "tracked"),
        "flags": Ints(np.array([0o102, 0, -1]), some),
        "address": Ints(np.array([0, 0, (1 << 64) - 8], np.uint64), some),
        "step": Ints(np.array([0, 0, 1]), some),
        "name": words("model.\\x.weight", "b"),
        "dtype": words("float32", "bfloat16"),
        "shape": Shapes.of([(2, 3), None, ()]),
        "device": words("cpu", "cuda:0"),
        "tensor_offset": Ints(np.array([-8, 0, 5]), some),
    }


def small_trace(rows: int = 3, metadata: Metadata | None = None, **columns: Any) -> Trace:
    """Return `rows` writes at times 0, 10, 20, ...; `columns` are added or replaced."""
    given: Mapping[str, Any] = {
        "layer": Strings.constant("request", rows),
        "op": Strings.constant("write", rows),
        "start_ns": np.arange(rows) * 10,
        **columns,
    }
    return Trace.from_columns(given, metadata or Metadata(processes=(Process(1),)))


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """Return a written trace with every column in use."""
    path = tmp_path / "trace.parquet"
    write_trace(Trace.from_columns(rich_columns(), rich_metadata()), path)
    return path
