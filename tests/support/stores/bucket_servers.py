"""Small bucket servers: one with scripted answers, and one with Google's or Azure's protocol.

They implement the parts that content backends need. Keys are required, but not verified.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "vibe-contents"
PAGE_OBJECTS = 2
"""Number of names in a page of a list."""


class BucketRequest(NamedTuple):
    """A request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes


class BucketAnswer(NamedTuple):
    """A response."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}  # never changed


@contextmanager
def served(answer: Callable[[BucketRequest], BucketAnswer]) -> Iterator[str]:
    """Serve answers on a free port of this machine, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, keep_blank_values=True)
            response = answer(
                BucketRequest(self.command, unquote(parts.path), query, self.headers, body)
            )
            self.send_response(response.status)
            for name, value in {
                "content-length": str(len(response.body)),
                **response.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)

        def log_message(self, *arguments: object) -> None:
            pass

    for method in ("GET", "PUT", "HEAD", "DELETE", "POST"):
        setattr(Handler, f"do_{method}", Handler.respond)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ScriptedBucket:
    """Bucket with scripted answers, which records its requests."""

    def __init__(self, answers: Sequence[BucketAnswer]) -> None:
        self.answers = list(answers)
        self.requests: list[BucketRequest] = []

    def answer(self, request: BucketRequest) -> BucketAnswer:
        self.requests.append(request)
        return self.answers.pop(0)


class Bucket:
    """Bucket with objects in memory.

    Args:
        account: Account at Azure; empty for Google.
    """

    def __init__(self, account: str = "") -> None:
        self.account = account
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.kinds: dict[str, str] = {}
        self.listed = 0

    def answer(self, request: BucketRequest) -> BucketAnswer:
        """Answer a request."""
        if request.path.startswith("/computeMetadata/"):
            token = b'{"access_token": "lent", "expires_in": 3600, "token_type": "Bearer"}'
            return BucketAnswer(200, token, {"content-type": "application/json"})
        scheme = "SharedKey " if self.account else "Bearer lent"
        if not request.headers.get("authorization", "").startswith(scheme):
            return _refuse(403, "AccessDenied")
        root = f"/{self.account}/{BUCKET}" if self.account else f"/{BUCKET}"
        if f"{request.path}/".startswith(f"{root}/") is False:
            return _refuse(404, "ContainerNotFound" if self.account else "NoSuchBucket")
        name = request.path.removeprefix(root).strip("/")
        if request.method == "POST":
            return self._perform_batch(request.body.decode())
        if not name:
            return self._list(request.query)
        if request.method == "PUT":
            return self._put(name, request)
        if name not in self.objects:
            return _refuse(404, "BlobNotFound" if self.account else "NoSuchKey")
        if request.method == "DELETE":
            del self.objects[name]
            return BucketAnswer(204)
        data, moment = self.objects[name]
        headers = {"etag": '"1"', "last-modified": format_datetime(moment, usegmt=True)}
        return BucketAnswer(200, data, {**headers, "content-length": str(len(data))})

    def _put(self, name: str, request: BucketRequest) -> BucketAnswer:
        is_new = (
            request.headers.get("if-none-match") == "*"
            or request.headers.get("x-goog-if-generation-match") == "0"
        )
        if is_new and name in self.objects:
            return _refuse(409 if self.account else 412, "BlobAlreadyExists")
        self.objects[name] = (request.body, datetime.now(UTC))
        kind = request.headers.get("x-ms-blob-content-type") or request.headers.get("content-type")
        self.kinds[name] = kind or ""
        return BucketAnswer(201, headers={"etag": '"1"'})

    def _perform_batch(self, body: str) -> BucketAnswer:
        parts = []
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP", body)):
            name = unquote(urlsplit(path).path).partition(f"{BUCKET}/")[2]
            status = "202 Accepted" if self.objects.pop(name, None) else "404 Not Found"
            code = "" if status.startswith("202") else "x-ms-error-code: BlobNotFound\r\n"
            parts.append(
                "--done\r\nContent-Type: application/http\r\n"
                f"Content-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n{code}\r\n"
            )
        text = "".join(parts) + "--done--\r\n"
        return BucketAnswer(202, text.encode(), {"content-type": "multipart/mixed; boundary=done"})

    def _list(self, query: dict[str, list[str]]) -> BucketAnswer:
        self.listed += 1
        prefix = query["prefix"][0]
        after = (query.get("marker") or query.get("continuation-token") or [""])[0]
        names = sorted(each for each in self.objects if each.startswith(prefix) and each > after)
        page, more = names[:PAGE_OBJECTS], names[PAGE_OBJECTS:]
        following = page[-1] if more else ""
        rows = "".join(map(self._describe, page))
        text = (
            f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{following}</NextMarker>"
            "</EnumerationResults>"
            if self.account
            else f"<ListBucketResult>{rows}"
            + (f"<NextContinuationToken>{following}</NextContinuationToken>" if following else "")
            + "</ListBucketResult>"
        )
        return BucketAnswer(200, text.encode(), {"content-type": "application/xml"})

    def _describe(self, name: str) -> str:
        data, moment = self.objects[name]
        if not self.account:
            return (
                f"<Contents><Key>{escape(name)}</Key><ETag>1</ETag><Size>{len(data)}</Size>"
                f"<LastModified>{moment.isoformat()}</LastModified></Contents>"
            )
        written = format_datetime(moment, usegmt=True)
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{written}"
            f"</Last-Modified><Content-Length>{len(data)}</Content-Length>"
            "<Content-Type>image/png</Content-Type><Etag>1</Etag></Properties></Blob>"
        )


def _refuse(status: int, code: str) -> BucketAnswer:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>"
    return BucketAnswer(
        status, text.encode(), {"content-type": "application/xml", "x-ms-error-code": code}
    )
