"""Whether hosts have a file of one name each to itself."""

import numpy as np
import pytest

from iotrace.traces.binned import file_maps
from iotrace.traces.local_storage import owners
from iotrace.traces.mapped import mapped_unseen
from iotrace.traces.metadata import Host, Metadata, Mount, Process
from iotrace.traces.phases import Phase
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Ints, Strings, Trace
from iotrace.traces.verdict.verdict import examine
from tests.traces.conftest import small_trace


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ((("/", "ext4"),), [0, 1, 0, 1]),
        ((("/", "overlay"), ("/nvme", "xfs")), [0, 1, 0, 1]),
        # The root may hold a symbolic link to the storage that all see; a disk hardly does.
        ((("/", "ext4"), ("/lustre", "lustre")), None),
        ((("/nvme", "xfs"), ("/lustre", "lustre")), [0, 1, -1, -1]),
        ((("/", "nfs4"),), None),
        ((("/", "unheard-of"),), None),
        ((("/nv", "xfs"), ("/other", "ext4")), None),
        ((), None),
    ],
)
def test_local_storage_is_of_one_host(
    mounts: tuple[tuple[str, str], ...], expected: list[int] | None
) -> None:
    metadata = Metadata(
        hosts=(Host("a"), Host("b")),
        mounts=tuple(
            Mount(path, host, file_system=kind) for host in (0, 1) for path, kind in mounts
        ),
        processes=(Process(1, host=0), Process(2, host=1)),
    )
    trace = small_trace(
        4,
        metadata,
        process=np.array([0, 1, 0, 1]),
        path=Strings.of(["/nvme/a", "/nvme/a", "/lustre/b", "/lustre/b"]),
    )
    owner = owners(trace)
    assert (None if owner is None else owner.tolist()) == expected
    requests = Requests.of(trace)
    assert [requests.path_of(row) for row in range(4)] == trace.strings("path")
    counted = 2 if expected is None else len({*zip(trace.strings("path"), expected, strict=True)})
    assert len(set(requests.home.tolist())) == counted


def test_names_that_no_two_hosts_share_tell_files_apart_already() -> None:
    metadata = Metadata(
        hosts=(Host("a"), Host("b")),
        mounts=(Mount("/", 0, file_system="ext4"), Mount("/", 1, file_system="ext4")),
        processes=(Process(1, host=0), Process(2, host=1)),
    )
    paths = Strings.of(["/rank0", "/rank1"])
    assert owners(small_trace(2, metadata, process=np.array([0, 1]), path=paths)) is None


@pytest.mark.parametrize("numbers", [[0, 0], [0, 1]])
def test_a_file_that_two_processes_map_is_one_file(numbers: list[int]) -> None:
    """Whether their numbers for it are equal or not."""
    known = np.full(2, True)
    mapping = small_trace(
        2,
        Metadata(processes=(Process(1), Process(2))),
        op=Strings.constant("map", 2),
        process=np.array([0, 1]),
        path=Strings.constant("/model", 2),
        file=Ints(np.array(numbers), known),
        offset=Ints(np.zeros(2, np.int64), known),
        length=Ints(np.full(2, 4096), known),
    )
    assert [*mapped_unseen(mapping)] == [
        "4 KiB of 1 file were mapped into memory for reading; "
        "what was read of them from memory was not seen"
    ]
    assert examine(mapping).mapped_only == 1


def two_hosts(*paths: str) -> Trace:
    """Return what two hosts did at once with their own files of one name, or of several.

    The first wrote tensor `a` in 100 bytes, the second `b` in 50 at the same place.
    """
    metadata = Metadata(
        hosts=(Host("a"), Host("b")),
        mounts=(Mount("/", 0, file_system="ext4"), Mount("/", 1, file_system="ext4")),
        processes=(Process(1, host=0, rank=0), Process(2, host=1, rank=1)),
    )
    every, size = np.ones(4, np.bool_), np.array([100, 50, 100, 50])
    is_request = np.array([True, True, False, False])
    ms = 1_000_000
    return Trace.from_columns(
        {
            "layer": Strings.of(["request", "request", "tensor", "tensor"]),
            "op": Strings.of(["write", "write", "save", "save"]),
            "engine": Strings.constant("torch.save", 4),
            "start_ns": np.zeros(4, np.int64),
            "end_ns": Ints(np.array([9, 5, 0, 0]) * ms, every),
            "process": np.array([0, 1, 0, 1]),
            "rank": np.array([0, 1, 0, 1]),
            "step": Ints(np.zeros(4, np.int64), every),
            "path": Strings.of([*paths, *paths]),
            "file": Ints(np.zeros(4, np.int64), is_request),
            "offset": Ints(np.zeros(4, np.int64), every),
            "length": Ints(size, every),
            "result": Ints(size, is_request),
            "name": Strings.of([None, None, "a", "b"]),
        },
        metadata,
    )


@pytest.mark.parametrize("paths", [("/c/x.pt", "/c/x.pt"), ("/c/0.pt", "/c/1.pt")])
def test_tensors_lie_in_the_file_of_their_host(paths: tuple[str, str]) -> None:
    """What is told of files of one name is what is told of files of two."""
    trace = two_hosts(*paths)
    (save,) = examine(trace).of(Phase.SAVE)
    counted = save.amplification
    assert (counted.unique_bytes, counted.tensor_bytes, counted.foreign_bytes) == (150, 150, 0)
    assert [(slow.name, slow.bytes) for slow in save.slowest.tensors] == [("a", 100), ("b", 50)]
    assert [slow.tensors for slow in save.slowest.requests] == ["a", "b"]
    maps = file_maps(Requests.of(trace), trace, count=1)
    assert [(one.size_bytes, one.tensors.tolist()) for one in maps] == [(100, [100]), (50, [50])]


def test_one_tensor_in_the_own_files_of_two_hosts_was_written_twice() -> None:
    trace = two_hosts("/c/x.pt", "/c/x.pt")
    size = np.full(4, 100)
    same = {"name": Strings.of([None, None, "a", "a"]), "length": Ints(size, size > 0)}
    (save,) = examine(trace.with_columns(same)).of(Phase.SAVE)
    assert [(one.name, one.times) for one in save.amplification.repeated] == [("a", 2)]
