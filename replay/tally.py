"""A dry run in numbers: what was recorded and what would be done, of a whole or of its parts."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from iotrace.replay.build import plan_from_trace
from iotrace.replay.measure import Moved
from iotrace.replay.parts import Part
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.result import Outcome
from iotrace.replay.session import dry_run
from iotrace.traces.file_summaries import FileSummaries
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.trace import Trace


@dataclass(frozen=True)
class Tally:
    """What a dry run tells.

    Attributes:
        recorded: totals of the recording.
        planned: what would be done.
        notes: what is not done as recorded.
        applied: the transforms.
        simulated: see `Outcome`.
        missing: what the recording is known to lack.
    """

    recorded: Moved
    planned: Moved
    notes: tuple[Note, ...]
    applied: tuple[Applied, ...] = ()
    simulated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome, recording: Metadata) -> "Tally":
        """Return what a dry run of a whole plan tells."""
        of, (made, *applied) = outcome.recorded, outcome.plan.history
        return cls(
            recorded=Moved(**{field.name: getattr(of, field.name, 0) for field in fields(Moved)}),
            planned=outcome.repetitions[-1].moved,
            notes=(*_summed(made.notes), *(note for one in applied for note in one.notes)),
            applied=tuple(applied),
            simulated=outcome.simulated,
            missing=tuple(recording.completeness.problems()),
        )


def tally_parts(parts: Iterable[Part], queue_depth: int = 1) -> Tally:
    """Plan the parts of a recording one after the other, and return the sums.

    Args:
        parts: of the recording, all of them.
        queue_depth: requests in flight per stream.

    Raises:
        PlanError: one cannot be planned.
    """
    recorded, planned = _Sum(), _Sum()
    notes: tuple[Note, ...] = ()
    missing: tuple[str, ...] = ()
    for part in parts:
        rows = part.rows
        if not part.before:
            missing = tuple(rows.metadata.completeness.problems())
        recorded.add(*_recorded(rows))
        plan = plan_from_trace(rows, before=part.before, folders=part.folders)
        del part, rows  # are not needed any more
        plan.validate()
        planned.add(dry_run(plan, queue_depth).moved, _names(plan))
        notes = _summed((*notes, *plan.notes))
        del plan
    return Tally(recorded.moved, planned.moved, notes, missing=missing)


class _Sum:
    """Totals of parts; a file in several of them is one."""

    def __init__(self) -> None:
        self._total = np.zeros(len(fields(Moved)), object)  # of any size
        self._names: set[str] = set()

    def add(self, moved: Moved, names: set[str]) -> None:
        self._total += np.array(astuple(moved), object)
        self._names |= names

    @property
    def moved(self) -> Moved:
        return replace(Moved(*self._total), files=len(self._names))


def _recorded(rows: Trace) -> tuple[Moved, set[str]]:
    """Return what was recorded, and of which files."""
    requests = rows.where(rows.is_request)
    data = requests.where(requests.row_mask(op=DATA_OPS))
    written, read = (
        int(data.ints("result", null=0)[data.row_mask(op=op)].clip(0).sum())
        for op in ("write", "read")
    )
    names = {one.path for one in FileSummaries.of(requests)}
    return Moved(len(requests), len(data), len(names), written, read, 0), names


def _names(plan: Plan) -> set[str]:
    """Return the names of the files that a plan uses."""
    used = np.zeros(len(plan.files) + 1, np.bool_)  # the last: no file
    used[plan.requests["file"]] = True
    return plan.files.names(used[:-1])


def _summed(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return one note of each kind, in alphabetical order."""
    found: dict[str, Note] = {}
    for note in notes:
        before = found.get(note.what, Note(note.what))
        found[note.what] = Note(
            note.what,
            before.count + note.count,
            before.size_bytes + note.size_bytes,
            tuple(sorted({*before.files, *note.files})),
        )
    return tuple(found[what] for what in sorted(found))
