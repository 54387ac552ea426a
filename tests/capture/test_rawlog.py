"""Reading raw logs: whole ones, and what a killed job leaves behind."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.capture.rawlog import CHUNK_HEADER, LOG_HEADER, RECORD, VERSION, read_raw_log
from iotrace.traces.errors import CaptureError

from .raw_log_writer import CHUNK_BYTES, HEADER_BYTES, RawLogWriter

RECORD_H = Path(__file__).parents[2] / "capture" / "csrc" / "record.h"


@pytest.fixture
def small() -> RawLogWriter:
    """Return a writer with one file written, closed and renamed."""
    writer = RawLogWriter(argv=("python", "a b.py", ""), rank_variables={"RANK": "3"})
    writer.open(1, "/data/x.tmp", flags=0o101)
    writer.add("write", file=1, offset=0, length=10, result=10, offset_source="tracked")
    writer.add("close", file=1, result=0)
    writer.add("rename", b"/data/x.tmp\0/data/x", result=0)
    return writer


def test_a_record_reads_back_as_it_was_written(small: RawLogWriter, tmp_path: Path) -> None:
    """Every later number rests on the fields being read from where the library put them."""
    log = read_raw_log(small.write(tmp_path))
    names = [log.header.op_names[op] for op in log.column("op")]
    assert names == ["file", "open", "write", "close", "rename"]
    write = log.records[2]
    assert (write["file"], write["offset"], write["length"], write["result"]) == (1, 0, 10, 10)
    assert log.header.offset_source_names[write["offset_source"]] == "tracked"
    assert log.text(0) == b"/data/x.tmp"
    assert log.text(4) == b"/data/x.tmp\0/data/x"
    assert set(log.threads) == {small.pid}
    assert (log.torn_records, log.is_cut) == (0, False)


def test_the_header_says_who_wrote_the_log(small: RawLogWriter, tmp_path: Path) -> None:
    """Ranks, command lines and clocks of a job come from here alone."""
    small.counters["ignored_opens"] = 7
    header = read_raw_log(small.write(tmp_path)).header
    assert header.argv == ("python", "a b.py", "")
    assert header.rank_variables == {"RANK": "3"}
    assert (header.pid, header.pid_start_ticks, header.executable) == (
        4000,
        700,
        "/usr/bin/python3",
    )
    assert header.outside.ignored_opens == 7


@pytest.mark.parametrize(
    ("struct", "dtype"),
    [("record", RECORD), ("chunk_header", CHUNK_HEADER), ("log_header", LOG_HEADER)],
)
def test_the_layout_is_that_of_the_c_header(
    struct: str, dtype: np.dtype[Any], tmp_path: Path
) -> None:
    """The library writes with the C structs; a field read elsewhere is silently wrong."""
    prints = "\n".join(
        f'printf("%zu %zu\\n", offsetof(S, {name}), sizeof(((S *)0)->{name}));'
        for name in dtype.names or ()
    )
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include <stddef.h>\n#include "{RECORD_H}"\n'
        f"typedef struct {struct} S;\n"
        f'int main(void) {{ {prints} printf("%zu\\n", sizeof(struct {struct})); }}\n'
    )
    program = tmp_path / "layout"
    subprocess.run(["cc", "-std=gnu11", "-o", program, source], check=True)
    *lines, total = subprocess.check_output([program], text=True).splitlines()
    expected = [f"{dtype.fields[n][1]} {dtype.fields[n][0].itemsize}" for n in dtype.names or ()]  # type: ignore[index]
    assert lines == expected
    assert int(total) <= dtype.itemsize + 4  # the C struct may end in padding


def test_text_that_looks_like_records_is_not_read_as_records(tmp_path: Path) -> None:
    """A path may hold any bytes; a note is long JSON."""
    writer = RawLogWriter()
    trap = np.ones(3, RECORD)
    trap["op"], trap["text_bytes"] = 7, 6400
    writer.add("note", trap.tobytes())
    writer.add("read", file=1, offset=5, length=1, result=1)
    log = read_raw_log(writer.write(tmp_path))
    assert [log.header.op_names[op] for op in log.column("op")] == ["note", "read"]
    assert log.text(0) == trap.tobytes()


def test_a_record_that_was_not_finished_is_counted_and_left_out(tmp_path: Path) -> None:
    """A job killed inside a call must not add a request that never was."""
    writer = RawLogWriter()
    begun = np.zeros(1, RECORD)
    begun["start_ns"] = 5
    writer.add("write", file=1, offset=0, length=4, result=4)
    writer.add_slots(begun)
    writer.add("write", file=1, offset=4, length=4, result=4, thread=4001)
    log = read_raw_log(writer.write(tmp_path))
    assert list(log.column("offset")) == [0, 4]
    assert list(log.threads) == [4000, 4001]
    assert log.torn_records == 1


def test_room_too_small_for_a_record_is_not_torn(tmp_path: Path) -> None:
    """A text that does not fit the end of its chunk goes to the next one; nothing is lost."""
    writer = RawLogWriter()
    for _ in range(40):
        writer.add("note", "x" * 3000)
    log = read_raw_log(writer.write(tmp_path))
    assert (len(log), log.torn_records) == (40, 0)


def test_a_torn_record_is_skipped_with_its_text(tmp_path: Path) -> None:
    """The text may be there although the record was never completed."""
    writer = RawLogWriter()
    writer.add("note", "x" * 300)
    torn = writer.slots[writer.pid][0]
    torn["op"][0] = 0
    writer.add("read", file=1, offset=0, length=1, result=1)
    log = read_raw_log(writer.write(tmp_path))
    assert [log.header.op_names[op] for op in log.column("op")] == ["read"]
    assert log.torn_records == 1


def test_a_chunk_passes_on_to_the_next_thread(tmp_path: Path) -> None:
    """Short threads share chunks; their requests must not end up in one stream."""
    writer = RawLogWriter()
    for thread in (4000, 4007):
        writer.add("thread", result=thread)
        writer.add("read", file=1, offset=0, length=1, result=1)
    writer.add("read", file=1, offset=0, length=1, result=1, thread=4001)
    log = read_raw_log(writer.write(tmp_path))
    assert list(log.threads[log.rows("read")]) == [4000, 4007, 4001]


def test_an_unknown_op_is_torn_not_a_crash(tmp_path: Path) -> None:
    """Damaged slots must not index past the names."""
    writer = RawLogWriter()
    damaged = np.zeros(2, RECORD)
    damaged["op"], damaged["api"] = (900, 7), (1, 99)
    writer.add_slots(damaged)
    log = read_raw_log(writer.write(tmp_path))
    assert (len(log), log.torn_records) == (0, 2)


def test_a_chunk_that_was_never_used_is_skipped(small: RawLogWriter, tmp_path: Path) -> None:
    """The file grows a chunk ahead; its zeros are no records."""
    path = small.write(tmp_path)
    with path.open("ab") as file:
        file.write(bytes(CHUNK_BYTES))
    with path.open("r+b") as file:
        file.seek(LOG_HEADER.fields["chunks"][1])  # type: ignore[index]
        file.write((2).to_bytes(4, "little"))
    log = read_raw_log(path)
    assert (len(log), log.torn_records, log.is_cut) == (5, 0, False)


def test_a_log_cut_anywhere_gives_a_prefix_of_each_thread(tmp_path: Path) -> None:
    """A full disk or a partial copy must cost the tail, never the log."""
    writer = RawLogWriter()
    for number in range(1, 60):
        writer.open(number, f"/data/{'long' * 40}/{number}", inode=number)
        writer.add("write", file=number, offset=0, length=8, result=8)
    path = writer.write(tmp_path)
    whole = read_raw_log(path).records
    content = path.read_bytes()
    before = 0
    for size in range(HEADER_BYTES, HEADER_BYTES + 64 * 400, 24):
        path.write_bytes(content[:size])
        log = read_raw_log(path)
        assert np.array_equal(log.records, whole[: len(log)])
        assert log.is_cut
        assert len(log) >= before
        for row in log.rows("file"):
            assert log.text(row).startswith(b"/data/long")
        before = len(log)
    assert before > 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"IOTRLOG1", "cut inside its header"),
        (bytes(HEADER_BYTES), "is not a raw log"),
        (b"PAR1" * 9999, "is not a raw log"),
    ],
)
def test_what_is_no_raw_log_is_refused_in_one_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    """`recover` is pointed at folders that hold other things too."""
    path = tmp_path / "1-2-3.raw"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=message) as error:
        read_raw_log(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [100, LOG_HEADER.itemsize, HEADER_BYTES - 1])
def test_a_header_cut_short_is_refused(small: RawLogWriter, size: int, tmp_path: Path) -> None:
    """Without the names the numbers mean nothing."""
    path = small.write(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CaptureError, match="cut inside its header"):
        read_raw_log(path)


def test_a_newer_raw_log_is_refused(small: RawLogWriter, tmp_path: Path) -> None:
    """Reading a new layout with the old offsets would give plausible nonsense."""
    small.counters["version"] = VERSION + 1
    with pytest.raises(CaptureError, match=f"raw log version {VERSION + 1}"):
        read_raw_log(small.write(tmp_path))
