"""Every variant of libc's file functions, against what the kernel saw."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .preload_job import (
    LIBRARY,
    Captured,
    capture,
    compile_program,
    moved_by_capture,
    moved_by_strace,
)

FORTIFY = ("-O2", "-D_FORTIFY_SOURCE=2")
GROUPS = ("write.", "read.", "open.", "duplicate.", "closed.")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Return one captured run of the table of variants."""
    folder = tmp_path_factory.mktemp("variants")
    (folder / "files").mkdir()
    program = compile_program(folder, "variants.c", *FORTIFY)
    result = capture([program, folder / "files"], folder / "logs")
    assert result.done.returncode == 0, result.done.stderr
    return result


@pytest.mark.parametrize("flags", [("-O0",), FORTIFY], ids=["plain", "fortified"])
def test_each_variant_is_recorded_as_the_kernel_saw_it(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """One variant that is missed leaves a hole in the checkpoint that nothing else shows."""
    program = compile_program(tmp_path, "variants.c", *flags)
    for name in ("captured", "straced"):
        (tmp_path / name).mkdir()
    captured = capture([program, tmp_path / "captured"], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    seen = moved_by_capture(captured)
    oracle = moved_by_strace([program, tmp_path / "straced"], tmp_path / "strace.log")
    expected = {key: moved for key, moved in oracle.items() if key[0].startswith(GROUPS)}
    assert len(expected) > 70
    assert {key: moved for key, moved in seen.items() if key[0].startswith(GROUPS)} == expected


def test_an_append_is_recorded_where_it_went(captured: Captured) -> None:
    """The kernel ignores position and argument of a write to a file open for append."""
    writes = captured.of("append.open", "write")
    assert [(w.offset, w.result) for w in writes] == [(0, 100), (100, 50), (150, 25), (175, 5)]
    assert {w.offset_source for w in writes} == {"queried", "end"}  # of the position, or the size
    switched = captured.of("append.setfl", "write")
    assert [(w.offset, w.result) for w in switched] == [(0, 100), (100, 50), (10, 50)]


def test_a_write_may_append_or_not_by_its_own_flags(tmp_path: Path) -> None:
    """RWF_APPEND and RWF_NOAPPEND come before what the file was opened for."""
    job = f"""
import os
plain = os.open({str(tmp_path / "plain")!r}, os.O_RDWR | os.O_CREAT)
end = os.open({str(tmp_path / "end")!r}, os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(plain, b"a" * 100)
os.lseek(plain, 200, os.SEEK_SET)
os.pwritev(plain, [b"b" * 50], 0, os.RWF_APPEND)
os.write(plain, b"c" * 10)
os.pwritev(plain, [b"d" * 30], -1, os.RWF_APPEND)
os.write(plain, b"e" * 20)
os.write(end, b"f" * 100)
try:
    os.pwritev(end, [b"g" * 50], 300, 0x20)
except OSError:
    pass  # before Linux 6.9
os.pwritev(end, [b"h" * 70], 0, os.RWF_APPEND)
"""
    captured = capture([sys.executable, "-c", job], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    writes = captured.of("plain", "write")
    assert [(w.offset, w.result) for w in writes] == [
        (0, 100), (100, 50), (200, 10), (210, 30), (240, 20)
    ]  # fmt: skip
    for write in (*writes, *captured.of("end", "write")):
        if write.result > 0:
            content = (tmp_path / write.name).read_bytes()
            written = content[write.offset : write.offset + write.result]
            assert len(set(written)) == 1 and content.count(written) == 1


def test_bytes_moved_between_files_are_a_read_and_a_write(captured: Captured) -> None:
    """copy_file_range and its kind carry checkpoint bytes without a buffer of the job."""
    reads = [(r.offset, r.result) for r in captured.of("between.from", "read")]
    assert reads == [(100, 500), (0, 300), (1000, 400), (300, 200), (500, 1000)]
    writes = [(w.offset, w.result) for w in captured.of("between.to", "write")]
    assert writes == [(200, 500), (0, 300), (5000, 1000)]
    sent = [(w.offset, w.result) for w in captured.of("between.sent", "write")]
    assert sent == [(0, 400), (400, 200)]


def test_sizes_and_advice_are_recorded(captured: Captured) -> None:
    """A replay must preallocate and truncate where the job did."""
    truncates = captured.of("size.fd", "truncate")
    assert [(t.length, t.result) for t in truncates] == [(1000, 0), (2000, 0)]
    by_path = [t for t in captured.requests("truncate") if t.file == 0]
    assert [(t.length, Path(t.text.decode()).name) for t in by_path] == [
        (500, "size.fd"),
        (600, "size.fd"),
    ]
    allocated = captured.of("size.fd", "allocate")
    assert [(a.flags, a.offset, a.length) for a in allocated] == [
        (0, 0, 4096),
        (1, 4096, 4096),
        (0, 0, 8192),
        (0, 8192, 4096),
    ]
    assert [(a.flags, a.length) for a in captured.of("size.fd", "advise")] == [(2, 4096), (4, 4096)]


def test_syncs_and_mappings_are_recorded(captured: Captured) -> None:
    """Durability points decide what a checkpoint costs; mapped loads have no reads."""
    syncs = captured.of("sync.fd", "sync")
    assert [(s.flags, s.offset, s.length) for s in syncs] == [
        (0, -1, -1),
        (1, -1, -1),
        (2, 4096, 4096),
        (4, -1, -1),
        (3, 4096, 4096),
    ]
    assert all(s.result == 0 and s.end_ns > s.start_ns for s in syncs)
    for op in ("map", "unmap"):
        extents = [(m.offset, m.length) for m in captured.of("sync.fd", op)]
        assert extents == [(0, 8192), (4096, 4096)]
    assert [(a.flags, a.length) for a in captured.of("sync.fd", "advise")] == [(3, 4096), (2, 8192)]


def test_names_are_recorded_with_the_inode_they_named(captured: Captured) -> None:
    """Only the inode tells that the file that was renamed is the one that was written."""
    records = captured.requests("link", "rename", "unlink", "mkdir", "rmdir")
    steps = [
        (r.op, [Path(part.decode()).name.partition("-")[0] for part in r.text.split(b"\0")])
        for r in records
        if r.result == 0
    ]
    assert steps == [
        ("link", ["name.a", "name.b"]),
        ("link", ["name.a", "name.c"]),
        ("rename", ["name.a", "name.d"]),
        ("rename", ["name.b", "name.e"]),
        ("rename", ["name.c", "name.f"]),
        ("unlink", ["name.d"]),
        ("unlink", ["name.e"]),
        ("unlink", ["name.f"]),
        ("mkdir", ["name.folder"]),
        ("mkdir", ["name.folder2"]),
        ("rmdir", ["name.folder"]),
        ("rmdir", ["name.folder2"]),
        ("mkdir", ["name.temporary"]),
        ("rmdir", ["name.temporary"]),
    ]
    inodes = {(r.offset, r.length) for r in records if r.op in ("link", "rename", "unlink")}
    assert len(inodes - {(0, 0)}) == 1
    assert all(part.startswith(b"/") for r in records for part in r.text.split(b"\0"))


def test_look_ups_are_requests(captured: Captured) -> None:
    """Each is a round trip on a network file system, and loaders make thousands."""
    by_path = [r for r in captured.requests("stat", "getxattr") if not r.file]
    assert {Path(r.text.decode()).name for r in by_path} == {"stat.file"}
    assert [r.op for r in by_path] == ["stat"] * 10 + ["getxattr"] * 2
    by_descriptor = captured.of("stat.file", "stat", "getxattr", "advise")
    assert [r.op for r in by_descriptor] == ["stat"] * 3 + ["getxattr", "advise"]
    assert {r.result for r in by_path} <= {0, -errno.ENODATA, -errno.EOPNOTSUPP}


def test_what_failed_is_recorded_with_its_error(captured: Captured) -> None:
    """A replay must not do what the job did not manage to do."""
    (rename,) = [r for r in captured.requests("rename") if r.result < 0]
    (opened,) = [r for r in captured.requests("open") if r.result < 0]
    assert (rename.result, opened.result) == (-2, -2)
    assert opened.text.endswith(b"/name.missing/x")


def test_closing_many_descriptors_closes_each_file(captured: Captured) -> None:
    """A descriptor number is used again at once; a stale entry would mix two files up."""
    names = ("closed.first", "closed.second", "closed.third")
    assert [len(captured.of(name, "close")) for name in names] == [1, 1, 1]
    assert [w.result for w in captured.of("closed.third", "write")] == [77]


VARIANTS = re.compile(
    r"(__)?(open(at)?|creat)(64)?(_2)?|openat2|(__)?p?(read|write)v?(64)?(v2)?(_chk)?|__p?read(64)?_chk"
    r"|(__)?lseek(64)?|(__)?dup[23]?|(__)?fcntl(64)?|(__)?close(_range|from)?|f?truncate(64)?"
    r"|(posix_)?fallocate(64)?|posix_fadvise(64)?|mko?stemps?(64)?|mkdtemp|rename(at2?)?"
    r"|(un)?link(at)?|mkdir(at)?|rmdir|remove|mmap(64)?|munmap|(posix_)?madvise|msync"
    r"|f(data)?sync|sync(fs|_file_range)?|copy_file_range|sendfile(64)?|sendm?msg|splice"
    r"|f(re|d)?open(64)?|fclose|f(write|read)(_unlocked)?|__fread(_unlocked)?_chk|fflush(_unlocked)?"
    r"|fseeko?(64)?|rewind|fsetpos(64)?|fputs|_[Ee]xit|f?exec(l|v|ve|le|lp|vp|vpe|veat)"
    r"|posix_spawnp?|[lf]?stat(64)?|fstatat(64)?|statx|__[lf]?xstat(at)?(64)?|[lf]?getxattr|readahead"
    # stdio: all that reads, writes, flushes; those on strings (s*, as*, obstack_*) move no bytes
    r"|f?put[cs](_unlocked)?|putc?w?c(har)?(_unlocked)?|fputw[cs](_unlocked)?|puts|putw|__overflow"
    r"|(__)?v?[fd]?printf(_chk)?|(__)?v?f?wprintf(_chk)?|__w?(over|u|under)flow"
    r"|f?getc(_unlocked)?|getchar(_unlocked)?|f?getwc(_unlocked)?|getwchar(_unlocked)?|getw|getline"
    r"|(__)?getdelim|(__)?(f?gets|fgetws)(_unlocked)?(_chk)?|(__isoc\d\d_|__)?v?f?w?scanf"
    r"|_IO_(fopen|fdopen|fclose|fwrite|fread|fputs|fgets|puts|gets|putc|getc|v?f?printf|fflush|sgetn)"
    r"|setv?buf(fer)?|setlinebuf|_flushlbf|pclose|endmntent|perror|psignal|v?(warn|err)x?"
)
# glibc keeps this one for old C++ programs, which linked it statically.
UNUSED = {"_IO_vfscanf"}


def exported(library: str | Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    symbols = (line.split()[-1] for line in listing.splitlines())
    # `name@VERSION` is kept for old programs and hidden from new ones; `@@` is the default.
    return {s.partition("@")[0] for s in symbols if "@" not in s or "@@" in s}


def test_no_variant_that_this_libc_exports_is_missed() -> None:
    """A newer libc may bring a new name for an old call."""
    maps = Path("/proc/self/maps").read_text()
    libc = re.search(r"/\S*/libc\.so\.6|/\S*/libc-2\S*\.so", maps)
    assert libc, "this Python does not use glibc"
    wanted = {name for name in exported(libc[0]) if VARIANTS.fullmatch(name)}
    assert len(wanted) > 100
    assert wanted - exported(LIBRARY) - UNUSED == set()


def test_the_library_loads_on_old_systems() -> None:
    """A symbol version that a job's libc lacks would kill each of its processes at start."""
    listing = subprocess.run(
        ["readelf", "--version-info", str(LIBRARY)], check=True, capture_output=True, text=True
    ).stdout
    versions = {
        tuple(int(part) for part in version.split("."))
        for version in re.findall(r"GLIBC_([\d.]+)", listing)
    }
    assert max(versions) <= (2, 17)
