"""Which program a command is, and what is told of it before it starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.launcher import run
from iotrace.capture.program import (
    CommandNotExecutableError,
    CommandNotFoundError,
    find_program,
    warnings_about,
)

SH = Path("/bin/sh")


def test_a_command_is_found_as_a_shell_finds_it(tmp_path: Path) -> None:
    """By PATH, unless it has a slash."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "tool").write_text("not to be run")
    search_path = f"{tmp_path}/none:{tmp_path}/first:{tmp_path}"
    assert find_program("tool", search_path) == tool
    assert find_program(str(tool), "") == tool


@pytest.mark.parametrize("name", ["no-such-tool", "/no/such/tool", ""])
def test_a_missing_command_ends_with_127(name: str) -> None:
    """As in a shell; the message says that the job, not the capture, is at fault."""
    with pytest.raises(CommandNotFoundError, match="command not found") as error:
        find_program(name, os.environ["PATH"])
    assert error.value.exit_code == 127


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_command_that_cannot_be_executed_ends_with_126(tmp_path: Path, kind: str) -> None:
    """As in a shell."""
    path = tmp_path / "tool"
    if kind == "file":
        path.write_text("text")
    else:
        path.mkdir()
    with pytest.raises(CommandNotExecutableError) as error:
        find_program(str(path), "")
    assert error.value.exit_code == 126


def test_a_script_without_interpreter_line_is_run_by_sh(tmp_path: Path) -> None:
    """Shells do so."""
    script = tmp_path / "script"
    script.write_text('exit "$1"\n')
    script.chmod(0o755)
    assert run(script, [str(script), "9"], os.environ) == 9


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        ("#!/no/such/interpreter -x", "its first line names /no/such/interpreter, which"),
        ("#!/bin/sh\r", "its first line ends in a carriage return"),
        ("#!/etc", "its first line names /etc, which may not be executed"),
    ],
)
def test_a_script_with_a_bad_interpreter_is_refused(
    tmp_path: Path, first_line: str, words: str
) -> None:
    """The script exists: "no such file" alone would send the user looking for it."""
    script = tmp_path / "script"
    script.write_bytes(first_line.encode() + b"\n")
    script.chmod(0o755)
    with pytest.raises(CommandNotExecutableError, match=re.escape(words)):
        run(script, [str(script)], os.environ)


def test_a_binary_without_its_loader_is_refused(tmp_path: Path) -> None:
    """The file exists, and yet cannot be executed: one for another C library, say."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    binary = tmp_path / "binary"
    loader = "-Wl,--dynamic-linker=/no/such/ld.so"
    subprocess.run(["cc", loader, "-o", binary, tmp_path / "main.c"], check=True)
    with pytest.raises(CommandNotExecutableError, match=r"its loader /no/such/ld\.so"):
        run(binary, [str(binary)], os.environ)


def test_programs_that_cannot_be_watched_are_warned_about(tmp_path: Path) -> None:
    """Without a warning their traces are just empty."""
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    programs = {}
    for name, flags in {"dynamic": [], "static": ["-static"], "pie": ["-static-pie"]}.items():
        programs[name] = tmp_path / name
        subprocess.run(["cc", *flags, "-o", programs[name], source], check=True)
    script = tmp_path / "script"
    script.write_text(f"#!{programs['static']} -x\n")
    assert warnings_about(programs["dynamic"]) == []
    assert warnings_about(Path(sys.executable)) == []
    for program in (programs["static"], programs["pie"], script):
        assert ["linked statically" in text for text in warnings_about(program)] == [True]


@pytest.mark.skipif(os.getuid() != 0, reason="giving a file away needs root")
@pytest.mark.parametrize(("owner", "warned"), [(12345, [True]), (0, [])])
def test_a_program_that_gains_rights_is_warned_about(
    tmp_path: Path, owner: int, warned: list[bool]
) -> None:
    """The system preloads nothing into it; into one that gains nothing it does."""
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    os.chown(program, owner, 0)
    program.chmod(0o4755)
    assert ["privileges" in text for text in warnings_about(program)] == warned
