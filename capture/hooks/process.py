"""What a process says of itself when it first imports an engine."""

from __future__ import annotations

import os
import re
import sys

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


def describe() -> dict[str, object]:
    """Return the note about this process: Python and the versions of known libraries."""
    return {
        "layer": "process",
        "python": ".".join(map(str, sys.version_info[:3])),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "libraries": library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Return the versions of the known libraries that are imported or installed.

    An imported module knows best. The names of the installers' folders tell the
    others: importlib.metadata would tell more, but reads files and is an import
    that the job may never make.
    """
    versions = installed_versions()
    for name in LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return dict(sorted(versions.items()))


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
