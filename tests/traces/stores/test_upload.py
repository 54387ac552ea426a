"""What is in a store when an upload ends early: what was there before, whatever ended it."""

from __future__ import annotations

import io
import re
from functools import partial

import pytest

from iotrace.traces.stores import StoreError, find_store
from iotrace.traces.upload import upload
from tests.servers import BUCKET, refusing_proxy

OLD = b"what was there"
NEW_BYTES = 20 << 20  # more parts than one
# How each request that writes is told by its method, path and query.
REFUSED = {
    "CreateMultipartUpload": r"POST .*\?uploads=?$",
    "PutObject or UploadPart": r"PUT ",
    "the last UploadPart": r"PUT .*partNumber=2",
    "CompleteMultipartUpload": r"POST .*\?uploadId=",
}

pytestmark = pytest.mark.usefixtures("credentials")


def uri_of(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def stored(name: str) -> bytes | None:
    """Return the content of an object; None: there is none."""
    store, path = find_store(uri_of(name))
    if store.get_file_info(path).type.name == "NotFound":
        return None
    with store.open_input_stream(path) as file:
        return bytes(file.read())


class Interrupted(io.BytesIO):
    """A file during whose reading somebody presses Ctrl-C."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read the first piece, and no second."""
        if self.tell():
            raise KeyboardInterrupt
        return super().read(size)


class Joined(io.BytesIO):
    """A file during whose reading another writer makes the object."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read after the other has written."""
        if not self.tell():
            upload(io.BytesIO(OLD), uri_of("joined"), force=False)
        return super().read(size)


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("before", [OLD, None])
def test_a_refused_upload_leaves_what_was_there(
    refused: str, before: bytes | None, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, or the old object; it is not asked to be deleted either."""
    name = f"{refused}/{before!r}"
    if before is not None:
        upload(io.BytesIO(before), uri_of(name), force=False)
    asked: list[str] = []

    def refuses(method: str, target: str) -> bool:
        asked.append(f"{method} {target}")
        return bool(re.match(REFUSED[refused], asked[-1]))

    with refusing_proxy(endpoint, refuses) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy)
        with pytest.raises(StoreError, match="access denied"):
            upload(io.BytesIO(bytes(NEW_BYTES)), uri_of(name), force=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert any(re.match(REFUSED[refused], one) for one in asked)
    assert not [one for one in asked if one.startswith("DELETE")]
    assert stored(name) == before


@pytest.mark.parametrize("before", [OLD, None])
def test_an_interrupted_upload_leaves_what_was_there(before: bytes | None) -> None:
    """The part that was sent is never shown."""
    name = f"interrupted/{before!r}"
    if before is not None:
        upload(io.BytesIO(before), uri_of(name), force=False)
    with pytest.raises(KeyboardInterrupt):
        upload(Interrupted(bytes(NEW_BYTES)), uri_of(name), force=True)
    assert stored(name) == before


def test_the_object_of_another_writer_stays(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came between the look and the end of an upload that failed."""
    refuses = partial(re.search, r"PUT .*partNumber=2")
    with refusing_proxy(endpoint, lambda *told: bool(refuses(" ".join(told)))) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy)
        with pytest.raises(StoreError, match="access denied"):
            upload(Joined(bytes(NEW_BYTES)), uri_of("joined"), force=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert stored("joined") == OLD
