"""docs/trace-format.md says what the code does, and its examples run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

from iotrace.traces.counters import COUNTERS
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
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import (
    ACTIONS,
    APIS,
    ENGINES,
    FORMAT_VERSION,
    OFFSET_SOURCES,
    OPS,
    SCHEMA,
)
from iotrace.traces.summary import summarize

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "trace-format.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
RELEASED = Path(__file__).parent / "released"


def table_rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading."""
    section = DOCUMENT.split(f"{heading}\n", 1)[1]
    lines = re.search(r"((?:^\|.*\n)+)", section, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in
            lines.group().splitlines()[2:]]  # fmt: skip


def test_every_column_is_described_with_its_type() -> None:
    """In the order of the schema, null or not."""
    words = {pa.list_(pa.int64()): "list of int64"}
    expected = [
        (
            f"`{field.name}`",
            words.get(
                field.type,
                "string" if pa.types.is_dictionary(field.type) else str(field.type),
            ),
            "yes" if field.nullable else "no",
        )
        for field in SCHEMA
    ]
    assert [tuple(row[:3]) for row in table_rows("## Columns")] == expected


def test_every_word_is_listed() -> None:
    """Ops by layer; apis, engines and sources with their columns."""
    rows = table_rows("### Layers and their words")
    listed = {row[0].strip("`"): re.findall(r"`(\w+)`", row[2]) for row in rows}
    assert set(listed) == set(OPS)
    for layer, ops in OPS.items():
        wanted = ("evict", "request") if layer == "replay" else ops
        assert set(listed[layer]) == set(wanted), layer
    described = {row[0].strip("`"): row[3] for row in table_rows("## Columns")}
    for column, words in (("api", APIS), ("engine", ENGINES), ("offset_source", OFFSET_SOURCES)):
        assert re.findall(r"`([\w.-]+)`", described[column])[-len(words) :] == list(words)


def test_every_counter_is_described() -> None:
    """All that the code can write, and nothing else; the unit is in most of their names."""
    hooks = (ROOT / "capture" / "hooks" / "counters.py").read_text()
    ends = (ROOT / "capture" / "csrc" / "process.c").read_text()
    maps = (ROOT / "capture" / "csrc" / "maps.c").read_text()
    (listed,) = re.findall(r"define FOR_EACH_COUNTER\(X\)(.*)", ends)
    written = [
        *re.findall(r'values\["(\w+)"\] =', hooks),
        *re.findall(r'^    "\w+": "(\w+)",$', hooks, re.MULTILINE),
        *re.findall(r'"(\w+)"', re.findall(r"CACHE_NAMES = \((.*)\)", hooks)[0]),
        *re.findall(r"X\((\w+)\)", listed),
        *re.findall(r'char name\[\] = "(\w+)"', maps),
    ]
    assert sorted(written) == sorted(COUNTERS)
    rows = table_rows("### Counters")
    assert [row[0].strip("`") for row in rows] == list(COUNTERS)
    for name, of, unit, counts, _ in rows:
        assert of in ("process", "thread", "file", "extent")
        assert unit == {"bytes`": "bytes", "ns`": "ns"}.get(name.rpartition("_")[2], unit)
        assert unit in ("bytes", "ns", "calls")
        assert counts in ("so far", "now")


@pytest.mark.parametrize("path", sorted((ROOT / "traces" / "corpus").glob("*.parquet")), ids=str)
def test_tensors_and_requests_have_one_file(path: Path) -> None:
    """Each byte that an engine saves is found in the writes, joined as the document says."""
    saved = duckdb.sql(f"""
        SELECT t.name, t.process, t.path, t."offset", t.length, sum(
            least(r."offset" + r.result, t."offset" + t.length) - greatest(r."offset", t."offset"))
        FROM '{path}' t LEFT JOIN '{path}' r
          ON r.layer = 'request' AND r.op = 'write' AND r.process = t.process AND r.file = t.file
         AND r."offset" < t."offset" + t.length AND t."offset" < r."offset" + r.result
        WHERE t.layer = 'tensor' AND t.op = 'save' GROUP BY ALL""").fetchall()
    assert [row for row in saved if row[-2] != row[-1]] == []
    tensors = f"SELECT count(*) FROM '{path}' WHERE layer = 'tensor' "
    assert duckdb.sql(tensors + "AND path IS NOT NULL AND file IS NULL").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "kind",
    [
        *(Metadata, Host, Mount, Process, Completeness, FileCompleteness, ProcessCompleteness),
        *(HistoryEntry, RecordedOn),
    ],
)
def test_every_key_of_the_metadata_is_named(kind: type) -> None:
    """Another team cannot guess one."""
    section = DOCUMENT.split("## Metadata\n")[1].split("## Parts")[0]
    names = {field.name for field in fields(kind)} - {"extra"}
    assert [name for name in sorted(names) if f"`{name}`" not in section] == []


def test_every_action_is_listed_and_written() -> None:
    """What the history may say is what the code can write; those of a capture are handed on."""
    row = next(row for row in table_rows("## Metadata") if row[0] == "`history`")
    assert re.findall(r"`(\w+)`", row[2].split("(")[1].split(")")[0]) == list(ACTIONS)
    written = {"capture", "recover"}
    for folder in ("capture", "traces", "replay", "tools"):
        for source in (ROOT / folder).rglob("*.py"):
            written |= set(re.findall(r'HistoryEntry\(\s*"(\w+)"', source.read_text()))
    assert written == set(ACTIONS)


def test_what_a_capture_adds_is_named() -> None:
    """Keys that no class has are in the document too."""
    source = (ROOT / "capture" / "collector.py").read_text()
    (extra,) = re.findall(r'extra=\{"(\w+)"', source)
    assert f"`{extra}`" in DOCUMENT


def test_the_document_is_of_this_version() -> None:
    """A new version needs a new row, and a file in tests/traces/released."""
    assert DOCUMENT.startswith(f"# The trace format, version {FORMAT_VERSION}\n")
    versions = [row[0] for row in table_rows("## Versions")]
    assert versions[-1] == FORMAT_VERSION
    assert sorted(path.stem for path in RELEASED.glob("*.parquet")) == sorted(versions)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split()[1])
@pytest.mark.parametrize("name", ["dcp", "datastates-llm", "safetensors"])
def test_the_examples_run(example: str, name: str, tmp_path: Path) -> None:
    """With the libraries that people have, on traces as we write them."""
    shutil.copy(ROOT / "traces" / "corpus" / f"{name}.parquet", tmp_path / "trace.parquet")
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if "result" in example:
        assert ("/.tmp" if name == "safetensors" else "step100") in done.stdout
        names = set(filter(None, read_trace(tmp_path / "trace.parquet").strings("name")))
        assert sum(done.stdout.count(one[:20]) > 0 for one in names) >= 5
    if "part.parquet" in example:
        whole, part = (read_trace(tmp_path / f"{name}.parquet") for name in ("trace", "part"))
        assert part.table.to_pylist() == whole.where(whole.ints("rank") == 0).table.to_pylist()
        assert part.metadata == whole.metadata


def test_other_programs_add_up_to_the_same(tmp_path: Path) -> None:
    """What they read is what we read."""
    for path in sorted((ROOT / "traces" / "corpus").glob("*.parquet")):
        written = summarize(read_trace(path)).bytes_written
        query = f"SELECT coalesce(sum(result), 0) FROM '{path}' WHERE layer = 'request' "
        sums = [duckdb.sql(query + "AND op = 'write' AND result > 0").fetchall()[0][0]]
        frame = pandas.read_parquet(path)
        writes = frame[(frame.layer == "request") & (frame.op == "write") & (frame.result > 0)]
        sums.append(int(writes.result.sum()))
        lazy = polars.scan_parquet(path).filter(
            polars.col("layer") == "request", polars.col("op") == "write", polars.col("result") > 0
        )
        sums.append(lazy.select(polars.col("result").sum()).collect().item())
        assert sums == [written] * 3, path


@pytest.mark.parametrize("path", sorted(RELEASED.glob("*.parquet")), ids=lambda path: path.stem)
def test_files_of_every_released_version_are_read(path: Path) -> None:
    """They were written by that version and are never written again."""
    trace = read_trace(path)
    assert trace.metadata.format_version == path.stem
    assert len(trace) == 3
    assert trace.columns == tuple(SCHEMA.names)
    assert trace.strings("op") == ["write", "save", "save"]
    assert trace.ints("offset").tolist() == [0, -1, (1 << 63) - 1]
    assert trace.shapes() == [(2, 3), None, ()]
    assert trace.metadata.hosts[0].name == "n1"
    assert trace.metadata.processes[0].libraries == {"t": "2"}
    assert trace.metadata.completeness.notes == ("1 MiB was mapped and not seen",)
    assert trace.metadata.extra["site"] == {"name": "here", "racks": [1, None, 2.5, True]}
