"""Which files a capture records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from iotrace.traces.errors import CaptureError
from iotrace.traces.scope import SYSTEM_GLOBS


@dataclass(frozen=True)
class Scope:
    """Globs on absolute paths.

    Attributes:
        system: left out when they are only read.
        include: if there are any, only these are recorded.
        exclude: left out always.
    """

    system: tuple[str, ...] = SYSTEM_GLOBS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, include: Sequence[str] = (), exclude: Sequence[str] = (), everything: bool = False
    ) -> Scope:
        """Return the scope that a user asked for.

        Args:
            include: globs; those that do not begin with a slash or a wildcard are relative to
                the current folder.
            exclude: the same.
            everything: record reads of system files too.

        Raises:
            CaptureError: a glob is empty, or spans lines.
        """
        return cls(
            system=() if everything else SYSTEM_GLOBS,
            include=tuple(map(absolute, include)),
            exclude=tuple(map(absolute, exclude)),
        )

    def environment(self) -> dict[str, str | None]:
        """Return the variables that tell the preload library; None is a variable to unset."""
        globs = {
            "IOTRACE_SYSTEM": self.system,
            "IOTRACE_INCLUDE": self.include,
            "IOTRACE_EXCLUDE": self.exclude,
        }
        return {name: "\n".join(values) or None for name, values in globs.items()}


def absolute(glob: str) -> str:
    """Return a glob that can match absolute paths."""
    if not glob or "\n" in glob:
        raise CaptureError(f"{glob!r} is no pattern for paths; give one glob per option")
    return glob if glob[0] in "/*?[" else os.path.join(os.getcwd(), glob)
