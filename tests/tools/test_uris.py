"""Every output goes where a URI says, or one line tells why it cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from iotrace.traces.stores import find_store
from tests.servers import BUCKET, s3_environment, s3_server

from .command import assert_one_line_error, iotrace

STORE = f"s3://{BUCKET}"
TRACE = "corpus:torch-save"


@pytest.fixture(scope="module")
def store() -> Iterator[Mapping[str, str]]:
    """An object store; what to export to use it."""
    with s3_server() as endpoint:
        yield s3_environment(endpoint)


@pytest.fixture(autouse=True)
def environment(store: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user of the store, in a folder where nothing may appear."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def stored(name: str) -> bytes:
    """Return the content of an object."""
    system, path = find_store(f"{STORE}/{name}")
    with system.open_input_stream(path) as file:
        return bytes(file.read())


@pytest.mark.parametrize("suffix", ["csv", "iolog", "json", "yaml"])
def test_an_export_to_a_store_is_that_to_a_file(
    suffix: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """Byte for byte; a file URI is a path; what is there is not replaced."""
    run = partial(iotrace, "convert", "-q", TRACE, extra_env=store, cwd=tmp_path)
    assert run(f"{STORE}/t.{suffix}").returncode == 0
    assert run(f"file://{tmp_path}/t.{suffix}").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"t.{suffix}"]
    assert stored(f"t.{suffix}") == (tmp_path / f"t.{suffix}").read_bytes()
    assert_one_line_error(run(f"{STORE}/t.{suffix}"), 2, "--force")


def test_figures_pages_and_json_go_to_a_store(store: Mapping[str, str], tmp_path: Path) -> None:
    """Nothing is made here that is called like a URI."""
    run = partial(iotrace, extra_env=store, cwd=tmp_path)
    done = run("report", TRACE, "-o", f"{STORE}/r.html", "--figures", f"{STORE}/figures")
    assert done.returncode == 0, done.stderr
    assert f"{STORE}/r.html" in done.stderr
    assert b"<svg" in stored("r.html")
    system, path = find_store(f"{STORE}/figures/x")
    assert system.get_file_info(os.path.dirname(path)).type.name == "Directory"
    assert run("show", TRACE, "--json", f"{STORE}/s.json").returncode == 0
    assert json.loads(stored("s.json"))["engines"] == ["torch.save"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("convert", TRACE, f"{STORE}/t.fio"), "folder here"),
        (("convert", TRACE, "https://example.org/t.csv"), "can only be read"),
        (("convert", f"{STORE}/job.log", "t.parquet", "--from", "strace"), "here first"),
        (("sweep", TRACE, "-o", f"{STORE}/sweep.json"), "then copy it"),
    ],
)
def test_what_has_to_lie_here_is_told(
    arguments: tuple[str, ...], words: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """With what to do instead."""
    assert_one_line_error(iotrace(*arguments, extra_env=store, cwd=tmp_path), 2, words)
    assert list(tmp_path.iterdir()) == []
