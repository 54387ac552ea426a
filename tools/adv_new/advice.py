"""A piece of advice, and how much of a save or load it is about."""

from __future__ import annotations

from dataclasses import dataclass

from iotrace.traces.phases import Phase
from iotrace.traces.verdict.verdict import Finding


@dataclass(frozen=True)
class Advice:
    """One thing to change, why, and the command that proves it; the gain orders them."""

    change: str
    because: str
    command: str
    gain_seconds: float

def share_of(part: float, finding: Finding) -> float:
    seconds = finding.slowest_rank.seconds
    return part / seconds if seconds else 0.0


def replay_command(trace: str, finding: Finding, options: str) -> str:
    op = "write" if finding.episode.phase == Phase.SAVE else "read"
    return f"iotrace replay {trace} --op {op} {options}".rstrip()
