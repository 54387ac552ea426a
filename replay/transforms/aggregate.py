"""Put the bytes of many files into few."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.files import zeroes_of
from iotrace.replay.job import MAX_OFFSET_BYTES, Op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.transforms.layout import Layout
from iotrace.replay.transforms.move import Move
from iotrace.replay.transforms.regions import Wanted
from iotrace.traces.errors import PlanError

LAYOUTS = ("rank", "host", "shared")
STRIPE_BYTES = 1 << 20

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Aggregate:
    """Put the bytes of all files into one file per rank, host or job, and per step.

    The bytes of a rank lie one after the other as it first touched them, file by file. In a file
    of several ranks, each rank's region begins at the exclusive prefix sum of the sizes before
    it, each rounded up to a stripe. A byte that several ranks write belongs to the lowest; one
    that is only read, to the lowest reader. A rank opens each file once to save and once to load
    a step. Of its syncs the last remains, and so of those of folders that lose files, as one of
    the folder of the new file; of the renames that commit the old files one; and the file is
    removed with the last of them. Reads follow their bytes; what they asked for beyond
    the end of a file is gone. Where a file was emptied and read as zeros, the bytes that it had
    before are still there: reads move them, and do not look at them. Where a recording has
    steps, files that none of them touches are left where they are.

    Attributes:
        layout: of LAYOUTS.
        stripe_bytes: what the regions of ranks begin at multiples of.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 0 10
    ... sync a
    ... close a
    ... open b w+create
    ... write b 0 5
    ... sync b
    ... close b
    ... open b r
    ... read b 0 9 -> 5
    ... close b''')
    >>> print(listing(Aggregate("rank")(plan)))
    open process-0 w+create
    write process-0 0 10  [a 0+10]
    write process-0 10 5  [b 0+5]
    sync process-0
    close process-0
    open process-0 r
    read process-0 10 5  [b 0+5]
    close process-0
    """

    layout: str = "rank"
    stripe_bytes: int = STRIPE_BYTES

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise PlanError(f"--aggregate must be one of {', '.join(LAYOUTS)}")
        if not 1 <= self.stripe_bytes < MAX_OFFSET_BYTES:
            raise PlanError("--stripe-size must be at least 1 byte")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan on the new files."""
        plan.require_buffered("aggregate")
        plan.require_new_files("aggregate")
        wanted, notes = _wanted(plan)
        parameters: tuple[tuple[str, object], ...] = (("layout", self.layout),)
        if self.layout != "rank":
            parameters += (("stripe_bytes", self.stripe_bytes),)
        applied = Applied("aggregate", parameters, notes)
        if not len(wanted.index):
            return plan.derive(applied, plan.requests)
        layout = Layout.of(plan, wanted, self.layout, self.stripe_bytes)
        return Move(plan, wanted, layout).carry_out(applied)


def _wanted(plan: Plan) -> tuple[Wanted, tuple[Note, ...]]:
    """Return what is to be moved, and what is left where it is."""
    rows = plan.requests
    data = np.flatnonzero(plan.is_data() & (rows["length"] > 0))
    holed = np.zeros(len(plan.files) + 1, np.bool_)
    holed[rows["file"][zeroes_of(rows)]] = True
    foreign = _are_foreign(plan, data) & ~holed
    counted = (
        ("files with holes punched", holed),
        ("files that no save or load touches", foreign),
    )
    notes = (Note(f"{what}, not aggregated", int(mask[:-1].sum())) for what, mask in counted)
    moves = ~(holed | foreign)[rows["file"][data]]
    return Wanted.of(plan, data[moves]), tuple(note for note in notes if note.count)


def _are_foreign(plan: Plan, data: Ints) -> Mask:
    """Return which files are used outside of all steps alone, if there are any steps."""
    rows = plan.requests
    outside = np.zeros(len(plan.files) + 1, np.bool_)
    in_step = rows["step"] >= 0
    if in_step.any():
        outside[rows["file"][data]] = True
        outside[rows["file"][in_step]] = False
    if outside[:-1].any():
        removal = Bindings.of(rows, plan.paths).removals(len(plan.files))
        # A file that another one replaces goes with that one's rename, which may be given up.
        outside[:-1] &= (removal < 0) | (rows["op"][removal] == Op.UNLINK)
    return outside
