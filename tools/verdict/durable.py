"""Whether saves were on storage when they returned, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from iotrace.tools.render import file_name, format_bytes
from iotrace.traces.verdict.durability import Durability
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

# The worst first.
_VERDICTS = (_NOT_DURABLE, _BUT_THE_NAME, _DURABLE) = ("no", "yes but the rename", "yes")


def durable(saves: Sequence[Finding], several: bool) -> str:
    """Return whether the saves were on storage at return, of those that were least: how many."""
    told = [
        (one, lasting)
        for one in saves
        if one.durability and (lasting := _lasting(one.durability)) is not None
    ]
    if not told:
        return "nothing was written"
    verdict = min((lasting[0] for _, lasting in told), key=_VERDICTS.index)
    alike = [(one, text) for one, (own, text) in told if own == verdict]
    worst, text = max(alike, key=lambda one: one[0].seconds)
    if not several:
        return f"{verdict}: {text}"
    count = f"{len(alike)} of {plural(len(told), 'save')}; " if len(told) > 1 else ""
    return f"{verdict}: {count}{worst.episode.label}: {text}"


def _lasting(lasting: Durability) -> tuple[str, str] | None:
    """Return whether a save was on storage at return, and why; `None` if it wrote nothing."""
    if not lasting.files:
        return None
    verdict = _NOT_DURABLE
    if lasting.early:
        text = f"{file_name(lasting.early[0])} is synced before its last write"
    elif lasting.late_bytes:
        text = f"{format_bytes(lasting.late_bytes)} written after the save returned"
    elif not lasting.durable:
        text = f"{lasting.synced} of {plural(lasting.files, 'file')} synced at return"
    elif lasting.renamed and not lasting.folder_syncs:
        verdict, text = _BUT_THE_NAME, "its folder is not synced"
    else:
        verdict, text = _DURABLE, f"{plural(lasting.files, 'file')} synced at return"
    if lasting.in_place and lasting.renamed:
        return verdict, f"{text}; {lasting.in_place} in place, {lasting.renamed} renamed"
    if lasting.in_place:
        return verdict, f"{text}; in place: a kill leaves a torn file"
    return verdict, f"{text}; renamed: a kill leaves the old file"
