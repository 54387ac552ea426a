"""The options that reshape requests, as the list of transforms they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.plan import Plan
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.aggregate import STRIPE_BYTES, Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.broadcast import Broadcast
from iotrace.replay.transforms.buffered import Buffered
from iotrace.replay.transforms.coalesce import BLOCK_BYTES, Coalesce
from iotrace.replay.transforms.direct import OPS, Direct
from iotrace.replay.transforms.drop_behind import DropBehind
from iotrace.replay.transforms.mapped import Mapped
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.preallocate import Preallocate
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.replay.transforms.reorder import Reorder
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import MaxRequest, Split
from iotrace.traces.errors import PlanError
from iotrace.traces.lustre import stripes
from iotrace.traces.remedies import with_remedy

COALESCE_BYTES = 8 << 20

Transform = Callable[[Plan], Plan]


@dataclass(frozen=True)
class Shape:
    """How requests are reshaped. `None` leaves them as recorded.

    Attributes:
        op: `write`, `read` or `all`.
        coalesce_bytes: join adjacent requests up to this.
        gather: join them by vectored requests, not by a copy.
        aggregate: `rank`, `host` or `shared`: put the bytes of all files into one per each.
        stripe_bytes: what the regions of ranks in a file begin at; None: the target's stripe.
        align: move extents to block boundaries.
        align_bytes: the block; None: what the file system asks for.
        split_bytes: cut larger requests to this.
        direct: with O_DIRECT, or through the page cache.
        direct_op: of which ops: `write`, `read` or `all`.
        direct_least_bytes: of requests of at least this.
        broadcast: read each byte once per step.
        reorder: issue requests by offset.
        preallocate: give files their size first.
        overwrite: let files be there before, of old blocks.
        drop_behind: put written files out of the page cache.
        map_advice: read through mapped files, with this advice on them; None: by reads.
        prefetch_bytes: read files so far ahead of their loads.
        max_request_bytes: the most that goes into one request, as a network file system has it.
    """

    op: str = "all"
    aggregate: str | None = None
    stripe_bytes: int | None = None
    coalesce_bytes: int | None = None
    gather: bool = False
    align: bool = False
    align_bytes: int | None = None
    split_bytes: int | None = None
    direct: bool | None = None
    direct_op: str = "all"
    direct_least_bytes: int = 0
    broadcast: bool = False
    reorder: bool = False
    preallocate: bool = False
    overwrite: bool = False
    drop_behind: bool = False
    map_advice: str | None = None
    prefetch_bytes: int | None = None
    max_request_bytes: int | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether nothing but the choice of ops differs from the recording."""
        return self == Shape(op=self.op)


def transforms(shape: Shape, root: Path | None) -> list[Transform]:
    """Return the transforms of `shape` in the order they apply.

    Requests are chosen first, and freed of what was recorded direct if that is asked for;
    broadcast chooses among reads. Then files are put together and requests ordered, so that more
    of them can be joined; they are joined before they are aligned, so that only the final ones
    are padded, and cut after that. Files get the sizes that this gives them, or are there with
    these, are dropped as they are then, and read ahead as they are loaded then. Direct comes after
    that, because it parts whole blocks from what is left over; what the file system itself would
    cut is last.

    Args:
        shape: what was asked for.
        root: folder to replay in, whose block and stripe are asked for; None: not to be touched.

    Raises:
        PlanError: nothing can be written in `root`.
    """
    chosen: list[Transform] = []
    block_bytes = _block_bytes(root) if shape.align or shape.direct else BLOCK_BYTES
    if shape.op != "all":
        chosen.append(Select(ops=(shape.op,)))
    if shape.direct is False:
        chosen.append(Buffered())
    if shape.broadcast:
        chosen.append(Broadcast())
    if shape.aggregate is not None:
        chosen.append(Aggregate(shape.aggregate, shape.stripe_bytes or _stripe_bytes(root)))
    if shape.reorder:
        chosen.append(Reorder())
    if shape.coalesce_bytes is not None:
        gather = "vectored" if shape.gather else "copy"
        chosen.append(Coalesce(shape.coalesce_bytes, gather, block_bytes))
    if shape.align:
        chosen.append(Align(shape.align_bytes or block_bytes))
    if shape.split_bytes is not None:
        chosen.append(Split(shape.split_bytes))
    if shape.preallocate:
        chosen.append(Preallocate())
    if shape.overwrite:
        chosen.append(Overwrite())
    if shape.drop_behind:
        chosen.append(DropBehind())
    if shape.map_advice is not None:
        chosen.append(Mapped(shape.map_advice))
    if shape.prefetch_bytes is not None:
        chosen.append(Prefetch(shape.prefetch_bytes))
    if shape.direct:
        ops = OPS if shape.direct_op == "all" else (shape.direct_op,)
        chosen.append(Direct(block_bytes, ops, shape.direct_least_bytes))
    if shape.max_request_bytes is not None:
        chosen.append(MaxRequest(shape.max_request_bytes))
    return chosen


def _stripe_bytes(root: Path | None) -> int:
    """Return the stripe of new files in `root`, where they have one."""
    return (stripes(str(root))[0] if root else None) or STRIPE_BYTES


def _block_bytes(root: Path | None) -> int:
    """Return the block that O_DIRECT asks for in `root`, at least 4 KiB."""
    if root is None:
        return BLOCK_BYTES
    try:
        asked_bytes = probe_target(root).offset_alignment_bytes
    except OSError as error:
        raise PlanError(
            f"nothing can be written in {root}: " + with_remedy(error, "choose another with --root")
        ) from error
    return max(asked_bytes or 0, BLOCK_BYTES)
