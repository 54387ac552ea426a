"""The library's parts by themselves, under the address and undefined behaviour sanitizers."""

import subprocess
from pathlib import Path

import pytest

from iotrace.capture.rawlog import RawLog, read_raw_log

from .preload_job import ROOT, compile_program

CSRC = ROOT / "capture" / "csrc"
# The parts that define no wrapper, and so can live in a program beside the sanitizers' own.
PARTS = ("log", "logfile", "header", "real", "scope", "path", "inode", "descriptors")
SANITIZE = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def run_unit(name: str, folder: Path) -> Path:
    """Compile and run the test program of one part; return the folder it was given."""
    parts = [str(CSRC / f"{part}.c") for part in PARTS]
    program = compile_program(
        folder, f"{name}.c", *SANITIZE, "-std=gnu11", f"-I{CSRC}", *parts, "-ldl", "-pthread"
    )
    given = folder / "given"
    given.mkdir()
    done = subprocess.run([program, given], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return given


@pytest.mark.parametrize("name", ["test_scope", "test_path", "test_descriptors"])
def test_a_part_does_what_it_says(name: str, tmp_path: Path) -> None:
    """An error in the job's address space is an error of the job."""
    run_unit(name, tmp_path)


def lengths(log: RawLog) -> list[int]:
    return sorted(log.records["length"][log.rows("note")].tolist())


def test_a_log_holds_what_was_appended(tmp_path: Path) -> None:
    """Appending takes no lock, so nothing but the reader can tell that it is right."""
    threads, records, short_threads = 16, 5000, 200
    logs = [read_raw_log(path) for path in run_unit("test_log", tmp_path).glob("*.raw")]
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
