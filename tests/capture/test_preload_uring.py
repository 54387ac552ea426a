"""io_uring under capture: each request as the program and the kernel saw it."""

import os
import re
import subprocess
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from iotrace.capture.collector import collect

from .preload_job import (
    PYTHON,
    Captured,
    capture,
    capture_environment,
    compile_program,
    read_raw_log,
)
from .uring_job import assert_all_accounted, asynchronous, lines, run

# What the kernel calls the requests of csrc/uring.c.
KERNEL_OPS = {
    "READ": "read",
    "READV": "read",
    "READ_FIXED": "read",
    "WRITE": "write",
    "WRITEV": "write",
    "WRITE_FIXED": "write",
    "FSYNC": "sync",
    "SYNC_FILE_RANGE": "sync",
    "FALLOCATE": "allocate",
    "FADVISE": "advise",
}
SUBMITTED = re.compile(
    r"(?P<time>\d+\.\d+): io_uring_submit_req: .*req (?P<req>\w+),.*opcode (?P<opcode>\w+)"
)
COMPLETED = re.compile(
    r"(?P<time>\d+\.\d+): io_uring_complete: .*req (?P<req>\w+),.*result (?P<result>-?\d+)"
)
# In a mount namespace of its own: nothing is left mounted, and the trace is of this job alone.
UNDER_TRACEPOINTS = """
mount -t tracefs none /sys/kernel/tracing || exit 77
cd /sys/kernel/tracing
mkdir instances/$$ || exit 77
cd instances/$$
echo mono > trace_clock
echo 'comm ~ "uring" || comm ~ "iou-*"' > events/io_uring/filter
for event in io_uring_submit_req io_uring_complete; do
    echo 1 > events/io_uring/$event/enable || exit 77
done
env "$@" > /dev/null
status=$?
cat trace
cd ../..
rmdir instances/$$
exit $status
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every request, by the shared liburing."""
    return compile_program(tmp_path_factory.mktemp("program"), "uring.c", "-O2", "-luring")


@pytest.mark.parametrize("case", ["all", "polled"])
def test_each_request_is_recorded_as_the_program_made_it(
    program: Path, tmp_path: Path, case: str
) -> None:
    """Fast checkpoint engines write through rings; every peer records nothing of that.

    All kinds of requests; the same taken by a thread of the kernel.
    """
    captured = run(program, tmp_path, case)
    requests = asynchronous(captured)
    assert lines(requests) == captured.done.stdout.decode().splitlines()
    assert all(request.end_ns > request.start_ns for request in requests)
    assert_all_accounted(captured)


def test_silent_links_of_one_user_data_end_as_the_kernel_ended_them(
    program: Path, tmp_path: Path
) -> None:
    """All that is told of four writes is one completion: the last has run, or one has failed.

    Which of them has failed is not known, and that is told.
    """
    captured = run(program, tmp_path, "silent")
    assert lines(asynchronous(captured)) == captured.done.stdout.decode().splitlines()
    assert captured.log.header.outside.unmatched_completions == 1
    (file,) = collect(tmp_path / "logs", ["silent"]).metadata.completeness.files
    assert (file.recorded_bytes_written, file.final_size, file.complete) == (1200, 1200, True)


def test_submission_and_completion_are_those_of_the_kernel(program: Path, tmp_path: Path) -> None:
    """The program could be wrong about itself; the kernel's own tracepoints are not."""
    (tmp_path / "files").mkdir()
    (tmp_path / "logs").mkdir()
    settings = [f"{name}={value}" for name, value in capture_environment(tmp_path / "logs").items()]
    command = [*settings, program, tmp_path / "files", "all"]
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", UNDER_TRACEPOINTS, "sh", *command],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if (done.returncode in (1, 77) and os.geteuid() != 0) or done.returncode == 77:
        pytest.skip("the tracepoints of this kernel cannot be used")
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "logs").glob("*.raw")
    requests = asynchronous(Captured(done, (read_raw_log(log),)))  # type: ignore[arg-type]

    opcodes: dict[str, tuple[str, float]] = {}
    submitted, completed = [], []
    for line in done.stdout.splitlines():
        if match := SUBMITTED.search(line):
            op = KERNEL_OPS[match["opcode"]]
            opcodes[match["req"]] = op, float(match["time"]) * 1e9
            submitted.append(op)
        elif match := COMPLETED.search(line):
            op, start_ns = opcodes[match["req"]]
            completed.append((op, int(match["result"]), start_ns, float(match["time"]) * 1e9))
    bad_descriptor = ("read", -9)
    silent_writes = Counter({("write", 200): 2})
    assert Counter(submitted) == Counter(r.op for r in requests) + Counter([bad_descriptor[0]])
    recorded = Counter((r.op, r.result) for r in requests)
    assert Counter((op, result) for op, result, *_ in completed) == (
        recorded + Counter([bad_descriptor]) - silent_writes
    )
    resolution_ns = 2000
    for op, result, start_ns, end_ns in completed:
        if (op, result) != bad_descriptor:
            assert any(
                (r.op, r.result) == (op, result)
                and r.start_ns - resolution_ns <= start_ns
                and end_ns <= r.end_ns + resolution_ns
                for r in requests
            )


def test_files_opened_and_renamed_through_a_ring_are_followed(
    program: Path, tmp_path: Path
) -> None:
    """A descriptor that comes out of a completion must stand for its file at once."""
    captured = run(program, tmp_path, "names")
    steps = [(request.op, request.result) for request in asynchronous(captured)]
    printed = [line.split() for line in captured.done.stdout.decode().splitlines()]
    assert steps == [(line[0], int(line[4])) for line in printed]
    writes = captured.requests("write")
    assert [(w.name, w.api, w.offset, w.result) for w in writes] == [
        ("opened", "posix", 5, 123),
        ("opened2", "io_uring", 0, 11),
        ("reused", "posix", 0, 9),
    ]
    closes = captured.requests("close")
    assert [(c.name, c.api) for c in closes] == [("opened2", "io_uring"), ("opened", "io_uring")]
    assert_all_accounted(captured)

    trace = collect(tmp_path / "logs", ["names"])
    opens = trace.where(trace.row_mask(layer="request", op="open"))
    names = [Path(path or "").name for path in opens.strings("path")]
    files = dict(zip(names, opens.ints("file").tolist(), strict=True))
    assert sorted(files) == ["opened", "opened2", "reused", "x"]
    assert files["x"] == -1
    for op in ("rename", "unlink"):
        rows = trace.where(trace.row_mask(layer="request", op=op))
        assert rows.ints("file").tolist() == [files["opened"]]


def test_a_file_may_be_opened_used_and_closed_in_one_submission(
    program: Path, tmp_path: Path
) -> None:
    """Linked requests name a slot that is empty when they are submitted."""
    captured = run(program, tmp_path, "direct")
    assert [(r.op, r.name, r.result) for r in asynchronous(captured)] == [
        ("open", "direct", 0),
        ("write", "direct", 321),
        ("close", "direct", 0),
    ]
    trace = collect(tmp_path / "logs", ["direct"])
    (file,) = trace.metadata.completeness.files
    assert (file.recorded_bytes_written, file.final_size, file.complete) == (321, 321, True)


def test_rings_and_calls_by_system_call_are_recorded(tmp_path: Path) -> None:
    """Rust and other runtimes use rings, and some files, by libc's syscall() alone."""
    program = compile_program(tmp_path, "uring_raw.c", "-O2")
    (tmp_path / "files").mkdir()
    captured = capture([program, tmp_path / "files"], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    assert lines(asynchronous(captured)) == captured.done.stdout.decode().splitlines()
    calls = [request for request in captured.requests() if request.name in ("calls", "copy")]
    assert [(r.op, r.name, r.offset, r.result) for r in calls] == [
        ("open", "calls", -1, 0),
        ("open", "copy", -1, 0),
        ("write", "calls", 0, 10),
        ("write", "calls", 1000, 20),
        ("write", "calls", 10, 300),
        ("write", "calls", 5000, 300),
        ("read", "calls", 0, 30),
        ("read", "calls", 7, 40),
        ("read", "calls", 30, 50),
        ("write", "copy", 0, 50),
        ("sync", "calls", -1, 0),
        ("truncate", "calls", -1, 0),
        ("close", "calls", -1, 0),
        ("close", "copy", -1, 0),
    ]
    assert [len(captured.requests(op)) for op in ("rename", "unlink")] == [1, 1]
    (log,) = captured.logs
    assert len(log.rows("counter")) > 0, "exit_group() by number is an end, too"
    assert_all_accounted(captured)


def test_a_ring_of_a_library_loaded_by_a_plugin_is_seen(program: Path, tmp_path: Path) -> None:
    """Python loads an extension and its liburing for that extension alone."""
    plugin = tmp_path / "plugin.so"
    source = Path(__file__).parent / "csrc" / "uring.c"
    flags = ["-shared", "-fPIC", "-Dmain=run", "-luring", "-pthread"]
    subprocess.run(["gcc", str(source), "-o", str(plugin), *flags], check=True)
    (tmp_path / "files").mkdir()
    code = textwrap.dedent(f"""
        import ctypes
        plugin = ctypes.CDLL({os.fspath(plugin)!r}, ctypes.RTLD_LOCAL)
        words = [b"uring", {os.fsencode(tmp_path / "files")!r}, b"all"]
        assert plugin.run(3, (ctypes.c_char_p * 4)(*words, None)) == 0
        ctypes.CDLL(None).fflush(None)
    """)
    captured = capture([*PYTHON, code], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    assert lines(asynchronous(captured)) == captured.done.stdout.decode().splitlines()


def test_a_job_that_only_asks_for_liburing_is_told_that_it_is_not_there(tmp_path: Path) -> None:
    """Our names must not make a job believe in a library that it does not have."""
    code = textwrap.dedent("""
        import ctypes, errno
        job = ctypes.CDLL(None)
        assert job.io_uring_submit(None) == -errno.ENOSYS
        assert job.io_submit(None, 0, None) == -errno.ENOSYS
    """)
    captured = capture([*PYTHON, code], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
