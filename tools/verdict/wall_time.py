"""Where the wall time of a save or load went, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from iotrace.tools.render import format_seconds, format_share
from iotrace.traces.verdict.split import RankSplit
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

LATE = 0.1  # how much later than the others a rank is named the slowest


def time_of(worst: Finding, findings: Sequence[Finding], several: bool) -> str:
    """Return where the wall time of the longest save or load went, on its last rank."""
    rank = worst.slowest_rank
    text = format_seconds(worst.seconds)
    text += f" in {worst.episode.label}" if several else ""
    if len(findings) > 1:
        middle = median(one.seconds for one in findings)
        text += f", the longest (median {format_seconds(middle)})"
    text += f": {_shares(rank, worst)}"
    waits = [one.rank_seconds for one in worst.split if one is not rank]
    least = 0.01 if _is_straggler(worst) else LATE
    if waits and max(waits) > least * worst.seconds:
        text += f"; {rank.name} last, others wait {format_seconds(max(waits))}"
    return text


def _is_straggler(finding: Finding) -> bool:
    """Is one rank clearly later with its data than the median one?"""
    if len(finding.split) < 2:
        return False
    ends = sorted(one.last_data_ns for one in finding.split)
    middle = ends[(len(ends) - 1) // 2]
    return (ends[-1] - middle) / 1e9 > LATE * finding.seconds


def _shares(rank: RankSplit, finding: Finding) -> str:
    """Return `I/O 3 %, CPU 96 %, not running 1 %`, leaving out what is nothing."""
    whole = finding.seconds
    used = f" ({plural(rank.outer_faults, 'page fault')})" if rank.outer_faults else ""
    parts = [f"I/O {format_share(rank.io_seconds, whole)}"]
    for seconds, what in (
        (rank.fault_seconds, "page faults up to"),
        (rank.sync_seconds, "syncs"),
        (rank.rank_seconds, "other ranks"),
        *_outside(rank, finding),
        (finding.away_seconds, f"in no call{used}"),
    ):
        if seconds > 0.005 * whole:
            parts.append(f"{what} {format_share(seconds, whole)}")
    return ", ".join(parts)


def _outside(rank: RankSplit, finding: Finding) -> Iterator[tuple[float, str]]:
    """Yield what went on without a request in flight: computing, or not even that."""
    if rank.computing_seconds is None:
        yield rank.between_seconds, "page faults or no I/O" if finding.paging else "outside I/O"
        return
    least, most = rank.computing_seconds
    sure = most - least < 0.05 * finding.seconds
    yield most, "CPU" if sure else "CPU up to"
    yield rank.queued_seconds, "no free CPU"
    yield rank.waiting_seconds, "not running" if sure else "not running at least"
