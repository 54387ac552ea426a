"""Search bytes for texts of an original, and not for what sharing itself makes or keeps.

Pseudonyms and the names that engines give are taken out of a text before it is searched: what
they hold, they hold by chance, or whoever runs the job. In packed bytes they cannot be told from
the rest, so what they may hold is not looked for there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from iotrace.traces.sharing.needles import MIN_BINARY_BYTES, find
from iotrace.traces.sharing.pseudonyms import PSEUDONYM, may_be_chance
from iotrace.traces.sharing.public_words import ENGINE_NAMES

_MAX_SHOWN = 60  # characters of a leftover
# A component that an engine named, as a text or a page holds it; in a page the length of the next
# text stands behind it, below 4096. Such a length may look like a letter, beside a pseudonym too.
_ENGINE_NAME = re.compile(
    rb"/(?:" + ENGINE_NAMES.pattern.encode() + rb")"
    rb"(?=/|[^\w.+=\#@-]|\Z|.[\x00-\x0f]\x00\x00)",
    re.VERBOSE | re.DOTALL,
)
_PSEUDONYM = re.compile(PSEUDONYM.encode() + b"[a-z]?(?![a-z])|" + PSEUDONYM.encode())
# What tells a place where no original is at hand to compare with.
_TELLING = re.compile(
    rb"/(home|users|root|tmp|scratch|lustre|gpfs|beegfs|mnt|proj|projects|work|data|nfs|var|opt|usr"
    rb"|export|net)/|site-packages|localhost",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Leftover:
    """Something that a shared trace should not hold, and where it is."""

    where: str
    what: str

    def __str__(self) -> str:
        """Return a sentence."""
        text = self.what if len(self.what) <= _MAX_SHOWN else self.what[:_MAX_SHOWN] + "..."
        return f"{self.where}: {text!r}"


@dataclass(frozen=True)
class Search:
    """What to look for in bytes.

    Attributes:
        texts: in text, outside of what sharing makes.
        apart: those of `texts` that what sharing makes cannot hold: in any bytes.
        public: what is no leftover though it tells a place; in lower case.
    """

    texts: tuple[bytes, ...]
    apart: tuple[bytes, ...]
    public: bytes

    @classmethod
    def of(cls, texts: Sequence[bytes], engine_names: str, public: str) -> Search:
        """Return the search for `texts` in a trace that keeps these names of an engine."""
        held = find(texts, engine_names.encode())
        apart = (t for t in texts if len(t) >= MIN_BINARY_BYTES and not may_be_chance(t))
        lowered = public.lower().encode("utf-8", "surrogatepass")
        return cls(tuple(texts), tuple(t for t in apart if t not in held), lowered)

    def in_text(self, where: str, content: bytes) -> Iterator[Leftover]:
        """Yield what is in a page of text or in a footer."""
        own = _PSEUDONYM.sub(b"\0", _ENGINE_NAME.sub(b"\0", content))
        yield from self._found(where, own, self.texts)
        yield from self._found(where, content, [t for t in self.texts if _PSEUDONYM.fullmatch(t)])
        for match in _TELLING.finditer(content):
            if match.group().lower() not in self.public:
                yield Leftover(where, match.group().decode(errors="replace"))

    def in_binary(self, where: str, content: bytes) -> Iterator[Leftover]:
        """Yield what is in packed or numeric bytes."""
        yield from self._found(where, content, self.apart)

    def _found(self, where: str, content: bytes, texts: Collection[bytes]) -> Iterator[Leftover]:
        for text in sorted(find(texts, content)):
            yield Leftover(where, text.decode(errors="replace"))
