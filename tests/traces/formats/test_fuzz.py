"""Broken and hostile inputs of every importer: a trace, or one error of one line. Nothing else.

FUZZ_EXAMPLES=20000 pytest tests/traces/formats/test_fuzz.py runs it for longer.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import guess, import_trace, importers, named

from .test_csv import CORPUS
from .test_other_tools import BLKPARSE, DXT, KV_CACHE, OPSLOG, SAMPLES

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
WORST_MS = 5_000
# A row may lack what its source does not tell; nothing else may be wrong with it.
TOLERATED = ("without its offset", "not in the metadata")

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


SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "strace": (STRACE,),
    "iolog": (IOLOG, IOLOG.replace(b"3 iolog", b"2 iolog").replace(b"\n1 ", b"\n")),
    "csv": (TABLE,),
    "dxt": (DXT.encode(),),
    "dftracer": ((SAMPLES / "dftracer-2.2.0.pfw").read_bytes(),),
    "elbencho": (OPSLOG.encode(),),
    "kv-cache": (KV_CACHE.encode(),),
    "blktrace": (BLKPARSE.encode(),),
    "checkpoint": (
        torch_file(),
        torch_file(_use_new_zipfile_serialization=False),
        header_file(),
    ),
}
INTERESTING = [
    *(b"-1", b"9223372036854775807", b"18446744073709551616", b"0x7f", b"1e999", b"null"),
    *(b'"', b"\\", b"<", b"{", b"[", b"\0", b"\xff", b"\n", b" = ", b"/../.."),
    *(b"," * 50, b"(" * 50),
]

Edit = tuple[str, float, float, bytes]


def test_every_importer_is_fuzzed() -> None:
    """A new format brings its seed; PyDarshan's C library is not ours to fuzz."""
    assert {format.name for format in importers()} == SEEDS.keys() | {"darshan"}


def edited(seed: bytes, edits: list[Edit]) -> bytes:
    """Return a seed with some of its bytes or lines replaced, removed or repeated."""
    for kind, place, size, new in edits:
        if kind == "line":
            lines = seed.splitlines(keepends=True) or [b""]
            at = int(place * (len(lines) - 1))
            lines[at : at + int(size * 3)] = [lines[int(size * (len(lines) - 1))], new]
            seed = b"".join(lines)
        else:
            at = int(place * len(seed))
            seed = seed[:at] + new + seed[at + int(size * size * 40) :]
    return seed


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["line", "bytes", "bytes"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from(INTERESTING) | st.binary(max_size=6),
    ),
    min_size=1,
    max_size=5,
)


def try_import(name: str, content: bytes) -> None:
    """Import some bytes: a well-formed trace, or one error of one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "input")
        path.write_bytes(content)
        try:
            guess(Source.of(path))
        except TraceFormatError as error:
            assert_one_line(error)
        try:
            trace = import_trace(path, named(name, importers()))
        except TraceFormatError as error:
            assert_one_line(error)
            return
        problems = [p for p in check_trace(trace) if not p.endswith(TOLERATED)]
        assert problems == []
        assert len(trace) <= 100 * (len(content) + 1)


def assert_one_line(error: TraceFormatError) -> None:
    """The command prints it as it is, after joining what white space separates."""
    message = " ".join(str(error).split())
    assert message and len(message) < 2000


def fuzzing(test: Callable[..., None]) -> Callable[..., None]:
    """Run a property test as often as asked, each time within seconds."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=EXAMPLES, deadline=WORST_MS, suppress_health_check=checks)(test)


@pytest.mark.parametrize("name", SEEDS)
@fuzzing
@given(which=st.integers(0, 9), edits=EDITS)
def test_an_edited_input_is_a_trace_or_an_error(name: str, which: int, edits: list[Edit]) -> None:
    """Real inputs with a few bytes or lines wrong, where parsers go deepest."""
    seeds = SEEDS[name]
    try_import(name, edited(seeds[which % len(seeds)], edits))


@pytest.mark.parametrize("name", SEEDS)
@fuzzing
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_trace_or_an_error(name: str, content: bytes) -> None:
    """Nothing of the format at all."""
    try_import(name, content)


@pytest.mark.parametrize("name", SEEDS)
def test_a_long_hostile_line_ends_soon(name: str, tmp_path: Path) -> None:
    """No expression that backtracks: each of these would take minutes in a careless one."""
    for piece in INTERESTING:
        path = tmp_path / "input"
        path.write_bytes(SEEDS[name][0].split(b"\n")[0] + b"\n" + piece * (60_000 // len(piece)))
        try:
            import_trace(path, named(name, importers()))
        except TraceFormatError as error:
            assert_one_line(error)


def test_the_corpus_is_no_foreign_log() -> None:
    """A trace is never taken for something else."""
    for path in CORPUS.glob("*.parquet"):
        with pytest.raises(TraceFormatError):
            guess(Source.of(path))
