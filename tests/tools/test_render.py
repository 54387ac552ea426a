"""Units and tables."""

import pytest

from iotrace.tools.render import (
    Column,
    facts,
    format_bytes,
    format_range,
    format_rate,
    format_seconds,
    format_share,
    printable,
    shorten_paths,
    table,
)
from iotrace.traces.words import plural


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (980, "980 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (4097, "4.00 KiB"),
        (1536, "1.50 KiB"),
        (1023.9 * 1024, "1.00 MiB"),
        (100 << 20, "100 MiB"),
        (3 << 40, "3 TiB"),
        (None, "-"),
    ],
)
def test_bytes_have_binary_units_and_three_digits(size_bytes: float | None, text: str) -> None:
    """Exact multiples are shown without decimals, so that 4 KiB and nearly 4 KiB differ."""
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (8.7e-7, "870 ns"),
        (12.34e-6, "12.3 µs"),
        (0.0451, "45.1 ms"),
        (0.9999, "1.00 s"),
        (1.234, "1.23 s"),
        (1234.5, "1,234 s"),
        (None, "-"),
    ],
)
def test_durations_have_three_digits(seconds: float | None, text: str) -> None:
    """Small and large times read alike."""
    assert format_seconds(seconds) == text


def test_a_rate_without_time_or_bytes_is_absent() -> None:
    """Nothing is divided by zero, and no bandwidth is made up."""
    assert format_rate(1 << 30, 2.0) == "512 MiB/s"
    assert format_rate(1 << 30, 0.0) == format_rate(0, 1.0) == format_rate(1, None) == "-"


def test_a_range_says_a_common_unit_once() -> None:
    """It is the widest cell of a table."""
    assert format_range("1.20 ms", "1.41 ms") == "1.20 - 1.41 ms"
    assert format_range("870 µs", "1.41 ms") == "870 µs - 1.41 ms"
    assert format_range("1 MiB/s", "2 MiB/s") == "1 - 2 MiB/s"
    assert format_range("5 s", "1 ms") == "5 s - 1 ms"


def test_a_share_is_never_rounded_to_all_or_nothing() -> None:
    """One unaligned request in a thousand still shows."""
    assert format_share(999, 1000) == ">99 %"
    assert format_share(1, 1000) == "<1 %"
    assert format_share(1000, 1000) == "100 %"
    assert format_share(0, 1000) == "0 %"
    assert format_share(0, 0) == "-"


def test_nouns_follow_their_number() -> None:
    """`1 processes` would look careless."""
    assert plural(1, "process") == "1 process"
    assert plural(2, "process") == "2 processes"
    assert plural(1000, "file") == "1,000 files"


def test_a_table_shrinks_its_paths_to_fit_and_keeps_their_ends() -> None:
    """The end of a path is what tells it from its neighbours."""
    lines = table(
        [Column("path", shrink=True), Column("size", right=True)],
        [("/very/long/folder/names/model-00001.pt", "8 MiB"), ("/b", "980 B")],
        width=26,
    )
    assert lines == [
        "path                  size",
        "…mes/model-00001.pt  8 MiB",
        "/b                   980 B",
    ]


def test_long_facts_wrap_under_themselves() -> None:
    """A long command line must not break the layout."""
    lines = facts([("command", "python train.py " * 10), ("x", "1")], width=40)
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].startswith("command  python")
    assert lines[1].startswith("         ")
    assert lines[-1] == "x        1"


def test_control_characters_of_a_trace_never_reach_the_terminal() -> None:
    """A path from a stranger's trace could hold escape sequences."""
    assert printable("a\x1b[31mb\n") == "a\\x1b[31mb\\n"
    assert "\x1b" not in "".join(table([Column("p")], [("\x1b]0;owned\x07",)], width=80))


@pytest.mark.parametrize("width", [80, 60, 45, 30])
def test_a_long_path_does_not_push_out_the_numbers_behind_it(width: int) -> None:
    """What comes after the path is what tells requests apart; two paths give way alike."""
    one = shorten_paths(f"write /{'deep/' * 30}a.bin 1344 360000", width)
    assert one.startswith("write …") and one.endswith("deep/a.bin 1344 360000")
    assert len(one) <= max(width, len("write  1344 360000") + 24)
    two = shorten_paths(f"rename /{'deep/' * 30}a.tmp /{'deep/' * 20}a.bin", width)
    assert [len(path) for path in two.split()[1:]] == [max(24, (width - 8) // 2)] * 2
    assert shorten_paths("write /a 0 10", width) == "write /a 0 10"
