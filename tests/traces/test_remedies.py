"""Each cause of a refusal has its own advice."""

import errno
import os

import pytest

from iotrace.traces.remedies import with_remedy


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EMFILE, "raise `ulimit -n`"),
        (errno.ENFILE, "end programs that hold files open, or raise the sysctl fs.file-max"),
        (errno.ENOSPC, "free some space or name another --raw-dir"),
        (errno.EDQUOT, "free some of your quota or name another --raw-dir"),
        (errno.EROFS, "mount it for writing or name another --raw-dir"),
        (errno.EACCES, "get the right to write there or name another --raw-dir"),
        (errno.EIO, "name another --raw-dir"),
    ],
)
def test_the_advice_follows_from_the_cause(number: int, advice: str) -> None:
    error = OSError(number, os.strerror(number))
    assert with_remedy(error, "name another --raw-dir") == f"{os.strerror(number)}; {advice}"
