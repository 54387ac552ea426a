"""URIs on the command line, wherever a trace is read or written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.stores import find_store
from tests.servers import BUCKET, refusing_proxy, s3_environment, s3_server

from .command import assert_one_line_error, iotrace


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bucket, and the environment of a user who may use it."""
    with s3_server() as endpoint:
        for name, value in s3_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.usefixtures("store")
def test_every_verb_reads_and_writes_uris(tmp_path: Path) -> None:
    """From the capture to the result, without a trace on a local disk."""
    own, result = f"s3://{BUCKET}/own.parquet", f"s3://{BUCKET}/result.parquet"
    job = ("sh", "-c", f"dd if=/dev/zero of={tmp_path}/model.pt bs=4096 count=4 2>/dev/null")
    captured = iotrace("capture", "-o", own, "--", *job, cwd=tmp_path)
    assert captured.returncode == 0, captured.stderr
    assert f"next: iotrace show {own}" in captured.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    replayed = iotrace("replay", own, "-o", result, "--root", tmp_path, cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert read_trace(result).row_mask(layer="replay", op="write").sum() == 4
    assert iotrace("check", result, own, "--digest").returncode == 1  # api and layer differ

    for verb in (("capture", "-o", own, "--", *job), ("replay", own, "-o", result)):
        assert_one_line_error(iotrace(*verb, cwd=tmp_path), 2, "exists", "--force")
    wrong = ("replay", own, "-o", "s3://no-such-bucket/x.parquet")
    assert_one_line_error(iotrace(*wrong, cwd=tmp_path), 2, "no such bucket")


@pytest.mark.usefixtures("store")
def test_an_object_that_is_read_is_not_replaced(small_trace: Path) -> None:
    """Named itself or by the folder that it lies in; another one there may be."""
    bucket = f"s3://{BUCKET}"
    for name in ("0", "1"):
        done = iotrace("convert", small_trace, f"{bucket}/ranks/{name}.parquet")
        assert done.returncode == 0, done.stderr
    before = read_trace(f"{bucket}/ranks/0.parquet").metadata
    own = f"{bucket}/ranks/0.parquet"
    for source, target in (
        (own, f"{own}?region=us-east-1"),
        (f"{bucket}/ranks", own),
        (f"{bucket}/ranks/", own),
    ):
        done = iotrace("share", source, "-o", target, "--force")
        assert_one_line_error(done, 2, f"-o would replace {target}, which is read")
    assert read_trace(own).metadata == before
    done = iotrace("share", own, "-o", f"{bucket}/ranks/2.parquet", "--force")
    assert done.returncode == 0, done.stderr


def test_no_credentials_and_no_network_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What most first tries end with."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert_one_line_error(iotrace("show", "s3://bucket/t.parquet"), 2, "cannot be reached")
    assert_one_line_error(iotrace("show", "ftp://host/t.parquet"), 2, "s3://")
    assert_one_line_error(
        iotrace("share", "x.parquet", "-o", "https://host/t.parquet"), 2, "only be read"
    )


def test_the_corpus_is_at_hand_by_name(tmp_path: Path) -> None:
    """A new user's first trace; a wrong name lists the right ones."""
    assert "dcp" in iotrace("show", "corpus:dcp").stdout
    assert_one_line_error(iotrace("show", "corpus:pdc"), 2, "datastates-llm", "torchsnapshot")
    wrong = ("share", "corpus:dcp", "-o", "corpus:dcp")
    assert_one_line_error(iotrace(*wrong, cwd=tmp_path), 2, "only be read")


def test_a_shared_trace_and_its_card_are_both_stored_or_none(
    small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that takes no card: the same command can be given again."""
    public = f"s3://{BUCKET}/public.parquet"

    def refuses(method: str, path: str) -> bool:
        return method in ("PUT", "POST") and ".md" in path

    with s3_server() as endpoint, refusing_proxy(endpoint, refuses) as refusing:
        for name, value in s3_environment(refusing).items():
            monkeypatch.setenv(name, value)
        done = iotrace("share", small_trace, "-o", public)
        assert_one_line_error(done, 2, "public.md", "access denied")
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert_one_line_error(iotrace("show", public), 2, "does not exist")
        done = iotrace("share", small_trace, "-o", public)
        assert done.returncode == 0, done.stderr
        assert iotrace("check", public, "--shared").returncode == 0


def test_what_goes_beside_an_object_goes_into_the_same_store(
    small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings end a URI, not the name of its file; an endpoint has dots of its own."""
    with s3_server() as endpoint:
        for name, value in s3_environment(endpoint).items():
            if name != "AWS_ENDPOINT_URL":
                monkeypatch.setenv(name, value)
        settings = f"?endpoint_override={endpoint.rpartition('/')[2]}&scheme=http"
        public, table = (f"s3://{BUCKET}/{name}{settings}" for name in ("p.parquet", "t.csv"))
        assert iotrace("share", small_trace, "-o", public).returncode == 0
        assert iotrace("convert", small_trace, table).returncode == 0
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        store, _ = find_store(public)
        with store.open_input_stream(f"{BUCKET}/p.md") as card:
            assert b"p.parquet" in (text := card.readall()) and b"endpoint" not in text
        with store.open_input_stream(f"{BUCKET}/t.csv") as rows:
            assert rows.readall().startswith(b'"layer",')
