"""The options that reshape requests, as the list of transforms they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.plan import Plan
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.aggregate import STRIPE_BYTES, Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.buffered import Buffered
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import Split
from iotrace.traces.errors import PlanError
from iotrace.traces.lustre import stripes

COALESCE_BYTES = 8 << 20
_LEAST_BLOCK_BYTES = 4096  # devices that take 512 still work in 4 KiB inside

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

    @property
    def is_recorded(self) -> bool:
        """Whether nothing but the choice of ops differs from the recording."""
        return self == Shape(op=self.op)


def transforms(shape: Shape, root: Path | None) -> list[Transform]:
    """Return the transforms of `shape` in the order they apply.

    Requests are chosen first, and freed of what was recorded direct if that is asked for. Then
    files are put together, so that the requests of what were several can be joined; these are
    joined before they are aligned, so that only the final ones are padded, and cut after that.
    Direct is last, because it parts whole blocks from what is left over.

    Args:
        shape: what was asked for.
        root: folder to replay in, whose block and stripe are asked for; None: not to be touched.

    Raises:
        PlanError: nothing can be written in `root`.
    """
    chosen: list[Transform] = []
    if shape.op != "all":
        chosen.append(Select(ops=(shape.op,)))
    if shape.direct is False:
        chosen.append(Buffered())
    if shape.aggregate is not None:
        chosen.append(Aggregate(shape.aggregate, shape.stripe_bytes or _stripe_bytes(root)))
    if shape.coalesce_bytes is not None:
        gather = "vectored" if shape.gather else "copy"
        chosen.append(Coalesce(shape.coalesce_bytes, gather))
    block_bytes = _block_bytes(root) if shape.align or shape.direct else _LEAST_BLOCK_BYTES
    if shape.align:
        chosen.append(Align(shape.align_bytes or block_bytes))
    if shape.split_bytes is not None:
        chosen.append(Split(shape.split_bytes))
    if shape.direct:
        chosen.append(Direct(block_bytes))
    return chosen


def _stripe_bytes(root: Path | None) -> int:
    """Return the stripe of new files in `root`, where they have one."""
    return (stripes(str(root))[0] if root else None) or STRIPE_BYTES


def _block_bytes(root: Path | None) -> int:
    """Return the block that O_DIRECT asks for in `root`, at least 4 KiB."""
    if root is None:
        return _LEAST_BLOCK_BYTES
    try:
        asked_bytes = probe_target(root).offset_alignment_bytes
    except OSError as error:
        raise PlanError(
            f"nothing can be written in {root}: {error.strerror}; choose another with --root"
        ) from error
    return max(asked_bytes or 0, _LEAST_BLOCK_BYTES)
