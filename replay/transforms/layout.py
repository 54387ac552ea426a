"""The files that take the bytes of others, and where in them each byte goes."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import first_of_each
from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.relocation import Relocation
from iotrace.replay.transforms.regions import Cells, Groups, Wanted, place_cells

_BLOCK_BYTES = 4096  # what requests that were recorded with O_DIRECT keep their place in


@dataclass(frozen=True, eq=False)
class Layout:
    """New files, numbered from 0.

    Attributes:
        names: what to call each.
        size_bytes: where each ends.
        of_file: per old file and new file, whether the one has bytes in the other: two columns.
        step: the map from old places to new ones; new files come after the old ones.
    """

    names: tuple[str, ...]
    size_bytes: Ints
    of_file: tuple[Ints, Ints]
    step: Relocation

    @classmethod
    def of(cls, plan: Plan, wanted: Wanted, layout: str, stripe_bytes: int) -> "Layout":
        """Return the layout of `wanted`.

        Args:
            plan: whose files they are.
            wanted: what is read and written of them.
            layout: `rank`, `host` or `shared`.
            stripe_bytes: what the regions of ranks begin at multiples of.
        """
        holders = _Holders.of(plan, layout)
        groups = Groups.of(plan, wanted)
        region = holders.region_of_stream[plan.requests["stream"][wanted.index]]
        cells = Cells.of(wanted, region)
        keys = np.stack([groups.of_file[cells.file], holders.of_region[cells.region]])
        kinds, target = np.unique(keys, axis=1, return_inverse=True)
        target = target.ravel()
        unit = np.ones(kinds.shape[1], np.int64)
        unit[target[np.isin(cells.file, _direct_files(plan))]] = _BLOCK_BYTES
        order = _order(plan, wanted, region, cells)
        place, size_bytes = place_cells(cells, target, order, unit, stripe_bytes)
        count = len(plan.files)
        pairs = np.unique(np.stack([cells.file, target]), axis=1)
        return cls(
            names=tuple(
                _name(int(groups.steps[group]), bool(groups.is_written[group]), holders.names[one])
                for group, one in kinds.T.tolist()
            ),
            size_bytes=size_bytes,
            of_file=(pairs[0], pairs[1]),
            step=Relocation.of(
                cells.file, cells.start, cells.end - cells.start, target + count, place
            ),
        )


@dataclass(frozen=True, eq=False)
class _Holders:
    """Who the new files are for, and which region each stream's bytes go to."""

    names: tuple[str, ...]
    of_region: Ints
    region_of_stream: Ints

    @classmethod
    def of(cls, plan: Plan, layout: str) -> "_Holders":
        regions = sorted({stream.region for stream in plan.streams})
        number = {region: index for index, region in enumerate(regions)}
        hosts = {stream.region: stream.host for stream in plan.streams}
        if layout == "rank":
            names = [f"{('rank', 'process')[kind]}-{index}" for kind, index in regions]
        elif layout == "host":
            names = [f"host-{hosts[region]}" for region in regions]
        else:
            names = ["shared"] * len(regions)
        place = {name: index for index, name in enumerate(dict.fromkeys(names))}
        return cls(
            tuple(place),
            np.array([place[name] for name in names], np.int64),
            np.array([number[stream.region] for stream in plan.streams], np.int64),
        )


def _name(step: int, is_written: bool, holder: str) -> str:
    return (f"step-{step}-" if step >= 0 else "") + holder + ("" if is_written else "-loaded")


def _direct_files(plan: Plan) -> npt.NDArray[np.int32]:
    rows = plan.requests
    direct = (rows["op"] == Op.OPEN) & (rows["flags"] & os.O_DIRECT != 0)
    return np.unique(rows["file"][direct])


def _order(plan: Plan, wanted: Wanted, region: Ints, cells: Cells) -> tuple[Ints, ...]:
    """Return what sorts the cells of a region: the stream that first touched the file, and when.

    What a stream does stays together, so that it can be coalesced.
    """
    count = int(max(region.max(initial=0), cells.region.max(initial=0))) + 1
    found, first = first_of_each(wanted.file * count + region)
    touched = wanted.index[first[np.searchsorted(found, cells.file * count + cells.region)]]
    return cells.start, touched, plan.requests["stream"][touched].astype(np.int64)
