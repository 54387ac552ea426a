"""The loop's C under the address, undefined-behaviour and thread sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "replay" / "csrc"
PROGRAMS = Path(__file__).parent / "csrc"
CHECK = Path(__file__).parents[1] / "capture" / "csrc"  # has check.h


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    ("name", "sanitizers"),
    [
        ("test_loop", "address,undefined"),
        ("test_loop", "thread"),
        ("test_transfer", "address,undefined"),
    ],
)
def test_the_loop_is_clean_under_sanitizers(tmp_path: Path, name: str, sanitizers: str) -> None:
    """C that is handed a stranger's trace must not be trusted by reading it."""
    program = tmp_path / name
    sources = [PROGRAMS / f"{name}.c", *sorted(CSRC.glob("*.c"))]
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"]
    flags.append(f"-I{CHECK}")
    sanitize = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    subprocess.run(
        ["gcc", *flags, *sanitize, *sources, "-luring", "-lpthread", "-o", program], check=True
    )
    root = tmp_path / "root"
    root.mkdir()
    # The thread sanitizer of gcc 12 cannot place its shadow where newer kernels randomize more.
    still = ["setarch", "-R"] if sanitizers == "thread" and shutil.which("setarch") else []
    done = subprocess.run([*still, program, root], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
