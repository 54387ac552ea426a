"""Broken and hostile inputs of every importer: a trace, or one error of one line. Nothing else.

FUZZ_EXAMPLES=20000 pytest tests/traces/formats/test_fuzz.py runs it for longer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import guess, import_trace, importers, named
from tests.fuzz.mutations import INTERESTING
from tests.fuzz.seeds import IMPORTED
from tests.fuzz.trial import assert_one_line, try_import

from .test_csv import CORPUS

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
WORST_MS = 60_000  # of a machine that is busy with other things

Edit = tuple[str, float, float, bytes]


def test_every_importer_is_fuzzed() -> None:
    """A new format brings its seed; PyDarshan's C library is not ours to fuzz."""
    assert {format.name for format in importers()} == IMPORTED.keys() | {"darshan"}


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


def fuzzing(test: Callable[..., None]) -> Callable[..., None]:
    """Run a property test as often as asked, each time within seconds."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=EXAMPLES, deadline=WORST_MS, suppress_health_check=checks)(test)


@pytest.mark.parametrize("name", IMPORTED)
@fuzzing
@given(which=st.integers(0, 9), edits=EDITS)
def test_an_edited_input_is_a_trace_or_an_error(name: str, which: int, edits: list[Edit]) -> None:
    """Real inputs with a few bytes or lines wrong, where parsers go deepest."""
    seeds = IMPORTED[name]
    with tempfile.TemporaryDirectory() as folder:
        try_import(name, edited(seeds[which % len(seeds)], edits), Path(folder))


@pytest.mark.parametrize("name", IMPORTED)
@fuzzing
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_trace_or_an_error(name: str, content: bytes) -> None:
    """Nothing of the format at all."""
    with tempfile.TemporaryDirectory() as folder:
        try_import(name, content, Path(folder))


@pytest.mark.parametrize("name", IMPORTED)
def test_a_long_hostile_line_ends_soon(name: str, tmp_path: Path) -> None:
    """No expression that backtracks: each of these would take minutes in a careless one."""
    for piece in INTERESTING:
        path = tmp_path / "input"
        path.write_bytes(IMPORTED[name][0].split(b"\n")[0] + b"\n" + piece * (60_000 // len(piece)))
        try:
            import_trace(path, named(name, importers()))
        except TraceFormatError as error:
            assert_one_line(error)


def test_the_corpus_is_no_foreign_log() -> None:
    """A trace is never taken for something else."""
    for path in CORPUS.glob("*.parquet"):
        with pytest.raises(TraceFormatError):
            guess(Source.of(path))
