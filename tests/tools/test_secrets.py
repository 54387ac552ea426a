"""Keys, passwords and signatures in URIs are for the store: no file, screen or error has them."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from iotrace.traces.metadata import Metadata
from iotrace.traces.reader import read_metadata
from iotrace.traces.stores import CORPUS, Place, find_store, shown, without_secrets
from iotrace.traces.upload import upload
from tests.servers import BUCKET, range_server, s3_environment, s3_server

from .command import iotrace

SECRET = "S3cretKey99"
CONTENT = (CORPUS / "torch-save.parquet").read_bytes()
QUERIES = {
    "s3": f"X-Amz-Credential=a%2Fb&X-Amz-Signature={SECRET}",
    "gcs": f"X-Goog-Signature={SECRET}",
    "azure": f"sv=2024&sig={SECRET}%3D",
    "token": SECRET,
}


@pytest.fixture(scope="module")
def store() -> Iterator[Mapping[str, str]]:
    """What to export to use an object store that has t.parquet, but for the keys."""
    with s3_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        environment = s3_environment(endpoint)
        for name, value in environment.items():
            patch.setenv(name, value)
        upload(io.BytesIO(CONTENT), f"s3://{BUCKET}/t.parquet", force=True)
        yield environment


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The URL of a server that gives the trace for a signature alone."""
    signed = {f"/t.parquet?{query}": CONTENT for query in QUERIES.values()}
    with range_server(signed) as server:
        yield f"{server.url}/t.parquet"


# {} is the URI of the trace, and PUT one to write to.
COMMANDS = [
    "show {}",
    "show {} --json -",
    "show {} --json out.json",
    "show {} --requests --tensors --files",
    "check {}",
    "check {} --json out.json",
    "check {} {} --digest",
    "compare {} {}",
    "compare {} {} --json out.json",
    "why {} --no-probe",
    "why {} --no-probe --json out.json",
    "replay {}",
    "replay {} -o out.parquet --json out.json",
    "replay {} --dry-run",
    "replay {} --executor null --json out.json",
    "replay {} --explain",
    "sweep {} --budget 3s -o out.json --op write",
    "report {} -o out.html",
    "share {} -o out.parquet --json out.json",
    "merge {} corpus:dcp -o out.parquet",
    "convert {} out.csv",
    "convert {} out.parquet",
    "share {} -o PUT --force",
    "merge {} corpus:dcp -o PUT --force",
    "replay {} -o PUT --force",
    "convert {} PUT --force",
    "report {} -o PUT --force",
    "synth llama-3-8b --scale 1/4096 -o PUT --force",
    "capture -o PUT --force -- true",
]
REFUSED = [
    "merge {} {} -o out.parquet",
    "show {} too-many",
    "show too many {}",
    "show {}.none",
    "check {} {}",
    "check {} --shared --original {} --json out.json",
    "convert {} out.parquet --include x",
    "convert {} out.parquet --from strace",
    "convert corpus:dcp PUT.unknown",
    "share corpus:dcp -o PUT",
    "share corpus:dcp -o {}",
    "report corpus:dcp -o PUT/",
    "sweep corpus:dcp -o PUT",
]


def put_uri() -> str:
    return f"s3://AKIAUSER:{SECRET}@{BUCKET}/put.parquet"


def assert_kept(
    command: str, uri: str, store: Mapping[str, str], folder: Path, *, works: bool
) -> None:
    """Run a command; nothing that it says or writes has the secret."""
    words = [word.format(uri).replace("PUT", put_uri()) for word in command.split()]
    done = iotrace(*words, cwd=folder, extra_env=store)
    assert (done.returncode == 0) is works, done.stderr
    assert SECRET not in done.stdout + done.stderr
    for path in folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    system, path_there = find_store(put_uri())
    if "PUT" in command and works:
        with system.open_input_stream(path_there) as file:
            assert SECRET.encode() not in file.read()


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_in_a_uri_stay_there(command: str, store: Mapping[str, str], tmp_path: Path) -> None:
    """As commands read and write with them."""
    uri = f"s3://AKIAUSER:{SECRET}@{BUCKET}/t.parquet"
    assert_kept(command, uri, store, tmp_path, works=True)


@pytest.mark.parametrize("command", [one for one in COMMANDS if "PUT" not in one])
def test_a_signature_in_a_url_stays_there(
    command: str, web: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """Of whatever store that signs URLs."""
    assert_kept(command, f"{web}?{QUERIES['s3']}", store, tmp_path, works=True)


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_no_part_of_a_query_is_kept(
    query: str, web: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """The place is, in what the result says it was made of."""
    command = "replay {} -o out.parquet"
    assert_kept(command, f"{web}?{query}", store, tmp_path, works=True)
    (metadata,) = read_metadata(tmp_path / "out.parquet")
    assert metadata.extra["replay"]["trace"] == web
    assert isinstance(metadata, Metadata)
    assert web in metadata.history[-1].detail


@pytest.mark.parametrize("command", REFUSED)
@pytest.mark.parametrize("kind", ["key", "signature"])
def test_errors_have_no_secret(
    command: str, kind: str, web: str, store: Mapping[str, str], tmp_path: Path
) -> None:
    """Of the command line neither."""
    key = f"s3://AKIAUSER:{SECRET}@{BUCKET}/t.parquet"
    uri = key if kind == "key" else f"{web}?{QUERIES['s3']}"
    upload(io.BytesIO(CONTENT), put_uri(), force=True)
    assert_kept(command, uri, store, tmp_path, works=False)


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("s3://user:se/cr+et@bucket/a@b.parquet", "s3://bucket/a@b.parquet"),
        ("s3://user@bucket/t?region=eu&scheme=http", "s3://bucket/t?region=eu&scheme=http"),
        ("s3://bucket/t?region=eu&X-Amz-Signature=0", "s3://bucket/t"),
        ("s3://bucket/run#1?.parquet", "s3://bucket/run#1?.parquet"),
        ("gs://user:secret@bucket/t", "gs://bucket/t"),
        ("https://user:se/cret@host:80/a@b", "https://host:80/a@b"),
        ("https://user:secret@host/t?sig=0#1", "https://host/t"),
        ("https://host:80/a@b?x", "https://host:80/a@b"),
        ("ftp://user:secret@host/t", "ftp://host/t"),
        ("file:///a/b@c?d#e", "file:///a/b@c?d#e"),
        ("folder//a@b?c", "folder//a@b?c"),
    ],
)
def test_what_is_shown_of_a_uri(uri: str, wanted: str) -> None:
    """All that tells the place; a name that is no URI is left as it is."""
    assert shown(uri) == wanted
    assert str(Place(uri)) == Place(uri) == wanted
    assert Place(uri).whole == uri
    assert (
        without_secrets(f"cannot read `{uri}`, or {uri}") == f"cannot read `{wanted}`, or {wanted}"
    )


def test_a_long_text_is_looked_through_soon() -> None:
    """An error may hold a name of any length: no time that grows with its square."""
    begun = time.monotonic()
    assert without_secrets("a" * 1_000_000) == "a" * 1_000_000
    assert time.monotonic() - begun < 10
