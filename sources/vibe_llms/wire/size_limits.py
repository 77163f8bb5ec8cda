"""Size limits of requests and responses, for all transports."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import urlsplit

from vibe_llms.exceptions import LimitError, RequestError, Stage, TransportError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.exchanges import WireRequest

_Exchange = TypeVar("_Exchange", bound="BoundedExchange")

HEADER_BYTES: Final = 32_768
"""Limit of a header line, and of the status line."""


def check_request(request: WireRequest, limits: Limits) -> str:
    """Check the URL and size of a request; return its scheme, host and port, for errors.

    Raises:
        RequestError: The URL is not an ``http`` or ``https`` URL.
        LimitError: The body is longer than ``request_bytes`` allows.
    """
    address = describe_address(request.url)
    if not address:
        raise RequestError(
            detail="The address of the request is not an http or https URL with a host.",
            remedy="Check the base URL of the provider.",
            path="url",
            stage=Stage.CONNECT,
        )
    size = len(request.body)
    if size > limits.request_bytes:
        raise LimitError(
            detail=f"The request has {size:,} bytes, more than request_bytes = "
            f"{limits.request_bytes:,} allows; nothing was sent.",
            remedy="Send less (attachments count, too), or raise request_bytes in [limits].",
            limit="request_bytes",
            value=limits.request_bytes,
            stage=Stage.SEND,
        )
    return address


@lru_cache(maxsize=256)
def describe_address(url: str) -> str:
    """Return the scheme, host and port of a URL, which are safe to show in errors.

    Empty if it is not an ``http`` or ``https`` URL with a host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}" if port else f"{parts.scheme}://{host}"


def refuse_redirection(address: str, status: int, location: str) -> TransportError:
    """Produce the error of a redirect."""
    address_of_target = describe_address(location)
    if address_of_target:
        target = address_of_target + urlsplit(location).path  # the query may contain a key
    else:
        target = location.partition("?")[0].partition("#")[0] or "nowhere"
    return TransportError(
        detail=f"{address} answered {status}: a redirect to {target[:300]!r}; redirects are not "
        "followed.",
        remedy="Set the base URL to the actual address of the service.",
        should_retry=False,
        address=address,
        stage=Stage.SEND,
    )


def refuse_response(limit: int, name: str = "response_bytes") -> LimitError:
    """Produce the error of an answer that is too long."""
    return LimitError(
        detail=f"The answer is longer than {name} = {limit:,} allows.",
        remedy=f"Raise {name} in [limits], if you trust the server.",
        limit=name,
        value=limit,
        stage=Stage.FRAME,
    )


class BoundedExchange(Closing):
    """Base class of exchanges, which limits the body; see :class:`Exchange`.

    Args:
        limit: Limit of the body in bytes; enforced by ``receive``.
    """

    __slots__ = ("_limit", "_received", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], limit: int) -> None:
        self.status = status
        self.headers = headers
        self._limit = limit
        self._received = 0

    def _exceeds(self, data: bytes) -> bool:
        """Count received bytes; return whether they exceed the limit."""
        self._received += len(data)
        return self._received > self._limit

    @property
    def is_spent(self) -> bool:
        """True if the body is known to be read to its end."""
        return False

    async def receive(self) -> bytes:
        """Return the next bytes of the body; see :class:`Exchange`."""
        raise NotImplementedError

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; see :class:`Exchange`."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.receive():
            pieces.append(data)
            size += len(data)
            if limit is not None and size > limit:
                await self.close()
                raise refuse_response(limit, "the limit of this read")
            if self.is_spent:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def ensure_final(exchange: _Exchange, address: str) -> _Exchange:
    """Return the exchange, unless it is a redirect. Raises TransportError."""
    if not 300 <= exchange.status < 400:
        return exchange
    await exchange.close()
    raise refuse_redirection(address, exchange.status, exchange.headers.get("location", ""))
