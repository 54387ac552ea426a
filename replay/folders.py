"""The folders that the files of a plan lie in: some are there before, some are made on the way."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from iotrace.replay.job import Op, is_op
from iotrace.replay.names import Names
from iotrace.replay.paths import ancestors
from iotrace.replay.plan import Note, Plan
from iotrace.traces.errors import PlanError

MADE_UNRECORDED = "folders made by nobody in the trace, made when first needed"
FOLDER_MODE = 0o755
_CHANGES = (Op.MKDIR, Op.RMDIR)


@dataclass
class Folders:
    """What a walk over a plan's requests finds of its folders.

    Attributes:
        before: those that must be there before the run, parents first.
        missing: those that could not be there then, as the plan itself makes, renames or removes
            what they are in or what has their name: each with the request that needs it first.
    """

    before: list[str] = field(default_factory=list)
    missing: list[tuple[int, str]] = field(default_factory=list)
    _names: Names = field(default_factory=Names)
    _changed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, plan: Plan) -> "Folders":
        """Return the folders of a plan.

        Raises:
            PlanError: a name is a file and a folder at a time.
        """
        found = cls()
        files, rows = plan.files, plan.requests
        for file in np.flatnonzero(files.exists & (files.path >= 0)).tolist():
            found._bind(0, files.paths[files.path[file]], file)
        named = np.flatnonzero(rows["path"] >= 0)
        columns = (rows.at(name, named).tolist() for name in ("op", "file", "path", "target"))
        for at, op, file, path, target in zip(named.tolist(), *columns, strict=True):
            new_name = plan.paths[target] if target >= 0 else ""
            found._follow(at, op, file, plan.paths[path], new_name)
        return found

    def _follow(self, at: int, op: int, file: int, name: str, target: str) -> None:
        self._enter(at, name)
        if target:
            self._enter(at, target)
        if op == Op.MKDIR:
            self._add(name)
        elif op == Op.RMDIR:
            self._need(at, name)
            self._changed.add(name)
            self._names.remove_directory(name)
        elif op == Op.RENAME and file < 0:
            self._need(at, name)
            self._refuse_file(target)
            self._changed |= {name, target}
            self._names.move_directory(name, target)
        elif op == Op.SYNC and file < 0:
            self._need(at, name)
        elif file >= 0:
            self._follow_file(at, op, file, name, target)

    def _follow_file(self, at: int, op: int, file: int, name: str, target: str) -> None:
        if op in (Op.RENAME, Op.UNLINK):
            self._names.unbind(name)
            self._changed.add(name)
        else:
            self._bind(at, name, file)
        if target:
            self._bind(at, target, file)

    def _bind(self, at: int, name: str, file: int) -> None:
        self._enter(at, name)
        if self._names.has_directory(name):
            raise _both(name)
        self._names.bind(name, file)

    def _enter(self, at: int, name: str) -> None:
        for folder in self._names.enter(name):
            self._learn(at, folder)

    def _need(self, at: int, folder: str) -> None:
        if not self._names.has_directory(folder):
            self._learn(at, folder)
            self._names.add_directory(folder)

    def _add(self, folder: str) -> None:
        self._refuse_file(folder)
        self._changed.add(folder)
        self._names.add_directory(folder)

    def _learn(self, at: int, folder: str) -> None:
        self._refuse_file(folder)
        if self._changed.isdisjoint((folder, *ancestors(folder))):
            self.before.append(folder)
        else:
            self.missing.append((at, folder))
            self._changed.add(folder)

    def _refuse_file(self, folder: str) -> None:
        if self._names.file(folder) is not None:
            raise _both(folder)


def with_folders(plan: Plan) -> Plan:
    """Return the plan with the folders made that it needs, cannot find, and does not make.

    Somebody else made them: a process that was not recorded, or is not selected. Each is made by
    who needs it first, right before, as its recorded making would be.

    Raises:
        PlanError: a name is a file and a folder at a time.
    """
    if not _is_doubtful(plan) or not (missing := Folders.of(plan).missing):
        return plan
    rows, paths = plan.requests, list(plan.paths)
    number = {path: place for place, path in enumerate(paths)}
    for _, folder in missing:
        if number.setdefault(folder, len(paths)) == len(paths):
            paths.append(folder)
    at = np.array([place for place, _ in missing], np.int64)
    added = rows.take(at).beside(
        op=Op.MKDIR,
        mode=FOLDER_MODE,
        path=[number[folder] for _, folder in missing],
        **{"file": -1, "handle": -1, "phase": 0},
    )
    # Each goes before the request that it is for, which is as many places further on.
    own = at + np.arange(len(at))
    rest = np.delete(np.arange(len(rows) + len(at)), own)
    made = rows.placed((rows, added), (rest, own))
    *earlier, last = plan.history
    last = replace(last, notes=(*last.notes, Note(MADE_UNRECORDED, len(at))))
    return replace(plan, history=tuple(earlier)).derive(last, made, paths=tuple(paths))


def _is_doubtful(plan: Plan) -> bool:
    """Return whether a walk over the requests could find something; of most plans it could not."""
    rows = plan.requests
    changes = is_op(rows["op"], _CHANGES)
    changes |= is_op(rows["op"], (Op.RENAME, Op.SYNC)) & (rows["file"] < 0)
    return bool(changes.any()) or next(_names_of_both(plan), None) is not None


def _names_of_both(plan: Plan) -> Iterator[str]:
    parents = {path.rpartition("/")[0] for path in plan.paths} - {""}
    above = {one for path in parents for one in (path, *ancestors(path))}
    return (path for path in plan.paths if path in above)


def _both(name: str) -> PlanError:
    return PlanError(
        f"'/{name}' is a file and a folder at a time, which no file system holds; leave one of "
        "them out of the trace (--exclude of capture or convert)"
    )
