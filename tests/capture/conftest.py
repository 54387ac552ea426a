"""Fixtures of the tests of captures."""

from pathlib import Path

import pytest

from .file_log import BLOCK_BYTES
from .raw_log_writer import RawLogWriter


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of one process's log."""
    return RawLogWriter()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of three blocks without a zero in it."""
    path = tmp_path / "x.pt"
    path.write_bytes(b"x" * (3 * BLOCK_BYTES))
    return path
