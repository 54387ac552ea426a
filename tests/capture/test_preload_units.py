"""The library's parts by themselves, under the address and undefined behaviour sanitizers."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrace.capture.rawlog import RawLog, read_raw_log

from .preload_job import ROOT, compile_program

CSRC = ROOT / "capture" / "csrc"
# The parts that define no wrapper, and so can live in a program beside the sanitizers' own.
PARTS = (
    "log",
    "logfile",
    "chunks",
    "counters",
    "header",
    "keeper",
    "proc_files",
    "real",
    "scope",
    "path",
    "magic_links",
    "inode",
    "descriptors",
    "request",
    "folder",
)
RING_PARTS = ("uring_ring", "uring_pending", "uring_reap", "uring_submit", "uring_files", "memory")
SANITIZE = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STANDARD = ("-std=gnu11", f"-I{CSRC}")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the object file of each part."""
    folder = tmp_path_factory.mktemp("parts")
    sources = [CSRC / f"{part}.c" for part in (*PARTS, *RING_PARTS, "flight")]
    command = ["gcc", "-Wall", "-Wextra", "-Werror", *SANITIZE, *STANDARD, "-c", *sources]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def run_unit(name: str, folder: Path, parts: Path, more_parts: Sequence[str] = ()) -> Path:
    """Compile and run the test program of one part; return the folder it was given."""
    objects = [str(parts / f"{part}.o") for part in (*PARTS, *more_parts)]
    program = compile_program(
        folder, f"{name}.c", *SANITIZE, *STANDARD, *objects, "-ldl", "-pthread"
    )
    given = folder / "given"
    given.mkdir()
    done = subprocess.run([program, given], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return given


@pytest.mark.parametrize("name", ["test_scope", "test_path", "test_descriptors"])
def test_a_part_does_what_it_says(name: str, parts: Path, tmp_path: Path) -> None:
    """An error in the job's address space is an error of the job."""
    run_unit(name, tmp_path, parts)


def lengths(log: RawLog) -> list[int]:
    return sorted(log.records["length"][log.rows("note")].tolist())


def test_a_log_holds_what_was_appended(parts: Path, tmp_path: Path) -> None:
    """Appending takes no lock, so nothing but the reader can tell that it is right."""
    threads, records, short_threads = 16, 5000, 200
    logs = [read_raw_log(path) for path in run_unit("test_log", tmp_path, parts).glob("*.raw")]
    child, parent = sorted(logs, key=len)
    assert child.header.parent_pid == parent.header.pid
    assert lengths(child) == [-3]
    assert lengths(parent) == sorted([-2] + [-1] * short_threads + [*range(records)] * threads)
    assert parent.header.outside.ignored_opens == 7
    assert parent.header.outside.cut_texts == 1
    assert parent.torn_records == child.torn_records == 0
    lengths_of_rows = parent.records["length"]
    for row in parent.rows("note").tolist():
        length = int(lengths_of_rows[row])
        if length >= 0:
            assert parent.text(row) == b"t" * (length % 300)


def test_the_shadow_of_a_ring_matches_every_completion(parts: Path, tmp_path: Path) -> None:
    """The kernel completes in any order, by any thread, and jobs reuse their user data."""
    given = run_unit("test_uring", tmp_path, parts, RING_PARTS)
    assert not list(given.glob("*.raw"))


def test_a_look_at_a_ring_survives_its_end(parts: Path, tmp_path: Path) -> None:
    """Any thread looks at all rings, and its owner takes one down at any time."""
    run_unit("test_uring_exit", tmp_path, parts, RING_PARTS)


def test_a_control_block_stands_for_one_request_at_a_time(parts: Path, tmp_path: Path) -> None:
    """Whichever thread sees the end must find the request that it ended."""
    threads, blocks, rounds = 8, 500, 20
    logs = [
        read_raw_log(path)
        for path in run_unit("test_flight", tmp_path, parts, ["flight"]).glob("*")
        if path.suffix == ".raw"
    ]
    child, parent = sorted(logs, key=len)
    writes = parent.records[parent.rows("write")]
    ended = writes[writes["end_ns"] != 0]
    assert sorted(ended["length"].tolist()) == sorted([*range(blocks)] * threads * rounds)
    assert (ended["length"] == ended["result"]).all()
    assert writes["length"][writes["end_ns"] == 0].tolist() == [700]
    assert child.records[child.rows("write")]["result"].tolist() == [800]
