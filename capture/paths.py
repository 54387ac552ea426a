"""Paths as the job named them: absolute, each spelled once."""

from __future__ import annotations

import os
import posixpath

from iotrace.traces.vocabulary import Vocabulary


class PathTable(Vocabulary[str]):
    """Distinct paths, normalised.

    Attributes:
        has_links: whether any that was asked for by `real` has another path than its own.
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._spellings: dict[bytes, int] = {}
        self._real: dict[str, str] = {}
        self.has_links = False

    def code_of_spelling(self, spelling: bytes) -> int:
        """Return the code of a path as the preload library wrote it."""
        code = self._spellings.get(spelling)
        if code is None:
            code = self._spellings[spelling] = self.code(normalise(os.fsdecode(spelling)))
        return code

    def real(self, code: int) -> str:
        """Return a path by which the links above it lead, as far as they still exist.

        What names a file by another folder's name than it was opened by means the same.
        """
        folder, name = posixpath.split(self[code])
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
            self.has_links |= self._real[folder] != folder
        return posixpath.join(self._real[folder], name)


def normalise(path: str) -> str:
    """Return `path` without `.`, `..` and repeated slashes.

    `..` behind a symbolic link is not the folder before the link, so links up to the last `..`
    are followed where they still exist.

    >>> normalise("//data/./step//x.pt")
    '/data/step/x.pt'
    """
    head, parent, tail = path.rpartition("/..")
    if parent and (not tail or tail.startswith("/")):
        path = os.path.realpath(head + parent) + tail
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path


def moved(path: str, folder: str, target: str) -> str | None:
    """Return where a path lies once `folder` is called `target`; None if it is not in it.

    >>> moved("/data/tmp/x.pt", "/data/tmp", "/data/step1")
    '/data/step1/x.pt'
    """
    return target + path[len(folder) :] if is_inside(path, folder) else None


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder, at any depth.

    >>> is_inside("/data/step1/x.pt", "/data"), is_inside("/data2", "/data")
    (True, False)
    """
    return path.startswith(folder.rstrip("/") + "/")
