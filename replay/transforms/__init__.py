"""Plan to plan: each transform is a frozen dataclass, called with a plan."""

from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.broadcast import Broadcast
from iotrace.replay.transforms.buffered import Buffered
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.drop_behind import DropBehind
from iotrace.replay.transforms.mapped import Mapped
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.preallocate import Preallocate
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.replay.transforms.reorder import Reorder
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import MaxRequest, Split

__all__ = [
    "Aggregate",
    "Align",
    "Broadcast",
    "Buffered",
    "Coalesce",
    "Direct",
    "DropBehind",
    "Mapped",
    "MaxRequest",
    "Overwrite",
    "Preallocate",
    "Prefetch",
    "Reorder",
    "Select",
    "Split",
]
