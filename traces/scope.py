"""What every program reads to get started: no part of what a job means to store or load."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import translate

import numpy as np

from iotrace.traces.columns import Mask
from iotrace.traces.errors import IotraceError
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace

# `*` also matches `/`. Devices are not listed: whoever reads a disk means it.
SYSTEM_GLOBS = (
    *("/usr/*", "/lib/*", "/lib32/*", "/lib64/*", "/bin/*", "/sbin/*"),
    *("/etc/*", "/proc/*", "/sys/*", "/run/*"),
    *("*.so", "*.so.[0-9]*"),
    *("*/lib/python[0-9].[0-9]*/*", "*/site-packages/*", "*/dist-packages/*"),
    *("*.py", "*.pyc", "*/pyvenv.cfg", "*/bin/python*", "*.dist-info/*", "*.egg-info/*"),
    *("*/.git/*", "*/conda-meta/*"),
)
# In the metadata of a log just read: names of the files that the job was given as its standard
# input, output and error. A job's own log is no checkpoint.
STANDARD_FILES = "standard_files"
_CHANGING_OPS = (
    *("write", "sync", "allocate", "truncate", "rename", "link", "unlink", "mkdir", "rmdir"),
    *("save", "load"),
)


def matcher(globs: Sequence[str]) -> re.Pattern[str]:
    """Return what matches a whole path that one of the globs matches.

    >>> bool(matcher(["*.py", "/etc/*"]).match("/home/a/b.py"))
    True
    >>> bool(matcher([]).match("/home/a/b.py"))
    False
    """
    return re.compile("|".join(map(translate, globs)) if globs else r"(?!)")


def absolute_glob(glob: str) -> str:
    """Return a glob that can match absolute paths, from one relative to the current folder.

    Raises:
        IotraceError: it is empty, or spans lines.
    """
    if not glob or "\n" in glob:
        raise IotraceError(f"{glob!r} is no pattern for paths; give one glob per option")
    return glob if glob[0] in "/*?[" else os.path.join(os.getcwd(), glob)


def rows_on(trace: Trace, globs: Sequence[str]) -> Mask:
    """Return which requests and tensors are on files that a glob matches, by any of their names.

    A file is known by the name it was opened under, that of a rename, and its last one.
    """
    wanted = matcher(globs)
    found = np.zeros(len(trace), np.bool_)
    for column in ("path", "target"):
        codes, texts = trace.codes(column)
        found |= _matched(wanted, texts)[codes]
    requests = Requests.of(trace)
    found[trace.is_request] |= _matched(wanted, requests.homes)[requests.home]
    return found


def _matched(wanted: re.Pattern[str], texts: Sequence[str]) -> Mask:
    """Return which texts are matched; code -1, null, is the last and is not."""
    return np.array([*(wanted.match(text) is not None for text in texts), False])


@dataclass(frozen=True)
class FileSelection:
    """Which files of a foreign trace to keep: those that `capture` would have recorded.

    They are those written, and those read outside the system, without the job's own redirected
    input and output. Of opens that failed, those that meant to write: reads are tried in many
    places by design.

    Attributes:
        include: globs on absolute paths; if there are any, only these are kept.
        exclude: left out always.
        everything: keep what is only read of system files too, and what was redirected.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    everything: bool = False

    def __call__(self, trace: Trace) -> tuple[Trace, int]:
        """Return the rows to keep, and how many were left out.

        Rows without a path stay.
        """
        codes, paths = trace.codes("path")
        include, exclude = matcher(self.include), matcher(self.exclude)
        system = matcher(() if self.everything else SYSTEM_GLOBS)
        wanted = [
            exclude.match(path) is None and (not self.include or include.match(path) is not None)
            for path in paths
        ]
        needed = [system.match(path) is None for path in paths]
        keep = np.array([*wanted, True])[codes]  # code -1, null, is the last
        keep &= np.array([*needed, True])[codes] | _is_changed(trace)
        if not self.everything:
            keep &= ~_is_tried(trace)
        given = trace.metadata.extra.get(STANDARD_FILES)
        if isinstance(given, list):
            own = [path in given and not self.include and not self.everything for path in paths]
            keep &= ~np.array([*own, False])[codes]
            extra = {k: v for k, v in trace.metadata.extra.items() if k != STANDARD_FILES}
            trace = trace.with_metadata(replace(trace.metadata, extra=extra))
        return (trace, 0) if keep.all() else (trace.where(keep), int((~keep).sum()))


def _is_changed(trace: Trace) -> Mask:
    """Return which rows are on a file that some request changes, or is opened to."""
    changes = trace.row_mask(op=_CHANGING_OPS) | (_opens(trace) & _means_to_write(trace))
    file, codes = trace.ints("file"), trace.codes("path")[0]
    by_file = np.isin(file, np.unique(file[changes & (file >= 0)])) & (file >= 0)
    by_name = (file < 0) & np.isin(codes, np.unique(codes[changes & (codes >= 0)]))
    return np.asarray(by_file | by_name)


def _is_tried(trace: Trace) -> Mask:
    """Return which rows are opens for reading that failed."""
    failed = trace.ints("result", null=0) < 0
    return np.asarray(_opens(trace) & failed & ~_means_to_write(trace))


def _opens(trace: Trace) -> Mask:
    """Return which rows are opens whose flags are known."""
    return np.asarray(trace.row_mask(op="open") & trace.valid("flags"))


def _means_to_write(trace: Trace) -> Mask:
    flags = trace.ints("flags", null=0)
    return np.asarray(
        (flags & os.O_ACCMODE != os.O_RDONLY) | (flags & (os.O_CREAT | os.O_TRUNC) != 0)
    )
