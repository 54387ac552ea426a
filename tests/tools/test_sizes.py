"""Sizes as people type them."""

import pytest
import typer

from iotrace.tools.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        ("8MiB", 8 << 20),
        ("8M", 8 << 20),
        ("8m", 8 << 20),
        ("8 MiB", 8 << 20),
        ("512K", 512 << 10),
        ("1GiB", 1 << 30),
        ("1.5GiB", 3 << 29),
        ("1TiB", 1 << 40),
        ("4EiB", 4 << 60),
        ("8MB", 8_000_000),
        ("64B", 64),
    ],
)
def test_a_size_is_read_in_every_usual_spelling(text: str, size_bytes: int) -> None:
    """A bare letter is binary, as in fio and dd; only the written-out MB is decimal."""
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "8X", "MiB", "-4096", "0", "1.3", "9EiB", "8MiB8", "1e6"])
def test_what_is_no_size_is_refused_with_the_text_in_the_message(text: str) -> None:
    """A silent fallback would replay something else than was asked."""
    with pytest.raises(typer.BadParameter, match=r"size|whole number") as refused:
        parse_size(text)
    assert repr(text) in str(refused.value)
