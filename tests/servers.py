"""Servers on the loopback: one that speaks S3, and web servers with and without ranges."""

from __future__ import annotations

import logging
import re
import threading
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUCKET = "traces"


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve an empty bucket; give the endpoint."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    # All servers of a process share what they hold.
    urllib.request.urlopen(f"{endpoint}/moto-api/reset", data=b"").close()
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=BUCKET)
    try:
        yield endpoint
    finally:
        server.stop()


def s3_environment(endpoint: str) -> dict[str, str]:
    """Return what a user exports."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def refusing_proxy(endpoint: str, refuses: Callable[[str, str], bool]) -> Iterator[str]:
    """Stand before a server that speaks S3; answer 403 where `refuses(method, path and query)`."""

    hop_by_hop = ("connection", "date", "expect", "server", "transfer-encoding")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            pieces = []
            while length := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(length + 2)[:-2])
            self.rfile.readline()
            return b"".join(pieces)

        def answer(self) -> None:
            body = self.body()
            if refuses(self.command, self.path):
                status, headers, content = 403, {}, b"<Error><Code>AccessDenied</Code></Error>"
            else:
                upstream = HTTPConnection(endpoint.removeprefix("http://"))
                given = {k: v for k, v in self.headers.items() if k.lower() not in hop_by_hop}
                upstream.request(self.command, self.path, body, given)
                reply = upstream.getresponse()
                status, headers, content = reply.status, dict(reply.headers), reply.read()
                upstream.close()
            self.send_response(status)
            length = headers.pop("Content-Length", str(len(content)))
            for name, value in headers.items():
                if name.lower() not in hop_by_hop:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = answer

        def log_message(self, *_: object) -> None: ...

    with _serving(Handler) as url:
        yield url


@dataclass
class WebServer:
    """What a web server serves, and what was asked of it.

    Attributes:
        files: content by path, such as `/t.parquet`.
        requests: (path, bytes sent), in order.
        status: answered instead, if not 0.
        changing: give another version with every answer.
        silent: answer nothing at all.
        pages: the paths that are of HTML.
        whole: know no ranges.
    """

    files: dict[str, bytes]
    requests: list[tuple[str, int]] = field(default_factory=list)
    status: int = 0
    changing: bool = False
    silent: bool = False
    pages: Collection[str] = ()
    whole: bool = False
    url: str = ""

    @property
    def sent_bytes(self) -> int:
        """Bytes of content sent so far."""
        return sum(sent for _, sent in self.requests)


@contextmanager
def range_server(files: dict[str, bytes]) -> Iterator[WebServer]:
    """Serve `files` by byte ranges."""
    state = WebServer(files)
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if state.silent:
                stopped.wait(60)
                return
            content = state.files.get(self.path)
            if state.status or content is None:
                self.send_error(state.status or 404)
                return
            first, last = map(int, re.findall(r"\d+", self.headers["Range"]))
            part = content if state.whole else content[first : last + 1]
            state.requests.append((self.path, len(part)))
            self.send_response(200 if state.whole else 206)
            if not state.whole:
                end = first + len(part) - 1
                self.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            if self.path in state.pages:
                self.send_header("Content-Type", "text/html; charset=utf-8")
            version = len(state.requests) if state.changing else 1
            self.send_header("ETag", f'"{version}"')
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_: object) -> None: ...

    with _serving(Handler) as state.url:
        yield state
        stopped.set()


@contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Serve a folder as `python -m http.server` does, which knows no ranges; give its URL."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type, misc]

        def log_message(self, *_: object) -> None: ...

    with _serving(Handler) as url:
        yield url


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
