"""Metadata survives storage, and hostile metadata gives one clear error."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.codec import MAX_JSON_BYTES
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.metadata import Completeness, FileCompleteness, Metadata, ProcessCompleteness
from tests.traces.conftest import ODD_PATH, rich_metadata


def stored(**changes: Any) -> bytes:
    return json.dumps({"format_version": "1.0", "epoch_realtime_ns": 1, **changes}).encode()


def test_every_field_survives_a_round_trip() -> None:
    metadata = rich_metadata()
    defaults = Metadata()
    changed = {f.name for f in fields(Metadata)} - {"format_version"}
    assert all(getattr(metadata, name) != getattr(defaults, name) for name in changed)
    assert Metadata.from_json(metadata.to_json()) == metadata


def test_the_stored_form_is_ascii_without_lone_surrogates() -> None:
    """Strict JSON parsers refuse lone surrogates, also escaped ones."""
    tree = json.loads(rich_metadata().to_json().decode("ascii"))
    json.dumps(tree, ensure_ascii=False).encode("utf-8")
    assert tree["command"][2] != ODD_PATH


def test_unknown_keys_of_a_later_minor_version_are_kept_at_every_level() -> None:
    """A tool that only adds a history entry must not destroy what a newer writer knew."""
    data = stored(
        format_version="1.7",
        weather="sunny",
        processes=[{"pid": 1, "cgroup": "/a"}],
        completeness={"sampled": True},
    )
    metadata = Metadata.from_json(data)
    again = json.loads(metadata.to_json())
    assert metadata.format_version == "1.7"
    assert again["weather"] == "sunny"
    assert again["processes"][0]["cgroup"] == "/a"
    assert again["completeness"]["sampled"] is True


@pytest.mark.parametrize("version", ["2.0", "10.0", "0.9", "1", "1.x", "", None, 1.0, "1.0.0"])
def test_a_version_that_is_not_1_x_is_refused_by_name(version: object) -> None:
    with pytest.raises(TraceFormatError, match=f"trace format '{version}' is not readable"):
        Metadata.from_json(stored(format_version=version))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"\xff\xfe{}", id="no text"),
        pytest.param(b"[" * 1_000_000, id="deep nesting"),
        pytest.param(b'{"format_version":"1.0","x":' + b"[" * 500 + b"]" * 500 + b"}", id="deep"),
        pytest.param(b'{"format_version":"1.0","x":NaN}', id="NaN"),
        pytest.param(b'{"format_version":"1.0","x":1e999}', id="infinite"),
        pytest.param(b'{"format_version":"1.0","x":' + b"9" * 5000 + b"}", id="huge number"),
        pytest.param(b" " * (MAX_JSON_BYTES + 1), id="huge"),
        pytest.param(stored(epoch_realtime_ns="1"), id="text for int"),
        pytest.param(stored(epoch_realtime_ns=True), id="bool for int"),
        pytest.param(stored(epoch_realtime_ns=1 << 70), id="int over 64 bits"),
        pytest.param(stored(epoch_realtime_ns=1 << 63), id="int over 63 bits"),
        pytest.param(stored(epoch_realtime_ns=-(1 << 63) - 1), id="negative over 63 bits"),
        pytest.param(stored(command="ls"), id="text for list"),
        pytest.param(stored(command=[1]), id="int for text"),
        pytest.param(stored(processes={}), id="object for list"),
        pytest.param(stored(processes=[[]]), id="list for object"),
        pytest.param(stored(processes=[{}]), id="missing value"),
        pytest.param(stored(processes=[{"pid": 1, "libraries": {"a": 1}}]), id="dict of ints"),
        pytest.param(stored(completeness=None), id="null"),
    ],
)
def test_hostile_metadata_gives_one_clear_error(data: bytes) -> None:
    """A trace comes from a stranger: a crash or a hang on it is a defect."""
    with pytest.raises(TraceFormatError) as caught:
        Metadata.from_json(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.dictionaries(st.sampled_from([f.name for f in fields(Metadata)]) | st.text(max_size=3), JSON)
)
def test_any_json_gives_metadata_or_the_error_and_can_be_written_again(
    tree: dict[str, Any],
) -> None:
    try:
        metadata = Metadata.from_json(json.dumps({**tree, "format_version": "1.1"}).encode())
    except TraceFormatError:
        return
    assert Metadata.from_json(metadata.to_json()) == metadata


def of_one_file(final_size: int) -> Metadata:
    return Metadata(
        completeness=Completeness(files=(FileCompleteness("/a", 0, 1, 8, final_size, False),))
    )


def test_numbers_are_of_64_bits_with_a_sign_when_they_are_read_and_when_they_are_written() -> None:
    """As those of columns; unsigned ones fit no array of numbers, wherever one is made of them."""
    metadata = of_one_file((1 << 63) - 1)
    assert Metadata.from_json(metadata.to_json()) == metadata
    with pytest.raises(TraceFormatError, match="'final_size' does not fit a signed integer of 64"):
        of_one_file(1 << 63).to_json()
    text = metadata.to_json().replace(str((1 << 63) - 1).encode(), str(1 << 63).encode())
    told = r"'completeness\.files\[0\]\.final_size' does not fit a signed integer of 64 bits"
    with pytest.raises(TraceFormatError, match=told):
        Metadata.from_json(text)


def test_a_trace_without_gaps_is_complete() -> None:
    assert Completeness().complete
    assert Completeness(files=(FileCompleteness("/a", 0, 1, 8, 8, True),)).complete


def test_every_gap_is_told_in_words() -> None:
    """A trace that is incomplete says so everywhere; silence would be taken for certainty."""
    problems = rich_metadata().completeness.problems()
    assert not rich_metadata().completeness.complete
    for count in ("1 record dropped", "2 requests", "3 async", "4 names", "5 records torn"):
        assert any(problem.startswith(count) for problem in problems)
    assert f"{ODD_PATH}: 10 bytes recorded as written, the file is gone" in problems
    assert "1 MiB was mapped and not seen" in problems


@pytest.mark.parametrize(
    ("kernel_bytes", "unseen_bytes"),
    [(None, 0), (10_000_000, 0), (10_004_096, 0), (10_004_097, 4097), (20_000_000, 10_000_000)],
)
def test_bytes_that_only_the_kernel_saw_are_a_problem(
    kernel_bytes: int | None, unseen_bytes: int
) -> None:
    """A statically linked helper or a raw system call is seen by nobody but the kernel."""
    process = ProcessCompleteness(
        0,
        recorded_bytes_written=9_000_000,
        other_bytes_written=900_000,
        ignored_bytes_written=100_000,
        kernel_bytes_written=kernel_bytes,
    )
    assert process.unseen_bytes_written == unseen_bytes
    assert process.unaccounted_bytes_written == max(0, (kernel_bytes or 0) - 10_000_000)
    assert Completeness(processes=(process,)).complete == (unseen_bytes == 0)
