"""Keyed names for the parts of a path or of a tensor's name.

A part keeps what shows the structure: its leading dots, separators, extension, and the numbers that
count something (`_kept`). All else in it becomes pseudonyms of ten consonants: 43 bits of a keyed
BLAKE2. The same part has the same pseudonym wherever it stands, and under the same key in every
trace; without the key no pseudonym can be turned back, nor can a guess be tried.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from iotrace.traces.errors import IotraceError
from iotrace.traces.sharing.public_words import COUNTED, EXTENSIONS, is_engine_name

KEY_BYTES: Final = 32
MIN_KEY_BYTES: Final = 16
WORD_LENGTH: Final = 10
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"  # no vowels: a pseudonym is no word of anybody's language
_MIN_UNLIKELY = 7  # letters: 1 of 1.3e9 places holds given ones
_SEPARATORS: Final = "-_.+=#@ "
_MAX_PART_BYTES: Final = 200  # of a keyed part; one of very many words becomes one pseudonym

_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,11})\Z", re.ASCII)
# A number that ends where a separator or nothing follows: not the beginning of a hash.
_END = rf"(?=[{re.escape(_SEPARATORS)}]|\Z)"
_NUMBER = re.compile(rf"(?<![0-9])([0-9]{{1,6}}){_END}", re.ASCII)
_MIXED = re.compile(r"[0-9][A-Za-z]", re.ASCII)
_OF = re.compile(r"\A[-_]of[-_]\Z")
_LAST_WORD = re.compile(r"[a-z]+\Z", re.ASCII)
_MAX_COUNT_DIGITS = 5  # a date or a time of day has six, and a job, user or project often
_MAX_INDEX_DIGITS = 4
_YEARS = range(1900, 2100)
_LAYER_NUMBER = re.compile(rf"[0-9]{{1,{_MAX_INDEX_DIGITS}}}", re.ASCII)

HOST_PREFIX: Final = "host-"
PSEUDONYM: Final = f"[{_LETTERS}]{{{WORD_LENGTH}}}"
# What keying makes: dots, then pseudonyms, separators and numbers, then extensions.
_KEYED = re.compile(
    rf"\.*(?:[{re.escape(_SEPARATORS)}]|{PSEUDONYM}(?![a-z])|[0-9]{{1,6}}{_END}"
    r"|(?<=[0-9][-_])of(?=[-_][0-9]))*",
    re.ASCII,
)


class PseudonymError(IotraceError):
    """The key gives two words one pseudonym, or is no key."""


@dataclass(frozen=True)
class Pseudonyms:
    """What each word is called under one key. Remembers what it gave, to be one-to-one.

    >>> names = Pseudonyms(bytes(32))
    >>> names.path("/home/alice/step-7/__0_0.distcp")
    '/wjzlxxprxn/rlwmqwvpmt/gbgpjzgfgl-7/__0_0.distcp'
    """

    key: bytes
    _parts: dict[tuple[str, str, bool], str] = field(default_factory=dict, repr=False)
    _taken: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < MIN_KEY_BYTES:
            raise PseudonymError(
                f"a key needs at least {MIN_KEY_BYTES} bytes; "
                "make one with `head -c 32 /dev/urandom > FILE`"
            )

    def path(self, path: str) -> str:
        """Return `path` with each component under its pseudonym."""
        return "/".join(
            self._part("path", part, _public_path_part, is_date) for part, is_date in _dated(path)
        )

    def name(self, name: str) -> str:
        """Return a tensor's name with each part under its pseudonym; the indices stay.

        >>> Pseudonyms(bytes(32)).name("encoder.h.0.weight").split(".")[2]
        '0'
        """
        return ".".join(self._part("name", part, _public_name_part) for part in name.split("."))

    def word(self, kind: str, text: str) -> str:
        """Return the pseudonym of a whole text of some kind, such as a host's name."""
        hashed = hashlib.blake2b(
            text.encode("utf-8", "surrogatepass"),
            key=hashlib.sha256(self.key).digest(),
            person=kind.encode()[:16],
            digest_size=16,
        ).digest()
        number = int.from_bytes(hashed, "little")
        letters = []
        for _ in range(WORD_LENGTH):
            number, place = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[place])
        return "".join(letters)

    def _part(
        self, kind: str, part: str, public: Callable[[str], bool], is_date: bool = False
    ) -> str:
        known = self._parts.get((kind, part, is_date))
        if known is not None:
            return known
        given = part if public(part) else self._keyed(kind, part, is_date)
        if self._taken.setdefault((kind, given), part) != part:
            raise PseudonymError("two names got one pseudonym; share again, or with another key")
        self._parts[(kind, part, is_date)] = given
        return given

    def _keyed(self, kind: str, part: str, is_date: bool) -> str:
        stem, extension = _split_extension(part) if kind == "path" else (part, "")
        plain = stem.lstrip(".")
        dots, stem = stem[: len(stem) - len(plain)], plain
        texts = [stem] if is_date else _kept(stem, kind)  # text, number, text, number, ..., text
        keyed = [
            text if i % 2 or _is_of(texts, i) else self._text(kind, text)
            for i, text in enumerate(texts)
        ]
        if len(dots) + sum(map(len, keyed)) > _MAX_PART_BYTES:
            keyed = [self.word(kind, stem)]
        return dots[:_MAX_PART_BYTES] + "".join(keyed) + extension

    def _text(self, kind: str, text: str) -> str:
        inner = text.strip(_SEPARATORS)
        if not inner:
            return text
        begin = text.index(inner)
        return text[:begin] + self.word(kind, inner) + text[begin + len(inner) :]


def is_pseudonym(text: str) -> bool:
    """Return whether `text` has the form of one pseudonym."""
    return re.fullmatch(PSEUDONYM, text) is not None


def may_be_chance(text: bytes) -> bool:
    """Return whether so little of `text` is no extension that a pseudonym may hold it by chance."""
    stem, _ = _split_extension(text.decode("latin-1"))
    said = [char for char in stem if char not in _SEPARATORS]
    return len(said) < _MIN_UNLIKELY and all(c in _LETTERS or c in string.digits for c in said)


def is_host_pseudonym(name: str) -> bool:
    """Return whether `name` is what sharing calls a host."""
    return name.startswith(HOST_PREFIX) and is_pseudonym(name.removeprefix(HOST_PREFIX))


def is_keyed_path(path: str) -> bool:
    """Return whether `path` has the form of what `Pseudonyms.path` returns."""
    return all(
        _public_path_part(part) or (_is_keyed(part, "path") and not is_date)
        for part, is_date in _dated(path)
    )


def is_keyed_name(name: str) -> bool:
    """Return whether `name` has the form of what `Pseudonyms.name` returns."""
    return all(_public_name_part(part) or _is_keyed(part, "name") for part in name.split("."))


def numbers_in(component: str) -> list[str]:
    """Return the numbers that can be read in a component of a path."""
    return re.findall("[0-9]+", _split_extension(component)[0])


def _is_keyed(part: str, kind: str) -> bool:
    stem, extension = _split_extension(part) if kind == "path" else (part, "")
    texts = _NUMBER.split(stem)
    if not _KEYED.fullmatch(stem) or not all(_may_count(texts, run, kind) for run in _runs(texts)):
        return False
    if re.search(PSEUDONYM, stem) or extension or kind == "name":
        return True
    return not stem.isdecimal() or len(stem) <= _MAX_INDEX_DIGITS


def _public_path_part(part: str) -> bool:
    return part in ("", ".", "..") or is_engine_name(part)


def _public_name_part(part: str) -> bool:
    return not part or _LAYER_NUMBER.fullmatch(part) is not None


def _split_extension(part: str) -> tuple[str, str]:
    """Return the part before its known extensions, and these."""
    stem = part
    for _ in range(3):
        match = _EXTENSION.search(stem)
        if match is None or match.start() == 0 or match.group(1) not in EXTENSIONS:
            break
        stem = stem[: match.start()]
    return stem, part[len(stem) :]


def _dated(path: str) -> list[tuple[str, bool]]:
    """Return each component of `path`, and whether it is a number below another, as in 2024/11/05.

    Of those the first alone is kept, and no year: so the parents of a path are called as alone.
    """
    found, follows = [], False
    for part in path.split("/"):
        is_number = _is_number(part)
        found.append((part, follows and is_number))
        follows = is_number or (follows and part in ("", "."))
    return found


def _is_number(part: str) -> bool:
    stem = _split_extension(part)[0].lstrip(".")
    return stem.isascii() and stem.isdecimal()


def _kept(stem: str, kind: str) -> list[str]:
    """Return `stem` as text, number, text, ..., text: the numbers are those to keep.

    In a path they follow a word such as step or rank, are all there is, or are `1-of-4`.
    """
    if _MIXED.search(stem):  # of a hash
        return [stem]
    texts = _NUMBER.split(stem)
    runs = (run for run in _runs(texts) if _may_count(texts, run, kind))
    keep = {place for run in runs if len(run) > 1 or _counts(texts, run[0], kind) for place in run}
    joined = [texts[0]]
    for place in range(1, len(texts), 2):
        if place in keep:
            joined += texts[place : place + 2]
        else:
            joined[-1] += texts[place] + texts[place + 1]
    return joined


def _runs(texts: list[str]) -> list[list[int]]:
    """Return the places of the numbers, those together that are joined by separators or `of`."""
    runs: list[list[int]] = []
    for place in range(1, len(texts), 2):
        is_joined = runs and (not texts[place - 1].strip(_SEPARATORS) or _is_of(texts, place - 1))
        if is_joined:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _may_count(texts: list[str], run: list[int], kind: str) -> bool:
    """Return whether the numbers of a run are few and small enough for counts, and no year.

    Two and more in a path are part of a date, a time or an address for all that is known.
    """
    numbers = [texts[place] for place in run]
    if any(int(number) in _YEARS for number in numbers):
        return False
    if kind == "name":
        return len(run) <= 2 and max(map(len, numbers)) <= _MAX_INDEX_DIGITS
    if any(len(number) > _MAX_COUNT_DIGITS and number[:2] != "00" for number in numbers):
        return False
    is_of = len(run) == 2 and _is_of(texts, run[1] - 1) and int(numbers[0]) <= int(numbers[1])
    return len(run) == 1 or is_of


def _counts(texts: list[str], place: int, kind: str) -> bool:
    """Return whether a number is said to count something, or is all there is."""
    if kind == "name":
        return True
    if "".join(texts) == texts[place]:
        return len(texts[place]) <= _MAX_INDEX_DIGITS
    word = _LAST_WORD.search(texts[place - 1].rstrip(_SEPARATORS).lower())
    return word is not None and word.group() in COUNTED


def _is_of(texts: list[str], i: int) -> bool:
    """Return whether text i is the `of` in `00001-of-00004`."""
    return 0 < i < len(texts) - 1 and _OF.match(texts[i]) is not None
