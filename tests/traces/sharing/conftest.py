"""A trace that tells everything about its owner, in every place that holds text."""

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
)
from iotrace.traces.trace import Ints, Shapes, Strings, Trace

FOLDER = "/lustre07/jd58311/orca-project/kaffe\udce9"
PATHS = (
    f"{FOLDER}/step100/__0_0.distcp",
    f"{FOLDER}/step100/mymodel_00001-of-00004.safetensors",
    f"{FOLDER}/step100/mymodel_00002-of-00004.safetensors.tmp",
    f"{FOLDER}/step200/rank_3/run_2026-11-30.pt",
    f"{FOLDER}/10.0.3.7/9b9b8112-52bf-4d9f-b011-1bd3dc317e0a",
)
# What nobody else may learn; `mymodel` stands in paths and in argv.
SECRETS = (
    *("lustre07", "jd58311", "58311", "orca", "project", "kaffe", "mymodel", "2026-11", "10.0.3.7"),
    *("9b9b8112", "hpc7", "acme", "b00t1d", "mdt0", "192.168", "secretlib", "s3cr3t", "phd.py"),
    *("wisdom", "deadbeef", "nvme9", "tokenabc", "sitekey", "hooktrouble", "userspan"),
)


def owner_metadata() -> Metadata:
    """Return metadata with a secret in every text."""
    return Metadata(
        epoch_realtime_ns=1_796_012_641_712_647_900,
        epoch_monotonic_ns=4_804_789_697_091,
        tool_version="0.1.0+acme.3",
        command=("python", "phd.py", "--token=tokenabc", f"{FOLDER}/mymodel"),
        hosts=(
            Host("hpc7.acme.org", "b00t1d-1", "6.8.0-45-acme", "x86_64", 64, 540_123_456_789,
                 None, None, {"sitekey": "s3cr3t"}),
        ),
        mounts=(
            Mount(f"{FOLDER}", 0, "mdt0@192.168.0.1:/orca", "lustre", "2.15.4",
                  "rw,flock,user=jd58311,addr=192.168.0.1,rsize=1048576", 4096, 4096, 512, 131072,
                  1 << 20, 4, 10**15 + 123_456, 10**14 + 77, {"serial": "nvme9"}),
        ),
        processes=tuple(
            Process(51_234 + rank, 0, 999, 77, ("python", "phd.py", "s3cr3t"), "/opt/acme/bin/py",
                    rank, rank, 2, "3.11.7", "/opt/acme", {"torch": "2.8.0+acme", "secretlib": "1"},
                    {"user": "jd58311"})
            for rank in range(2)
        ),
        completeness=Completeness(
            files=(FileCompleteness(PATHS[0], 0, 0, 10, 10, True, {"note": "s3cr3t"}),),
            processes=(ProcessCompleteness(0, 10, 10, extra={"x": "s3cr3t"}),),
            notes=(
                f"no tensors from hooktrouble: cannot import {FOLDER}",
                "10 bytes of 1 file were mapped into memory for reading; which of them were used "
                "was not seen",
                "9.77 KiB of 1 file were mapped into memory for reading; what was read of them "
                "from memory was not seen",
                "1.50 MiB of 1 file were mapped into memory for reading; what read-ahead brought "
                "of them was not seen",
            ),
            extra={"processes_left_out": 3, "why": "s3cr3t"},
        ),
        history=(HistoryEntry("capture", f"by jd58311 in {FOLDER}", 1_796_012_643_858_189_889,
                              "0.1.0", {"shell": "acme"}),),
        extra={"site": {"sitekey": ["s3cr3t", {"wisdom": "acme"}]}},
    )  # fmt: skip


@pytest.fixture
def owned() -> Trace:
    """A trace of two ranks and two steps whose every text is somebody's."""
    rows = len(PATHS) * 2 + 4
    some = np.arange(rows)
    paths = [*PATHS, *PATHS, FOLDER, PATHS[2], None, None]
    targets: list[str | None] = [None] * rows
    targets[-3] = PATHS[2].removesuffix(".tmp")
    ops = ["write"] * len(PATHS) + ["read"] * len(PATHS) + ["mkdir", "rename", "save", "counter"]
    layers = ["request"] * (rows - 2) + ["span", "counter"]
    tensor = {1, 6}
    for row in tensor:
        layers[row], ops[row] = "tensor", "save" if row == 1 else "load"
    names: list[str | None] = [None] * rows
    names[1] = names[6] = "wisdom.layers.3.attn"
    names[-2], names[-1] = "userspan of jd58311", "read_bytes"
    return Trace.from_columns(
        {
            "layer": Strings.of(layers),
            "op": Strings.of(ops),
            "api": Strings.constant("posix", rows),
            "engine": Strings.of(["dcp", "acme-engine"] * (rows // 2)),
            "rank": some % 2,
            "process": some % 2,
            "start_ns": 1_700_000_000_000_000_000 + some * 1000,
            "end_ns": 1_700_000_000_000_000_500 + some * 1000,
            "path": Strings.of(paths),
            "target": Strings.of(targets),
            "file": some % 5,
            "offset": some * 4096,
            "length": np.full(rows, 4096),
            "result": np.full(rows, 4096),
            "flags": np.zeros(rows, np.int32),
            "address": some.astype(np.uint64) + 0x7F00DEADBEEF,
            "step": some % 2,
            "name": Strings.of(names),
            "dtype": Strings.of(
                [("deadbeef_type" if r == 6 else "bfloat16") if r in tensor else None
                 for r in range(rows)]
            ),
            "shape": Shapes.of([(4, 512) if r in tensor else None for r in range(rows)]),
            "device": Strings.of(["nvme9:0" if r in tensor else None for r in range(rows)]),
            "tensor_offset": Ints(np.zeros(rows, np.int64), np.isin(some, list(tensor))),
        },
        owner_metadata(),
    )  # fmt: skip
