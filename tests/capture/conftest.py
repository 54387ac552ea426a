"""Fixtures of the tests of captures."""

import pytest

from .raw_log_writer import RawLogWriter


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of one process's log."""
    return RawLogWriter()
