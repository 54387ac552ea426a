"""What a stranger's input may cost: memory and time stay in proportion to its size."""

from __future__ import annotations

import gzip
import io
import pickletools
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import torch.distributed.checkpoint as dcp
from torch import save, zeros
from torch.nn import Parameter

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import checkpoint, csv_file, fio, strace, torch_file
from iotrace.traces.formats.pickled import MAX_OPCODES, parse
from iotrace.traces.formats.rows import Rows
from iotrace.traces.formats.table import import_trace, importers, named
from iotrace.traces.formats.torch_file import PICKLE_MAX_BYTES


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


def archive(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a/data.pkl", pickled)
    return path


def test_a_list_of_one_value_costs_no_object_for_each(tmp_path: Path) -> None:
    """A reference in the pickle is three bytes, and eight in memory; names were 200 more."""
    pickled = b"\x80\x02]q\0" + b"h\0a" * 200_000 + b"."
    path = archive(tmp_path / "a.pt", pickled)
    tracemalloc.start()
    try:
        with pytest.raises(TraceFormatError, match="holds no tensors"):
            checkpoint.read(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(pickled)
    finally:
        tracemalloc.stop()


def test_a_pickle_has_no_more_opcodes_than_it_may() -> None:
    """Each takes a microsecond or more, so their number bounds the time."""
    pickled = b"\x80\x02]q\0" + b"h\0a" * 10 + b"."
    assert len(parse(pickled, most_opcodes=24)) == 10
    with pytest.raises(ValueError, match="a pickle of more than 23 opcodes"):
        parse(pickled, most_opcodes=23)


@pytest.mark.parametrize(
    "built",
    [b"}", b")", b"]", b"N\x94", b"22R", b"h\0h\0\x86", b"X\x04\0\0\0aaaa", b"cb\nc\n", b"h\0Q"],
    ids=bytes.hex,
)
def test_what_a_pickle_builds_is_counted_at_what_it_takes(built: bytes) -> None:
    """Whatever it is made of: beyond the limit it is refused, and takes no more than that."""
    pickled = b"\x80\x04]q\0" + built * 100_000 + b"."
    limit = 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 2,097,152 bytes of memory"):
            parse(pickled, limit_bytes=limit)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * limit
    finally:
        tracemalloc.stop()


def test_a_million_tensors_are_within_the_bounds() -> None:
    """Of torch.save, and of the index of torch.distributed.checkpoint, by what 100 of them take."""
    state = {f"model.layers.{i}.mlp.experts.{i}.weight": Parameter(zeros(1)) for i in range(100)}
    with tempfile.TemporaryDirectory() as folder:
        save(state, Path(folder, "a.pt"))
        with zipfile.ZipFile(Path(folder, "a.pt")) as made:
            pickles = [made.read("a/data.pkl")]
        dcp.save({"a": state}, checkpoint_id=folder, no_dist=True)
        pickles.append(Path(folder, ".metadata").read_bytes())
    for pickled in pickles:
        opcodes = sum(1 for _ in pickletools.genops(pickled))
        assert opcodes > 20 * 100 and opcodes * 10_000 <= MAX_OPCODES
        assert len(pickled) * 10_000 <= PICKLE_MAX_BYTES
        parse(pickled, limit_bytes=12_000 * 100)  # 12 GB of a million


def test_objects_of_one_list_of_arguments_are_refused_where_they_never_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand objects of one list of a thousand values are a million visits."""
    monkeypatch.setattr(torch_file, "MAX_OPCODES", 500_000)
    arguments = b"](" + b"N" * 1000 + b"e\x85q\0"
    pickled = b"\x80\x02" + arguments + b"](" + b"cb\nc\nh\0R" * 1000 + b"e."
    with pytest.raises(TraceFormatError, match="more than 500,000 values in a pickle"):
        checkpoint.read(archive(tmp_path / "a.pt", pickled))


def test_lists_in_lists_end_somewhere(tmp_path: Path) -> None:
    """The name of each has that of the one above in it."""
    with pytest.raises(TraceFormatError, match="nested too deeply"):
        checkpoint.read(
            archive(tmp_path / "a.pt", b"\x80\x02" + b"(" * 30_000 + b"l" * 30_000 + b".")
        )


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
