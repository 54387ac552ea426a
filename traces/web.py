"""Files of a web server, read by byte ranges, and the folders that it lists as pages of links."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from html import unescape
from http.client import HTTPException, HTTPMessage, InvalidURL
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.ranges import RangeFile

SILENCE_SECONDS: Final = 15  # of a server, before it counts as gone
_SLOWEST_BYTES_PER_SECOND = 20_000
_TRIES = 2
# A server without ranges sends all of a file: as much as a reader holds anyway.
MAX_WHOLE_BYTES: Final = 256 << 20
_MAX_PAGE_BYTES = 16 << 20
_PIECE = 1 << 20
# A real parser of HTML takes quadratic time on what is made to slow it down.
_LINK = re.compile(r"""\bhref\s{0,9}=\s{0,9}["']([^"'<>]{1,2000})["']""", re.IGNORECASE)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class HttpFiles(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """What Arrow asks of a file system, for reading single files by their URL.

    Its paths are URLs without their query, which may be a signature, and is sent with each.
    What a server sent when it was asked what a URL is, is not asked again to open or list it.
    """

    def __init__(self, query: str = "") -> None:
        """Send `query`, empty or with its question mark, behind each URL."""
        self._query = query
        self._asked: dict[str, _Url] = {}

    def get_type_name(self) -> str:
        """Return the name."""
        return "http"

    def normalize_path(self, path: str) -> str:
        """Return a URL as it is."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Return what each URL is, by asking for its first byte."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Return what the page of a folder links to in the folder; nothing is asked of these."""
        names = _links(self._url(selector.base_dir).whole())
        return [fs.FileInfo(_beside(selector.base_dir, n), fs.FileType.File) for n in names]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any place."""
        return self._url(path).file()

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading."""
        return self.open_input_file(path)

    def _url(self, url: str) -> _Url:
        return self._asked.pop(url, None) or _Url(url + self._query)

    def _info(self, url: str) -> fs.FileInfo:
        try:
            found = self._asked[url] = _Url(url + self._query)
        except FileNotFoundError:
            return fs.FileInfo(url, fs.FileType.NotFound)
        if found.is_page:
            return fs.FileInfo(url, fs.FileType.Directory)
        return fs.FileInfo(url, fs.FileType.File, size=found.size)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise OSError("a web server can only be read, file by file")

    create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse


def _links(page: bytes) -> list[str]:
    """Return the names that a page links to right beside it: a server lists no other place."""
    links = (unescape(link) for link in _LINK.findall(page.decode("utf-8", "replace")))
    names = dict.fromkeys(unquote(link).removeprefix("./") for link in links)
    return [name for name in names if name and not set(name) & set("/?#:")]


def _beside(folder: str, name: str) -> str:
    parts = urlsplit(folder)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}").geturl()


class _Url:
    """One file: its size, its version, and its bytes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._whole: bytes | None = None
        self._version: str | None = None
        content, headers, status = self._get(0, 1)
        self.is_page = headers.get_content_type() == "text/html"
        if status == 200:  # the server knows no ranges
            self._whole, self.size = content, len(content)
            return
        self.size = _total(headers)
        self._version = headers.get("ETag") or headers.get("Last-Modified")

    def file(self) -> pa.NativeFile:
        """Return the file, open for reading at any place."""
        if self._whole is not None:
            return pa.BufferReader(self._whole)
        return pa.PythonFile(RangeFile(self.size, self._fetch), mode="r")

    def whole(self) -> bytes:
        """Return all of a small file."""
        if self.size > _MAX_PAGE_BYTES:
            raise OSError("the list of the folder is too long; name a file in it")
        return self._fetch(0, self.size)

    def _fetch(self, start: int, length: int) -> bytes:
        if self._whole is not None:
            return self._whole[start : start + length]
        content, headers, status = self._get(start, length)
        version = headers.get("ETag") or headers.get("Last-Modified")
        if status != 206 or _total(headers) != self.size or version != self._version:
            raise OSError("the file changed while it was read; read it again")
        if len(content) != length:
            raise OSError(f"the server sent {len(content)} bytes of {length}")
        return content

    def _get(self, start: int, length: int) -> tuple[bytes, HTTPMessage, int]:
        for attempt in range(_TRIES):
            try:
                return self._get_once(start, length)
            except urllib.error.HTTPError as error:
                if error.code in (404, 410):
                    raise FileNotFoundError("the server has no such file") from None
                if error.code in (401, 403):
                    raise OSError("the server refuses access; use a URL that is public") from None
                if error.code == 416 and start == 0:
                    raise OSError("the file is empty") from None
                if error.code < 500 or attempt + 1 == _TRIES:
                    raise OSError(f"the server answers {error.code} {error.reason}") from None
            except (OSError, HTTPException) as error:
                if attempt + 1 == _TRIES or isinstance(error, TimeoutError):
                    raise OSError(_reason(error)) from None
        raise AssertionError("not reached")

    def _get_once(self, start: int, length: int) -> tuple[bytes, HTTPMessage, int]:
        headers: Mapping[str, str] = {
            "Range": f"bytes={start}-{start + length - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": "iotrace",
        }
        request = urllib.request.Request(self._url, headers=dict(headers))
        with urllib.request.urlopen(request, timeout=SILENCE_SECONDS) as answer:
            limit = length if answer.status == 206 else MAX_WHOLE_BYTES
            return _body(answer, limit), answer.headers, answer.status


def _body(answer: Any, limit: int) -> bytes:
    """Return the body, of at most `limit` bytes; a server that drips is given up."""
    pieces, total = [], 0
    deadline = time.monotonic() + 2 * SILENCE_SECONDS
    while piece := answer.read1(_PIECE):
        total += len(piece)
        if total > limit:
            raise OSError(
                f"the server sends whole files alone, and this one has more than {limit} bytes; "
                "download it first"
            )
        if time.monotonic() > deadline + total / _SLOWEST_BYTES_PER_SECOND:
            raise TimeoutError("the server is too slow")
        pieces.append(piece)
    return b"".join(pieces)


def _total(headers: HTTPMessage) -> int:
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None:
        raise OSError("the server does not tell the file's size")
    return int(match.group(3))


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidURL):  # its message holds the query
        return "it is no URL; write what is special in it as %20 and the like"
    cause = getattr(error, "reason", None) or error
    if isinstance(cause, TimeoutError):
        return "the server does not answer; try later"
    return f"no connection ({cause}); check the address"
