"""What a stranger's input may cost: memory and time stay in proportion to its size."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import checkpoint, csv_file, fio, strace
from iotrace.traces.formats.pickled import parse
from iotrace.traces.formats.rows import Rows
from iotrace.traces.formats.table import import_trace, importers, named


def test_rows_beyond_the_limit_are_one_error() -> None:
    """Memory is not filled until the system kills somebody."""
    rows = Rows(limit_bytes=1 << 20)
    with pytest.raises(TraceFormatError, match="rows do not fit into memory"):
        for ns in range(1 << 20):
            rows.add("open", ns)
    assert 0 < len(rows) < 10_000


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused_soon(tmp_path: Path) -> None:
    """A megabyte of compressed blank lines is a gigabyte of them."""
    path = tmp_path / "log.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"fio version 3 iolog\n")
        for _ in range(300):
            file.write((b"\n" + b" " * 65_000) * 16)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TraceFormatError, match="unpack it"):
        fio.read(path)
    with pytest.raises(TraceFormatError, match="compressed"):
        csv_file.read(path)


def test_a_pickle_that_unpacks_to_a_huge_one_is_refused_soon(tmp_path: Path) -> None:
    """torch stores its pickle as it is; who compresses it means harm."""
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"N" * (100 << 20))
    tracemalloc.start()  # the most that this process ever had may be of another test
    try:
        with pytest.raises(TraceFormatError, match="a pickle of 104857600 bytes"):
            checkpoint.read(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "opcode", [b"\x8e", b"\x8d", b"\x96", b"B", b"X", b"T", b"\x8b"], ids=bytes.hex
)
@pytest.mark.parametrize("length", [255 << 20, 2**31 - 1, 2**62])
def test_a_pickle_that_names_a_huge_argument_is_refused_soon(opcode: bytes, length: int) -> None:
    """Memory for 2^62 bytes was asked for; a file in place of bytes is read as far as it goes."""
    size = 8 if opcode in (b"\x8e", b"\x8d", b"\x96") else 4
    content = b"\x80\x05" + opcode + min(length, 2**31 - 1).to_bytes(4, "little")
    content = b"\x80\x05" + opcode + length.to_bytes(8, "little") if size == 8 else content
    tracemalloc.start()
    try:
        for source in (content, io.BytesIO(content)):
            with pytest.raises(ValueError):
                parse(source)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_folder_that_is_renamed_takes_its_files_along(tmp_path: Path) -> None:
    """The checkpoint is written under a temporary name and read under the last one."""
    path = tmp_path / "log"
    path.write_text(
        'openat(AT_FDCWD, "/d/tmp/a", O_WRONLY|O_CREAT, 0666) = 3\nclose(3) = 0\n'
        'rename("/d/tmp", "/d/step1") = 0\nopenat(AT_FDCWD, "/d/step1/a", O_RDONLY) = 3\n'
    )
    trace = strace.read(path)
    files = dict(zip(trace.strings("path"), trace.ints("file").tolist(), strict=True))
    assert files["/d/tmp/a"] == files["/d/step1/a"]


CSV = "op,path,process,offset,length,result,start_ns,end_ns\n"
EIB = 1 << 60


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        (
            "recorder",
            f"0.1 0.2 write 0 0 ( /a %p {2**63 - 1} )\n",
            r"\(first: the write of /a at 0\.0+ s\): ",
        ),
        (
            "csv",
            f"{CSV}write,/a,0,,{8 * EIB - 1},{8 * EIB - 1},0,1\n",
            r"\(first: line 2\): .* no file holds",
        ),
        ("csv", CSV + "".join(f"write,/{n},0,0,{EIB},{EIB},0,1\n" for n in range(3)), "2 EiB"),
    ],
)
def test_what_no_job_moves_is_refused_and_not_imported(
    tmp_path: Path, name: str, text: str, what: str
) -> None:
    """It would be a trace that contradicts itself, of which nobody can say why."""
    path = tmp_path / f"input.{name}"
    path.write_text(text)
    with pytest.raises(TraceFormatError, match=f"is no trace: .*{what}"):
        import_trace(path, named(name, importers()))
