"""Names of files that a transform makes, and the directories that it leaves without files."""

from collections.abc import Iterable, Sequence

import numpy as np

from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import ancestors
from iotrace.replay.pieces import Ints
from iotrace.replay.requests import Requests


class NewNames:
    """Adds names to a plan's that no file or directory of it has."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._taken = {path.partition("/")[0] for path in paths}

    def add(self, name: str) -> int:
        """Return the index of `name`, or of one like it where that is taken."""
        while name in self._taken:
            name += "-aggregated"
        self._taken.add(name)
        self.paths.append(name)
        return len(self.paths) - 1


def without_empty_directories(rows: Requests, lost: Requests, paths: Sequence[str]) -> Ints:
    """Return which rows are not on directories whose files are all lost.

    Args:
        rows: what is left of a plan's requests, those on directories included.
        lost: requests that named the files.
        paths: what both name.
    """
    on_directories = is_op(rows["op"], (Op.MKDIR, Op.RMDIR))
    on_directories |= (rows["op"] == Op.RENAME) & (rows["file"] < 0)
    kept, gone = (_directories(part, paths) for part in (rows.compress(~on_directories), lost))
    idle = np.array([path in gone and path not in kept for path in paths] + [False], np.bool_)
    used = np.array([path in kept for path in paths] + [False], np.bool_)
    drop = idle[rows["path"]] | idle[rows["target"]]
    drop &= ~used[rows["path"]] & ~used[rows["target"]]
    return np.asarray(~(on_directories & drop))


def _directories(rows: Requests, paths: Sequence[str]) -> set[str]:
    named = np.unique(np.concatenate([rows["path"], rows["target"]]))
    parents = {paths[index].rpartition("/")[0] for index in named.tolist() if index >= 0}
    return _with_ancestors(parents - {""})


def _with_ancestors(directories: Iterable[str]) -> set[str]:
    return {above for path in directories for above in (path, *ancestors(path))}
