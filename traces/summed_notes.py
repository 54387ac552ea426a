"""What several traces say that they lack, in one list: notes that are alike are summed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotrace.traces.words import plural, sized

_UNITS = {"bytes": 1, "B": 1} | {
    f"{letter}iB": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")
}
# Of a note a size, or a count and what it is of. Other numbers, as of versions, are names.
_AMOUNT = re.compile(
    rf"(?<![\w.,/-])(?:(\d{{1,15}}(?:\.\d{{1,3}})?) ({'|'.join(_UNITS)})"
    r"|(\d[\d,]{0,18}) ((?:(?:raw|index|page|asynchronous) )?(?:file|request|note|log|call|record|"
    r"operation|completion|event|object|tensor|task|fault|time|end))s?)\b",
    re.ASCII,
)
_OF_PROCESS = re.compile(r"\bprocess \d", re.ASCII)


@dataclass(frozen=True)
class _Note:
    """A note taken apart.

    Attributes:
        words: what stands before, between and behind the amounts.
        nouns: per amount what it is of; of a size "".
        amounts: bytes, or counts.
    """

    words: tuple[str, ...]
    nouns: tuple[str, ...]
    amounts: tuple[float, ...]

    @classmethod
    def of(cls, text: str) -> _Note:
        found = [*_AMOUNT.finditer(text)]
        ends = [0, *(match.end() for match in found)]
        starts = [*(match.start() for match in found), len(text)]
        return cls(
            tuple(text[end:start] for end, start in zip(ends, starts, strict=True)),
            tuple(match[4] or "" for match in found),
            tuple(
                int(match[3].replace(",", "")) if match[4] else float(match[1]) * _UNITS[match[2]]
                for match in found
            ),
        )

    def __str__(self) -> str:
        said = [
            plural(int(amount), noun) if noun else sized(amount)
            for amount, noun in zip(self.amounts, self.nouns, strict=True)
        ]
        return "".join(word + one for word, one in zip(self.words, [*said, ""], strict=True))

    def __add__(self, other: _Note) -> _Note:
        amounts = tuple(a + b for a, b in zip(self.amounts, other.amounts, strict=True))
        return _Note(self.words, self.nouns, amounts)


def summed_notes(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the notes of all parts, those that differ in sizes and counts alone as one.

    Sizes in notes are rounded to three digits, and so are their sums. A note without sizes or
    counts is true of the whole if it is of a part, and stands once; what is said of a process by
    its number stands as it is, as that of another part is another process.

    >>> summed_notes([("4 KiB of 1 file was lost",), ("5 KiB of 2 files was lost", "torn")])
    ('9 KiB of 3 files was lost', 'torn')
    """
    found: dict[tuple[object, ...], _Note | str] = {}
    for number, part in enumerate(parts):
        met: dict[tuple[object, ...], int] = {}
        for text in part:
            note = _Note.of(text)
            kind = (note.words, note.nouns)
            place = met[kind] = met.get(kind, -1) + 1  # those alike in one part are of two things
            if any(map(_OF_PROCESS.search, note.words)):
                found[number, place, text] = text
            elif not note.amounts:
                found[kind] = text
            else:
                before = found.get((*kind, place))
                found[*kind, place] = before + note if isinstance(before, _Note) else note
    return tuple(map(str, found.values()))
