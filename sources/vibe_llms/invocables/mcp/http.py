"""HTTP transport of a server: the official package's transport with another HTTP client.

The package does not limit the size of answers, and if it cannot send one request, all other
requests end, too. With this client a failure affects only its request, which gets an error
(decision 0016).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.dialects.decoding import repair_surrogates
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.mcp.cutting import cut_lines
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.owners import Disconnection
from vibe_llms.wire.proxies import is_exempt

if TYPE_CHECKING:
    import httpx2

_logger = logging.getLogger(__name__)

_END_SESSION_SECONDS: Final = 2.0
"""Timeout of the request that ends a session."""

_SESSION_HEADER: Final = "mcp-session-id"

NOT_STARTED: Final = "vibe-llms: not started"
"""Data of an error that this client creates if the server cannot have started the request."""


@asynccontextmanager
async def open_http(
    server: McpServer, limits: Limits, ending: Disconnection, auth: httpx2.Auth | None
) -> AsyncIterator[Any]:
    """Yield the two streams of the official package's client.

    Args:
        ending: Set if the server is unreachable, or has lost the session.
        auth: Authenticates the requests.
    """
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _produce_client(server, limits, ending, auth) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=limits.event_bytes
        ) as streams,
    ):
        yield streams


def _produce_client(
    server: McpServer, limits: Limits, ending: Disconnection, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    import httpx2

    class IsolatingClient(httpx2.AsyncClient):
        """HTTP client that turns the failure of a request into an error response."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            # The package sends it on closing, where a server that does not answer would block.
            if request.method == "DELETE":
                return await self._end_session(request, options)
            try:
                response = await super().send(request, **options)
            except ConverseError as error:  # raised by the authentication
                return _produce_error_response(
                    request, f"refused access: {_describe_error(error)}", is_started=False
                )
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                reason = f"cannot be reached: {_describe_error(error)}"
                if error.request.url == request.url:  # rather than an authorization server
                    ending.report(reason)
                return _produce_error_response(request, reason, is_started=False)
            except httpx2.TransportError as error:
                return _produce_error_response(request, f"broke off: {_describe_error(error)}")
            return await _check_response(response, request, limits, ending)

        async def _end_session(
            self, request: httpx2.Request, options: Mapping[str, Any]
        ) -> httpx2.Response:
            """End a session; failures are ignored."""
            try:
                async with asyncio.timeout(_END_SESSION_SECONDS):
                    response = await super().send(request, **options)
                    await response.aclose()
            except (TimeoutError, httpx2.TransportError) as error:
                _logger.debug(
                    "The session of %s was not ended: %s", server.name, _describe_error(error)
                )
            return httpx2.Response(204, request=request)

    headers = {name: secret.reveal() for name, secret in server.headers.items()}
    # The package applies the environment's proxies, but ignores networks in NO_PROXY.
    host = httpx2.URL(server.url).netloc.decode()
    return IsolatingClient(
        mounts={f"all://{host}": None} if is_exempt(server.url) else None,
        # Bodies are limited and repaired as they arrive, which needs uncompressed bodies.
        headers={**headers, "Accept-Encoding": "identity"},
        auth=auth,
        # A call may be silent for minutes, and a stream forever, so only the callers have timeouts.
        timeout=httpx2.Timeout(server.connect_seconds, read=None),
    )


async def _check_response(
    response: httpx2.Response, request: httpx2.Request, limits: Limits, ending: Disconnection
) -> httpx2.Response:
    """Limit a response, and describe a failure that only its status reports."""
    status = response.status_code
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_refused = status in (401, 403) or (status >= 400 and kind != "application/json")
    reason = f"answered with HTTP status {status}" if is_refused and status != 404 else ""
    # With this status the protocol reports a lost session; the owner then reconnects.
    if status == 404 and _SESSION_HEADER in request.headers:
        reason = "has lost the session"
        ending.report(reason)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        reason = "answered in an encoding that was not requested"
    if reason:
        await response.aclose()
        # A server sends these errors before it processes a call, but other errors possibly during a
        # call.
        return _produce_error_response(request, reason, is_started=status not in (401, 403, 404))
    is_stream = kind == "text/event-stream"
    limit = limits.event_bytes
    stream = response.stream
    # A stream may be endless; the package limits each of its events, as configured.
    if not is_stream:
        stream = limit_stream(stream, limit, f"event_bytes = {limit:,} bytes")
    response.stream = _repair(stream, limit)
    return response


def _repair(stream: Any, limit: int) -> Any:
    """Replace, line by line, valid JSON that the official package cannot read."""
    import httpx2

    class RepairedStream(httpx2.AsyncByteStream):
        """Body without lone surrogates, which would leave a call without its answer."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            line: list[bytes] = []
            size = 0
            async for part in stream:
                complete, end, rest = part.rpartition(b"\n")
                size = len(rest) if end else size + len(rest)
                if end or size > limit:  # a line beyond the limit, which its reader reports
                    yield cut_lines(repair_surrogates(b"".join((*line, complete, end))))
                    line = []
                line.append(rest)
            yield cut_lines(repair_surrogates(b"".join(line)))

        async def aclose(self) -> None:
            await stream.aclose()

    return RepairedStream()


def limit_stream(stream: Any, limit: int, description: str) -> Any:
    """Return a body that raises an error beyond a size, which the description names."""
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        """Body that raises a StreamError beyond a size, or if it is interrupted."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            try:
                async for part in stream:
                    size += len(part)
                    if size > limit:
                        raise httpx2.StreamError(f"more than {description}")
                    yield part
            except httpx2.TransportError as error:
                raise httpx2.StreamError(
                    f"the answer was interrupted: {_describe_error(error)}"
                ) from error

        async def aclose(self) -> None:
            await stream.aclose()

    return LimitedStream()


def _produce_error_response(
    request: httpx2.Request, reason: str, *, is_started: bool = True
) -> httpx2.Response:
    """Create the error response that a server would send about its own failure.

    Args:
        is_started: True if the server may have started the request.
    """
    import httpx2
    from mcp_types import INTERNAL_ERROR

    error: dict[str, Any] = {"code": INTERNAL_ERROR, "message": f"it {reason}"}
    if not is_started:
        error["data"] = NOT_STARTED
    return httpx2.Response(
        502,
        headers={"content-type": "application/json"},
        content=json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(),
        request=request,
    )


def _describe_error(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
