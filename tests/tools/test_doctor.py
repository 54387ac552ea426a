"""`iotrace doctor` on the machine that runs the tests."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.replay.target import Target
from iotrace.tools.checkup import Status, check_direct, check_file_system, check_io_uring
from iotrace.tools.selftest import check_hook
from iotrace.traces.metadata import Mount

from .command import assert_fits, assert_one_line_error, iotrace

ROOT = Path(__file__).parents[2]
NAMES = [
    *("Python", "kernel", "io_uring", "file system", "O_DIRECT", "cold reads", "memlock"),
    *("shared memory", "preload library", "torch.save hook"),
]


def test_every_check_is_made_and_none_fails_here(tmp_path: Path) -> None:
    """The machine that runs the tests can capture and replay; the hook's proof is by bytes."""
    done = iotrace("doctor", "--root", tmp_path, "--json", "-")
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert [check["name"] for check in found["checks"]] == NAMES
    hook = found["checks"][-1]
    assert (hook["status"], "every byte of 3 tensors" in hook["detail"]) == ("ok", True)
    assert list(tmp_path.iterdir()) == []


def test_the_findings_fit_the_screen(tmp_path: Path) -> None:
    """One line per check, wrapped under itself."""
    done = iotrace("doctor", "--root", tmp_path)
    assert_fits(done.stdout)
    assert all(name in done.stdout for name in NAMES)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """As by every verb."""
    assert_one_line_error(iotrace("doctor", "--root", tmp_path / "none"), 2, "none", "--root")


def test_an_interpreter_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A typo must not be reported as a missing torch."""
    done = iotrace("doctor", "--root", tmp_path, "--python", "no-such-python")
    assert_one_line_error(done, 2, "no-such-python", "--python")


@pytest.fixture
def python_without_torch(tmp_path: Path) -> str:
    """An interpreter whose `import torch` fails."""
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_a_job_without_torch_is_no_failure(python_without_torch: str) -> None:
    """Requests are captured all the same; the user learns how to name another interpreter."""
    check = check_hook(python_without_torch)
    assert check.status is Status.NOTE
    assert "--python" in check.remedy


def test_a_clone_beside_the_user_is_not_the_package(tmp_path: Path) -> None:
    """Who has just cloned and installed stands there; nothing is built in the clone."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "corpus")
    for folder in ("capture", "replay", "tools", "traces"):
        shutil.copytree(ROOT / folder, tmp_path / "iotrace" / folder, ignore=ignored)
    done = iotrace("doctor", "--json", "-", cwd=tmp_path)
    hook = json.loads(done.stdout)["checks"][-1]
    assert (hook["status"], hook["name"]) == ("ok", "torch.save hook"), hook


def test_a_hook_that_does_not_bind_is_a_failure(tmp_path: Path) -> None:
    """A torch whose save the hook cannot see must not pass for one that it can."""
    (tmp_path / "torch.py").write_text(
        "float32 = int64 = uint8 = None\n"
        "__version__ = '0.0'\n"
        "class T(int):\n"
        "    def __mod__(self, other): return self\n"
        "    def to(self, kind): return self\n"
        "def arange(count, dtype=None): return T(count)\n"
        "def save(state, path): open(path, 'wb').write(bytes(100))\n"
    )
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    check = check_hook(str(script))
    assert check.status is Status.FAIL
    assert "not located" in check.detail
    assert "--layer request" in check.remedy


def test_memory_file_systems_are_noted() -> None:
    """Figures from tmpfs are the commonest mistake of a first benchmark."""
    check = check_file_system(Path("/dev/shm"), Mount("/dev/shm", file_system="tmpfs"))
    assert check.status is Status.NOTE
    assert "memory" in check.detail


def test_the_cause_of_a_missing_io_uring_is_told() -> None:
    """It is a sysctl, a seccomp filter or an old kernel: each has another remedy."""
    check = check_io_uring("the sysctl kernel.io_uring_disabled is 2", "2.3")
    assert check.status is Status.NOTE
    assert "io_uring_disabled" in check.detail
    assert "posix" in check.remedy


@pytest.mark.parametrize(
    ("refusal", "effective", "status"),
    [(None, True, Status.OK), (None, False, Status.NOTE), ("EINVAL", False, Status.NOTE)],
)
def test_direct_io_counts_only_if_it_stays_out_of_the_cache(
    refusal: str | None, effective: bool, status: Status
) -> None:
    """Some file systems accept O_DIRECT and buffer all the same."""
    assert check_direct(Target("ext4", 512, refusal, effective, None, True)).status is status


def test_the_self_test_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint and trace are temporary."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = iotrace("doctor", "--root", tmp_path)
    assert done.returncode == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("options", "error"), [("ro", errno.EROFS), ("size=64k", errno.ENOSPC)])
def test_a_folder_that_takes_no_file_fails_a_check_and_no_other(
    tmp_path: Path, options: str, error: int
) -> None:
    """What else works here is still worth knowing."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        done = iotrace("doctor", "--root", folder, "--json", "-")
    finally:
        subprocess.run(["umount", folder], check=True)
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert [check["name"] for check in found["checks"]] == NAMES
    (failed,) = (check for check in found["checks"] if check["status"] == "fail")
    assert failed["name"] == "file system"
    assert os.strerror(error) in failed["detail"]
    assert "--root" in failed["remedy"]
