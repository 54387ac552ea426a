"""What Arrow adds to a file that it writes anew is no leftover, unless it says more."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.schema import METADATA_KEY
from iotrace.traces.sharing.arrow_schema import ARROW_KEY, arrow_schema
from iotrace.traces.sharing.leftovers import find_leftovers
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import KEY, ShareOptions
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace

SECRET = "jd58311"


@pytest.fixture
def published(owned: Trace, tmp_path: Path) -> Path:
    """A clean file."""
    path = tmp_path / "public.parquet"
    write_trace(publish(owned, ShareOptions(tensor_names=KEY)), path)
    return path


def found(path: Path, original: Trace | None = None) -> list[str]:
    return [str(one) for one in find_leftovers(str(path), read_trace(path), original)]


def rewritten(published: Path, schema: pa.Schema | bytes) -> Path:
    """Write the same rows and metadata, and this as Arrow's schema of them."""
    path = published.with_name("again.parquet")
    table = pq.read_table(published)
    message = schema if isinstance(schema, bytes) else schema.serialize().to_pybytes()
    keys = {**table.schema.metadata, ARROW_KEY: base64.b64encode(message)}
    with pq.ParquetWriter(path, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.add_key_value_metadata(keys)
        writer.write_table(table)
    return path


@pytest.mark.parametrize("words", [[], ["path", "name"]])
@pytest.mark.parametrize("by_row", [True, False])
def test_a_file_that_arrow_wrote_anew_is_clean(
    owned: Trace, published: Path, words: list[str], by_row: bool
) -> None:
    """It holds the metadata twice, and types as they were in memory."""
    path = published.with_name("again.parquet")
    table = pq.read_table(published, read_dictionary=words)
    pq.write_table(table, path, use_dictionary=not by_row)
    assert ARROW_KEY in pq.read_metadata(path).metadata
    assert found(path) == found(path, owned) == []


def test_large_types_of_other_programs_are_clean(owned: Trace, published: Path) -> None:
    """Polars keeps text and lists in such."""
    path = published.with_name("again.parquet")
    table = pq.read_table(published)
    for name, kind in (("path", pa.large_string()), ("shape", pa.large_list(pa.int64()))):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).cast(kind))
    pq.write_table(table, path)
    assert found(path, owned) == []


def test_a_text_that_the_coding_holds_by_chance_is_none(owned: Trace, published: Path) -> None:
    """Base64 of some KiB has any four letters somewhere."""
    path = published.with_name("again.parquet")
    pq.write_table(pq.read_table(published), path)
    coded = pq.read_metadata(path).metadata[ARROW_KEY]
    chance = re.findall(rb"[A-Za-z]{5}", coded)[len(coded) // 200].decode()
    original = owned.with_metadata(replace(owned.metadata, command=(chance,)))
    assert found(path, original) == []


@pytest.mark.parametrize("with_original", [True, False])
@pytest.mark.parametrize("place", ["metadata", "key", "field key", "inner key", "name", "inner"])
def test_what_the_schema_says_besides_is_found(
    owned: Trace, published: Path, place: str, with_original: bool
) -> None:
    """In the one place that no reader of columns shows."""
    schema = pq.read_schema(published)
    said = {SECRET.encode(): b"1"}
    shape = schema.get_field_index("shape")
    if place == "metadata":
        schema = schema.with_metadata({METADATA_KEY: owned.metadata.to_json()})
    elif place == "key":
        schema = schema.with_metadata({**schema.metadata, **said})
    elif place == "field key":
        schema = schema.set(3, schema.field(3).with_metadata(said))
    elif place == "inner key":
        inner = pa.field("element", pa.int64(), metadata=said)
        schema = schema.set(shape, pa.field("shape", pa.list_(inner)))
    elif place == "name":
        schema = schema.append(pa.field(SECRET, pa.int64()))
    else:
        inner = pa.field(SECRET, pa.int64())
        schema = schema.set(shape, pa.field("shape", pa.list_(inner)))
    path = rewritten(published, schema)
    told = found(path, owned if with_original else None)
    assert any("the schema of Arrow" in one for one in told)


def test_bytes_behind_the_schema_are_searched(owned: Trace, published: Path) -> None:
    """Packed as they are, nobody reads them but a spy."""
    message = pq.read_schema(published).serialize().to_pybytes()
    assert found(rewritten(published, message), owned) == []
    told = found(rewritten(published, message + SECRET.encode()), owned)
    assert any("the schema of Arrow" in one and SECRET in one for one in told)


def test_it_is_decoded_as_arrow_codes_it(published: Path) -> None:
    """Anything else is no such schema."""
    message = pq.read_schema(published).serialize().to_pybytes()
    assert arrow_schema(base64.b64encode(message)) == message
    with pytest.raises(ValueError, match="base64"):
        arrow_schema(b"\x00" + base64.b64encode(message))
