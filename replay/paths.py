"""Names of a trace, moved below the root of a replay. A trace comes from a stranger."""

import os
import re
from collections.abc import Iterable

from iotrace.traces.errors import PlanError

COMPONENT_MAX_BYTES = 255  # NAME_MAX of every file system in use
# PATH_MAX is 4096; openat2 takes the name relative to the root, with its final NUL.
PATH_MAX_BYTES = 4095
DEPTH_MAX = 256  # folders are removed one inside the other
# Names of most files, which need no closer look: short, ASCII, nothing hidden or doubled.
_PLAIN = re.compile(r"(?=.{,255}\Z)/?[!-\x2d0-~](?:[!-\x2d0-~.]|/[!-\x2d0-~])*")
# Lone surrogates besides those that os.fsdecode makes of bytes.
_NO_BYTES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def rebase(path: str) -> str:
    """Return `path` relative to the root, in its shortest spelling.

    Raises:
        PlanError: the path climbs (`..`), names no file, or no file system could hold it.

    >>> rebase("/scratch//run/./model.pt")
    'scratch/run/model.pt'
    """
    if _PLAIN.fullmatch(path):
        return path.lstrip("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    problem = _problem(path, parts)
    if problem:
        raise PlanError(
            f"path {_shown(path)} {problem}; leave it out of the trace (capture --exclude)"
        )
    return "/".join(parts)


def is_root(path: str) -> bool:
    """Return whether `path` names the folder that all others lie in."""
    return all(part in ("", ".") for part in path.split("/"))


def is_too_deep(path: str) -> bool:
    """Return whether `path` lies below more folders than a replay makes."""
    if path.count("/") < DEPTH_MAX:
        return False
    return sum(part not in ("", ".") for part in path.split("/")) > DEPTH_MAX


def _problem(path: str, parts: list[str]) -> str:
    if not parts:
        return "names no file"
    if ".." in parts:
        return "climbs out of its directory with '..'"
    if "\0" in path:
        return "holds a NUL byte"
    if _NO_BYTES.search(path):
        return "holds a character that stands for no bytes"
    if max(len(os.fsencode(part)) for part in parts) > COMPONENT_MAX_BYTES:
        return f"has a component of more than {COMPONENT_MAX_BYTES} bytes"
    if len(parts) > DEPTH_MAX:
        return f"is more than {DEPTH_MAX} folders deep"
    if len(os.fsencode("/".join(parts))) > PATH_MAX_BYTES:
        return f"has more than {PATH_MAX_BYTES} bytes"
    return ""


def _shown(path: str) -> str:
    return repr(path if len(path) <= 60 else path[:40] + "..." + path[-17:])


def ancestors(path: str) -> list[str]:
    """Return the directories above a relative path, the outermost first.

    >>> ancestors("a/b/c")
    ['a', 'a/b']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return the directories above relative paths, all of them.

    >>> sorted(folders_of(["a/b/c", "d"]))
    ['a', 'a/b']
    """
    parents = {path.rpartition("/")[0] for path in paths} - {""}
    return {above for path in parents for above in (path, *ancestors(path))}
