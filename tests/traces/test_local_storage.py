"""Whether hosts have a file of one name each to itself."""

import numpy as np
import pytest

from iotrace.traces.local_storage import owners
from iotrace.traces.mapped import mapped_unseen
from iotrace.traces.metadata import Host, Metadata, Mount, Process
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Ints, Strings
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
