"""What another tool's record hides: mapped memory, rings, what was not followed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrace.traces.formats import darshan, dftracer, recorder, strace
from iotrace.traces.mapped import mapped_unseen
from iotrace.traces.sharing.clean_metadata import NOTES
from tests.tools.command import iotrace

SAMPLES = Path(__file__).parent / "samples"
LOAD = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 100)
with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as loaded:
    sum(loaded[::4096])
"""
OPEN = 'openat(AT_FDCWD, "/d/a", {flags}) = 3\n'
MAP = "mmap(NULL, {length}, {protection}, {kind}, 3, {offset}) = 0x7f0000000000\n"


def log_of(folder: Path, text: str) -> Path:
    """Return the path of a log."""
    path = folder / "job.log"
    path.write_text(text)
    return path


def test_a_mapped_load_is_incomplete_as_a_capture_of_it_is(tmp_path: Path) -> None:
    """100 bytes are read of 1 MiB: import, check and show say what was mapped."""
    big, log, out = (tmp_path / name for name in ("big.bin", "mm.log", "mm.parquet"))
    big.write_bytes(b"x" * (1 << 20))
    subprocess.run(
        ["strace", "-f", "-ttt", "-T", "-o", log, sys.executable, "-S", "-c", LOAD, big], check=True
    )
    said = "1 MiB of 1 file were mapped into memory for reading; what was read of them from"
    done = iotrace("convert", log, out)
    assert said in done.stderr
    checked = iotrace("check", out, "--strict")
    assert checked.returncode == 1
    shown = iotrace("show", out)
    assert all(said in " ".join(text.split()) for text in (checked.stdout, shown.stdout))
    told = json.loads(iotrace("show", out, "--json", "-").stdout)
    (note,) = told["completeness"]["notes"]
    assert NOTES.fullmatch(note)  # and so it is said of a shared trace too


@pytest.mark.parametrize(
    ("opened", "maps", "expected"),
    [
        ("O_RDONLY", [(0, 8192, "PROT_READ|PROT_WRITE", "MAP_PRIVATE")], ["8 KiB", "reading"]),
        ("O_RDWR", [(0, 8192, "PROT_READ|PROT_WRITE", "MAP_SHARED")], ["8 KiB", "writing"]),
        (
            "O_RDONLY",
            [(0, 8192, "PROT_READ", "MAP_SHARED"), (4096, 8192, "PROT_READ", "MAP_SHARED")],
            ["12 KiB", "reading"],
        ),
        ("O_RDONLY", [], []),
    ],
)
def test_mapped_bytes_count_once_and_by_what_may_be_done(
    opened: str, maps: Sequence[tuple[int, int, str, str]], expected: list[str], tmp_path: Path
) -> None:
    """A private mapping changes no file."""
    text = OPEN.format(flags=opened) + "".join(
        MAP.format(offset=offset, length=length, protection=protection, kind=kind)
        for offset, length, protection, kind in maps
    )
    notes = list(mapped_unseen(strace.read(log_of(tmp_path, text))))
    assert len(notes) == bool(expected)
    assert all(word in note for note in notes for word in expected)


def test_a_file_that_the_process_wrote_before_is_mapped_for_reading(tmp_path: Path) -> None:
    """As torch.load(mmap=True) does: what counts is how it was opened last."""
    text = OPEN.format(flags="O_WRONLY|O_CREAT") + "close(3) = 0\n" + OPEN.format(flags="O_RDONLY")
    text += MAP.format(offset=0, length=8192, protection="PROT_READ|PROT_WRITE", kind="MAP_PRIVATE")
    notes = list(mapped_unseen(strace.read(log_of(tmp_path, text))))
    assert [("reading" in note, "writing" in note) for note in notes] == [(True, False)]


def test_what_strace_was_not_asked_to_show_is_said(tmp_path: Path) -> None:
    """Children without -f, maps left out by -e, rings that submit by themselves."""
    text = (
        'execve("/bin/a", ["a"], 0x7 /* 1 var */) = 0\n'
        + OPEN.format(flags="O_RDONLY")
        + "io_uring_setup(8, {flags=IORING_SETUP_SQPOLL}) = 4\n"
        + "io_uring_setup(8, {flags=0}) = -1 ENOSYS (Function not implemented)\n"
        + "clone(child_stack=NULL, flags=SIGCHLD) = 99\n"
    )
    notes = " ".join(strace.read(log_of(tmp_path, text)).metadata.completeness.notes)
    assert "1 task (process or thread) begun and not followed (strace -f)" in notes
    assert "no mmap (left out by -e?)" in notes
    assert "1 call of io_uring_setup" in notes


def test_a_splice_between_files_moves_their_bytes(tmp_path: Path) -> None:
    """From a file into a pipe, what is read of the file."""
    text = OPEN.format(flags="O_RDONLY") + "splice(3, [4096], 7<pipe:[1]>, NULL, 8192, 0) = 8192\n"
    trace = strace.read(log_of(tmp_path, text))
    assert trace.strings("op") == ["open", "read"]
    assert (trace.ints("offset")[1], trace.ints("result")[1]) == (4096, 8192)


def test_tools_that_never_show_mapped_memory_say_so(tmp_path: Path) -> None:
    """Nothing in their logs tells whether there was any."""
    dxt = log_of(
        tmp_path,
        "# darshan log version: 3.41\n# DXT, file_id: 1, file_name: /d/a\n"
        "# DXT, rank: 0, hostname: n1\n X_POSIX 0 read 0 0 10 0.0001 0.0002\n",
    )
    for trace in (
        dftracer.read(SAMPLES / "dftracer-2.2.0.pfw"),
        recorder.read(SAMPLES / "recorder-2"),
        darshan.read_text(dxt),
    ):
        notes = " ".join(trace.metadata.completeness.notes)
        assert "mapped memory, io_uring or libaio" in notes
