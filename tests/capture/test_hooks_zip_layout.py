"""The layout formula against the writer and the reader that it describes."""

from __future__ import annotations

from pathlib import Path

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.capture.hooks.zip_layout import ZIP64_LIMIT, place_record

SHORT = st.integers(0, 5000)
LONG = st.one_of(
    SHORT,
    st.integers(ZIP64_LIMIT - 2, ZIP64_LIMIT + 2),
    st.integers(0, 3 * ZIP64_LIMIT),
)
ALIGNMENTS = st.sampled_from([1, 8, 64, 512, 4096])
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def record_names(lengths: list[int]) -> list[str]:
    """Return the names of as many records."""
    return [f"data/{index}" for index in range(len(lengths))]


def places_by_formula(archive: str, lengths: list[int], alignment: int) -> list[tuple[int, int]]:
    """Return (header, payload offset) of each record."""
    places = []
    header = 0
    for name, length in zip(record_names(lengths), lengths, strict=True):
        name_bytes = len(f"{archive}/{name}".encode())
        extent = place_record(header, name_bytes, length, alignment)
        places.append((header, extent.offset))
        header = extent.next_header
    return places


def places_in_file(path: Path, lengths: list[int]) -> list[tuple[int, int]]:
    """Return (header, payload offset) of each record as torch reads them."""
    reader = torch._C.PyTorchFileReader(str(path))
    return [
        (reader.get_record_header_offset(name), reader.get_record_offset(name))
        for name in record_names(lengths)
    ]


@given(
    lengths=st.lists(LONG, min_size=1, max_size=8),
    alignment=ALIGNMENTS,
    archive=st.text("abc", min_size=1, max_size=20),
)
@SETTINGS
def test_records_lie_where_the_reader_finds_them(
    tmp_path: Path, lengths: list[int], alignment: int, archive: str
) -> None:
    """Also beyond 4 GiB, where headers grow: the payloads are holes, the file is sparse."""
    path = tmp_path / f"{archive}.pt"
    writer = torch._C.PyTorchFileWriter(str(path), False, alignment)
    for name, length in zip(record_names(lengths), lengths, strict=True):
        writer.write_record_metadata(name, length)
    writer.write_end_of_file()

    assert places_in_file(path, lengths) == places_by_formula(archive, lengths, alignment)


@given(lengths=st.lists(SHORT, min_size=1, max_size=8), alignment=ALIGNMENTS)
@SETTINGS
def test_written_records_lie_where_skipped_ones_would(
    tmp_path: Path, lengths: list[int], alignment: int
) -> None:
    """Real payloads, with their checksums, take the same place as holes."""
    path = tmp_path / "real.pt"
    writer = torch._C.PyTorchFileWriter(str(path), True, alignment)
    for name, length in zip(record_names(lengths), lengths, strict=True):
        writer.write_record(name, b"x" * length, length)
    writer.write_end_of_file()

    assert places_in_file(path, lengths) == places_by_formula("real", lengths, alignment)
