"""Share a trace and prove it before anybody else sees it."""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from iotrace.traces.errors import IotraceError
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.leftover_search import Leftover
from iotrace.traces.sharing.leftovers import find_leftovers
from iotrace.traces.sharing.pseudonyms import KEY_BYTES, PseudonymError
from iotrace.traces.sharing.share import ShareOptions, share_trace
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace

_TRIES = 5


class LeftoverError(IotraceError):
    """The shared trace would still say something of the original."""

    exit_code = 1


def publish(trace: Trace, options: ShareOptions) -> Trace:
    """Return the shared trace, which was written and searched for leftovers of `trace`.

    Two words may get one pseudonym by chance; another key is drawn then, unless the user gave one.

    Args:
        trace: the original.
        options: how to share; without a key one is drawn, and forgotten.

    Raises:
        LeftoverError: something is left over.
        IotraceError: as `share_trace`.
    """
    found: list[Leftover] = []
    for _ in range(1 if options.key else _TRIES):
        try:
            drawn = replace(options, key=options.key or secrets.token_bytes(KEY_BYTES))
            shared = share_trace(trace, drawn)
        except PseudonymError:
            if options.key:
                raise
            continue
        found = _search(trace, shared)
        if not found:
            return shared
    raise LeftoverError(
        f"not shared: {found[0]} would be left over; "
        f"{'use another key' if options.key else 'please report this'}"
        if found
        else "not shared: two names get one pseudonym; please report this"
    )


def _search(original: Trace, shared: Trace) -> list[Leftover]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shared.parquet"
        write_trace(shared, path)
        return find_leftovers(str(path), read_trace(path), original)
