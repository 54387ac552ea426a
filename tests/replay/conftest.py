"""What the replay tests share: a small tape, both executors, a disk and a memory file system."""

from collections.abc import Iterator

import pytest

from iotrace.replay.executors.executor import Executor
from iotrace.replay.loop import Tape

from .job_builder import EXECUTORS


@pytest.fixture(scope="session")
def tape() -> Iterator[Tape]:
    """Return a tape far smaller than the files, so that its period shows."""
    with Tape(3 << 20, seed=7) as tape:
        yield tape


@pytest.fixture(params=EXECUTORS, ids=lambda executor: executor.name)
def executor(request: pytest.FixtureRequest) -> Executor:
    """Return each executor that moves bytes."""
    return request.param
