"""Keyed names for the parts of a path or of a tensor's name.

A part keeps what shows the structure: its leading dots, separators, numbering and extension. The
words in it become pseudonyms of ten consonants: 43 bits of a keyed BLAKE2. The same part
has the same pseudonym wherever it stands, and under the same key in every trace; without the key
no pseudonym can be turned back, nor can a guess be tried.
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
_DATE = re.compile(
    r"(19|20)\d\d[-_.]?(0\d|1[0-2])[-_.]?([0-2]\d|3[01])(?!\d)|\d\d[-_:.]\d\d[-_:.]\d\d"
)
_ADDRESS = re.compile(r"\d{1,3}([.-]\d{1,3}){3}")
_OF = re.compile(r"\A[-_]of[-_]\Z")
_MAX_INDEX_DIGITS = 4
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
    >>> names.path("/home/alice/run-7/__0_0.distcp")
    '/wjzlxxprxn/rlwmqwvpmt/zrmsgmvbqw-7/__0_0.distcp'
    """

    key: bytes
    _parts: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _taken: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < MIN_KEY_BYTES:
            raise PseudonymError(
                f"a key needs at least {MIN_KEY_BYTES} bytes; "
                "make one with `head -c 32 /dev/urandom > FILE`"
            )

    def path(self, path: str) -> str:
        """Return `path` with each component under its pseudonym."""
        return "/".join(self._part("path", part, _public_path_part) for part in path.split("/"))

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

    def _part(self, kind: str, part: str, public: Callable[[str], bool]) -> str:
        known = self._parts.get((kind, part))
        if known is not None:
            return known
        given = part if public(part) else self._keyed(kind, part)
        if self._taken.setdefault((kind, given), part) != part:
            raise PseudonymError("two names got one pseudonym; share again, or with another key")
        self._parts[(kind, part)] = given
        return given

    def _keyed(self, kind: str, part: str) -> str:
        stem, extension = _split_extension(part) if kind == "path" else (part, "")
        plain = stem.lstrip(".")
        dots, stem = stem[: len(stem) - len(plain)], plain
        if not _keeps_numbers(stem, extension, kind):
            return dots + (self.word(kind, stem) if stem else "") + extension
        texts = _NUMBER.split(stem)  # text, number, text, number, ..., text
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
    return all(_public_path_part(part) or _is_keyed(part, "path") for part in path.split("/"))


def is_keyed_name(name: str) -> bool:
    """Return whether `name` has the form of what `Pseudonyms.name` returns."""
    return all(_public_name_part(part) or _is_keyed(part, "name") for part in name.split("."))


def _is_keyed(part: str, kind: str) -> bool:
    stem, extension = _split_extension(part) if kind == "path" else (part, "")
    if not _KEYED.fullmatch(stem):
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


def _keeps_numbers(stem: str, extension: str, kind: str) -> bool:
    """Return whether the numbers in a part count something, and tell nothing of its owner.

    They do in a file with a known extension, and after words such as step and rank. Dates,
    addresses, hashes and account numbers look different.
    """
    if _MIXED.search(stem) or _DATE.search(stem) or _ADDRESS.search(stem):
        return False
    if kind == "name":  # a layer or a tensor's number, not a year or an account
        return max(map(len, re.findall("[0-9]+", stem)), default=0) <= _MAX_INDEX_DIGITS
    if extension:
        return True
    if stem.isascii() and stem.isdecimal():
        return len(stem) <= _MAX_INDEX_DIGITS
    words = re.findall(r"[a-z]+", stem.lower())
    return any(word in COUNTED for word in words)


def _is_of(texts: list[str], i: int) -> bool:
    """Return whether text i is the `of` in `00001-of-00004`."""
    return 0 < i < len(texts) - 1 and _OF.match(texts[i]) is not None
