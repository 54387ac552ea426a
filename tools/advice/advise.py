"""What to change, in the engine's own words: only what the trace gives evidence for."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from iotrace.replay.probe import Capability
from iotrace.tools.advice.advice import Advice
from iotrace.tools.advice.bytes import every_rank, imbalance, mapped, spare
from iotrace.tools.advice.durability import early_sync, not_durable, not_in_background, syncs
from iotrace.tools.advice.requests import computing, depth, many_small, opens
from iotrace.tools.next_command import root_words
from iotrace.tools.render import format_bytes
from iotrace.traces.verdict.verdict import Finding, Verdict

_AT_ROOT = ("iotrace replay ", "iotrace sweep ", "iotrace why ")


def advise(
    location: str, verdict: Verdict, storage: Capability | None, root: Path
) -> tuple[Advice, ...]:
    """Return what to change, the largest gain first, one entry per change and per reason.

    Of a replay that is nothing: it is no engine, and its recording tells what one could change.

    Args:
        location: of the trace.
        verdict: on it.
        storage: what the storage of `root` gives, if that is known.
        root: where the proofs are to be run.
    """
    if verdict.is_replay:
        return ()
    found = {one.change: one for one in _full(location, verdict)}
    labels: dict[str, set[str]] = {}
    for finding in sorted(verdict.findings, key=lambda one: -one.seconds):  # if gains are equal
        for one in _rules(shlex.quote(location), finding, storage):
            labels.setdefault(one.change, set()).add(finding.episode.label)
            known = found.get(one.change)
            if known is None or one.gain_seconds > known.gain_seconds:
                found[one.change] = replace(one, about=finding.episode.label)
    ordered = sorted(found.values(), key=lambda one: -one.gain_seconds)
    told: dict[tuple[str, str], list[Advice]] = {}
    for one in ordered:  # engines that need the same thing word it differently
        told.setdefault((one.because, one.command), []).append(one)
    return tuple(_at_root(_of_all(alike, labels), root) for alike in told.values())


def _of_all(alike: list[Advice], labels: dict[str, set[str]]) -> Advice:
    """Return the first, about `save 0 (dcp) and 2 more` if others need the same thing."""
    about = set().union(*(labels.get(one.change, set()) for one in alike))
    more = f" and {len(about) - 1} more" if len(about) > 1 else ""
    return replace(alike[0], about=alike[0].about + more)


def _at_root(advice: Advice, root: Path) -> Advice:
    words = root_words(root) if advice.command.startswith(_AT_ROOT) else ()
    return replace(advice, command=" ".join([advice.command, *map(shlex.quote, words)]))


def _full(location: str, verdict: Verdict) -> Iterator[Advice]:
    """No room: nothing else matters before that."""
    first = verdict.failures.first_error
    if first is not None and first.errno in (errno.ENOSPC, errno.EDQUOT):
        place = "" if first.offset is None else f" at {format_bytes(first.offset)}"
        yield Advice(
            "free some space, or save to another file system",
            f"{first.op} failed with {errno.errorcode[first.errno]}{place} of {first.path}",
            f"iotrace replay {shlex.quote(location)} --op write --dry-run",
            float("inf"),
        )


def _rules(trace: str, finding: Finding, storage: Capability | None) -> Iterator[Advice]:
    yield from computing(trace, finding)
    yield from many_small(trace, finding)
    yield from depth(trace, finding, storage)
    yield from syncs(trace, finding)
    yield from every_rank(trace, finding)
    yield from mapped(trace, finding)
    yield from spare(trace, finding)
    yield from early_sync(trace, finding)
    yield from not_durable(trace, finding)
    yield from opens(trace, finding)
    yield from not_in_background(trace, finding)
    yield from imbalance(trace, finding)
