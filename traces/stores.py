"""The file systems that a location may name: local, object stores, web servers, the corpus.

    trace.parquet, file:///data/trace.parquet
    s3://bucket/key?region=eu-north-1, gs://bucket/key
    https://example.org/trace.parquet (read only; a folder by the page that lists it)
    corpus:datastates-llm (read only; the traces that come with the package)

Every request to the network ends within seconds: nobody waits a quarter of an hour to learn that
a name is mistyped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.web import HttpFiles

CORPUS: Final = Path(__file__).parent / "corpus"
CORPUS_PREFIX: Final = "corpus:"
SUFFIX: Final = ".parquet"

# A URI that went through a Path has one slash left; no file is meant by the known schemes.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://|(s3|gs|gcs|https?|file):(?:/|$)", re.IGNORECASE)
_WEB = ("http", "https")
_OBJECTS = ("s3", "gs", "gcs")
# Names of objects may hold `#` and `?`, no bucket's holds `:`, and a secret key may hold `/`.
_OBJECT = re.compile(
    r"\w+://(?:(?P<user>[^/:@?]*)(?::(?P<secret>[^@]*))?@)?(?P<bucket>[^/?]*)"
    r"(?P<key>.*?)(?:\?(?P<settings>[A-Za-z][\w.-]*=.*))?",
    re.DOTALL,
)
_CONNECT_SECONDS, _REQUEST_SECONDS, _TRIES = 5, 30, 3
_GS_RETRY_SECONDS = 4  # it takes twice that and some seconds
_S3_SETTINGS = ("region", "endpoint_override", "scheme", "anonymous")
_GS_SETTINGS = ("endpoint_override", "scheme", "anonymous")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
# What Arrow's messages say, and what to do about it.
_REMEDIES = {
    "ACCESS_DENIED": "access denied; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or "
    "AWS_PROFILE) to what may use it, or add ?anonymous=true for public data",
    "INVALID_ACCESS_KEY": "the access key is not known there; check AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong; check AWS_SECRET_ACCESS_KEY",
    "NO_SUCH_BUCKET": "there is no such bucket; check its name and region",
    "Bucket not found": "there is no such bucket; check its name and region",
    "NETWORK_CONNECTION": "the server cannot be reached; check the network and AWS_ENDPOINT_URL",
    "USER_NETWORK": "the server cannot be reached; check the network and AWS_ENDPOINT_URL",
    "OAuth2 access token": "no credentials; set GOOGLE_APPLICATION_CREDENTIALS, or add "
    "?anonymous=true for public data",
    "UNAVAILABLE": "the server cannot be reached; check the network",
    "Could not resolve host": "the server cannot be reached; check the network and the name",
}


class StoreError(TraceFormatError):
    """A place that cannot be reached, or may not be used."""


def scheme_of(location: str | Path) -> str:
    """Return the scheme of a URI, in lower case; empty for a path."""
    match = _SCHEME.match(str(location))
    return (match.group(1) or match.group(2)).lower() if match else ""


def as_uri(location: str | Path) -> str:
    """Return a URI as it was before it went through a Path, and anything else as it is.

    >>> as_uri(Path("s3://bucket/trace.parquet"))
    's3://bucket/trace.parquet'
    """
    text = str(location)
    scheme = scheme_of(text)
    if not scheme or "://" in text[: len(scheme) + 3]:
        return text
    rest = text[len(scheme) + 1 :].lstrip("/")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{rest}"


def is_remote(location: str | Path) -> bool:
    """Return whether `location` is a URI of another machine."""
    return scheme_of(location) not in ("", "file")


def is_web(location: str | Path) -> bool:
    """Return whether `location` is a URL of a web server."""
    return scheme_of(location) in _WEB


def is_writable(location: str | Path) -> bool:
    """Return whether a trace may be written there: not to a web server or into the corpus."""
    return scheme_of(location) not in _WEB and not str(location).startswith(CORPUS_PREFIX)


def local_path(location: str | Path) -> Path:
    """Return the path of a location that is not remote: a file URI, or `corpus:NAME`.

    Raises:
        StoreError: it names no file, or nothing in the corpus.
    """
    text = str(location)
    if text.startswith(CORPUS_PREFIX):
        return corpus_trace(text.removeprefix(CORPUS_PREFIX))
    if scheme_of(text) != "file":
        return Path(location)
    host, _, name = as_uri(text)[len("file://") :].partition("/")
    if host not in ("", "localhost"):
        raise StoreError(
            f"{location} is a file of another host, {host}; write file:///folder/trace.parquet, "
            "or copy it here first"
        )
    path = Path(f"/{unquote(name)}")
    if not path.name:
        raise StoreError(f"{location} names no file; write file:///folder/trace.parquet")
    return path


def file_name(location: Path) -> str:
    """Return the name of the file alone, without the settings that a URI may end with.

    >>> file_name(Path("s3://bucket/t.parquet?region=eu-north-1"))
    't.parquet'
    """
    return _apart(location)[0].name


def with_suffix(location: Path, suffix: str) -> Path:
    """Return the place beside `location` that has another suffix, in the same store.

    >>> str(with_suffix(Path("s3://bucket/t.parquet?endpoint_override=10.0.0.1:9000"), ".md"))
    's3:/bucket/t.md?endpoint_override=10.0.0.1:9000'
    """
    name, settings = _apart(location)
    return Path(f"{name.with_suffix(suffix)}{settings}")


def _apart(location: Path) -> tuple[Path, str]:
    """Return a location without its settings, and these with their `?`; empty: none."""
    if scheme_of(location) not in _OBJECTS:
        return location, ""
    text = str(location)
    parts = _OBJECT.fullmatch(as_uri(location))
    assert parts is not None  # it matches whatever has a scheme
    settings = f"?{parts['settings']}" if parts["settings"] else ""
    return Path(text.removesuffix(settings)), settings


def check_uri(text: str) -> None:
    """Refuse a URI that is not complete or of no known kind; as typed, for a Path loses slashes.

    Raises:
        StoreError: the URI names no place.
    """
    scheme = scheme_of(text)
    if scheme == "file":
        local_path(text)
    elif scheme and scheme not in (*_OBJECTS, *_WEB):
        raise _unknown_kind(text)
    elif scheme and as_uri(text)[len(scheme) + 3 :][:1] in ("", "/", "?", "#"):
        form = "HOST/FILE" if scheme in _WEB else "BUCKET/KEY"
        raise StoreError(f"{shown(text)} is not complete; write {scheme}://{form}")


def find_store(location: str | Path) -> tuple[fs.FileSystem, str]:
    """Return the file system of a remote location, and the path in it. Nothing is asked yet.

    The path has no secrets; the file system knows those of the location.

    Raises:
        StoreError: the location is not understood.
    """
    uri = as_uri(location)
    scheme = scheme_of(uri)
    with told(uri):
        if scheme in _WEB:
            if re.match(r"\w+://[^/?#]*@", uri):
                raise ValueError("no password is sent to a web server; use a URL that is public")
            path, mark, query = uri.partition("#")[0].partition("?")
            return fs.PyFileSystem(HttpFiles(mark + query)), path
        if scheme == "s3":
            return _s3(uri)
        if scheme in _OBJECTS:
            return _gs(uri)
    raise _unknown_kind(uri)


def store_place(location: str | Path) -> tuple[str, str, str]:
    """Return the kind of store, its endpoint and the path in it: the same for one object.

    Keys, regions and other settings that a URI may carry make no other place of it.

    Raises:
        StoreError: the location is not understood.
    """
    uri = as_uri(location)
    with told(uri):
        _, settings, path = _parsed(uri, _S3_SETTINGS)
    scheme = scheme_of(uri)
    endpoint = settings.get("endpoint_override", "")
    if scheme == "s3":
        endpoint = endpoint or _first_set(_ENDPOINT_VARIABLES)
    endpoint = endpoint.rpartition("://")[2].rstrip("/").lower()
    return "gs" if scheme == "gcs" else scheme, endpoint, path


def corpus_names() -> list[str]:
    """Return the traces that come with the package."""
    return sorted(path.stem for path in CORPUS.glob(f"*{SUFFIX}"))


def corpus_trace(name: str) -> Path:
    """Return the file of a trace of the corpus.

    Raises:
        StoreError: there is none of this name.
    """
    if name not in corpus_names():
        listed = ", ".join(corpus_names())
        raise StoreError(f"the corpus has no trace {name[:60]!r}; it has {listed}")
    return CORPUS / f"{name}{SUFFIX}"


@contextmanager
def told(location: str | Path) -> Iterator[None]:
    """Turn what a store reports into one line that says what to do.

    Raises:
        StoreError: instead of the store's own error.
    """
    try:
        yield
    except PermissionError as error:
        raise StoreError(
            f"{shown(location)} may not be used by this user; check its mode"
        ) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        message = str(error)
        remedy = next((told for sign, told in _REMEDIES.items() if sign in message), None)
        line = remedy or (message.splitlines() or [type(error).__name__])[0][:200]
        raise StoreError(f"cannot reach {shown(location)}: {line}") from error


class Place(str):
    """A location as `shown`, to be written anywhere; `whole` is for the store that it names.

    What becomes of it on the way, such as a Path, has lost the secrets.
    """

    whole: str

    def __new__(cls, location: str) -> Place:
        """Keep the secrets of a location apart."""
        place = super().__new__(cls, shown(location))
        place.whole = location
        return place


def shown(location: str | Path) -> str:
    """Return a location for whoever may read it: without keys, passwords and signatures.

    Of a URL the query goes, which may hold any of them; of an object the settings stay.

    >>> shown("s3://key:secret@bucket/t.parquet?region=eu-north-1")
    's3://bucket/t.parquet?region=eu-north-1'
    >>> shown("https://user:password@host/t.parquet?X-Amz-Signature=0123")
    'https://host/t.parquet'
    """
    uri = as_uri(location)
    scheme = scheme_of(uri)
    if scheme in ("", "file"):
        return uri
    if scheme not in _OBJECTS:
        bare = re.match(r"[^?#]*", uri)[0]  # type: ignore[index]  # it matches anything
        return re.sub(r"//(?:[^/@]*|[^/:@]*:(?!\d+(?:/|$))[^@]*)@", "//", bare)
    parts = _OBJECT.fullmatch(uri)
    assert parts is not None
    names = {name for name, _ in parse_qsl(parts["settings"] or "", keep_blank_values=True)}
    settings = f"?{parts['settings']}" if names and names <= {*_S3_SETTINGS, *_GS_SETTINGS} else ""
    return f"{scheme}://{parts['bucket']}{parts['key']}{settings}"


def without_secrets(text: str) -> str:
    """Return a text with each URI in it as it may be shown."""
    return re.sub(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s`'\"]+", lambda uri: shown(uri[0]), text)


def _s3(uri: str) -> tuple[fs.FileSystem, str]:
    parts, settings, path = _parsed(uri, _S3_SETTINGS)
    user, secret = parts["user"], parts["secret"]
    endpoint = settings.get("endpoint_override") or _first_set(_ENDPOINT_VARIABLES)
    region = settings.get("region") or _first_set(_REGION_VARIABLES)
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(path.partition("/")[0])
    keys = {}
    if user and secret:
        keys = {"access_key": unquote(user), "secret_key": unquote(secret)}
    found = fs.S3FileSystem(
        region=region,
        **({"endpoint_override": endpoint} if endpoint else {}),
        **({"scheme": settings["scheme"]} if "scheme" in settings else {}),
        **keys,
        anonymous=settings.get("anonymous") == "true",
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return found, path


def _gs(uri: str) -> tuple[fs.FileSystem, str]:
    _, settings, path = _parsed(uri, _GS_SETTINGS)
    found = fs.GcsFileSystem(
        anonymous=settings.get("anonymous") == "true",
        **{k: v for k, v in settings.items() if k != "anonymous"},
        retry_time_limit=timedelta(seconds=_GS_RETRY_SECONDS),
    )
    return found, path


def _parsed(uri: str, allowed: tuple[str, ...]) -> tuple[re.Match[str], dict[str, str], str]:
    parts = _OBJECT.fullmatch(uri)
    assert parts is not None  # it matches whatever has a scheme
    settings = dict(parse_qsl(parts["settings"] or ""))
    unknown = settings.keys() - set(allowed)
    if unknown:
        raise ValueError(
            f"unknown setting {sorted(unknown)[0]!r}; there are {', '.join(allowed)}, "
            "and a ? of a name is written %3F"
        )
    if not parts["bucket"]:
        raise ValueError(f"it names no bucket; write {scheme_of(uri)}://BUCKET/KEY")
    return parts, settings, f"{parts['bucket']}{unquote(parts['key'])}".rstrip("/")


def _unknown_kind(uri: str) -> StoreError:
    return StoreError(f"{shown(uri)}: no such kind of place; use s3://, gs://, https:// or file://")


def _first_set(variables: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in variables if os.environ.get(name)), "")
