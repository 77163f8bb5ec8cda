"""Parse HTTP requests from the bytes of a connection, with httptools."""

from __future__ import annotations

from typing import Final, Protocol

import httptools

from vibe_llms.daemons.server.request_heads import Head, Headers, KnownHead, remember_head

_PIECE_BYTES: Final = 65_536
"""Longest request that is received as a whole."""

MALFORMED: Final = 400
EXPECTATION_FAILED: Final = 417
HEAD_TOO_LONG: Final = 431
NOT_IMPLEMENTED: Final = 501
VERSION_NOT_SUPPORTED: Final = 505


class RequestSink(Protocol):
    """Receiver of parsed requests: of a whole one, or of its parts, ``finish`` last."""

    def receive(self, head: Head, body: bytes) -> None:
        """Receive a whole request."""

    def begin(self, head: Head) -> None:
        """Receive the head of a request."""

    def add_body(self, body: bytes) -> None:
        """Receive a part of its body."""

    def finish(self) -> None:
        """Handle the end of the request."""


class _RefusedRequest(Exception):
    """The request must be refused. Raised in a callback, to stop the parser.

    Args:
        status: HTTP status of the answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RequestReader:
    """Incremental parser: receives bytes, split anywhere, and passes their requests to a sink.

    Ambiguous requests are refused, because a proxy between the client and this server may have
    interpreted them differently: two lengths, a length with chunks, an unsupported transfer
    coding, two hosts. httptools refuses most of these.

    Args:
        header_bytes: Maximum size of the request line and the headers together, and of the chunk
            headers and trailers.

    Attributes:
        is_between: Whether no part of an incomplete request has been received.
    """

    __slots__ = (
        "_bytes_without_body",
        "_framing_head",
        "_head",
        "_headers",
        "_is_in_body",
        "_is_last",
        "_is_upgraded",
        "_known",
        "_limit",
        "_parser",
        "_previous_bytes",
        "_reads_framing_head",
        "_refused",
        "_size",
        "_target",
        "is_between",
        "sink",
    )

    def __init__(self, sink: RequestSink, header_bytes: int) -> None:
        self.sink = sink
        self._limit = header_bytes
        self._headers: Headers = []
        self._target = b""
        # Bytes received since the last part of a body, or since the start of the piece in which a
        # request ended; and how many of the latter may have belonged to that request.
        self._bytes_without_body = 0
        self._previous_bytes = 0
        self.is_between = True
        self._size = 0
        self._is_in_body = False
        self._is_last = False
        self._is_upgraded = False
        self._refused: int | None = None
        self._head: Head | None = None
        self._known: KnownHead | None = None
        # A head that we feed to the parser (see `feed`), and whether the parser is reading it.
        self._framing_head = b""
        self._reads_framing_head = False
        self._parser = httptools.HttpRequestParser(self)
        # Data after the last request is not an error; it is ignored.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def forget_head(self) -> None:
        """Forget the head that the client may send again."""
        self._known = None

    def close(self) -> None:
        """Release references after the last data."""
        del self._parser, self.sink

    def feed(self, data: bytes) -> int | bytes:
        """Parse received data.

        Returns:
            0, or the status of an error. After a request for a WebSocket, the bytes that follow
            it, which are not HTTP and may be empty.
        """
        known = self._known
        if known is not None and self.is_between:
            request = known.match(data) if len(data) <= _PIECE_BYTES else None
            if request is not None:
                self.sink.receive(*request)
                return 0
            self._known = None
        received = data if self.is_between else b""
        while True:
            self._size = len(data)
            self._bytes_without_body += self._size
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._is_upgraded:
                    return data
                # An upgrade to another protocol was requested and is ignored: HTTP continues. The
                # parser reads the body of such a request only after a head that we feed it.
                head, self._framing_head = self._framing_head, b""
                self._reads_framing_head = bool(head)
                if head or data:
                    data = head + data
                    continue
            except httptools.HttpParserError:
                # The stored status: the exception that a callback has raised is not reliably its
                # context, for example if all of this runs within an `except`.
                if self._refused is not None:
                    return self._refused
                return 0 if self._is_last and not self._is_in_body else MALFORMED
            if self._bytes_without_body - self._previous_bytes > self._limit:
                return MALFORMED if self._is_in_body else HEAD_TOO_LONG
            if received and self._head is not None:
                self._known = remember_head(received, self._head)
            self._head = None
            return 0

    def _refuse(self, status: int) -> _RefusedRequest:
        """Return the exception that stops the parser, and store the status."""
        self._refused = status
        return _RefusedRequest(status)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        if self._is_last and not self._reads_framing_head:
            raise self._refuse(0)  # data after the last request is ignored
        self.is_between = False

    def on_url(self, target: bytes) -> None:
        """Handle the target, or a part of it."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header or a trailer."""
        if not self._is_in_body:
            # The parser strips whitespace before a value, but not after it.
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Handle the end of the head."""
        if self._reads_framing_head:
            self._reads_framing_head = False
            self._target = b""
            return
        headers, self._headers = self._headers, []
        target, self._target = self._target, b""
        if self._bytes_without_body > self._limit and _measure(target, headers) > self._limit:
            raise self._refuse(HEAD_TOO_LONG)
        parser = self._parser
        version = parser.get_http_version()
        is_upgrade = parser.should_upgrade()
        method = parser.get_method().decode()
        if target.find(b"#") >= 0:
            raise self._refuse(MALFORMED)
        try:
            expects_continue = _check(method, version, headers)
        except _RefusedRequest as error:
            raise self._refuse(error.status) from None
        if is_upgrade:
            is_upgrade = _is_websocket(method, version, headers)
            self._framing_head = b"" if is_upgrade else _write_framing(headers)
        self._is_upgraded = is_upgrade
        self._is_in_body = True
        self._bytes_without_body = self._previous_bytes = 0
        self._is_last = not parser.should_keep_alive()
        keeps_alive = not self._is_last
        fields = {
            name.decode(): value.decode() if value.isascii() else value.decode("latin-1")
            for name, value in headers
        }
        head = self._head = Head(
            method, target, version, headers, fields, keeps_alive, is_upgrade, expects_continue, {}
        )
        self.sink.begin(head)

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body."""
        self._bytes_without_body = self._previous_bytes = 0
        self.sink.add_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        if self._framing_head:
            return
        self._is_in_body = False
        self.is_between = True
        self._bytes_without_body = self._previous_bytes = self._size
        self.sink.finish()


def _write_framing(headers: Headers) -> bytes:
    """Return a head with only the headers about a body's length; empty if there is no body."""
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, value in headers
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
    ]
    return b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(lines) if lines else b""


def _measure(target: bytes, headers: Headers) -> int:
    """Return the size of a head on the wire."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


_CHECKED_HEADERS: Final = frozenset({b"host", b"transfer-encoding", b"expect"})


def _check(method: str, version: str, headers: Headers) -> bool:
    """Check that a head is unambiguous; return whether the client waits for ``100 Continue``.

    Raises:
        _RefusedRequest: The request must not be served.
    """
    if version not in ("1.1", "1.0"):
        raise _RefusedRequest(VERSION_NOT_SUPPORTED)
    if method == "CONNECT":
        raise _RefusedRequest(NOT_IMPLEMENTED)
    hosts = 0
    expects = False
    for name, value in headers:
        if name not in _CHECKED_HEADERS:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise _RefusedRequest(EXPECTATION_FAILED)
            expects = version == "1.1"
        elif version == "1.0":
            raise _RefusedRequest(MALFORMED)  # a 1.0 peer would read the chunks as the next request
        elif value.lower() != b"chunked":
            raise _RefusedRequest(NOT_IMPLEMENTED)
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _RefusedRequest(MALFORMED)
    return expects


def _is_websocket(method: str, version: str, headers: Headers) -> bool:
    return (
        method == "GET"
        and version == "1.1"
        and any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
    )
