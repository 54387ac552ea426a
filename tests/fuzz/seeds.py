"""What the fuzzers begin with: small real inputs of every importer, and small traces."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import torch

from iotrace.traces.stores import CORPUS
from tests.fuzz.wild import wild
from tests.traces.formats.test_other_tools import BLKPARSE, DXT, KV_CACHE, OPSLOG, SAMPLES

SWEEP = Path(__file__).with_name("sweep.json")  # of a sweep of three seconds
_ROWS = 40  # of a corpus trace: small inputs are tried more often
_WILD = 40
_CHOICES_BYTES = 900

STRACE = b"""\
7 1795997927.000001 openat(AT_FDCWD</d>, "a\\303\\274", O_RDWR|O_CREAT, 0666) = 3</d/a> <0.000001>
7 1795997927.000002 write(3</d/a>, "\\"x"..., 10 <unfinished ...>
8 1795997927.000003 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 9 <0.000001>
7 1795997927.000009 <... write resumed>) = 10 <0.000006>
9 1795997927.000010 readv(3, [{iov_base=""..., iov_len=4}, {iov_base="", iov_len=2}], 2) = 6
9 1795997927.000011 lseek(3, 0, SEEK_SET) = 0
9 1795997927.000012 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) = 0x7f0000000000
9 1795997927.000013 munmap(0x7f0000000000, 4096) = 0
9 1795997927.000014 renameat2(AT_FDCWD, "/d/a", 5</d>, "b", RENAME_NOREPLACE) = -1 ENOENT (No)
7 1795997927.000015 execve("/bin/x", ["x", "-y"], 0x7ffd /* 9 vars */) = 0
7 1795997927.000016 +++ exited with 0 +++
"""
IOLOG = (
    b"fio version 3 iolog\n0 /a add\n1 /a open\n2 /a write 0 4096\n3 /a trim 0 512\n4 /a close\n"
)
TABLE = b"op,start_ns,path,shape,length,result\nwrite,1,/a,2x3,9,9\nread,2,,scalar,9,\n"


def torch_file(**options: bool) -> bytes:
    """Return a small file of torch.save's."""
    tensor = torch.ones(3, 4)
    content = io.BytesIO()
    state = {
        "w": tensor,
        "view": tensor[1:],
        "odd": [1, (2.5, None)],
        "p": torch.nn.Parameter(tensor),
    }
    torch.save(state, content, **options)
    return content.getvalue()


def header_file() -> bytes:
    """Return a small file with a JSON header."""
    header = {
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "__metadata__": {"a": "b"},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


IMPORTED: Mapping[str, tuple[bytes, ...]] = {
    "strace": (STRACE,),
    "iolog": (IOLOG, IOLOG.replace(b"3 iolog", b"2 iolog").replace(b"\n1 ", b"\n")),
    "csv": (TABLE,),
    "dxt": (DXT.encode(),),
    "dftracer": ((SAMPLES / "dftracer-2.2.0.pfw").read_bytes(),),
    "recorder": ((SAMPLES / "recorder-2" / "0.txt").read_bytes(),),
    "elbencho": (OPSLOG.encode(),),
    "kv-cache": (KV_CACHE.encode(),),
    "blktrace": (BLKPARSE.encode(),),
    "checkpoint": (
        torch_file(),
        torch_file(_use_new_zipfile_serialization=False),
        header_file(),
    ),
}


def traces() -> Iterator[bytes]:
    """Yield Parquet files: the first rows of each trace of the corpus, and wild ones."""
    for path in sorted(CORPUS.glob("*.parquet")):
        file = pq.ParquetFile(path)
        table = file.read().slice(0, _ROWS).replace_schema_metadata(file.metadata.metadata)
        for codec in ("NONE", "zstd"):
            sink = io.BytesIO()
            pq.write_table(table, sink, compression=codec, store_schema=False)
            yield sink.getvalue()
    rng = random.Random(1)
    yield from (wild(rng) for _ in range(_WILD))


def rows() -> Iterator[bytes]:
    """Yield what wild traces are made of: choices."""
    rng = random.Random(2)
    yield bytes(_CHOICES_BYTES)
    for _ in range(_WILD):
        yield rng.randbytes(rng.randrange(_CHOICES_BYTES))
