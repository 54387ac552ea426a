"""The options that change the requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from typer import Option

from iotrace.tools.arguments import size_option
from iotrace.tools.shape import COALESCE_BYTES, Shape
from iotrace.traces.errors import PlanError

_SECTOR_BYTES = 512  # what Linux counts disks in


class LayerName(StrEnum):
    """Which rows of the trace become requests."""

    REQUEST = "request"
    TENSOR = "tensor"


class OpName(StrEnum):
    """Which half of the trace is replayed."""

    WRITE = "write"
    READ = "read"
    ALL = "all"


class LayoutName(StrEnum):
    """Whose bytes go into one file."""

    RANK = "rank"
    HOST = "host"
    SHARED = "shared"


class InterfaceName(StrEnum):
    """How reads reach the file."""

    MMAP = "mmap"
    PREAD = "pread"
    RING = "ring"


class AdviceName(StrEnum):
    """What the kernel is told about a mapped file."""

    PLAIN = "plain"
    SEQUENTIAL = "sequential"
    RANDOM = "random"
    WILLNEED = "willneed"


@dataclass(frozen=True)
class ShapePanel:
    """The options of `Shape`, and the layer it is made of; the order is that of the help."""

    title: ClassVar[str] = "Change the requests"

    aggregate: Annotated[
        LayoutName | None,
        Option(
            help="Put the bytes of all files of a rank, of a host, or of all ranks into one file "
            "per step.",
            show_default="files as recorded",
        ),
    ] = None
    stripe_size: Annotated[
        int | None,
        size_option(
            help="The ranks' regions in such a file begin at multiples of this.",
            default="the stripe of the file system, or 1MiB",
        ),
    ] = None
    coalesce: Annotated[bool, Option("--coalesce", help="Join adjacent requests of a stream.")] = (
        False
    )
    coalesce_size: Annotated[
        int | None, size_option(help="Join up to this size; implies --coalesce.", default="8MiB")
    ] = None
    gather: Annotated[
        bool,
        Option(
            "--gather", help="Join by vectored requests instead of copying small parts together."
        ),
    ] = False
    align: Annotated[
        bool, Option("--align", help="Move extents to multiples of a block, and pad.")
    ] = False
    align_size: Annotated[
        int | None,
        size_option(
            help="The block, a multiple of 512; implies --align.",
            default="what the file system asks for, at least 4KiB",
        ),
    ] = None
    split: Annotated[
        int | None,
        size_option(
            help="Cut larger requests to this size; at most 10,000,000 cuts are made.",
            default="none are cut",
        ),
    ] = None
    direct: Annotated[
        bool,
        Option("--direct", help="Past the page cache with O_DIRECT; the default is as recorded."),
    ] = False
    buffered: Annotated[
        bool, Option("--buffered", help="Through the page cache, also what was recorded direct.")
    ] = False
    direct_op: Annotated[OpName, Option(help="What is past the page cache with --direct.")] = (
        OpName.ALL
    )
    direct_min: Annotated[
        int | None,
        size_option(help="Smaller requests use the page cache all the same.", default="none do"),
    ] = None
    reorder: Annotated[
        bool, Option("--reorder", help="Issue requests by offset, where no order is asked for.")
    ] = False
    preallocate: Annotated[
        bool, Option("--preallocate", help="Give files their size before they are written.")
    ] = False
    overwrite: Annotated[
        bool,
        Option(
            "--overwrite",
            help="Write over the blocks of an older checkpoint of the same files, which is there "
            "first. A save that breaks off leaves old and new bytes mixed: deploy it with two "
            "slots.",
        ),
    ] = False
    drop_behind: Annotated[
        bool,
        Option("--drop-behind", help="Write files out and drop them from the page cache at close."),
    ] = False
    broadcast: Annotated[
        bool, Option("--broadcast", help="Read each byte once per step, by one rank.")
    ] = False
    interface: Annotated[
        InterfaceName | None,
        Option(
            "--as",
            help="Read from mapped files or by pread, both with --executor posix, or through the "
            "ring.",
            show_default="what --executor does",
        ),
    ] = None
    mmap_advice: Annotated[
        AdviceName | None,
        Option(help="What madvise says of a mapped file; implies --as mmap.", show_default="plain"),
    ] = None
    prefetch: Annotated[
        int | None,
        size_option(
            help="Read files ahead of their loads in requests of 8MiB, at most so far: 64MiB.",
            default="they are not",
        ),
    ] = None
    max_request: Annotated[
        int | None,
        size_option(
            help="Cut what is left as a network file system would, to requests of this size.",
            default="none are cut",
        ),
    ] = None
    explain: Annotated[
        bool,
        Option("--explain", help="Show the plan before and after each change, and run nothing."),
    ] = False
    layer: Annotated[
        LayerName,
        Option(help="Replay what reached the system, or one request per tensor."),
    ] = LayerName.REQUEST
    op: Annotated[OpName, Option(help="Replay the writes, the reads or both.")] = OpName.ALL

    def shape(self) -> Shape:
        """Return what the options ask for.

        Raises:
            PlanError: one of them would be ignored, or cannot be what it says.
        """
        if self.direct and self.buffered:
            raise PlanError("--direct and --buffered exclude each other; leave one out")
        shape = Shape(
            op=self.op.value,
            aggregate=self.aggregate.value if self.aggregate else None,
            stripe_bytes=self.stripe_size,
            coalesce_bytes=self.coalesce_size or (COALESCE_BYTES if self.coalesce else None),
            gather=self.gather,
            align=self.align or self.align_size is not None,
            align_bytes=self.align_size,
            split_bytes=self.split,
            direct=True if self.direct else False if self.buffered else None,
            direct_op=self.direct_op.value,
            direct_least_bytes=self.direct_min or 0,
            broadcast=self.broadcast,
            reorder=self.reorder,
            preallocate=self.preallocate,
            overwrite=self.overwrite,
            drop_behind=self.drop_behind,
            map_advice=self._map_advice(),
            prefetch_bytes=self.prefetch,
            max_request_bytes=self.max_request,
        )
        if shape.align_bytes is not None and shape.align_bytes % _SECTOR_BYTES:
            raise PlanError(
                f"--align-size {shape.align_bytes} is no block of a disk; make it a multiple of "
                f"{_SECTOR_BYTES}, such as 4KiB"
            )
        if shape.gather and shape.coalesce_bytes is None:
            raise PlanError("--gather says how to join requests; add --coalesce")
        if not shape.direct and (shape.direct_op != "all" or shape.direct_least_bytes):
            raise PlanError("--direct-op and --direct-min say what is direct; add --direct")
        if shape.direct and shape.direct_op != "write":
            for given, option in (
                (shape.prefetch_bytes, "--prefetch"),
                (shape.map_advice, "--as mmap"),
            ):
                if given:
                    raise PlanError(
                        f"{option} uses the page cache, which direct reads go past; "
                        "add --direct-op write"
                    )
        if shape.map_advice and shape.max_request_bytes:
            raise PlanError(
                "--max-request cuts requests, and the kernel makes those of a mapped file; leave "
                "out --max-request"
            )
        if shape.stripe_bytes is not None and shape.aggregate in (None, "rank"):
            raise PlanError("--stripe-size parts the ranks in one file; add --aggregate shared")
        return shape

    def _map_advice(self) -> str | None:
        """Return what is said of mapped files; None: none are mapped."""
        if self.mmap_advice is not None and self.interface not in (None, InterfaceName.MMAP):
            raise PlanError("--mmap-advice is for mapped files; add --as mmap")
        if self.mmap_advice is not None:
            return self.mmap_advice.value
        return AdviceName.PLAIN.value if self.interface is InterfaceName.MMAP else None

    def executor(self) -> str | None:
        """Return the executor that reads ask for, if they do."""
        if self._map_advice() is not None or self.interface is InterfaceName.PREAD:
            return "posix"
        return "io_uring" if self.interface is InterfaceName.RING else None
