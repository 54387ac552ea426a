"""Whether a save is on storage when it returns, on hand-made traces."""

import errno
import os
import time
from dataclasses import replace

import numpy as np
import pytest

from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.phases import Phase
from iotrace.traces.sync_kind import SyncKind
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.verdict.verdict import examine

from .rows import CREATE, SAVE, R, moved, only, tensor, verdict_on


@pytest.mark.parametrize(
    ("rows", "durable", "early"),
    [
        (SAVE, True, 0),
        (SAVE[:4], False, 0),
        ((*SAVE, moved("write", 9.6, 9.7, 150, 8)), False, 1),
        ((*SAVE[:4], R("sync", 6, 7, file=None, path="/", flags=5)), True, 0),
        ((SAVE[0], replace(SAVE[1], flags=CREATE | os.O_DSYNC), *SAVE[2:4]), True, 0),
        (
            (
                replace(SAVE[1], flags=CREATE | os.O_DSYNC, step=None, start=-9, end=-8),
                SAVE[0],
                *SAVE[2:4],
            ),
            True,
            0,
        ),
        ((*SAVE, moved("write", 12, 13, 150, 8), R("sync", 13, 14, flags=0)), False, 0),
    ],
    ids=[
        "synced",
        "never",
        "synced before the last write",
        "sync of all",
        "O_DSYNC",
        "O_DSYNC by the job",
        "late",
    ],
)
def test_durable_is_what_was_on_storage_when_the_call_returned(
    rows: tuple[R, ...], durable: bool, early: int
) -> None:
    """`When save() returns, is it on disk?`"""
    lasting = only(verdict_on(*rows)).durability
    assert lasting is not None
    assert lasting.durable is durable
    assert len(lasting.early) == early


def test_a_sync_of_a_folder_stores_names_and_no_bytes() -> None:
    """It is neither a sync of the files in it nor of everything."""
    folder = R("sync", 6, 7, path="/d", file=None, flags=SyncKind.FOLDER)
    lasting = only(verdict_on(*SAVE[:4], folder)).durability
    assert lasting is not None
    assert (lasting.synced, lasting.durable, lasting.folder_syncs) == (0, False, 1)


@pytest.mark.parametrize("kind", [SyncKind.FSYNC, None])
def test_a_sync_of_an_unknown_descriptor_stored_no_known_file(kind: int | None) -> None:
    """Nor does one whose kind is not told: it may be of a file."""
    unknown = R("sync", 6, 9, path=None, file=None, flags=kind)
    lasting = only(verdict_on(*SAVE[:4], unknown)).durability
    assert lasting is not None
    assert (lasting.files, lasting.synced, lasting.durable) == (1, 0, False)
    assert lasting.unsynced_bytes == 150


def test_a_sync_that_failed_stored_nothing_and_a_write_that_failed_changed_nothing() -> None:
    """`fsync` gave EIO: nothing is on storage for all that is known."""
    failed = replace(SAVE[4], result=-errno.EIO)
    late = replace(moved("write", 9.6, 9.7, 150, 8), result=-errno.ENOSPC)
    for rows, synced in (((*SAVE[:4], failed, SAVE[5]), 0), ((*SAVE, late), 1)):
        lasting = only(verdict_on(*rows)).durability
        assert lasting is not None
        assert (lasting.synced, lasting.durable, lasting.early) == (synced, bool(synced), ())


def test_a_file_that_two_ranks_write_is_one_and_one_sync_stores_it() -> None:
    """Each process numbers its files itself."""
    other = [replace(row, rank=1, start=row.start - 1, end=row.end - 1) for row in SAVE[1:4]]
    lasting = only(verdict_on(*SAVE, *other)).durability
    assert lasting is not None
    assert (lasting.files, lasting.synced, lasting.unsynced_bytes) == (1, 1, 0)


def test_a_file_that_was_cut_by_another_open_than_that_of_its_writes_is_truncated() -> None:
    """What it held before is lost to a crash either way."""
    assert SAVE[1].flags is not None and SAVE[1].flags & os.O_TRUNC
    again = replace(SAVE[1], flags=os.O_WRONLY, start=1.8, end=2)
    for rows, truncated in ((SAVE, 1), ((*SAVE[:2], again, *SAVE[2:]), 1), ((again, SAVE[2]), 0)):
        lasting = only(verdict_on(*rows)).durability
        assert lasting is not None
        assert (lasting.in_place, lasting.truncated) == (1, truncated)


def test_a_file_renamed_into_place_is_known_by_its_last_name() -> None:
    """A temporary name is no other file; a kill leaves the old one."""
    finding = only(
        verdict_on(
            *[replace(row, path="/c/.tmp") for row in SAVE[1:]],
            R("rename", 9.6, 9.7, path="/c/.tmp", target="/c/a.pt"),
            tensor("w", 0, 150),
        )
    )
    assert finding.durability is not None
    assert (finding.durability.renamed, finding.durability.in_place) == (1, 0)
    assert finding.amplification.foreign_bytes == 0
    assert finding.slowest.tensors[0].name == "w"


def test_many_renamed_files_take_no_time_of_each_other() -> None:
    """A save of 20,000 files, each with its own temporary name, is no square of them."""
    files = 20_000
    start_ns = np.arange(2 * files) * 10
    number = np.tile(np.arange(files), 2)
    trace = Trace.from_columns(
        {
            "layer": Strings.constant("request", 2 * files),
            "op": Strings(np.repeat([0, 1], files).astype(np.int32), ["write", "rename"]),
            "start_ns": start_ns,
            "end_ns": start_ns + 5,
            "path": Strings(number.astype(np.int32), [f"/c/{i}.tmp" for i in range(files)]),
            "target": Strings(
                np.r_[np.full(files, -1), np.arange(files)].astype(np.int32),
                [f"/c/{i}.pt" for i in range(files)],
            ),
            "file": number,
            "offset": np.zeros(2 * files, np.int64),
            "length": np.full(2 * files, 4096),
            "result": np.repeat([4096, 0], files),
            "step": np.zeros(2 * files, np.int64),
        },
        Metadata(processes=(Process(1),)),
    )
    begun = time.process_time()
    (finding,) = examine(trace).of(Phase.SAVE)
    assert time.process_time() - begun < 10  # with a look through all for each: minutes
    lasting = finding.durability
    assert lasting is not None
    assert (lasting.files, lasting.renamed, lasting.unsynced_bytes) == (files, files, files * 4096)
