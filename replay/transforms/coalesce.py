"""Join small requests into large ones."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints, all_but, distinct, packed
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.chains import adjacent
from iotrace.replay.transforms.reshape import merge, recut
from iotrace.traces.errors import PlanError

GATHERS = ("copy", "vectored")
BLOCK_BYTES = 4096  # devices that take 512 still work in 4 KiB inside

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Coalesce:
    """Join adjacent requests of one stream, up to `size_bytes`.

    Joined are requests of one op through one handle in one phase and step, each beginning where
    the one before ended, with no sync, close, rename, truncation or conflicting request on the
    file between them. The joined requests are cut at multiples of `size_bytes` in the file, so
    that their inner edges are aligned. Where that would give more requests than there were, as
    where they are as large already, each keeps its size but for less than a block: an edge
    between two moves to a whole block. So only the two ends of what is adjacent can be part of
    a block, and no more requests come out than go in. A joined write takes the place of its last
    part, a joined read that of its first.

    Attributes:
        size_bytes: the most that requests are joined up to, in whole blocks where it has any.
        gather: `copy` small parts together, or hand every part over as it is, `vectored`.
        block_bytes: that edges between requests are moved to multiples of.

    A replay pays for the copying as an engine would: parts of less than 16 KiB, and what direct
    I/O leaves over of larger ones at the edges of blocks, are copied into one buffer; the rest of
    a large part goes from where it lies, in the same request. This takes the engine's memory to
    be laid out like the file, modulo a block, as a staging buffer is; a device that asks for less
    alignment (NVMe: 4 bytes) does without.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 0 3
    ... write a 3 3
    ... write a 6 4
    ... sync a
    ... write a 10 2
    ... close a''')
    >>> print(listing(Coalesce(size_bytes=8)(plan)))
    open a w+create
    write a 0 8  [0+3, 3+3, 6+2]
    write a 8 2
    sync a
    write a 10 2
    close a
    """

    size_bytes: int = 8 << 20
    gather: str = "copy"
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("--coalesce-size must be at least 1 byte")
        if self.block_bytes < 1:
            raise PlanError("the block of coalesced requests must be at least 1 byte")
        if self.gather not in GATHERS:
            raise PlanError(f"--gather must be one of {', '.join(GATHERS)}")

    def __call__(self, plan: Plan) -> Plan:
        """Return the coalesced plan."""
        plan.require_buffered("coalesce")
        parameters: tuple[tuple[str, object], ...] = (
            ("size_bytes", self.size_bytes),
            ("gather", self.gather),
        )
        if self.block_bytes != BLOCK_BYTES:
            parameters += (("block_bytes", self.block_bytes),)
        applied = Applied("coalesce", parameters)
        requests = plan.requests
        order, chain = adjacent(plan)
        if not len(order):
            return plan.derive(applied, requests)
        offset, length = requests.at("offset", order), requests.at("length", order)
        starts = np.cumsum(length) - length
        reads = requests.at("op", order) == Op.READ
        cuts = self._cuts(offset, length, chain, starts, reads)
        bounds = np.append(distinct(cuts), length.sum())
        first = np.searchsorted(starts, bounds[:-1], side="right") - 1
        last = np.searchsorted(starts, bounds[1:] - 1, side="right") - 1
        parent = order[np.where(reads[first], first, last)]
        at = offset[first] + bounds[:-1] - starts[first]
        del offset, chain
        line = packed(requests, plan.pieces, order)
        rows, pieces = recut(requests, line, bounds, parent, at)
        gather = np.where(first == last, rows["gather"], GATHERS.index(self.gather))
        think_ns, may_be_short = _carried(requests, order, starts, starts + length, bounds)
        rows = rows.having(gather=gather, think_ns=think_ns, may_be_short=may_be_short)
        others = all_but(len(requests), order)
        merged = merge((rows, parent, 0), (requests.take(others), others, 0))
        return plan.derive(applied, merged, pieces)

    def _cuts(self, offset: Ints, length: Ints, chain: Ints, starts: Ints, reads: Mask) -> Ints:
        """Return the positions on the line at which a request begins."""
        fresh = np.concatenate([[True], chain[1:] != chain[:-1]])
        joints = np.flatnonzero(~fresh)
        if not len(joints):
            return starts
        block_bytes = self.block_bytes if self.size_bytes >= self.block_bytes else 1
        size_bytes = self.size_bytes // block_bytes * block_bytes
        edge, of = offset[joints], chain[joints]
        # A stretch of a chain that has a joint everywhere is cut up, or else keeps its joints.
        down, up = edge // size_bytes * size_bytes, -(-edge // size_bytes) * size_bytes
        apart = (of[1:] != of[:-1]) | (down[1:] > up[:-1])
        stretch = np.cumsum(np.concatenate([[False], apart]))
        begin = np.flatnonzero(fresh)
        low = offset[begin]
        high = (low + np.add.reduceat(length, begin))[of]
        shift, low = (starts[begin] - low)[of], low[of]
        moved = np.where(reads[joints], -(-edge // block_bytes), edge // block_bytes) * block_bytes
        # Of the joints between two multiples, the first and the last ask for both.
        turns = apart | (down[1:] != down[:-1])
        some = np.flatnonzero(np.append(True, turns) | np.append(turns, True))
        at = np.append(down[some], up[some])
        cuts, owner = _inside(at, *(np.tile(c[some], 2) for c in (shift, low, high, stretch)))
        pays = np.bincount(owner, minlength=stretch[-1] + 1) <= np.bincount(stretch)
        kept = ~pays[stretch]
        stay, _ = _inside(*(column[kept] for column in (moved, shift, low, high, stretch)))
        return np.concatenate([starts[fresh], cuts[pays[owner]], stay])


def _inside(at: Ints, shift: Ints, low: Ints, high: Ints, owner: Ints) -> tuple[Ints, Ints]:
    """Return the places that lie inside their chains, each once, on the line; and their owners."""
    inside = (at > low) & (at < high)
    cuts, kept = np.unique((at + shift)[inside], return_index=True)
    return cuts, owner[inside][kept]


def _carried(
    requests: Requests, order: Ints, starts: Ints, ends: Ints, bounds: Ints
) -> tuple[Ints, Mask]:
    """Return the pauses of the parts of each new request, and whether one may be short."""
    reads = requests.at("op", order) == Op.READ
    begun = np.searchsorted(np.where(reads, starts, ends - 1), bounds)
    pauses = np.cumsum(requests.at("think_ns", order))
    think_ns = np.diff(np.append(0, pauses)[begun])
    short = np.flatnonzero(requests.at("may_be_short", order))
    may_be_short = np.zeros(len(bounds) - 1, np.bool_)
    first = np.searchsorted(bounds, starts[short], side="right") - 1
    last = np.searchsorted(bounds, ends[short] - 1, side="right") - 1
    for place, until in zip(first.tolist(), last.tolist(), strict=True):
        may_be_short[place : until + 1] = True
    return think_ns, may_be_short
