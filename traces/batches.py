"""A trace a row group at a time, for what need not have all of it in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from iotrace.traces.environment import available_memory_bytes
from iotrace.traces.location import locate
from iotrace.traces.metadata import Metadata
from iotrace.traces.newer import is_newer
from iotrace.traces.schema import COLUMNS, REQUIRED_COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.trace_file import MEMORY_SHARE, TraceFile, refuse_over


class Batches:
    """The row groups of a trace, as they are stored: what they hold may be out of order.

    Attributes:
        metadata: of the trace's first file.
        is_whole: whether the rows are those of `read_trace`, but for their order. Those of several
            files are joined, and words of a later version are sorted out, with all rows at hand.
        rows: of the first file.
        limit_bytes: most memory that rows may take: a third of what is available.

    Raises:
        TraceFormatError: as `read_trace`.
    """

    def __init__(self, location: str | Path, columns: Sequence[str]) -> None:
        found = locate(location)
        self._file = TraceFile(found, found.paths[0])
        self._columns = [name for name in COLUMNS if name in columns or name in REQUIRED_COLUMNS]
        self.metadata: Metadata = self._file.metadata
        self.is_whole = len(found.paths) == 1 and not is_newer(self.metadata.format_version)
        self.rows = self._file.rows
        self.limit_bytes = available_memory_bytes() // MEMORY_SHARE

    def __iter__(self) -> Iterator[Trace]:
        """Read them, from the first on each time; one row group takes at most what a trace may."""
        return self._file.batches(self._columns, self.limit_bytes)

    def refuse_over(self, size_bytes: int) -> None:
        """Refuse rows that take more memory than they may.

        Raises:
            TraceFormatError: as `read_trace` says it.
        """
        refuse_over(self.limit_bytes, size_bytes, self._file.path)
