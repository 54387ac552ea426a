"""CSV with a trace's columns: exact both ways, and one clear error for anything else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import csv_file, strace
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import guess, import_trace, importers, named
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Ints, Shapes, Strings, Trace

CORPUS = Path(__file__).parents[3] / "traces" / "corpus"
NAMES = st.text(st.characters(blacklist_characters="\0"), max_size=8)
SHAPES = st.lists(st.integers(0, 2**40), max_size=3).map(tuple)
PATHS = st.none() | NAMES.map(lambda name: f"/{name}")


def column(values: list[int | None]) -> Ints:
    """Return integers with nulls."""
    return Ints(
        np.array([value or 0 for value in values], np.int64),
        np.array([value is not None for value in values], np.bool_),
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw a well-formed trace with tensor rows: odd names, nulls, shapes."""
    rows = draw(st.integers(0, 12))

    def many(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    columns: dict[str, Any] = {
        "layer": Strings.constant("span", rows),
        "op": Strings.of(many(st.sampled_from(["save", "load", "wait"]))),
        "start_ns": np.array(many(st.integers(0, 2**62)), np.int64),
        "path": Strings.of(many(PATHS)),
        "name": Strings.of(many(st.none() | NAMES)),
        "shape": Shapes.of(
            many(st.none() | st.lists(st.integers(0, 2**40), max_size=3).map(tuple))
        ),
        "flags": column(many(st.none() | st.integers(-(2**31), 2**31 - 1))),
        "result": column(many(st.none() | st.integers(-(2**63), 2**63 - 1))),
        "tensor_offset": column(many(st.none() | st.integers(-(2**40), 2**40))),
    }
    return Trace.from_columns(columns, Metadata(processes=(Process(0),)))


def back(trace: Trace) -> Trace:
    """Write a trace as CSV and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        csv_file.write(trace, path)
        assert csv_file.looks_like(Source.of(path))
        return csv_file.read(path)


@given(traces())
def test_rows_come_back_as_they_were(trace: Trace) -> None:
    """Nulls stay nulls, and empty texts empty texts."""
    assert back(trace).table.to_pylist() == trace.table.to_pylist()


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.parquet")))
def test_real_traces_come_back(name: str) -> None:
    """All columns, of every engine."""
    trace = read_trace(CORPUS / f"{name}.parquet")
    assert back(trace).table.to_pylist() == trace.table.to_pylist()


def test_what_a_log_did_not_tell_stays_untold(tmp_path: Path) -> None:
    """A read at a position that strace never showed goes through CSV, and is no less missing."""
    log = tmp_path / "log"
    log.write_text('7 1.000001 read(3</d/a>, ""..., 10) = 10\n7 1.000002 fsync(3</d/a>) = 0\n')
    trace = strace.read(log)
    assert trace.ints("offset")[0] == -1
    again = back(trace)
    assert again.table.to_pylist() == trace.table.to_pylist()
    assert any("without its offset" in p for p in again.metadata.completeness.problems())


def test_a_script_writes_the_columns_it_knows(tmp_path: Path) -> None:
    """Few columns, in any order; the rest has its defaults."""
    path = tmp_path / "t.csv"
    path.write_text("start_ns,op,path,file,offset,length,result\n5,write,/d/a,0,0,10,10\n")
    trace = csv_file.read(path)
    assert trace.strings("layer") == ["request"]
    assert (trace.ints("rank")[0], trace.ints("seq")[0], trace.ints("length")[0]) == (-1, 0, 10)


@pytest.mark.parametrize("first", ["op", '"op"'])
def test_a_byte_order_mark_before_the_names_is_none_of_them(first: str, tmp_path: Path) -> None:
    """Excel writes one, and ends lines as Windows does."""
    path = tmp_path / "t.csv"
    text = f"{first},start_ns,path,file,offset,length,result\nwrite,5,/d/ü,0,0,10,10\n"
    path.write_text(text.replace("\n", "\r\n"), encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert guess(Source.of(path)) is named("csv", importers())
    trace = csv_file.read(path)
    assert (trace.strings("op"), trace.strings("path")) == (["write"], ["/d/ü"])
    assert (trace.ints("start_ns")[0], trace.ints("length")[0]) == (5, 10)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("op,path\nwrite,/a\n", "line 1: the table lacks the column 'start_ns'"),
        ("op,start_ns,color\nwrite,1,red\n", "line 1: the table has a column 'color'"),
        ("op, start_ns\nwrite,1\n", "line 1: the table has a column ' start_ns'"),
        ("\x1eop,start_ns\nwrite,1\n", r"line 1: the table has a column '\x1eop'"),
        ("op,start_ns,op\nwrite,1,read\n", "line 1: the table has a column twice"),
        ("op,start_ns\nwrite,1\nwrite,soon\n", "t.csv, line 3: In CSV column #1: CSV"),
        ("op,start_ns\nwrite,1\nwrite\n", "t.csv, line 3: CSV parse error: Expected"),
        ("op,start_ns\nwrite,\n", "line 2: the column 'start_ns' has an empty field"),
        ("op,start_ns\nopen,1\n,1\n", "line 3: the column 'op' has an empty field"),
        ("op,start_ns,shape\nwrite,1,2\nwrite,1,2x\n", "line 3: the shape '2x' is none"),
        ("op,start_ns,shape\nwrite,1,2xtall\n", "line 2: the shape '2xtall' is none"),
        (f"op,start_ns,shape\nwrite,1,{2**63}\n", "line 2: the shape '9223372036854775808' does"),
        (f"op,start_ns,shape\nwrite,1,{'x'.join('1' * 65)}\n", "line 2: a shape of 65 dim"),
        ("op,start_ns\nfrobnicate,1\n", "unknown op"),
        ("op,start_ns,process\nopen,1,2000000000\n", "line 2: the process 2000000000"),
        ("op,start_ns,path\nopen,1,here\n", "not absolute"),
        ("", "is empty"),
    ],
)
def test_anything_else_is_one_error(text: str, told: str, tmp_path: Path) -> None:
    """It names the line or the column, and what is wrong."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TraceFormatError) as caught:
        import_trace(path, named("csv", importers()))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_row_that_contradicts_is_told_by_its_line(mark: str, tmp_path: Path) -> None:
    """Rows are sorted by time, blank lines are none, and a name may have several lines."""
    path = tmp_path / "t.csv"
    path.write_text(
        f"{mark}op,start_ns,path,file,offset,length,result\n"
        '\nread,950,"/a\n""b"" \n",0,0,10,10\n'
        "write,900,/a,0,0,10,20\n"
        "write,600,/a,0,0,10,10\n"
    )
    with pytest.raises(TraceFormatError, match=r"\(first: line 6\): moved more bytes than asked"):
        import_trace(path, named("csv", importers()))
    path.write_text(path.read_text().replace(",10,20", ",10,twenty"))
    with pytest.raises(TraceFormatError, match=r"t\.csv, line 6: .* invalid value 'twenty'"):
        import_trace(path, named("csv", importers()))


def test_pythons_own_csv_module_reads_it(tmp_path: Path) -> None:
    """No dialect of ours."""
    trace = read_trace(CORPUS / "dcp.parquet")
    csv_file.write(trace, tmp_path / "t.csv")
    program = "import csv, sys; print(sum(int(r['result'] or 0) for r in csv.DictReader("
    program += "open(sys.argv[1])) if r['layer'] == 'request' and r['op'] == 'write'))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "t.csv"], capture_output=True, text=True
    )
    writes = trace.where(trace.row_mask(layer="request", op="write"))
    assert int(done.stdout) == int(writes.ints("result").sum())
