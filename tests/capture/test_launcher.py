"""Starting a job: it must not be able to tell, and neither must its caller."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.capture.launcher import FORWARDED, run
from iotrace.capture.preload import job_environment, library_path, preloadable
from iotrace.capture.rawdir import make_raw_dir, remove_raw_dir, write_command
from iotrace.capture.scope import Scope
from iotrace.traces.errors import CaptureError

SH = Path("/bin/sh")


def sh(script: str) -> int:
    """Run a shell script under the launcher and return its status."""
    return run(SH, ["sh", "-c", script], os.environ)


@pytest.mark.parametrize(
    "script", ["exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "exit 255"]
)
def test_the_status_is_the_one_a_shell_shows(script: str) -> None:
    """Batch systems and scripts decide by it."""
    bare = subprocess.run(
        ["sh", "-c", f"sh -c '{script}'; echo $?"], capture_output=True, text=True
    )
    assert sh(script) == int(bare.stdout.split()[-1])


LAUNCHER = """
    import os, sys
    from pathlib import Path
    from iotrace.capture.launcher import run
    sys.exit(run(Path(sys.executable), [sys.executable, "-c", sys.argv[1]], os.environ))
"""


@contextmanager
def launched(job: str, **popen: object) -> Iterator[subprocess.Popen[str]]:
    """Start a launcher of a Python job in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(LAUNCHER), textwrap.dedent(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **popen) as launcher:  # type: ignore[call-overload]
        try:
            yield launcher
        finally:
            launcher.kill()


COUNT_SIGNALS = """
    import signal, time
    seen = []
    def note(number, frame):
        seen.append(number)
    for number in {signals}:
        signal.signal(number, note)
    print("ready", flush=True)
    end = time.monotonic() + 20
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)
    print(*seen, flush=True)
"""


@pytest.mark.parametrize("number", sorted(FORWARDED))
def test_a_signal_sent_to_the_launcher_reaches_the_job_once(number: signal.Signals) -> None:
    """A batch system warns the process it started, and that is the launcher."""
    job = COUNT_SIGNALS.format(signals=[int(number)])
    with launched(job, start_new_session=True) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        launcher.send_signal(number)
        assert launcher.stdout.readline() == f"{int(number)}\n"
        assert launcher.wait() == 0


def test_ctrl_c_at_the_terminal_reaches_the_job_once() -> None:
    """The terminal signals the whole group; a second interrupt would break off a clean-up."""
    pid, terminal = pty.fork()
    if pid == 0:
        job = textwrap.dedent(COUNT_SIGNALS.format(signals=[int(signal.SIGINT)]))
        os.execv(sys.executable, [sys.executable, "-c", textwrap.dedent(LAUNCHER), job])
    output = read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    output = read_until(terminal, b"2\r\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert output.replace(b"^C", b"").split() == [b"2"]


def read_until(terminal: int, end: bytes) -> bytes:
    """Return what a terminal shows up to some bytes."""
    shown = b""
    deadline = time.monotonic() + 30
    while end not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096)
    assert end in shown, shown
    return shown


def test_a_job_ended_by_a_forwarded_signal_says_so() -> None:
    """128 + 15, as a shell shows it."""
    with launched("print('ready', flush=True); import time; time.sleep(30)") as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait() == 128 + signal.SIGTERM


INSPECT = """
    import os
    masks = dict(line.split() for line in open("/proc/self/status") if line.startswith("Sig"))
    for name in ("SigBlk:", "SigIgn:", "SigCgt:"):
        print(name, int(masks[name], 16) & 0x7fffffff)  # without the C library's own two
    print(os.getpgrp() == os.getpgid(os.getppid()), sorted(os.listdir("/proc/self/fd")))
"""


def test_signals_and_descriptors_are_as_without_the_launcher() -> None:
    """Blocked signals would be inherited, and so would open files."""
    with launched(INSPECT) as launcher:
        seen, _ = launcher.communicate()
    bare = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INSPECT)], capture_output=True, text=True, check=True
    )
    assert seen == bare.stdout


def test_an_inherited_descriptor_stays_open() -> None:
    """`make -j` and shells pass descriptors on."""
    read_end, write_end = os.pipe()
    job = f"import os; os.write({write_end}, b'here')"
    with launched(job, pass_fds=[write_end]) as launcher:
        assert launcher.wait() == 0
    os.close(write_end)
    assert os.read(read_end, 10) == b"here"
    os.close(read_end)


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from iotrace.capture.launcher import run
os.setresuid(*[65534] * 3)
sys.exit(run(Path(sys.argv[1]), sys.argv[1:], os.environ))
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_a_signal_that_may_not_be_passed_on_does_not_end_the_capture() -> None:
    """As of `sudo`: the job goes on, and its raw logs must not be removed under it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        sudo = shutil.copy(shutil.which("setpriv") or "", folder)
        os.chmod(sudo, 0o4755)
        job = ["--reuid=0", "sh", "-c", "id -ru; sleep 0.3; exit 7"]
        command = [sys.executable, "-c", AS_ANOTHER_USER, sudo, *job]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
            assert launcher.stdout is not None
            if launcher.stdout.readline() != "0\n":
                pytest.skip("programs gain no rights here")
            launcher.send_signal(signal.SIGTERM)
            assert launcher.wait() == 7


def test_the_end_of_a_grandchild_is_not_the_end_of_the_job() -> None:
    """Orphans come and go; only the first process counts."""
    started = time.monotonic()
    assert sh("(sleep 0.01 &) ; sleep 0.3; exit 3") == 3
    assert time.monotonic() - started > 0.25


def test_the_launcher_works_beside_other_threads() -> None:
    """numpy starts threads, and the kernel interrupts any of them for a signal."""
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert [sh("exit 3") for _ in range(20)] == [3] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_launcher_does_not_wait_for_daemons() -> None:
    """A metrics daemon would keep the capture from ending."""
    started = time.monotonic()
    assert sh("sleep 60 & exit 0") == 0
    assert time.monotonic() - started < 50


def test_only_known_variables_are_added(tmp_path: Path) -> None:
    """Anything else in the environment is the job's own."""
    stale = {"IOTRACE_INCLUDE": "old", "LD_PRELOAD": "/x/libother.so", "A": "b"}
    environ = job_environment(stale, str(library_path()), tmp_path, Scope(include=()))
    assert environ["LD_PRELOAD"] == f"{library_path()}:/x/libother.so"
    assert environ["A"] == "b"
    assert "IOTRACE_INCLUDE" not in environ
    added = {name for name in environ if name not in stale} - {"IOTRACE_STANDARD"}
    assert added == {"IOTRACE_LOG_DIR", "IOTRACE_HOOKS", "IOTRACE_SYSTEM"}


@pytest.mark.parametrize("name", ["with space", "a:b", "$ORIGIN"])
def test_a_library_with_an_awkward_path_is_preloaded_through_a_link(
    tmp_path: Path, name: str
) -> None:
    """The dynamic loader splits the variable at spaces and colons; the link does not stay."""
    folder = tmp_path / name
    folder.mkdir()
    library = folder / library_path().name
    library.write_bytes(library_path().read_bytes())
    with preloadable(library) as link:
        assert Path(link).resolve() == library
        environ = os.environ | {"LD_PRELOAD": link}
        maps = subprocess.run(
            ["cat", "/proc/self/maps"], env=environ, capture_output=True, text=True
        )
    assert library.name in maps.stdout
    assert maps.stderr == ""
    assert not Path(link).parent.exists()


def test_a_library_with_a_plain_path_needs_no_link() -> None:
    """Nothing is made, nothing is removed."""
    with preloadable(library_path()) as link:
        assert link == str(library_path())
    assert library_path().is_file()


def test_the_raw_log_folder_is_made_and_removed(tmp_path: Path) -> None:
    """Nothing stays behind; and nothing of others is removed."""
    raw_dir, notes = make_raw_dir(tmp_path / "deep" / "raw")
    write_command(raw_dir, ["x"])
    (raw_dir / "1-1-a.raw").touch()
    assert notes == []
    remove_raw_dir(raw_dir)
    assert not raw_dir.exists()
    raw_dir.mkdir()
    (raw_dir / "thesis.tex").touch()
    remove_raw_dir(raw_dir)
    assert [path.name for path in raw_dir.iterdir()] == ["thesis.tex"]


def test_logs_of_an_earlier_capture_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    """They are all that is left of a killed run."""
    (tmp_path / "1-1-a.raw").touch()
    with pytest.raises(CaptureError, match="iotrace recover"):
        make_raw_dir(tmp_path)


def test_logs_go_elsewhere_where_files_cannot_be_mapped(tmp_path: Path) -> None:
    """Some network file systems have no shared mappings; /proc refuses to hold a folder at all."""
    raw_dir, notes = make_raw_dir(Path("/proc/raw"))
    assert raw_dir.is_dir()
    assert str(raw_dir) in notes[0]
    remove_raw_dir(raw_dir)
    assert not raw_dir.exists()
