"""Whole files, outside the timed part: filled, checked, evicted, and what of them is cached."""

import os
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import Executor
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape, check_file, fill_file, resident_bytes
from iotrace.traces.errors import ReplayError

from .job_builder import JobBuilder, run

MIB = 1 << 20


@pytest.fixture
def filled(tape: Tape, root: Path) -> Path:
    """Return a file of 9 MiB and a bit, holding recorded file 4 from offset 1000."""
    path = root / "f"
    with path.open("wb") as file:
        fill_file(tape, file.fileno(), 0, 9 * MIB + 77, 4, 1000)
    return path


def test_a_filled_file_holds_the_payload(tape: Tape, filled: Path) -> None:
    """Files to be read are prepared with real data, not holes."""
    assert filled.read_bytes() == tape.read(4, 1000, 9 * MIB + 77)
    assert filled.stat().st_blocks * 512 >= 9 * MIB


def test_checking_a_file_counts_the_bytes_that_differ(tape: Tape, filled: Path) -> None:
    """The count tells a torn write from a wrong file."""
    with filled.open("r+b") as file:
        fd = file.fileno()
        assert check_file(tape, fd, 0, 9 * MIB + 77, 4, 1000) == 0
        os.pwrite(fd, bytes(b ^ 0xFF for b in tape.read(4, 1000 + 8 * MIB, 3)), 8 * MIB)
        assert check_file(tape, fd, 0, 9 * MIB + 77, 4, 1000) == 3
        assert check_file(tape, fd, 9 * MIB, 100, 4, 1000 + 9 * MIB) == 23
        assert check_file(tape, fd, 0, MIB, 5, 1000) > MIB // 2


def test_files_that_cannot_be_read_or_written_are_os_errors(tape: Tape, filled: Path) -> None:
    """Preparation fails loudly, with the system's own reason."""
    with filled.open("rb") as file, pytest.raises(OSError):
        fill_file(tape, file.fileno(), 0, 10, 0, 0)
    with filled.open("ab") as file, pytest.raises(OSError):
        check_file(tape, file.fileno(), 0, 10, 0, 0)
    with pytest.raises(OSError):
        resident_bytes(-1)


@pytest.mark.parametrize("root", ["disk"], indirect=True)
def test_an_evicted_file_is_out_of_the_page_cache(
    executor: Executor, tape: Tape, root: Path, filled: Path
) -> None:
    """Cold reads are only cold if the cache says so."""
    with filled.open("rb") as file:
        file.read()
        assert resident_bytes(file.fileno()) == 9 * MIB + 77
        job = JobBuilder()
        job.add(Op.EVICT, path=job.path("f"))
        done = run(executor, job.build(), tape, root)
        assert done.timings["result"].tolist() == [0]
        assert resident_bytes(file.fileno()) < MIB


def test_an_empty_file_has_nothing_cached(root: Path) -> None:
    """mmap refuses to map nothing."""
    with (root / "empty").open("wb+") as file:
        assert resident_bytes(file.fileno()) == 0


def test_a_tape_is_a_prime_number_of_pages() -> None:
    """Only then do files and strides of powers of two spread over all of it."""
    page = os.sysconf("SC_PAGE_SIZE")
    with Tape(65536 * page) as tape:
        assert tape.size_bytes == 65521 * page
    with Tape(4 * page, span_bytes=1 << 20) as tape:
        assert tape.size_bytes == 3 * page


def test_a_tape_compares_and_repeats_itself() -> None:
    """The same seed is the same payload, on any machine."""
    with Tape(1 << 20, seed=3) as one, Tape(1 << 20, seed=3) as two:
        data = one.read(9, 12345, 2 << 20)
        assert two.compare(9, 12345, data) == 0
        assert two.compare(9, 12346, data) > 1 << 20
        assert two.compare(-1, 0, bytes(100)) == 0
        changed = bytearray(data)
        changed[-1] ^= 1
        assert two.compare(9, 12345, bytes(changed)) == 1


def test_the_payload_does_not_compress() -> None:
    """Storage that compresses must not look faster than it is."""
    import zlib

    with Tape(1 << 20) as tape:
        data = tape.read(0, 0, 1 << 20)
    assert len(zlib.compress(data, 1)) > len(data)


def test_a_tape_that_does_not_fit_says_what_to_do() -> None:
    """Not a crash, and not a bus error in the middle of a run."""
    with pytest.raises(ReplayError, match="ask for less"):
        Tape(0)


def test_a_closed_tape_is_not_used(executor: Executor, tmp_path: Path) -> None:
    """Its memory is gone."""
    tape = Tape(1 << 20)
    tape.close()
    tape.close()
    with pytest.raises(ValueError, match="closed"):
        run(executor, JobBuilder().build(), tape, tmp_path)


def test_a_tape_is_shared_with_forked_workers() -> None:
    """Eight ranks on a host need one tape, not eight."""
    with Tape(1 << 20, seed=5) as tape:
        expected = tape.read(1, 0, 4096)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, tape.read(1, 0, 4096))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 4096) == expected
        os.close(reading)
        os.close(writing)
