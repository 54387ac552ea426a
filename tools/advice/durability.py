"""Advice on syncs, and on saves behind the job."""

from __future__ import annotations

from collections.abc import Iterator

from iotrace.tools.advice.advice import Advice, knob, of_rank, replay_command, share_of
from iotrace.tools.render import format_bytes, format_seconds, format_share
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

# Below these shares of the time a remedy would not be felt.
_SYNC_MATTERS = 0.2
_WAIT_MATTERS = 0.15


def syncs(trace: str, finding: Finding) -> Iterator[Advice]:
    """More syncs than files, and they count."""
    sync, lasting = finding.shapes.get("sync"), finding.durability
    rank = finding.slowest_rank
    if sync is None or lasting is None or share_of(rank.sync_seconds, finding) < _SYNC_MATTERS:
        return
    engine, behind = finding.episode.engine, finding.background
    if lasting.file_syncs > 2 * max(lasting.files, sync.processes):
        yield Advice(
            "sync each file once, after its last write",
            f"{plural(lasting.file_syncs, 'sync')} of {plural(lasting.files, 'file')}, the median "
            f"one {format_seconds(sync.p50_us / 1e6)}; they take "
            f"{format_share(rank.sync_seconds, finding.seconds)} of the time{of_rank(finding)}",
            replay_command(trace, finding, "--aggregate rank --repeat 5"),
            rank.sync_seconds * (1 - lasting.files / lasting.file_syncs),
        )
    elif engine == "dcp" and not (behind and behind.asynchronous):
        yield Advice(
            "dcp.async_save, so that the syncs do not hold up the job",
            f"syncs take {format_share(rank.sync_seconds, finding.seconds)} of the save"
            f"{of_rank(finding)}",
            replay_command(trace, finding, "--repeat 5"),
            rank.sync_seconds / 2,
        )


def early_sync(trace: str, finding: Finding) -> Iterator[Advice]:
    """A file is written to after its last sync."""
    lasting = finding.durability
    if lasting is None or not lasting.early:
        return
    yield Advice(
        knob("sync last", finding),
        f"{lasting.early[0]} is written to after its last sync: a crash may lose that part",
        f"iotrace show {trace} --requests --limit 0",
        0.0,
    )


def not_durable(trace: str, finding: Finding) -> Iterator[Advice]:
    """Files that the save did not sync at all."""
    lasting = finding.durability
    if lasting is None or lasting.early or lasting.synced == lasting.files:
        return
    unsynced = plural(lasting.files - lasting.synced, "file")
    renaming = " before renaming it" if lasting.renamed else ", and rename a temporary name last"
    yield Advice(
        f"fsync each file after its last write{renaming}",
        f"{format_bytes(lasting.unsynced_bytes)} of {unsynced} were in memory only when the save "
        "returned; the line 'write, durable' has the price",
        replay_command(trace, finding, "--repeat 5"),
        0.0,
    )


def not_in_background(trace: str, finding: Finding) -> Iterator[Advice]:
    """An asynchronous save that the job waited for."""
    behind = finding.background
    if behind is None or behind.waited_seconds < 0.5 * behind.io_seconds:
        return
    if behind.waited_seconds < _WAIT_MATTERS * max(behind.blocked_seconds, 1e-9):
        return
    yield Advice(
        knob("wait less", finding),
        f"the job waited {format_seconds(behind.waited_seconds)} for the write to end",
        replay_command(trace, finding, "--repeat 5"),
        behind.waited_seconds / 2,
    )
