"""Plans of traces, transformed and run; what those who import us need most often."""

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay

__all__ = ["Outcome", "Plan", "RecordedSummary", "ReplayOptions", "plan_from_trace", "replay"]
