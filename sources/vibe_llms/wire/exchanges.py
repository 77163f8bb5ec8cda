"""Requests, responses, timeouts, and the protocol of transports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.secrets import Secret


def _drop_infinity(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds


@frozen(kw_only=True)
class Timeouts:
    """Timeouts of an exchange; ``None`` or infinity means no timeout.

    Attributes:
        connect_seconds: Name lookup, TCP, TLS and proxy.
        first_byte_seconds: Time from sending the request to the headers of the response.
        between_chunks_seconds: Between two chunks of the body.
        total_seconds: The whole exchange. The default is longer than any real response takes; it
            ends responses in which the server only sends keep-alives.
    """

    connect_seconds: float | None = attrs.field(default=10, converter=_drop_infinity)
    first_byte_seconds: float | None = attrs.field(default=600, converter=_drop_infinity)
    between_chunks_seconds: float | None = attrs.field(default=120, converter=_drop_infinity)
    total_seconds: float | None = attrs.field(default=7_200, converter=_drop_infinity)


def _show_url(url: str) -> str:
    """Return a URL for logs, without query and credentials."""
    scheme, _, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


class FixedHeaders(dict[str, str | Secret]):
    """Headers of many requests, which never change, so that they are written once.

    Attributes:
        head: Head of a request with these headers, up to its length, behind what it was written
            for: method, target and proxy.
    """

    __slots__ = ("head",)

    def __init__(self, headers: Mapping[str, str | Secret]) -> None:
        super().__init__(headers)
        self.head: tuple[object, object, object, bytes] | None = None


@frozen(kw_only=True, slots=False)
class WireRequest:
    """One HTTP request.

    Attributes:
        method: HTTP method.
        url: URL, with ``http`` or ``https``.
        headers: Values by name; keys and tokens are a :class:`Secret`.
        body: Bytes of the body.
        timeouts: Timeouts in place of the transport's own.
    """

    method: str = "POST"
    url: str
    headers: Mapping[str, str | Secret] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    timeouts: Timeouts | None = None

    def __repr__(self) -> str:
        return represent("WireRequest", (("", self.method), ("url", _show_url(self.url))))


class Exchange(AbstractAsyncContextManager["Exchange"], Protocol):
    """Response with status and headers, whose body is still arriving.

    Close it with :meth:`close`, or use it as an asynchronous context manager. It holds a
    connection until the body was read to the end.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer, their names in lower case."""

    @property
    def is_spent(self) -> bool:
        """True if the body is known to be completely read, so that there is nothing to close."""

    async def receive(self) -> bytes:
        """Wait for the next bytes of the body; return ``b""`` at the end.

        Raises:
            TransportError: The connection broke, or the body is truncated.
            TransportTimeoutError: No bytes arrived within the timeout.
            LimitError: The body is longer than ``response_bytes`` allows.
        """

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body, or the part of it that was not read yet.

        Args:
            limit: Limit in bytes; ``limits.response_bytes`` by default.

        Raises:
            LimitError: The body is longer; the rest is not read.
            TransportError, TransportTimeoutError: See :meth:`receive`.
        """

    async def close(self) -> None:
        """Close the response, and the connection, unless the body was read to its end."""


class Transport(Protocol):
    """HTTP client, which owns connections."""

    async def send(self, request: WireRequest) -> Exchange:
        """Send a request once; return when status and headers have arrived.

        Every status is a response, except that a redirect (3xx) raises: following it could send a
        key to the wrong host. Cancelling closes the connection.

        Raises:
            RequestError: The request is invalid; nothing was sent.
            LimitError: The body is longer than ``request_bytes`` allows; nothing was sent.
            TransportError: The server is unreachable, closed the connection, or redirects.
            TransportTimeoutError: A timeout expired.
        """

    async def close(self) -> None:
        """Close all connections. The transport opens new ones if it is used again."""
