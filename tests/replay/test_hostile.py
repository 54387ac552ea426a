"""Traces from strangers: every one becomes a valid plan or one clear error."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import check_job
from iotrace.replay.schedule import schedule
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import PlanError
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import OPS
from iotrace.traces.trace import Ints, Strings, Trace

NUMBERS = st.one_of(
    st.none(),
    st.integers(-3, 10_000),
    st.sampled_from([2**31, 2**40, 2**60, 2**61, 2**62, 2**63 - 1, -(2**63)]),
)
SMALL = st.integers(-1, 3)
INDICES = SMALL | st.just(2**31 - 1)
PATHS = st.sampled_from([None, "/a", "/a/b", "a", "/c", "/a//b/", "/d/e/f", "/.", "/\ud800"])


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any rows the schema can hold."""
    ops = (*OPS["replay"], "open", "write", "read", "write", "read", "close")
    rows = draw(st.lists(st.fixed_dictionaries({
        "op": st.sampled_from(ops),
        "start_ns": st.integers(0, 50) | st.sampled_from([-(2**63), 2**63 - 1]),
        "end_ns": NUMBERS, "offset": NUMBERS, "length": NUMBERS, "result": NUMBERS,
        "flags": st.none() | st.sampled_from([0, 1, 2, 66, 193, 577, -1, 2**31 - 1, 0x4000]),
        "file": st.none() | SMALL, "step": st.none() | SMALL,
        "process": INDICES, "thread": INDICES, "path": PATHS, "target": PATHS,
    }), min_size=1, max_size=12))  # fmt: skip
    count = len(rows)
    columns: dict[str, object] = {"layer": Strings.constant("request", count)}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in ("op", "path", "target"):
            columns[name] = Strings.of(values)
            continue
        valid = np.array([value is not None for value in values])
        columns[name] = Ints(np.array([value or 0 for value in values], np.int64), valid)
    return Trace.from_columns(columns, Metadata())


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces())
def test_any_trace_gives_a_valid_plan_or_one_clear_error(trace: Trace) -> None:
    """No input crashes, overflows, or makes a job that leads the loop astray."""
    try:
        plan = plan_from_trace(trace)
    except PlanError as error:
        assert "\n" not in str(error)
        return
    plan.validate()
    for transform in (Coalesce(), Align(), Direct(), Select(phases=("load",))):
        try:
            plan = transform(plan)
        except PlanError as error:
            assert "nothing is left" in str(error)
            break
        plan.validate()
    for queue_depth in (1, 8):
        check_job(schedule(plan, queue_depth, timing="recorded").job)
        check_job(schedule(plan, queue_depth, timing="think", checked=True).job)
