"""Probes of storage that are kept from one run to the next, by host, file system and device."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from iotrace.replay.probe import Capability
from iotrace.replay.target import mount_of
from iotrace.traces.codec import decode
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.regular import read_regular

_FILE = "probes.json"
_VERSION = "3"  # of what a probe does: another one is not comparable
_LASTS_SECONDS = 7 * 24 * 3600
_UNSETTLED_SECONDS = 3600  # of one whose intervals stayed wide: the machine was busy
_MOST_BYTES = 1 << 20


def cache_folder() -> Path:
    """Return the user's cache folder for iotrace."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "iotrace"


def load_probe(root: Path) -> Capability | None:
    """Return a probe of the storage of `root` of the last week, if there is one.

    One whose intervals stayed wide lasts an hour.
    """
    stored = _read().get(_key(root))
    if not isinstance(stored, dict):
        return None
    try:
        found = decode(Capability, stored)
    except (TraceFormatError, TypeError):  # edited, or of another version
        return None
    age = time.time() - found.realtime_ns / 1e9
    lasts = _LASTS_SECONDS if found.is_settled else _UNSETTLED_SECONDS
    return found if 0 <= age < lasts and found.points else None


def save_probe(root: Path, found: Capability) -> None:
    """Keep a probe; a cache that cannot be written is no reason to fail."""
    with suppress(OSError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        known = {**_read(), _key(root): asdict(found)}
        descriptor, draft = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "w") as file:
            json.dump(known, file)
        os.replace(draft, folder / _FILE)


def _read() -> dict[str, object]:
    path = cache_folder() / _FILE
    try:
        if path.stat().st_size > _MOST_BYTES:
            return {}
        known = parse_foreign_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _key(root: Path) -> str:
    mount = mount_of(root)
    return "|".join((_VERSION, os.uname().nodename, mount.file_system, mount.source, mount.path))
