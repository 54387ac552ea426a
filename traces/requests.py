"""The requests of a trace as plain arrays, read out once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from iotrace.traces.columns import CodeArray, IntArray, Mask
from iotrace.traces.grouping import first_rows, number_groups
from iotrace.traces.local_storage import hosts_with_own, owners
from iotrace.traces.open_flags import opened_with, opens_folder
from iotrace.traces.phases import PhaseArray, ends_ns, phases
from iotrace.traces.renames import Renames
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.sync_kind import syncs_folder
from iotrace.traces.trace import Trace


@dataclass(frozen=True, eq=False)
class Requests:
    """One entry per request in each array, in order of start.

    Attributes:
        op, path, target, engine: codes into `ops`, `paths`, `targets`, `engines`; -1 is null.
        home: code into `homes` of the last name of its file, after all renames; -1 is null. Files
            of one name that several hosts have, each to itself, have codes of their own.
        rank, process, thread, step, flags: as recorded, -1 where unknown.
        opened: flags that the file of a read or write was last opened with, -1 where unknown.
        file: one number per process and file, dense; -1: none.
        start_ns, end_ns: an unknown end is the start.
        offset, length, result: 0 where unknown.
        has_offset, has_result: whether these two are known.
        phase: of `iotrace.traces.phases.Phase`.
        hosts: which has the file of each of `homes` to itself, -1 for none; empty where no two
            hosts have files of one name.
    """

    op: CodeArray
    path: CodeArray
    target: CodeArray
    engine: CodeArray
    home: CodeArray
    rank: IntArray
    process: IntArray
    thread: IntArray
    step: IntArray
    flags: IntArray
    opened: IntArray
    file: IntArray
    start_ns: IntArray
    end_ns: IntArray
    offset: IntArray
    length: IntArray
    result: IntArray
    has_offset: Mask
    has_result: Mask
    phase: PhaseArray
    ops: list[str]
    paths: list[str]
    targets: list[str]
    engines: list[str]
    homes: list[str]
    hosts: list[int]

    @classmethod
    def of(cls, trace: Trace) -> Requests:
        """Return the requests of `trace`, or the replayed ones of a result."""
        chosen = trace.is_request
        rows = trace.where(chosen)
        codes = {name: rows.codes(name) for name in ("op", "path", "target", "engine")}
        file = _identities(rows)
        owner = owners(trace)
        home, homes, hosts = _by_owner(
            None if owner is None else owner[chosen], *_homes(rows, file)
        )
        return cls(
            op=codes["op"][0],
            path=codes["path"][0],
            target=codes["target"][0],
            engine=codes["engine"][0],
            home=home,
            rank=rows.ints("rank"),
            process=rows.ints("process"),
            thread=rows.ints("thread"),
            step=rows.ints("step"),
            flags=rows.ints("flags"),
            opened=opened_with(rows),
            file=file,
            start_ns=rows.ints("start_ns"),
            end_ns=ends_ns(rows),
            offset=rows.ints("offset", null=0),
            length=rows.ints("length", null=0),
            result=rows.ints("result", null=0),
            has_offset=rows.valid("offset"),
            has_result=rows.valid("result"),
            phase=phases(trace)[chosen],
            ops=codes["op"][1],
            paths=codes["path"][1],
            targets=codes["target"][1],
            engines=codes["engine"][1],
            homes=homes,
            hosts=hosts,
        )

    def __len__(self) -> int:
        return len(self.start_ns)

    def is_op(self, *names: str) -> Mask:
        """Return which requests are of one of the ops."""
        chosen = np.array([*(op in names for op in self.ops), False])
        return np.asarray(chosen[self.op])

    @property
    def done(self) -> Mask:
        """Which requests did not fail, as far as is known."""
        return np.asarray(~self.has_result | (self.result >= 0))

    @property
    def is_data(self) -> Mask:
        """Which requests read or write."""
        return self.is_op(*DATA_OPS)

    @property
    def is_folder_sync(self) -> Mask:
        """Which requests sync a folder: as such, or as a file that was opened as a folder."""
        opens = self.is_op("open") & (self.flags >= 0) & opens_folder(self.flags)
        folders = np.unique(self.file[opens])
        of_folder = np.isin(self.file, folders[folders >= 0]) | syncs_folder(self.flags)
        return self.is_op("sync") & of_folder

    @property
    def identity(self) -> IntArray:
        """Which file each request is on, over all processes; -1: none.

        Each process may number its own files: one of several is known by its name.
        """
        unnamed = np.where(self.file >= 0, len(self.homes) + self.file, -1)
        return np.where(self.home >= 0, self.home, unnamed)

    @property
    def moved(self) -> IntArray:
        """Bytes moved by each read and write, 0 for others and for failures; faults' length."""
        by_result = np.where(self.is_data, self.result.clip(min=0), 0)
        return np.where(self.is_op("fault"), self.length, by_result)

    @property
    def elapsed_ns(self) -> IntArray:
        """Latency of each request."""
        return self.end_ns - self.start_ns

    def where(self, chosen: Mask | IntArray) -> Requests:
        """Return the requests where a mask is true, or those of some rows."""
        arrays: dict[str, Any] = {
            f.name: value[chosen]
            for f in dataclasses.fields(self)
            if isinstance(value := getattr(self, f.name), np.ndarray)
        }
        return dataclasses.replace(self, **arrays)

    def path_of(self, row: int) -> str | None:
        """Return the last name of the file of one request."""
        code = int(self.home[row])
        return self.homes[code] if code >= 0 else None

    def homes_of(self, rows: Trace) -> IntArray:
        """Return the home of the file of each of some rows of the trace, of whatever layer.

        A file that no request is on has a code of its own, past those of `homes`; -1: no file.
        """
        codes, paths = rows.codes("path")
        owner = np.full(len(rows), -1, np.int64)
        if self.hosts:
            owner = hosts_with_own(rows.metadata, rows.ints("process"), codes, paths)
        hosts = self.hosts or [-1] * len(self.homes)
        place = {key: code for code, key in enumerate(zip(hosts, self.homes, strict=True))}
        found, group = np.unique((owner + 1) << 32 | (codes + 1), return_inverse=True)
        pairs = zip(((found >> 32) - 1).tolist(), ((found & 0xFFFFFFFF) - 1).tolist(), strict=True)
        home = [
            place.setdefault((host, paths[code]), len(self.homes) + len(place)) if code >= 0 else -1
            for host, code in pairs
        ]
        return np.asarray(np.array(home, np.int64)[group.ravel()])


def _identities(rows: Trace) -> IntArray:
    """Return one number per (process, file), -1 where there is none."""
    out = np.full(len(rows), -1, np.int64)
    known = rows.valid("file")
    if known.any():
        out[known] = number_groups(rows.ints("process")[known], rows.ints("file")[known])
    return out


def _homes(rows: Trace, file: IntArray) -> tuple[CodeArray, list[str]]:
    """Return the last name of each request's file: temporary names become the lasting one."""
    codes, paths = rows.codes("path")
    home = codes.copy()
    homes = list(paths)
    place = {path: code for code, path in enumerate(homes)}
    renames = Renames(rows)
    if not renames:
        return home, homes
    named = np.flatnonzero((codes >= 0) & ~rows.row_mask(op=("rename", "link")))
    group = number_groups(file[named], codes[named])
    first = named[first_rows(group)]
    lasting = np.empty(len(first), np.int32)
    for i, (code, row) in enumerate(zip(codes[first].tolist(), first.tolist(), strict=True)):
        final = renames.final_name(paths[code], row)
        if final not in place:
            place[final] = len(homes)
            homes.append(final)
        lasting[i] = place[final]
    home[named] = lasting[group]
    return home, homes


def _by_owner(
    owner: IntArray | None, home: CodeArray, homes: list[str]
) -> tuple[CodeArray, list[str], list[int]]:
    """Return the homes with one each for the hosts that have a file of that name to themselves."""
    if owner is None:
        return home, homes, []
    own = np.flatnonzero((owner >= 0) & (home >= 0))
    found, group = np.unique(owner[own] << 32 | home[own], return_inverse=True)
    home = home.copy()
    home[own] = len(homes) + group.ravel()
    apart = [homes[pair & 0xFFFFFFFF] for pair in found.tolist()]
    return home, [*homes, *apart], [*[-1] * len(homes), *(found >> 32).tolist()]
