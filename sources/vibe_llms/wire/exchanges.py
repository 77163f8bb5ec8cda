"""A request that goes out, the answer that comes back, and the seam between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.secrets import Secret


def _bound(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds


@frozen(kw_only=True)
class Timeouts:
    """How long to wait for the other side; ``None``, or infinity, waits for ever.

    Attributes:
        connect_seconds: To connect: name lookup, TCP, TLS and proxy.
        first_byte_seconds: From sending the request to the headers of its answer.
        between_chunks_seconds: Between two chunks of an answer that has begun.
        total_seconds: For the whole answer. Longer than any answer takes; it ends one in which
            a server sends nothing but keep-alives.
    """

    connect_seconds: float | None = attrs.field(default=10, converter=_bound)
    first_byte_seconds: float | None = attrs.field(default=600, converter=_bound)
    between_chunks_seconds: float | None = attrs.field(default=120, converter=_bound)
    total_seconds: float | None = attrs.field(default=7_200, converter=_bound)


def _show_url(url: str) -> str:
    """Return what of a URL may stand in a log: neither its query nor who is asking."""
    scheme, _, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


@frozen(kw_only=True, slots=False)
class WireRequest:
    """One HTTP request, ready to be sent, and sent once.

    Attributes:
        method: The HTTP method.
        url: The whole address, with ``http`` or ``https``.
        headers: By name; what no one may see is a :class:`Secret`.
        body: The bytes as they are sent.
        timeouts: Instead of those of the transport; ``None`` takes those.
    """

    method: str = "POST"
    url: str
    headers: Mapping[str, str | Secret] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    timeouts: Timeouts | None = None

    def __repr__(self) -> str:
        return represent("WireRequest", (("", self.method), ("url", _show_url(self.url))))


class Exchange(AbstractAsyncContextManager["Exchange"], Protocol):
    """An answer whose status and headers are there, and whose body is on its way.

    It is left with :meth:`close`, or as an asynchronous context manager. Until its body was
    read to the end it owns a connection.
    """

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer, their names in lower case."""

    async def receive(self) -> bytes:
        """Return whatever has come of the body, waiting where nothing has; empty at the end.

        Raises:
            TransportError: The connection broke, or the body was cut.
            TransportTimeoutError: Nothing came for too long.
            LimitError: The body is longer than ``response_bytes`` allows.
        """

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body, or what is left of it.

        Args:
            limit: How many bytes it may have; ``None`` takes ``limits.response_bytes``.

        Raises:
            LimitError: It has more; what is left of it is not read.
            TransportError, TransportTimeoutError: As of :meth:`receive`.
        """

    async def close(self) -> None:
        """Leave the answer. A body that was not read to its end closes the connection."""


class Transport(Protocol):
    """What carries requests to the other side; it lives as long as its connections should."""

    async def send(self, request: WireRequest) -> Exchange:
        """Send a request, once, and return when the status and the headers are there.

        Any status is an answer but a redirection (3xx), which is not followed: it could carry
        a key to where nobody meant it to go. Cancelling closes the connection.

        Raises:
            RequestError: The request cannot be sent as it is; nothing was.
            LimitError: Its body is longer than ``request_bytes`` allows; nothing was sent.
            TransportError: The other side cannot be reached, went away, or redirects.
            TransportTimeoutError: It took too long.
        """

    async def close(self) -> None:
        """Close all connections; a transport may be used again afterwards, with new ones."""
