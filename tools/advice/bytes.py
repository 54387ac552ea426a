"""Advice on which bytes are moved, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from iotrace.tools.advice.advice import Advice, knob, of_rank, replay_command
from iotrace.tools.render import format_bytes, format_seconds
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

_READ_TWICE = 1.3


def every_rank(trace: str, finding: Finding) -> Iterator[Advice]:
    """Ranks read the same bytes, or one rank reads bytes several times."""
    amount = finding.amplification
    if finding.episode.phase != Phase.LOAD or not amount.over_ranks:
        return
    rank = finding.slowest_rank
    within = amount.by_rank or 1.0
    across = amount.over_ranks / within
    if across >= _READ_TWICE and len(finding.split) > 1:
        yield Advice(
            knob("read once for all ranks", finding),
            f"{format_bytes(amount.placed_bytes)} read for {format_bytes(amount.unique_bytes)} "
            f"of different bytes ({amount.over_ranks:.1f}x)",
            replay_command(trace, finding, "--broadcast --repeat 5"),
            rank.io_seconds * (1 - 1 / across),
        )
    if within >= _READ_TWICE:
        yield Advice(
            knob("read once in a rank", finding),
            f"{format_bytes(amount.placed_bytes)} read for "
            f"{format_bytes(amount.rank_unique_bytes)} of different bytes within a rank "
            f"({within:.1f}x)",
            replay_command(trace, finding, "--broadcast --repeat 5"),
            rank.io_seconds * (1 - 1 / within),
        )


def mapped(trace: str, finding: Finding) -> Iterator[Advice]:
    """A load through page faults, or through a mapping whose faults were not seen."""
    if "map" not in finding.ops or finding.episode.phase != Phase.LOAD:
        return
    if finding.paging is None and finding.is_in_memory:
        return
    paging, read = finding.paging, finding.shapes.get("read")
    if read is not None and paging is None and read.bytes > finding.amplification.tensor_bytes / 2:
        return
    because = "the tensors come through a mapping; its reads were not seen"
    waits = finding.slowest_rank.fault_seconds
    if paging is not None:
        because = str(paging)
        because += f"; they take up to {format_seconds(waits)}{of_rank(finding)}" if waits else ""
    # No request tells what was read: the tensors do, where they are known.
    options = "--layer tensor --as pread" + (" --repeat 5" if paging is not None else "")
    proof = replay_command(trace, finding, options)
    if not finding.amplification.tensor_bytes:
        proof = f"iotrace show {trace} --requests --limit 0"
    yield Advice(knob("do not map", finding), because, proof, waits / 2)


def spare(trace: str, finding: Finding) -> Iterator[Advice]:
    """Views drag their storage along, or tensors are written more than once."""
    amount = finding.amplification
    if finding.episode.phase != Phase.SAVE or amount.moved_bytes <= 0:
        return
    seconds = finding.slowest_rank.seconds
    if amount.spare_bytes > 0.01 * amount.moved_bytes:
        yield Advice(
            "save tensor.clone() of views: a view is saved with its whole storage",
            f"{format_bytes(amount.spare_bytes)} of the file belong to no element of a tensor "
            f"(most: {amount.spare_name})",
            f"iotrace show {trace} --tensors --limit 0",
            seconds * amount.spare_bytes / amount.moved_bytes,
        )
    if amount.repeated and amount.repeated_bytes > 0.01 * amount.moved_bytes:
        first = amount.repeated[0]
        yield Advice(
            knob("save once", finding),
            f"{plural(len(amount.repeated), 'tensor')} written more than once, "
            f"{format_bytes(amount.repeated_bytes)} too much (most: {first.name}, "
            f"{first.times} times)",
            f"iotrace show {trace} --tensors --limit 0",
            seconds * amount.repeated_bytes / amount.moved_bytes,
        )


def imbalance(trace: str, finding: Finding) -> Iterator[Advice]:
    """One rank moves much more than the others."""
    if finding.imbalance is None or finding.imbalance < _READ_TWICE:
        return
    heavy = max(finding.split, key=lambda one: one.bytes)
    waits = sum(one.rank_seconds for one in finding.split) / len(finding.split)
    yield Advice(
        "spread the bytes evenly over the ranks",
        f"{heavy.name} moves {finding.imbalance:.1f}x the mean ({format_bytes(heavy.bytes)})",
        replay_command(trace, finding, "--repeat 5"),  # its table has a line by rank
        waits,
    )
