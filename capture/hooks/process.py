"""What a process says of itself when it imports an engine, and again as it imports more."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .emit import Emitter

LIBRARIES = (
    "accelerate",
    "datastates",
    "deepspeed",
    "lightning",
    "megatron-core",
    "numpy",
    "safetensors",
    "torch",
    "torchsnapshot",
    "transformers",
)

# Of a folder that an installer leaves beside a package: name, version, kind.
METADATA_FOLDER = re.compile(r"([^-]+)-([^-]+)(?:-[^.]+)?\.(?:dist|egg)-info")


class ProcessNotes:
    """Writes the note about this process, again whenever it has imported more libraries, or has
    joined the others of a torch.distributed job.

    Args:
        emitter: Where the notes go; of several the last one counts.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._told: tuple[set[str], dict[str, int]] | None = None
        self._place: dict[str, int] = {}

    def emit(self) -> None:
        """Write the note if there is news; a module that raises when it is asked is no reason
        for the job to fail."""
        with suppress(Exception):
            self._place = place_in_group() or self._place  # of a group that was left: the last one
            news = imported_libraries(), self._place
            if news != self._told:
                self._told = news
                self._emitter.note({**describe(), **self._place})


def describe() -> dict[str, object]:
    """Return the note about this process: Python and the versions of known libraries."""
    return {
        "layer": "process",
        "python": ".".join(map(str, sys.version_info[:3])),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "libraries": library_versions(),
    }


def place_in_group() -> dict[str, int]:
    """Return this process's rank among those of a torch.distributed job; nothing outside of one.

    Who starts the ranks itself passes them on as arguments, and no variable tells.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    place = {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}
    return place if place["rank"] >= 0 else {}


def imported_libraries() -> set[str]:
    """Return the known libraries that this process has imported."""
    return {name for name in LIBRARIES if name.replace("-", ".") in sys.modules}


def library_versions() -> dict[str, str]:
    """Return the versions of the known libraries that are imported, as far as they are told.

    The module knows best. The names of the installers' folders tell the others:
    importlib.metadata would tell more, but reads files and is an import that the
    job may never make.
    """
    imported, versions = imported_libraries(), {}
    installed = installed_versions()
    for name in sorted(imported):
        version = getattr(sys.modules[name.replace("-", ".")], "__version__", installed.get(name))
        if version is not None:
            versions[name] = str(version)
    return versions


def installed_versions() -> dict[str, str]:
    """Return the versions of the known libraries found on `sys.path`; the first one counts."""
    versions: dict[str, str] = {}
    for folder in sys.path:
        for entry in list_folder(folder):
            match = METADATA_FOLDER.fullmatch(entry)
            if match is None:
                continue
            name = match[1].lower().replace("_", "-")
            if name in LIBRARIES:
                versions.setdefault(name, match[2])
    return versions


def list_folder(path: object) -> list[str]:
    """Return the names in a folder, none where there is no folder."""
    if not isinstance(path, str) or not path.endswith("-packages"):
        return []
    try:
        return os.listdir(path)
    except OSError:
        return []
