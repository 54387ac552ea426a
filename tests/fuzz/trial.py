"""One execution: an input becomes what it should, or one clear error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from iotrace.replay.build import LAYERS, plan_from_trace
from iotrace.replay.job import check_job
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import schedule
from iotrace.replay.transforms.aggregate import LAYOUTS, Aggregate
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
from iotrace.replay.transforms.split import MaxRequest, Split
from iotrace.tools.report import sweep_page
from iotrace.tools.sweep_file import read_sweep
from iotrace.traces.check import check_trace
from iotrace.traces.digest import workload_digest
from iotrace.traces.errors import IotraceError
from iotrace.traces.formats import damage
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import (
    export_trace,
    exporters,
    guess,
    import_trace,
    importers,
    named,
)
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.share import ShareOptions, share_trace
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.verdict.verdict import examine
from tests.fuzz.choices import Choices
from tests.fuzz.wild import wild_trace

MEMORY_BYTES = 1 << 30  # that an input may take, with the code that tries it
GROWN_BYTES = 1 << 29  # that may be kept of all inputs before: what they leave is a leak
LIMIT_BYTES = 256 << 20  # what a reader may be asked to hold, well below the bound of 1 GB
LINE_MAX = 2000
MOST_REQUESTS = 1_000_000  # that a planner may make of a few: each takes up to 300 bytes
TRANSFORMS: tuple[Callable[[Plan], Plan], ...] = (
    *(Coalesce(1 << 20), Coalesce(512, "vectored"), Align(512), Split(1 << 30), Split(1 << 16)),
    *(Buffered(), Direct(), Reorder(), Preallocate(), DropBehind(), Broadcast(), Mapped()),
    *(Overwrite(), Prefetch(1 << 20), Prefetch(700, 512), MaxRequest(1 << 20)),
    *(Aggregate(layout) for layout in LAYOUTS),
)
NO_DARSHAN = tuple(format for format in importers() if format.name != "darshan")


def try_trace(content: bytes, folder: Path) -> str:
    """Read, check, sum up and plan a file; return how far it came."""
    path = folder / "input.parquet"
    path.write_bytes(content)
    try:
        trace = read_trace(path, limit_bytes=LIMIT_BYTES)
    except IotraceError as error:
        assert_one_line(error)
        return "refused"
    with np.errstate(all="ignore"):
        _look(trace)
        plans = [_planned(trace, layer) for layer in LAYERS]
    return "read" if plans == [None, None] else "planned"


def try_rows(content: bytes, folder: Path) -> str:
    """Do one thing with a trace of wild values: look, plan, transform, share or export it."""
    choices = Choices(content)
    use = choices.choice(USES)
    try:
        trace = wild_trace(choices)
        with np.errstate(all="ignore"):
            use(trace, choices, folder)
    except IotraceError as error:
        assert_one_line(error)
        return "refused"
    return "done"


def try_import(name: str, content: bytes, folder: Path) -> str:
    """Import some bytes: a well-formed trace, or one error of one line."""
    path = folder / "input"
    path.write_bytes(content)
    try:
        guess(Source.of(path))
    except IotraceError as error:
        assert_one_line(error)
    if name == "checkpoint":
        damage.examine(path)
    try:
        trace = import_trace(path, named(name, importers()))
    except IotraceError as error:
        assert_one_line(error)
        return "refused"
    assert check_trace(trace, gaps=False) == []
    assert len(trace) <= 100 * (len(content) + 1)
    return "imported"


def try_sweep(content: bytes, folder: Path) -> str:
    """Draw the report of a sweep that somebody else sends."""
    path = folder / "sweep.json"
    path.write_bytes(content)
    try:
        page = sweep_page("sweep.json", read_sweep(path))
    except IotraceError as error:
        assert_one_line(error)
        return "refused"
    assert page.html()
    return "drawn"


def assert_one_line(error: IotraceError) -> None:
    """The command prints it as it is, after joining what white space separates."""
    message = " ".join(str(error).split())
    assert message and len(message) < LINE_MAX, message


def _look(trace: Trace, *_: object) -> None:
    check_trace(trace)
    summarize(trace)
    examine(trace)
    workload_digest(trace)


def _planned(trace: Trace, layer: str) -> Plan | None:
    try:
        plan = plan_from_trace(trace, layer)
    except IotraceError as error:
        assert_one_line(error)
        return None
    plan.validate()
    check_job(schedule(plan, 4).job)
    return plan


def _transform(trace: Trace, choices: Choices, _: Path) -> None:
    plan = _planned(trace, choices.choice(LAYERS))
    for _ in range(choices.randrange(1, 4) if plan else 0):
        plan = choices.choice(TRANSFORMS)(plan)
        plan.validate()
    if plan:
        check_job(schedule(plan, 4).job)


def _share(trace: Trace, choices: Choices, _: Path) -> None:
    key = choices.choice((b"k" * 32, b"l" * 32))
    # Words that are no engine's and no dtype become `other`, which is other work.
    nothing = Strings.constant(None, len(trace))
    trace = trace.with_columns({"engine": nothing, "dtype": nothing})
    shared = share_trace(trace, ShareOptions(key, choices.choice(("keep", "key"))))
    assert check_trace(shared, gaps=False) == []
    assert workload_digest(shared) == workload_digest(trace)


def _export(trace: Trace, choices: Choices, folder: Path) -> None:
    format = choices.choice(exporters())
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name, f"out{format.suffixes[0]}")
        export_trace(trace, format, path)
        if format.name == "csv":
            assert import_trace(path, format).table.to_pylist() == trace.table.to_pylist()


# What is used more is listed more.
USES: tuple[Callable[[Trace, Choices, Path], None], ...] = (
    *(_transform, _transform, _transform, _look, _share, _export),
)
# The first byte of an input chooses; what is used more is listed more.
ATTEMPTS: tuple[tuple[str, Callable[[bytes, Path], str]], ...] = (
    *(("trace", try_trace),) * 3,
    *(("rows", try_rows),) * 4,
    ("sweep", try_sweep),
    *((format.name, partial(try_import, format.name)) for format in NO_DARSHAN),
)
NAMES = tuple(dict.fromkeys(name for name, _ in ATTEMPTS))


def attempt(content: bytes, folder: Path) -> str:
    """Try an input whose first byte chooses what it is; return how far it came."""
    _, run = ATTEMPTS[content[0] % len(ATTEMPTS)]
    return run(content[1:], folder)


def kind_of(content: bytes) -> str:
    """Return what an input's first byte chooses."""
    return ATTEMPTS[content[0] % len(ATTEMPTS)][0]


def selector(kind: str) -> bytes:
    """Return a first byte that chooses a kind."""
    return bytes([[name for name, _ in ATTEMPTS].index(kind)])
