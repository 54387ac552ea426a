"""What a trace knows about itself: where, when and how it was made, and what it lacks.

Stored as one JSON object in the Parquet file (key `iotrace`). Every class keeps the keys that a
later 1.x writer added, in `extra`, and writes them back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from iotrace.traces.codec import decode, dump_json, parse_json
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.schema import FORMAT_VERSION, is_supported_version
from iotrace.traces.words import plural, sized

# The kernel's count of a process has bytes nobody can record. Written: messages that libc and the
# loader make by themselves (error(), getopt). Read: 832 of each library by the loader, files of
# /proc and /sys by libc, again and again in a long job; mpirun was seen to read 127 KB that way. Up
# to these bytes (of reads also up to the share) they are told and make no trace incomplete.
UNSEEN_WRITTEN_BYTES_TOLERATED = 4096
UNSEEN_READ_BYTES_TOLERATED = 256 << 10
UNSEEN_READ_SHARE_TOLERATED = 0.01


@dataclass(frozen=True)
class Host:
    """A machine that ran part of the job. `None` is unknown; a limit of `None` is no limit.

    Attributes:
        gives_memory_back: whether it is a virtual machine whose free memory goes back to its
            hypervisor, so that the first use of free memory is slow (free page reporting).
    """

    name: str = ""
    boot_id: str = ""
    kernel: str = ""
    machine: str = ""
    cores: int | None = None
    memory_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    gives_memory_back: bool | None = None
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Mount:
    """A file system the job used. `host` is an index into `Metadata.hosts`."""

    path: str
    host: int = 0
    source: str = ""
    file_system: str = ""
    version: str = ""
    options: str = ""
    block_bytes: int | None = None
    dio_offset_alignment_bytes: int | None = None
    dio_memory_alignment_bytes: int | None = None
    read_ahead_bytes: int | None = None
    stripe_bytes: int | None = None
    stripe_count: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RecordedOn:
    """Where the recording was made that a result is a replay of; empty for what is no result."""

    hosts: tuple[Host, ...] = ()
    mounts: tuple[Mount, ...] = ()
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Process:
    """A process of the job. `rank` is -1 outside a launcher; `host` indexes `Metadata.hosts`."""

    pid: int
    host: int = 0
    parent_pid: int | None = None
    start_ticks: int | None = None
    argv: tuple[str, ...] = ()
    executable: str = ""
    rank: int = -1
    local_rank: int = -1
    world_size: int | None = None
    python: str = ""
    prefix: str = ""
    libraries: dict[str, str] = field(default_factory=dict, hash=False)
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class FileCompleteness:
    """Whether the recorded writes explain a file as it is now.

    `process` and `file` are the values of these columns; `recorded_bytes_written` is the end of
    the last byte of the recorded writes that no hole precedes, or all their bytes where some have
    no offset; `final_size` is `None` for a file that is gone.
    """

    path: str
    process: int
    file: int
    recorded_bytes_written: int
    final_size: int | None
    complete: bool
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class ProcessCompleteness:
    """Bytes recorded in a process against the kernel's own count (/proc/PID/io).

    `other_*` went through pipes, sockets and terminals; `ignored_*` were left out by scope;
    `kernel_*` is `None` when it could not be read. `process` is the column's value.
    """

    process: int
    recorded_bytes_read: int = 0
    recorded_bytes_written: int = 0
    kernel_bytes_read: int | None = None
    kernel_bytes_written: int | None = None
    other_bytes_read: int = 0
    other_bytes_written: int = 0
    ignored_bytes_read: int = 0
    ignored_bytes_written: int = 0
    ignored_opens: int = 0
    extra: dict[str, object] = field(default_factory=dict, hash=False)

    @property
    def unaccounted_bytes_read(self) -> int:
        """Bytes the kernel counted as read and nothing here explains; 0 when unknown."""
        explained = self.recorded_bytes_read + self.other_bytes_read + self.ignored_bytes_read
        return max(0, (self.kernel_bytes_read or 0) - explained)

    @property
    def unaccounted_bytes_written(self) -> int:
        """Bytes the kernel counted as written and nothing here explains; 0 when unknown."""
        explained = (
            self.recorded_bytes_written + self.other_bytes_written + self.ignored_bytes_written
        )
        return max(0, (self.kernel_bytes_written or 0) - explained)

    @property
    def unseen_bytes_read(self) -> int:
        """The unaccounted bytes read, if they are more than loader and libc read themselves."""
        share = int((self.kernel_bytes_read or 0) * UNSEEN_READ_SHARE_TOLERATED)
        unaccounted = self.unaccounted_bytes_read
        return unaccounted if unaccounted > max(UNSEEN_READ_BYTES_TOLERATED, share) else 0

    @property
    def unseen_bytes_written(self) -> int:
        """The unaccounted bytes written, if they are more than libc's own messages."""
        unaccounted = self.unaccounted_bytes_written
        return unaccounted if unaccounted > UNSEEN_WRITTEN_BYTES_TOLERATED else 0


@dataclass(frozen=True)
class Completeness:
    """What the trace does not hold. Counts are over all processes."""

    files: tuple[FileCompleteness, ...] = ()
    processes: tuple[ProcessCompleteness, ...] = ()
    dropped_records: int = 0
    unknown_descriptors: int = 0
    unmatched_completions: int = 0
    cut_texts: int = 0
    torn_records: int = 0
    notes: tuple[str, ...] = ()
    extra: dict[str, object] = field(default_factory=dict, hash=False)

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.problems()

    def problems(self) -> list[str]:
        """Return what is missing, one sentence each; empty when the trace is complete."""
        return [*self._lost_records(), *self._incomplete_files(), *self._unseen(), *self.notes]

    @property
    def unaccounted_bytes_written(self) -> int:
        """Bytes that processes wrote and nothing explains, those that are no problem included."""
        return sum(process.unaccounted_bytes_written for process in self.processes)

    @property
    def unaccounted_bytes_read(self) -> int:
        """The same of reads."""
        return sum(process.unaccounted_bytes_read for process in self.processes)

    def _lost_records(self) -> Iterable[str]:
        counts = (
            (self.dropped_records, "record", "dropped (no raw log, or no room in it)"),
            (self.unknown_descriptors, "request", "on descriptors that could not be resolved"),
            (self.unmatched_completions, "asynchronous request", "without its completion"),
            (self.cut_texts, "name", "of a file or a tensor cut short"),
            (self.torn_records, "record", "torn by the end of its process"),
        )
        return [f"{plural(count, noun)} {what}" for count, noun, what in counts if count]

    def _incomplete_files(self) -> Iterable[str]:
        return dict.fromkeys(  # once, however many processes used it
            f"{f.path}: {f.recorded_bytes_written} bytes recorded as written, "
            + ("the file is gone" if f.final_size is None else f"final size {f.final_size}")
            for f in self.files
            if not f.complete
        )

    def _unseen(self) -> Iterable[str]:
        for p in self.processes:
            for unseen, verb in ((p.unseen_bytes_written, "wrote"), (p.unseen_bytes_read, "read")):
                if unseen:
                    yield f"process {p.process} {verb} {sized(unseen)} that were not seen"


@dataclass(frozen=True)
class HistoryEntry:
    """One thing that was done to the trace; docs/trace-format.md lists the actions."""

    action: str
    detail: str = ""
    realtime_ns: int | None = None
    tool_version: str = ""
    extra: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Metadata:
    """The trace's description of itself.

    `epoch_realtime_ns` is the wall-clock time (ns since 1970, UTC) of `start_ns` = 0, and
    `epoch_monotonic_ns` the same instant on the host's CLOCK_MONOTONIC, where it is known. Traces
    that say neither have one epoch if they have one `clock`. Times of several `clocks`, which
    nothing joins, stand one after another.
    `hosts` and `mounts` are those of the rows; of a result, `recorded_on` those of its recording.
    """

    epoch_realtime_ns: int = 0
    epoch_monotonic_ns: int | None = None
    clock: str = ""
    clocks: int = 1
    format_version: str = FORMAT_VERSION
    tool_version: str = ""
    command: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ()
    mounts: tuple[Mount, ...] = ()
    processes: tuple[Process, ...] = ()
    recorded_on: RecordedOn = field(default_factory=RecordedOn)
    completeness: Completeness = field(default_factory=Completeness)
    history: tuple[HistoryEntry, ...] = ()
    extra: dict[str, object] = field(default_factory=dict, hash=False)

    @property
    def places(self) -> tuple[RecordedOn, RecordedOn]:
        """Where the rows were made, and where the recording was."""
        return RecordedOn(self.hosts, self.mounts), self.recorded_on

    def with_history(self, entry: HistoryEntry) -> "Metadata":
        """Return the same metadata with `entry` as the last thing done."""
        return replace(self, history=(*self.history, entry))

    def to_json(self) -> bytes:
        """Return the stored form, ASCII JSON."""
        return dump_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> "Metadata":
        """Return the metadata stored as `data`.

        Raises:
            TraceFormatError: `data` is not the metadata of a trace, or of a later major version.
        """
        tree = parse_json(data)
        version = tree.get("format_version")
        if not isinstance(version, str) or not is_supported_version(version):
            raise TraceFormatError(
                f"trace format {str(version)[:40]!r} is not readable here (this version reads "
                f"{FORMAT_VERSION.partition('.')[0]}.x); install a newer iotrace"
            )
        return decode(cls, tree)
