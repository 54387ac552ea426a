"""JSON that others wrote: whatever it holds, a value or a ValueError."""

import pytest

from iotrace.traces.foreign_json import MAX_DEPTH, parse_foreign_json


def nested(depth: int, begin: str, end: str) -> str:
    """Return a value in `depth` lists or objects."""
    return begin * depth + "1" + end * depth


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"x":', "}")])
def test_a_depth_that_any_program_writes_is_taken(begin: str, end: str) -> None:
    """Deeper ones end whoever walks them by calling itself."""
    parse_foreign_json(nested(MAX_DEPTH, begin, end))
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_foreign_json(nested(depth, begin, end))


@pytest.mark.parametrize("data", ["", "{", "[" * 100_000, b"\xff", "9" * 100_000])
def test_what_is_no_json_is_a_value_error(data: str | bytes) -> None:
    """The text of a stranger may be cut anywhere."""
    with pytest.raises(ValueError):
        parse_foreign_json(data)


def test_a_scalar_is_a_value() -> None:
    """Also a text full of brackets."""
    assert parse_foreign_json('"' + "[" * 1000 + '"') == "[" * 1000
