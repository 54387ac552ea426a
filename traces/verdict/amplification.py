"""How many bytes a save or load moves for each byte it needs, and how often it opens a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.grouping import first_rows, number_groups
from iotrace.traces.phases import Phase
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.episodes import Episode
from iotrace.traces.verdict.extents import Extents

_ITEM_BYTES = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
    "complex128": 16,
}


@dataclass(frozen=True)
class RepeatedTensor:
    """A tensor that a save wrote more than once, under one name and part."""

    name: str
    times: int
    bytes: int


@dataclass(frozen=True)
class Amplification:
    """Bytes of one save or load, counted in several ways.

    Attributes:
        moved_bytes: as the completions tell; `placed_bytes` those whose place in a file is known.
        unique_bytes: different bytes of files among the placed, over all ranks.
        rank_unique_bytes: different bytes per process, added up.
        tensor_bytes: different bytes of files that tensors take.
        foreign_bytes: unique, and of no tensor; 0 where no tensor was seen.
        spare_bytes: that tensors take beyond their shape: a view drags its whole storage along.
        spare_name: the tensor with most of them.
        opens: of files, and `files` how many different ones; `most_openers` the most processes
            that open one file, `most_opened` its path.
        lookups: stat and getxattr requests.
        repeated: tensors written more than once, the largest first.
        repeated_bytes: written beyond the first time.
    """

    moved_bytes: int
    placed_bytes: int
    unique_bytes: int
    rank_unique_bytes: int
    tensor_bytes: int
    foreign_bytes: int
    spare_bytes: int
    spare_name: str | None
    opens: int
    files: int
    most_openers: int
    most_opened: str | None
    lookups: int
    repeated: tuple[RepeatedTensor, ...]
    repeated_bytes: int

    @property
    def by_rank(self) -> float | None:
        """Placed bytes per different byte within a rank."""
        return self.placed_bytes / self.rank_unique_bytes if self.rank_unique_bytes else None

    @property
    def over_ranks(self) -> float | None:
        """Placed bytes per different byte over all ranks."""
        return self.placed_bytes / self.unique_bytes if self.unique_bytes else None


def amplification(episode: Episode, trace: Trace) -> Amplification:
    """Return the counts of one episode; `trace` has the tensors."""
    requests = episode.requests
    op = "write" if episode.phase == Phase.SAVE else "read"
    rows = requests.where(requests.is_op(op) & (requests.home >= 0))
    placed = rows.where(rows.has_offset)
    extents = Extents(placed.home.astype(np.int64), placed.offset, placed.moved)
    by_rank = Extents(
        placed.home.astype(np.int64) + (placed.process + 1) * len(requests.homes),
        placed.offset,
        placed.moved,
    )
    tensors = _tensors(episode, trace)
    home = requests.homes_of(tensors)
    lying = Extents(home, tensors.ints("offset"), tensors.ints("length", null=0))
    unique_bytes = extents.unique_bytes()
    foreign = unique_bytes - extents.shared_bytes(lying) if len(tensors) else 0
    repeated = _repeated(tensors, home) if episode.phase == Phase.SAVE else ()
    opens = requests.where(requests.is_op("open") & (requests.home >= 0))
    most_openers, most_opened = _most_openers(opens)
    spare_bytes, spare_name = _spare(tensors, home)
    return Amplification(
        moved_bytes=int(rows.moved.sum()),
        placed_bytes=int(placed.moved.sum()),
        unique_bytes=unique_bytes,
        rank_unique_bytes=by_rank.unique_bytes(),
        tensor_bytes=lying.unique_bytes(),
        foreign_bytes=foreign,
        spare_bytes=spare_bytes,
        spare_name=spare_name,
        opens=len(opens),
        files=len(np.unique(opens.home)),
        most_openers=most_openers,
        most_opened=most_opened,
        lookups=int(requests.is_op("stat", "getxattr").sum()),
        repeated=repeated,
        repeated_bytes=sum(tensor.bytes * (tensor.times - 1) for tensor in repeated),
    )


def _tensors(episode: Episode, trace: Trace) -> Trace:
    rows = trace.row_mask(layer="tensor", op=episode.name)
    return trace.where(rows & (trace.ints("step") == episode.step))


def _spare(tensors: Trace, home: IntArray) -> tuple[int, str | None]:
    """Return the bytes that extents have beyond what the tensors in them need.

    Several tensors may lie in one extent (one storage): their needs add up.
    """
    codes, dtypes = tensors.codes("dtype")
    item_bytes = np.array([*(_ITEM_BYTES.get(dtype, -1) for dtype in dtypes), -1])[codes]
    elements = tensors.element_counts()
    known = (item_bytes >= 0) & (elements >= 0)
    place = number_groups(home, tensors.ints("offset"))
    needed = np.bincount(place, weights=item_bytes * elements.astype(np.float64))
    spare = tensors.ints("length", null=0)[first_rows(place)] - needed
    spare[place[~known]] = 0
    if not spare.max(initial=0) > 0:
        return 0, None
    row = int(np.flatnonzero(place == spare.argmax())[-1])
    return int(spare.clip(min=0).sum()), tensors.text_at("name", row)


def _repeated(tensors: Trace, home: IntArray) -> tuple[RepeatedTensor, ...]:
    """Return the parts of tensors that lie at more than one place."""
    length, offset = tensors.ints("length", null=0), tensors.ints("offset")
    known = (length > 0) & (offset >= 0) & (home >= 0)
    rows = tensors.where(known)
    codes = rows.text_codes("name")
    size = rows.ints("length")
    part = number_groups(codes, rows.ints("tensor_offset", null=0), size)
    place = number_groups(part, home[known], rows.ints("offset"))
    once = first_rows(place)  # a part is at a place once, however often it is listed
    times = np.bincount(part[once], minlength=1)
    several = first_rows(part)[times[: int(part.max(initial=-1)) + 1] > 1]
    found = [
        RepeatedTensor(rows.text("name", codes[row]), int(times[part[row]]), int(size[row]))
        for row in several.tolist()
        if codes[row] >= 0
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes * (one.times - 1)))


def _most_openers(opens: Requests) -> tuple[int, str | None]:
    if not len(opens):
        return 0, None
    pairs = first_rows(number_groups(opens.home, opens.process))
    counts = np.bincount(opens.home[pairs])
    return int(counts.max()), opens.homes[int(counts.argmax())]
