"""Every output goes where a URI says, or one line tells why it cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector

from iotrace.traces.stores import CORPUS, find_store
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


def write(name: str, content: bytes) -> None:
    """Make an object."""
    system, path = find_store(f"{STORE}/{name}")
    with system.open_output_stream(path) as file:
        file.write(content)


NAMES = ("run#1", "run?1", "run#1?a")


@pytest.mark.parametrize("name", NAMES)
def test_names_may_hold_what_divides_urls(
    name: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """The trace and its card are two, here and in a store; both are read by the same name."""
    (tmp_path / "here").mkdir()
    names = {f"{name}.parquet", f"{name}.md"}
    for place in (f"{STORE}/{name}", f"file://{tmp_path}/here"):
        trace = f"{place}/{name}.parquet"
        shared = iotrace("share", TRACE, "-o", trace, extra_env=store, cwd=tmp_path)
        assert shared.returncode == 0, shared.stderr
        assert f"/{name}.md;" in shared.stderr
        checked = iotrace("check", trace, "--digest", TRACE, extra_env=store, cwd=tmp_path)
        assert "same work" in checked.stdout, checked.stderr
    assert {path.name for path in (tmp_path / "here").iterdir()} == names
    system, path = find_store(f"{STORE}/{name}")
    assert {one.base_name for one in system.get_file_info(FileSelector(path))} == names


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://", "write s3://BUCKET/KEY"),
        ("s3:///t.parquet", "write s3://BUCKET/KEY"),
        ("gs://", "write gs://BUCKET/KEY"),
        ("https://", "write https://HOST/FILE"),
        ("file://", "names no file"),
        ("file://elsewhere/t.parquet", "of another host"),
        ("ftp://", "no such kind of place"),
        ("ftp://host/t.parquet", "no such kind of place"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("share", TRACE, "-o"),
        ("convert", TRACE),
        ("synth", "gpt2", "-o"),
        ("merge", TRACE, "-o"),
        ("report", TRACE, "-o"),
        ("report", TRACE, "--figures"),
        ("sweep", TRACE, "-o"),
        ("replay", TRACE, "-o"),
        ("show", TRACE, "--json"),
        ("capture", "-o"),
    ],
)
def test_a_uri_that_names_no_place_is_no_file_here(
    arguments: tuple[str, ...], uri: str, words: str, tmp_path: Path
) -> None:
    """One that is not complete, or of a kind that is not known."""
    job = ("--", "true") if arguments[0] == "capture" else ()
    assert_one_line_error(iotrace(*arguments, uri, *job, cwd=tmp_path), 2, words)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_this_host_may_say_so(tmp_path: Path) -> None:
    """And one of another host is not read from this one."""
    run = partial(iotrace, "convert", "-q", TRACE, cwd=tmp_path)
    assert run(f"file://localhost{tmp_path}/t.parquet").returncode == 0
    assert iotrace("show", f"file://localhost{tmp_path}/t.parquet").returncode == 0
    assert_one_line_error(
        iotrace("show", f"file://elsewhere{tmp_path}/t.parquet"), 2, "of another host"
    )


def test_a_log_in_a_store_has_to_come_here_first(store: Mapping[str, str], tmp_path: Path) -> None:
    """A trace of any name has not."""
    with open(f"{CORPUS}/torch-save.parquet", "rb") as file:
        write("trace.copy", file.read())
    write("a.csv", b"op,path\n")
    run = partial(iotrace, "convert", "-q", extra_env=store, cwd=tmp_path)
    assert run(f"{STORE}/trace.copy", "t.parquet").returncode == 0
    assert_one_line_error(run(f"{STORE}/a.csv", "x.parquet"), 2, f"copy {STORE}/a.csv here first")


def test_a_password_of_a_web_server_is_told_not_to_be_sent() -> None:
    """It is no unknown name of a host."""
    refused = iotrace("show", "http://user:hunter2@127.0.0.1:9/t.parquet")
    assert_one_line_error(refused, 2, "http://127.0.0.1:9/t.parquet", "no password is sent")
    assert "hunter2" not in refused.stderr


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
