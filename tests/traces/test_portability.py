"""What a job asks of its file system, on hand-made traces."""

import os

import numpy as np
import pytest

from iotrace.traces.columns import Ints
from iotrace.traces.metadata import Metadata
from iotrace.traces.portability import fit, needs
from iotrace.traces.sync_kind import SyncKind
from iotrace.traces.trace import Strings, Trace

_CREATE = os.O_WRONLY | os.O_CREAT


def job(*rows: tuple[str, str, int, int, int | None]) -> Trace:
    """Return a trace of op, path, offset, length and flags, in the order of time."""
    ops, paths, offsets, lengths, flags = zip(*rows, strict=True)
    known = np.array([one is not None for one in flags])
    names = list(dict.fromkeys(paths))
    everywhere = np.full(len(rows), True)
    return Trace.from_columns(
        {
            "layer": Strings.of(["request"] * len(rows)),
            "op": Strings.of(list(ops)),
            "path": Strings.of(list(paths)),
            "start_ns": np.arange(len(rows)),
            "file": Ints(np.array([names.index(path) for path in paths]), everywhere),
            "offset": Ints(np.array(offsets), everywhere),
            "length": Ints(np.array(lengths), everywhere),
            "result": Ints(np.array(lengths), everywhere),
            "flags": Ints(np.array([one or 0 for one in flags]), known),
        },
        Metadata(),
    )


def saved(flags: int | None) -> Trace:
    """A file that is written from end to end and synced."""
    return job(
        ("open", "/d/a", 0, 0, flags), ("write", "/d/a", 0, 10, None),
        ("write", "/d/a", 10, 10, None), ("sync", "/d/a", 0, 0, 0), ("close", "/d/a", 0, 0, None),
    )  # fmt: skip


@pytest.mark.parametrize("flags", [_CREATE, os.O_TMPFILE | os.O_RDWR, None])
def test_a_new_file_from_end_to_end_asks_nothing(flags: int | None) -> None:
    """An unnamed file is opened in a folder and is none; nor is a file of a log without flags."""
    assert needs(saved(flags)) == {}
    assert fit(saved(flags), "mountpoint-s3").refused == ()


def test_the_sync_of_a_folder_is_one() -> None:
    found = needs(saved(os.O_RDONLY | os.O_DIRECTORY))
    assert [(need.what, need.count, need.path) for need in found.values()] == [
        ("folder sync", 1, "/d/a")
    ]
    found = needs(job(("sync", "/d", 0, 0, SyncKind.FOLDER), ("sync", "/d", 0, 0, 4)))
    assert [(need.what, need.count, need.path) for need in found.values()] == [
        ("folder sync", 1, "/d")
    ]


def test_writes_that_go_back_and_files_that_are_opened_again() -> None:
    """Each need is counted, and the first file that has it is named."""
    found = needs(
        job(
            ("open", "/d/a", 0, 0, _CREATE), ("write", "/d/a", 8, 8, None),
            ("write", "/d/a", 0, 8, None), ("sync", "/d/a", 0, 0, 0),
            ("write", "/d/a", 8, 8, None), ("open", "/d/a", 0, 0, _CREATE),
            ("open", "/d/a", 0, 0, _CREATE | os.O_TRUNC), ("truncate", "/d/b", 0, 0, None),
        )
    )  # fmt: skip
    assert {need.what: (need.count, need.path) for need in found.values()} == {
        "scattered": (2, "/d/a"),
        "after sync": (1, "/d/a"),
        "reopened": (1, "/d/a"),
        "overwritten": (1, "/d/a"),
        "truncate": (1, "/d/b"),
    }


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (_CREATE | os.O_TRUNC, {"overwritten": 1}),
        (_CREATE | os.O_EXCL, {}),  # the one before was removed
        (_CREATE, {"scattered": 1, "reopened": 1}),
    ],
)
def test_a_file_that_is_saved_again_begins_again(flags: int, asked: dict[str, int]) -> None:
    """Two saves to one name are from end to end, and each is synced after its writes."""
    rows = [
        ("open", "/d/a", 0, 0, flags), ("write", "/d/a", 0, 10, None),
        ("write", "/d/a", 10, 10, None), ("sync", "/d/a", 0, 0, 0), ("close", "/d/a", 0, 0, None),
    ]  # fmt: skip
    assert {what: need.count for what, need in needs(job(*rows, *rows)).items()} == asked


def test_writes_at_unknown_places_are_not_out_of_order() -> None:
    trace = saved(_CREATE)
    nowhere = Ints(np.zeros(len(trace), np.int64), np.zeros(len(trace), np.bool_))
    assert needs(trace.with_columns({"offset": nowhere})) == {}
