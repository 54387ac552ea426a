"""The command as a whole: help, version, typos, broken pipes, colours."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
import typer

from iotrace.replay.build import LAYERS
from iotrace.replay.options import ALLOCATIONS, EXECUTORS
from iotrace.replay.schedule import TIMINGS
from iotrace.replay.source import SOURCES
from iotrace.replay.transforms.aggregate import LAYOUTS
from iotrace.tools import cli
from iotrace.tools.panels.run import AllocateName, ExecutorName, SourceName, TimingName
from iotrace.tools.panels.shape import LayerName, LayoutName

from .command import COLUMNS, IOTRACE, assert_fits, assert_one_line_error, iotrace
from .conftest import Make

VERBS = tuple(verb.__name__ for verb in cli.VERBS)


def test_the_version_is_one_line() -> None:
    """Bug reports need it."""
    done = iotrace("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"iotrace \d+\.\d+\.\d+\S*\n", done.stdout)


def test_without_a_verb_the_help_is_shown() -> None:
    """A newcomer types the bare name first."""
    done = iotrace()
    assert "iotrace capture -- python train.py" in done.stdout
    assert all(verb in done.stdout for verb in VERBS)
    assert "error" not in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    """Help that fits the terminal and ends the search for the right option."""
    done = iotrace(verb, "--help")
    assert done.returncode == 0
    assert f"iotrace {verb}" in done.stdout.split("Examples:")[1]
    assert all(len(line) <= COLUMNS for line in done.stdout.splitlines())


def test_every_option_tells_its_default_and_what_it_does() -> None:
    """Users must not have to run the tool to learn what it does unasked."""
    verbs = typer.main.get_command(cli.build_app()).commands
    assert set(verbs) == set(VERBS)
    options = [
        (verb, option)
        for verb, command in verbs.items()
        for option in command.params
        if option.param_type_name == "option"
    ]
    assert len(options) > 30
    for verb, option in options:
        assert option.help, (verb, option.name)
        told = isinstance(option.show_default, str) or option.default is not None
        assert told, (verb, option.name)


def test_a_mistyped_verb_names_the_nearest() -> None:
    """One line, not a page of help."""
    assert_one_line_error(iotrace("replya", "x"), 2, "replya", "'replay'")


def test_a_value_that_is_none_of_those_known_is_refused_in_plain_words() -> None:
    """The parser's own `Value error` says nothing."""
    done = iotrace("replay", "t.parquet", "--executor", "fast")
    assert_one_line_error(done, 2, "--executor", "'io_uring'", "--help")
    assert "Value error" not in done.stderr


def test_a_mistyped_option_names_the_nearest() -> None:
    """The user learns the right name and where the help is."""
    assert_one_line_error(
        iotrace("replay", "t.parquet", "--coalesc"), 2, "--coalesc", "--coalesce", "--help"
    )


def test_a_missing_argument_is_named() -> None:
    """As with every wrong command line: one line, status 2."""
    assert_one_line_error(iotrace("show"), 2, "TRACE")


def test_a_bad_size_says_how_to_write_one() -> None:
    """The value is repeated, so that a shell variable gone wrong is seen."""
    assert_one_line_error(
        iotrace("replay", "t.parquet", "--coalesce-size", "8XB"), 2, "8XB", "8MiB"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("capture", "-o", "-", "--", "touch", "ran"),
        ("convert", "TRACE", "-", "--to", "csv"),
        ("merge", "TRACE", "-o", "-"),
        ("recover", "raw", "-o", "-"),
        ("replay", "TRACE", "-o", "-"),
        ("report", "TRACE", "-o", "-"),
        ("share", "TRACE", "-o", "-"),
        ("sweep", "TRACE", "-o", "-"),
        ("sweep", "TRACE", "-o", "-", "--resume"),
        ("synth", "llama-3-8b", "-o", "-"),
    ],
    ids=" ".join,
)
def test_a_dash_is_no_output_file(
    command: tuple[str, ...], small_trace: Path, tmp_path: Path
) -> None:
    """Traces do not go to stdout, and nobody wants a file of that name."""
    folder = tmp_path / "here"
    folder.mkdir()
    words = [str(small_trace) if word == "TRACE" else word for word in command]
    assert_one_line_error(iotrace(*words, cwd=folder), 2, "an output file is needed", "`-`")
    assert list(folder.iterdir()) == []


def test_a_reader_that_goes_away_ends_the_command_quietly(small_trace: Path) -> None:
    """`iotrace show | head` is everyday use."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [str(IOTRACE), "show", small_trace, "--requests"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode == 141


def test_no_colour_goes_into_a_pipe(tmp_path: Path) -> None:
    """Piped output is read by programs."""
    assert_fits(iotrace("doctor", "--root", tmp_path).stdout)


def on_terminal(*arguments: object, status: int = 0, **environment: str) -> str:
    """What the command prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [str(IOTRACE), *map(str, arguments)]
    base = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=base | environment) as child:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert child.returncode == status
    return shown.decode()


def test_a_terminal_gets_colours_unless_no_color_is_set(make_trace: Make) -> None:
    """https://no-color.org: users who cannot read red can turn it off."""
    trace = make_trace(problem="12 records dropped")
    red = re.compile(r"\x1b\[[\d;]*31m")
    assert red.search(on_terminal("show", trace))
    assert not red.search(on_terminal("show", trace, NO_COLOR="1"))


def test_sentences_are_folded_on_a_terminal_and_whole_in_a_pipe(tmp_path: Path) -> None:
    """Errors, what an export leaves out, gaps of a capture; but no command to copy."""
    job = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 1"
    (tmp_path / "stored").write_bytes(bytes(1 << 20))
    output = ("-o", tmp_path / "t.parquet", "--force")
    capture = ("capture", *output, "--", sys.executable, "-c", job, tmp_path / "stored")
    for given, status, said in (
        (("show", "corpus:none"), 2, "error: the corpus has no trace 'none'"),
        (("check", tmp_path / "empty"), 2, "has no *.parquet files"),
        (("convert", "corpus:dcp", tmp_path / "a.fio", "--force"), 0, "not said by fio: folders"),
        (capture, 0, "INCOMPLETE: "),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        shown = on_terminal(*given, status=status, COLUMNS=str(COLUMNS)).replace("\r\n", "\n")
        for line in shown.splitlines():
            words = line.split()
            assert len(line) <= COLUMNS or len(words) == 1 or "next:" in words, line
        piped = iotrace(*given).stderr
        assert said in piped and said in " ".join(shown.split())
        assert any(len(line) > COLUMNS for line in piped.splitlines())


def test_a_command_in_backticks_is_not_folded(tmp_path: Path) -> None:
    """It can be copied, at a width that would end the line within it too."""
    line = iotrace("show", "none").stderr
    width = line.index(" capture`") + 1
    shown = on_terminal("show", "none", status=2, COLUMNS=str(width)).splitlines()
    assert shown[-1].strip() == "`iotrace capture`"
    assert " ".join(word for line in shown for word in line.split()) == line.strip()


def test_progress_is_drawn_on_a_terminal_and_wiped(small_trace: Path, tmp_path: Path) -> None:
    """What stays on the screen is the result."""
    shown = on_terminal("replay", small_trace, "--root", tmp_path, "--repeat", 2, "--verify")
    assert "verify" in shown
    assert "verify" not in shown[shown.rindex("\x1b[2K") :].split("iotrace: next:")[0]


@pytest.mark.parametrize("verb", ["doctor", "replay", "report", "sweep", "why"])
def test_a_root_that_is_not_there_is_refused(verb: str, small_trace: Path, tmp_path: Path) -> None:
    """Nothing is made of a typing error, and no figure of another storage is shown for it."""
    given = [] if verb == "doctor" else [small_trace]
    done = iotrace(verb, *given, "--root", tmp_path / "none", cwd=tmp_path)
    assert_one_line_error(done, 2, "--root", "none")


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (ExecutorName, EXECUTORS),
        (AllocateName, ALLOCATIONS),
        (SourceName, SOURCES),
        (TimingName, TIMINGS),
        (LayerName, LAYERS),
        (LayoutName, LAYOUTS),
    ],
)
def test_the_choices_are_those_of_the_replay(names: type[StrEnum], known: tuple[str, ...]) -> None:
    assert {name.value for name in names} == set(known)


def test_a_checkpoint_is_checked_by_itself(tmp_path: Path) -> None:
    """What is asked of traces alone is not passed over in silence."""
    empty = tmp_path / "empty.safetensors"
    empty.write_bytes((2).to_bytes(8, "little") + b"{}")
    done = iotrace("check", empty)
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines()[-2:]] == [
        ["index", "whole"],
        ["tensors", "none"],
    ]
    for asked in (("--for", "nfs"), ("--digest",), ("--shared",), ("--strict",)):
        assert_one_line_error(iotrace("check", empty, *asked), 2, asked[0], "is a checkpoint")


def test_a_file_of_zeros_is_told_by_its_name(tmp_path: Path) -> None:
    """A crash left its size; `no Parquet file` would help nobody."""
    (tmp_path / "model.pt").write_bytes(bytes(1 << 20))
    for location in ("model.pt", "."):
        done = iotrace("check", location, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        assert "zeros alone: it was never written" in done.stdout
        assert_fits(done.stdout)
    assert_one_line_error(iotrace("show", "model.pt", cwd=tmp_path), 2, "`iotrace check` tells")


def test_a_folder_of_checkpoints_is_checked_file_by_file(tmp_path: Path) -> None:
    """By a relative path, with what is lost named; a folder of traces is still a trace."""
    entry = '{"w": {"dtype": "U8", "shape": [64], "data_offsets": [0, 64]}}'
    whole = len(entry).to_bytes(8, "little") + entry.encode() + bytes(64)
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "a.safetensors").write_bytes(whole)
    done = iotrace("check", "shards", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    row = ["shards/a.safetensors", "safetensors", f"{len(whole)}", "B", "1", "of", "1", "whole"]
    assert done.stdout.splitlines()[1].split() == row
    (tmp_path / "shards" / "b.safetensors").write_bytes(whole[:-4])
    done = iotrace("check", "shards", cwd=tmp_path)
    assert done.returncode == 1
    assert_fits(done.stdout)
    assert "shards/b.safetensors: w, 64 B: cut: 60 of 64 bytes are there" in done.stdout
    told = json.loads(iotrace("check", "shards", "--json", "-", cwd=tmp_path).stdout)
    assert [one["whole"] for one in told["checkpoints"]] == [True, False] and not told["whole"]
    (tmp_path / "shards" / "b.safetensors").write_bytes(whole)
    (tmp_path / "shards" / "c.bin").write_bytes(b"of another program")
    done = iotrace("check", "shards", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[3].split()[-2:] == ["not", "examined"]
    assert "shards/c.bin: not examined: of no format that is known" in done.stdout
    told = json.loads(iotrace("check", "shards", "--json", "-", cwd=tmp_path).stdout)
    assert [one["whole"] for one in told["checkpoints"]] == [True, True, False]
    assert not told["whole"]
    (tmp_path / "shards" / "t.parquet").touch()
    assert "checkpoint" not in iotrace("check", "shards", cwd=tmp_path).stdout
