"""The search finds whatever is put back, wherever it is put."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.capture.rows import NO_REQUESTS
from iotrace.traces.metadata import Host, Metadata, Mount, Process, RecordedOn
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import APIS, LAYERS, METADATA_KEY
from iotrace.traces.sharing.leftovers import find_leftovers, hidden_words
from iotrace.traces.sharing.needles import find
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import KEEP, KEY, ShareOptions
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.writer import write_trace

SECRET = "jd58311"

Change = Callable[[Metadata], Metadata]


@pytest.fixture
def shared(owned: Trace) -> Trace:
    """A clean trace."""
    return publish(owned, ShareOptions(tensor_names=KEY))


def leftovers(trace: Trace, path: Path, original: Trace | None) -> list[str]:
    write_trace(trace, path, force=True)
    return [str(one) for one in find_leftovers(str(path), read_trace(path), original)]


def test_a_shared_trace_is_clean_with_and_without_its_original(
    owned: Trace, shared: Trace, tmp_path: Path
) -> None:
    """No false alarm."""
    for original in (owned, None):
        assert leftovers(shared, tmp_path / "t.parquet", original) == []


def test_the_formats_own_words_are_no_leftovers(shared: Trace, tmp_path: Path) -> None:
    """A captured trace's ops have the raw log's kinds, which no row uses; a secret is told."""
    codes, ops = shared.codes("op")
    own = [word for word in (*NO_REQUESTS, *LAYERS, *APIS) if word not in ops]
    assert {"none", "file", "note", "thread"} <= set(own)
    path = tmp_path / "t.parquet"
    for more, told in ((own, []), ([*own, SECRET], [f"column op: {SECRET!r}"])):
        trace = shared.with_columns({"op": Strings(codes, [*ops, *more])})
        write_trace(trace, path)
        read = read_trace(path)
        assert set(more) <= set(read.codes("op")[1])
        assert [str(one) for one in find_leftovers(str(path), read)] == told
        path.unlink()


@pytest.mark.parametrize("with_original", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, command=("python",)),
        lambda m: replace(m, epoch_realtime_ns=1_796_012_641_712_647_900),
        lambda m: replace(m, epoch_monotonic_ns=1),
        lambda m: replace(m, tool_version=f"0.1+{SECRET}"),
        lambda m: replace(m, extra={**m.extra, "by": SECRET}),
        lambda m: replace(m, extra={"card": {**m.extra["card"], "licence": f"of {SECRET}"}}),
        lambda m: replace(
            m, extra={"card": {**m.extra["card"], "selection": "span secretproject"}}
        ),
        lambda m: replace(m, extra={"card": {**m.extra["card"], "engines": [SECRET]}}),
        lambda m: replace(m, hosts=(replace(m.hosts[0], name=SECRET),)),
        lambda m: replace(m, hosts=(replace(m.hosts[0], boot_id="1"),)),
        lambda m: replace(m, hosts=(replace(m.hosts[0], kernel="6.8.0-45"),)),
        lambda m: replace(m, hosts=(replace(m.hosts[0], memory_bytes=540_123_456_789),)),
        lambda m: replace(m, hosts=(replace(m.hosts[0], extra={"a": 1}),)),
        lambda m: replace(m, mounts=(replace(m.mounts[0], path=f"/{SECRET}"),)),
        lambda m: replace(m, mounts=(replace(m.mounts[0], source=SECRET),)),
        lambda m: replace(m, mounts=(replace(m.mounts[0], options=f"rw,user={SECRET}"),)),
        lambda m: replace(m, mounts=(replace(m.mounts[0], free_bytes=1),)),
        lambda m: replace(m, recorded_on=RecordedOn(hosts=(Host(SECRET),))),
        lambda m: replace(m, recorded_on=RecordedOn(mounts=(Mount(f"/{SECRET}"),))),
        lambda m: replace(m, recorded_on=RecordedOn(extra={"a": 1})),
        lambda m: replace(m, processes=(replace(m.processes[0], pid=51_234), m.processes[1])),
        lambda m: replace(m, processes=(replace(m.processes[0], prefix="/o"), m.processes[1])),
        lambda m: replace(m, processes=(replace(m.processes[0], argv=("x",)), m.processes[1])),
        lambda m: replace(
            m, processes=(replace(m.processes[0], libraries={SECRET: "1"}), m.processes[1])
        ),
        lambda m: replace(m, completeness=replace(m.completeness, notes=(f"by {SECRET}",))),
        lambda m: replace(
            m,
            completeness=replace(
                m.completeness, files=(replace(m.completeness.files[0], path=f"/{SECRET}"),)
            ),
        ),
        lambda m: replace(m, history=(replace(m.history[0], detail=SECRET),)),
        lambda m: replace(m, history=(replace(m.history[0], realtime_ns=5),)),
        lambda m: replace(m, history=(replace(m.history[0], action=SECRET),)),
        lambda m: replace(m, clock=SECRET),
    ],
)
def test_metadata_put_back_are_found(
    owned: Trace, shared: Trace, tmp_path: Path, change: Change, with_original: bool
) -> None:
    """Every field on its own, without the original as well: it is the form that is wrong."""
    changed = shared.with_metadata(change(shared.metadata))
    assert leftovers(changed, tmp_path / "t.parquet", owned if with_original else None)


@pytest.mark.parametrize("column", ["path", "target", "engine", "api", "dtype", "device", "name"])
def test_a_text_put_back_into_one_row_is_found(shared: Trace, tmp_path: Path, column: str) -> None:
    """One row of a million is enough to tell."""
    rows = shared.strings(column)
    rows[2] = f"/{SECRET}"
    changed = shared.with_columns({column: Strings.of(rows)})
    assert leftovers(changed, tmp_path / "t.parquet", None)


def test_an_address_or_a_date_is_found(owned: Trace, shared: Trace, tmp_path: Path) -> None:
    """They are numbers, which no search for text would see."""
    for column in ("address", "start_ns"):
        table = shared.table.set_column(
            shared.table.column_names.index(column), shared.table.schema.field(column),
            owned.table.column(column),
        )  # fmt: skip
        assert leftovers(Trace(table, shared.metadata), tmp_path / "t.parquet", None)


def write_with(path: Path, shared: Trace, **change: Any) -> None:
    """Write `shared` as another program would, with something more in it."""
    table = change.get("table", shared.table)
    stored = {METADATA_KEY: shared.metadata.to_json(), **change.get("keys", {})}
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.add_key_value_metadata(stored)
        writer.write_table(table)


def test_a_word_that_no_row_uses_any_more_is_found(
    owned: Trace, shared: Trace, tmp_path: Path
) -> None:
    """Filtering rows leaves their texts in the dictionary, which any reader can print."""
    table = shared.table
    place = table.column_names.index("path")
    column = table.column("path").combine_chunks()
    words = pa.array([*column.dictionary.to_pylist(), "/never/used"])
    fuller = pa.DictionaryArray.from_arrays(column.indices, words)
    path = tmp_path / "t.parquet"
    write_with(path, shared, table=table.set_column(place, table.schema.field("path"), fuller))
    found = find_leftovers(str(path), read_trace(path))
    assert any("/never/used" in str(one) for one in found)


def test_other_keys_columns_and_writers_are_found(shared: Trace, tmp_path: Path) -> None:
    """Whatever else a Parquet file can hold."""
    path = tmp_path / "t.parquet"
    write_with(path, shared, keys={b"pandas": b"{}"})
    assert any("a key of the file" in str(f) for f in find_leftovers(str(path), read_trace(path)))
    extra = shared.table.append_column("owner", pa.array([SECRET] * len(shared)))
    write_with(path, shared, table=extra)
    assert any("a column" in str(f) for f in find_leftovers(str(path), read_trace(path)))
    write_with(path, shared)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"parquet-cpp-arrow version", b"parquet-cpp-jd583 version"))
    assert any("created_by" in str(f) for f in find_leftovers(str(path), read_trace(path)))


def test_bytes_between_the_pages_are_searched(owned: Trace, shared: Trace, tmp_path: Path) -> None:
    """A gap in the file belongs to no column and is read by nobody but a spy."""
    path = tmp_path / "t.parquet"
    write_trace(shared, path)
    content = path.read_bytes()
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    place = len(content) - 8 - footer_bytes
    path.write_bytes(content[:place] + b"orca-project" + content[place:])
    found = find_leftovers(str(path), read_trace(path), owned)
    assert any("the file as it is" in str(one) for one in found)


def test_a_key_of_the_metadata_is_a_text_too(shared: Trace, tmp_path: Path) -> None:
    """Unknown keys are what a later version, or a site, may add."""
    path = tmp_path / "t.parquet"
    tree = json.loads(shared.metadata.to_json())
    tree["hosts"][0]["jd58311"] = 1
    write_with(path, shared, keys={METADATA_KEY: json.dumps(tree).encode()})
    assert find_leftovers(str(path), read_trace(path))


NEEDLES = st.lists(st.binary(min_size=4, max_size=9), max_size=5)


@given(NEEDLES, st.lists(st.binary(max_size=12)), st.data())
def test_the_search_finds_what_a_plain_search_finds(
    needles: list[bytes], parts: list[bytes], data: st.DataObject
) -> None:
    """The fast way against the obvious one."""
    if needles:
        parts = [*parts, data.draw(st.sampled_from(needles)), b"tail"]
    content = b"".join(parts)
    assert find(needles, content) == {needle for needle in needles if needle in content}


@pytest.mark.parametrize("names", [KEEP, KEY])
def test_words_that_everybody_uses_are_no_leftovers(names: str, tmp_path: Path) -> None:
    """Folders called like a type, a literal or an option must not keep a trace from its readers."""
    words = "bfloat16 float32 cuda true null other data relatime torch ext4 share deadbeef cafe MIT"
    paths = [f"/{word}/{word}-1/{word}.pt" for word in words.split()]
    rows = len(paths)
    own = Trace.from_columns(
        {
            "layer": Strings.of(["tensor", *["request"] * (rows - 1)]),
            "op": Strings.of(["save", *["unlink"] * (rows - 1)]),
            "offset": np.zeros(rows, np.int64),
            "length": np.zeros(rows, np.int64),
            "engine": Strings.constant("my-engine", rows),
            "path": Strings.of(paths),
            "start_ns": np.arange(rows),
            "name": Strings.of(["features.10.0.1.2/data/proj/kernel@x.y", *[None] * (rows - 1)]),
            "dtype": Strings.of(["bfloat16", *[None] * (rows - 1)]),
            "device": Strings.of(["cuda:0", *[None] * (rows - 1)]),
        },
        Metadata(
            mounts=(Mount("/data", options="rw,relatime", file_system="ext4"),),
            processes=(Process(1, libraries={"torch": "2.8.0"}),),
        ),
    )
    for _ in range(5):
        shared = publish(own, ShareOptions(tensor_names=names, licence="MIT"))
        assert leftovers(shared, tmp_path / "t.parquet", own) == []


def test_text_outside_of_a_dictionary_is_searched(owned: Trace, tmp_path: Path) -> None:
    """A writer may do without dictionaries, and does when there are very many words."""
    path = tmp_path / "t.parquet"
    shared = publish(owned, ShareOptions(tensor_names=KEY))
    rows = shared.strings("path")
    table = shared.table.set_column(
        shared.table.column_names.index("path"),
        "path",
        pa.array([row and row.replace("/", "/orca", 1) for row in rows]),
    )
    stored = {METADATA_KEY: shared.metadata.to_json()}
    with pq.ParquetWriter(path, table.schema, store_schema=False, use_dictionary=False) as writer:
        writer.add_key_value_metadata(stored)
        writer.write_table(table)
    found = find_leftovers(str(path), read_trace(path), owned)
    assert any("a page of column path" in str(one) and "orca" in str(one) for one in found)


@pytest.mark.parametrize("name", ["project", "prÖject", "Ünter", "ünter"])
def test_what_a_kept_name_hides_is_told_whatever_its_case(owned: Trace, name: str) -> None:
    """What is not searched for its lower case is told by its lower case, beyond ASCII too."""
    codes, names = owned.codes("name")
    changed = owned.with_columns({"name": Strings(codes, [f"layers.{name}.0" for _ in names])})
    original = owned.with_metadata(replace(owned.metadata, command=(name.upper(),)))
    assert name.upper() in hidden_words(publish(changed, ShareOptions(tensor_names=KEEP)), original)
