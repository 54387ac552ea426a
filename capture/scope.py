"""Which files a capture records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iotrace.traces.scope import SYSTEM_GLOBS, absolute_glob


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
            IotraceError: a glob is empty, or spans lines.
        """
        return cls(
            system=() if everything else SYSTEM_GLOBS,
            include=tuple(map(absolute_glob, include)),
            exclude=tuple(map(absolute_glob, exclude)),
        )

    def environment(self) -> dict[str, str | None]:
        """Return the variables that tell the preload library; None is a variable to unset."""
        globs = {
            "IOTRACE_SYSTEM": self.system,
            "IOTRACE_INCLUDE": self.include,
            "IOTRACE_EXCLUDE": self.exclude,
        }
        return {name: "\n".join(values) or None for name, values in globs.items()}
