"""What strangers wrote reaches the terminal as plain characters, whoever prints it."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import pty
import socket
import subprocess
import termios
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.traces.metadata import HistoryEntry, RecordedOn
from iotrace.traces.trace import Strings
from iotrace.traces.writer import write_trace

from .command import IOTRACE
from .conftest import build, checkpoint_rows, metadata
from .warm import plain_environment

EVIL = "E\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eR\u2066\x7f\x00V"
ROOT = Path(__file__).parents[2]


def evil(value: Any) -> Any:
    """Return metadata with evil text at the end of every string in them, keys too."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, tuple):
        return tuple(map(evil, value))
    if isinstance(value, dict):
        return {evil(key): evil(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        known = {f.name: evil(getattr(value, f.name)) for f in dataclasses.fields(value)}
        known.pop("format_version", None)
        return replace(value, **known)  # type: ignore[type-var]
    return value


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of traces with evil in every string, and in one column each beside it."""
    folder = tmp_path_factory.mktemp("evil")
    described = metadata("a note")
    described = replace(
        described,
        recorded_on=RecordedOn(described.hosts, described.mounts),
        history=(HistoryEntry("capture"), HistoryEntry("wonder", "detail"), HistoryEntry("share")),
        extra={"result": {"transforms": ["x"]}, "later": "text"},
    )
    good = build(checkpoint_rows(), described)
    write_trace(good.with_metadata(evil(described)), folder / "metadata.parquet")
    texts, words = ("path", "target", "name", "dtype", "device", "engine"), ("op", "api", "layer")
    for name, columns in (("texts", texts), ("words", words)):
        changed = {
            column: Strings.of([text and text + EVIL for text in good.strings(column)])
            for column in columns
        }
        write_trace(good.with_columns(changed), folder / f"{name}.parquet")
    return folder


def shown(folder: Path, *arguments: object) -> str:
    """Return all that a command prints on a terminal that knows no colours."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # a newline stays one
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    printed: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:
                return
            printed.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    environment = {**plain_environment(), "TERM": "dumb", "COLUMNS": "80"}
    subprocess.run(
        [IOTRACE, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        check=False,
        timeout=120,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return b"".join(printed).decode()


def assert_plain(text: str) -> None:
    """No character of it does anything to a terminal but end a line."""
    assert text
    assert "Traceback" not in text
    odd = {c for c in text if c != "\n" and not c.isprintable()}
    assert not odd, (odd, text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "--tensors"),
        ("show", "--requests"),
        ("show", "--files"),
        ("show", "--json", "-"),
        ("why", "--no-probe"),
        ("check", "--shared", "--digest", "--for", "nfs"),
        ("replay", "--dry-run", "--explain", "--coalesce"),
        ("replay", "--layer", "tensor", "--dry-run", "--explain"),
        ("share", "-o", "public.parquet", "--force"),
        ("report", "-o", "page.html", "--force"),
        ("convert", "back.csv", "--force"),
    ],
)
def test_no_text_of_a_trace_acts_on_the_terminal(traces: Path, arguments: tuple[str, ...]) -> None:
    """Evil in every string of the metadata, and in each column of text."""
    verb, *options = arguments
    for name in ("metadata", "texts", "words"):
        assert_plain(shown(traces, verb, f"{name}.parquet", *options))


@pytest.mark.parametrize("verb", ["compare", "merge"])
def test_no_text_of_two_traces_acts_on_the_terminal(traces: Path, verb: str) -> None:
    """A trace beside another."""
    more = ("-o", "merged.parquet", "--force") if verb == "merge" else ()
    assert_plain(shown(traces, verb, "metadata.parquet", "texts.parquet", *more))


def test_no_name_on_the_command_line_acts_on_the_terminal(traces: Path) -> None:
    """Files that are not there, a key, a checkpoint with such a name, an option."""
    name = EVIL.replace("\0", "")
    (traces / f"{name}.pt").write_bytes(bytes(5000))
    for arguments in (
        ("show", name),
        ("check", f"{name}.pt"),
        ("share", "words.parquet", "--key-file", name, "-o", "k.parquet"),
        ("recover", name, "-o", "r.parquet"),
        ("convert", name, "c.parquet"),
        ("show", "metadata.parquet", f"--{name}"),
        ("replay", "texts.parquet", "--root", name),
        ("why", name),
    ):
        assert_plain(shown(traces, *arguments))


def test_no_words_of_a_server_act_on_the_terminal(traces: Path) -> None:
    """The reason that stands beside the status."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                reason = EVIL.replace("\r", "").replace("\0", "").encode("utf-8")
                connection.sendall(b"HTTP/1.1 418 " + reason + b"\r\nContent-Length: 0\r\n\r\n")

        helper = threading.Thread(target=answer)
        helper.start()
        text = shown(traces, "show", f"http://127.0.0.1:{server.getsockname()[1]}/a.parquet")
        helper.join()
    assert_plain(text)
    assert "418 E\\x1b]0;owned" in text.replace("\n  ", " ")


def test_nobody_prints_beside_the_gate() -> None:
    """`Terminal` and `say` print; JSON escapes what it holds; the version is ours."""
    printing = set()
    for path in sorted((ROOT / "tools").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("print", "sys.stdout.write", "sys.stderr.write", "typer.echo", "Console"):
                printing.add(str(path.relative_to(ROOT)))
    assert printing == {"tools/cli.py", "tools/output.py", "tools/say.py"}


def test_json_on_stdout_is_plain(traces: Path) -> None:
    """And is what was there."""
    text = shown(traces, "show", "texts.parquet", "--json", "-")
    assert json.loads(text)["engines"] == [f"torch.save{EVIL}"]
    assert np.all([c.isprintable() or c == "\n" for c in text])
