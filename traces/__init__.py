"""Traces as values and as files; what those who import us need most often."""

from iotrace.traces.errors import IotraceError
from iotrace.traces.merge import merge_traces
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import Summary, summarize
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace

__all__ = [
    "IotraceError",
    "Summary",
    "Trace",
    "merge_traces",
    "read_trace",
    "summarize",
    "write_trace",
]
