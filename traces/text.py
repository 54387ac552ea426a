r"""Text as it is stored in a trace: always valid UTF-8, always reversible.

A path on Linux is any bytes but NUL. In Python it is the `str` of `os.fsdecode`, whose
undecodable bytes are lone surrogates, and neither Parquet nor strict JSON can hold those. Stored
text therefore spells

    a backslash                    \\
    an undecodable byte            \xNN      (NN: the byte)
    any other lone surrogate       \uNNNN    (only a hostile or broken source has them)

and everything else as itself. A backslash that starts none of these (another writer's text) means
itself. `Trace` and `Metadata` encode and decode on their own; only a program that reads the
Parquet file by itself meets the escapes.
"""

import re

_TO_ESCAPE = re.compile(r"[\\\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:(\\)|x([89a-f][0-9a-f])|u(d[89a-f][0-9a-f]{2}))")
_BYTE_SURROGATE = 0xDC00  # os.fsdecode turns byte NN >= 0x80 into U+DCNN


def encode_path(text: str) -> str:
    r"""Return `text` as stored.

    >>> encode_path("/data/caf\udce9")
    '/data/caf\\xe9'
    """
    return _TO_ESCAPE.sub(_escape, text)


def decode_path(stored: str) -> str:
    r"""Return the text that `encode_path` stored; total on any `str`.

    >>> decode_path("/data/caf\\xe9")
    '/data/caf\udce9'
    """
    return _ESCAPED.sub(_unescape, stored)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char == "\\":
        return r"\\"
    code = ord(char)
    if 0x80 <= code - _BYTE_SURROGATE <= 0xFF:
        return f"\\x{code - _BYTE_SURROGATE:02x}"
    return f"\\u{code:04x}"


def _unescape(match: re.Match[str]) -> str:
    backslash, byte, surrogate = match.groups()
    if backslash:
        return "\\"
    if byte:
        return chr(_BYTE_SURROGATE + int(byte, 16))
    return chr(int(surrogate, 16))
