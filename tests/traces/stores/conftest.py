"""A store that speaks S3, for the tests that ask for it."""

from collections.abc import Iterator

import pytest

from tests.servers import s3_environment, s3_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """One server for all tests; each uses names of its own."""
    with s3_server() as serving:
        yield serving


@pytest.fixture
def credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with credentials."""
    for name, value in s3_environment(endpoint).items():
        monkeypatch.setenv(name, value)
