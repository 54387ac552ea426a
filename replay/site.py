"""Where a replay ran: its machines, and the storage below its root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from iotrace.replay.fold import Fold
from iotrace.replay.group import Group
from iotrace.replay.plan import Stream
from iotrace.traces.environment import describe_host
from iotrace.traces.metadata import Host, Metadata, Mount, RecordedOn
from iotrace.traces.mounts import find_mounts


@dataclass(frozen=True)
class Site:
    """The machines and file systems of a replay; those of a dry run are none.

    Attributes:
        mounts: by machine, as a capture describes them.
        host_of: per recorded process that was replayed, the place in `hosts` of its machine.
    """

    hosts: tuple[Host, ...] = ()
    mounts: tuple[Mount, ...] = ()
    host_of: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls, folders: Sequence[Path], streams: Sequence[Stream], folded: Fold, group: Group
    ) -> Site:
        """Return the same in every process of `group`.

        Args:
            folders: that are written to.
            streams: of the plan.
            folded: which worker runs which of them; in a launch the processes are the workers.
        """
        told = group.gather((describe_host(), _mounts(folders)))
        places: dict[str, int] = {}
        by_process = [places.setdefault(host.boot_id or host.name, len(places)) for host, _ in told]
        first = [by_process.index(place) for place in range(len(places))]
        return cls(
            hosts=tuple(told[process][0] for process in first),
            mounts=tuple(
                replace(mount, host=by_process[process])
                for process in first
                for mount in told[process][1]
            ),
            host_of=tuple(
                {
                    stream.process: by_process[worker] if group.size > 1 else 0
                    for stream, worker in zip(streams, folded.worker.tolist(), strict=True)
                    if worker >= 0
                }.items()
            ),
        )

    def described(self, recording: Metadata) -> Metadata:
        """Return the metadata of a recording as those of a result that was measured here."""
        host_of = dict(self.host_of)
        return replace(
            recording,
            hosts=self.hosts,
            mounts=self.mounts,
            processes=tuple(
                replace(process, host=host_of.get(number, 0))
                for number, process in enumerate(recording.processes)
            ),
            recorded_on=RecordedOn(recording.hosts, recording.mounts),
        )


def _mounts(folders: Sequence[Path]) -> tuple[Mount, ...]:
    """Return the file systems of some folders; what direct I/O asks for is asked of a file."""
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=folders[0], prefix="probe-") as probe:
        return find_mounts([probe.name, *(os.path.join(one, "") for one in folders)], 0)
    return find_mounts([os.path.join(one, "") for one in folders], 0)
