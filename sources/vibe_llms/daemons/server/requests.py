"""Cutting requests out of what comes on a connection; httptools knows their grammar."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import httptools

Headers = list[tuple[bytes, bytes]]

MALFORMED: Final = 400
EXPECTATION_FAILED: Final = 417
HEAD_TOO_LONG: Final = 431
NOT_IMPLEMENTED: Final = 501
VERSION_NOT_SUPPORTED: Final = 505


class Head(NamedTuple):
    """What a request says before its body.

    Attributes:
        target: As it was written.
        version: ``1.0`` or ``1.1``.
        headers: Their names in lower case.
        is_kept: Another request may follow on the connection.
        is_upgrade: It asks to go on as a WebSocket.
        expects_continue: Its body comes when it is told to.
    """

    method: str
    target: bytes
    version: str
    headers: Headers
    is_kept: bool
    is_upgrade: bool
    expects_continue: bool


class Sink(Protocol):
    """Who is told of requests. ``begin`` comes first, ``finish`` last."""

    def begin(self, head: Head) -> None:
        """Is told of the head of a request."""

    def take(self, body: bytes) -> None:
        """Is told of some of its body."""

    def finish(self) -> None:
        """Is told that all of it has come."""


class _Refused(Exception):
    """Stops the parser.

    Args:
        status: What is answered.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RequestReader:
    """A machine that is fed with bytes, cut anywhere, and tells of the requests in them.

    Whatever can be read in two ways is refused, since somebody between the client and us may
    have read it in the other: a length said twice, a length beside chunks, a coding that we do
    not undo, two hosts. httptools refuses most of it by itself.

    Args:
        header_bytes: How long the first line and the headers may be together, and whatever
            describes chunks or follows the last.

    Attributes:
        is_between: Nothing of a request has come that is not complete.
    """

    __slots__ = (
        "_fruitless",
        "_headers",
        "_is_in_body",
        "_is_last",
        "_is_missed",
        "_is_upgraded",
        "_limit",
        "_missed",
        "_parser",
        "_refused",
        "_size",
        "_slack",
        "_target",
        "is_between",
        "sink",
    )

    def __init__(self, sink: Sink, header_bytes: int) -> None:
        self.sink = sink
        self._limit = header_bytes
        self._headers: Headers = []
        self._target = b""
        # What has come since the last of a body, or since the piece began in which a request ended;
        # and how much of that may have belonged to the request which did.
        self._fruitless = 0
        self._slack = 0
        self.is_between = True
        self._size = 0
        self._is_in_body = False
        self._is_last = False
        self._is_upgraded = False
        self._refused: int | None = None
        # What the parser is told, and whether it is reading that.
        self._missed = b""
        self._is_missed = False
        self._parser = httptools.HttpRequestParser(self)
        # What comes after the last request is no fault; it is not looked at.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def close(self) -> None:
        """Lets go of those who know it; nothing comes any more."""
        del self._parser, self.sink

    def feed(self, data: bytes) -> int | bytes:
        """Takes what has come.

        Returns:
            0; or the status of what is wrong with it. After a request for a WebSocket, what
            follows it, which is no HTTP: these may be no bytes at all.
        """
        while True:
            self._size = len(data)
            self._fruitless += self._size
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._is_upgraded:
                    return data
                # Another protocol was asked for, and is not taken up: HTTP goes on. The parser
                # takes no body from such a request but is told to, by a head of ours.
                head, self._missed = self._missed, b""
                self._is_missed = bool(head)
                if head or data:
                    data = head + data
                    continue
            except httptools.HttpParserError:
                # Not by its context, which is another where all this runs within an `except`.
                if self._refused is not None:
                    return self._refused
                return 0 if self._is_last and not self._is_in_body else MALFORMED
            if self._fruitless - self._slack > self._limit:
                return MALFORMED if self._is_in_body else HEAD_TOO_LONG
            return 0

    def _refuse(self, status: int) -> _Refused:
        """Return what stops the parser, and remember why."""
        self._refused = status
        return _Refused(status)

    # What the parser tells

    def on_message_begin(self) -> None:
        """Is told of the first byte of a request."""
        if self._is_last and not self._is_missed:
            raise self._refuse(0)  # nobody looks at what follows the last request
        self.is_between = False

    def on_url(self, target: bytes) -> None:
        """Is told of the target, or some of it."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Is told of a header, or of a trailer."""
        if not self._is_in_body:
            # The parser takes off what stands before a value, and leaves what stands behind it.
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Is told that the head is there."""
        if self._is_missed:
            self._is_missed = False
            self._target = b""
            return
        headers, self._headers = self._headers, []
        target, self._target = self._target, b""
        if self._fruitless > self._limit and _measure(target, headers) > self._limit:
            raise self._refuse(HEAD_TOO_LONG)
        parser = self._parser
        version = parser.get_http_version()
        is_upgrade = parser.should_upgrade()
        method = parser.get_method().decode("ascii")
        if b"#" in target:
            raise self._refuse(MALFORMED)
        try:
            expects_continue = _check(method, version, headers)
        except _Refused as error:
            raise self._refuse(error.status) from None
        if is_upgrade:
            is_upgrade = _is_websocket(method, version, headers)
            self._missed = b"" if is_upgrade else _write_framing(headers)
        self._is_upgraded = is_upgrade
        self._is_in_body = True
        self._fruitless = self._slack = 0
        self._is_last = not parser.should_keep_alive()
        self.sink.begin(
            Head(method, target, version, headers, not self._is_last, is_upgrade, expects_continue)
        )

    def on_body(self, body: bytes) -> None:
        """Is told of some of a body."""
        self._fruitless = self._slack = 0
        self.sink.take(body)

    def on_message_complete(self) -> None:
        """Is told that all of a request has come."""
        if self._missed:
            return
        self._is_in_body = False
        self.is_between = True
        self._fruitless = self._slack = self._size
        self.sink.finish()


def _write_framing(headers: Headers) -> bytes:
    """Returns a head that says no more than how long a body is; nothing where there is none."""
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, value in headers
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
    ]
    return b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(lines) if lines else b""


def _measure(target: bytes, headers: Headers) -> int:
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


_TOLD: Final = frozenset({b"host", b"transfer-encoding", b"expect"})


def _check(method: str, version: str, headers: Headers) -> bool:
    """Makes sure that a head can be read in one way; returns whether its body waits for a word.

    Raises:
        _Refused: It is not to be served.
    """
    if version not in ("1.1", "1.0"):
        raise _Refused(VERSION_NOT_SUPPORTED)
    if method == "CONNECT":
        raise _Refused(NOT_IMPLEMENTED)
    hosts = 0
    expects = False
    for name, value in headers:
        if name not in _TOLD:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise _Refused(EXPECTATION_FAILED)
            expects = version == "1.1"
        elif version == "1.0":
            raise _Refused(MALFORMED)  # who speaks 1.0 would take the chunks for the next request
        elif value.lower() != b"chunked":
            raise _Refused(NOT_IMPLEMENTED)
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _Refused(MALFORMED)
    return expects


def _is_websocket(method: str, version: str, headers: Headers) -> bool:
    return (
        method == "GET"
        and version == "1.1"
        and any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
    )
