"""Stored text is valid UTF-8 and gives back exactly what was stored."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.text import decode_path, encode_path


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_survives_with_lone_surrogates_too(text: str) -> None:
    """A file named in Latin-1 must be found again by a replay, and by no other name."""
    stored = encode_path(text)
    stored.encode("utf-8")
    assert decode_path(stored) == text


@given(st.binary())
def test_any_bytes_of_a_file_name_survive(name: bytes) -> None:
    assert os.fsencode(decode_path(encode_path(os.fsdecode(name)))) == name


@given(st.text())
def test_text_of_other_writers_decodes_without_error(text: str) -> None:
    """A 1.x writer that escapes nothing must not make a reader fail."""
    decode_path(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("/plain/ü", "/plain/ü"),
        ("caf\udce9", r"caf\xe9"),
        ("a\\x41", r"a\\x41"),
        ("\ud83d", r"\ud83d"),
    ],
)
def test_the_spelling_is_the_documented_one(text: str, stored: str) -> None:
    """Programs that read the Parquet file by themselves rely on the spelling."""
    assert encode_path(text) == stored


def test_a_lone_backslash_of_another_writer_means_itself() -> None:
    assert decode_path(r"C:\temp\x41") == r"C:\temp\x41"
