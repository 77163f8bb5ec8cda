"""WebSockets to servers, by the package ``websockets``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import LimitError, Stage, TransportError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire import failures
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.frames import refuse_event
from vibe_llms.wire.http import faults
from vibe_llms.wire.size_limits import refuse_redirection

if TYPE_CHECKING:
    import ssl

    from websockets.asyncio.client import ClientConnection

NO_STATUS: Final = 1005
"""Close code of a close frame without one; never sent."""
_TOO_BIG: Final = 1009

_CLOSE_SECONDS: Final = 1.0
_DEFAULT_CONNECT_SECONDS: Final = 10.0
_silent = logging.getLogger(f"{__name__}.library")  # its messages would contain content
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class SocketRefusal(Exception):
    """The server answered with an HTTP status, and did not open the WebSocket.

    Args:
        status: The status.
        headers: The headers of the answer, their names in lower case.
        body: The body of the answer.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class Socket(Closing):
    """An open WebSocket.

    Args:
        limit: Maximum size of a message of the server, which the connection enforces.

    Attributes:
        address: Scheme, host and port of the server, for errors.
    """

    def __init__(self, connection: ClientConnection, address: str, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self.address = address

    async def send(self, message: bytes | str) -> None:
        """Send a message.

        Raises:
            TransportError: The connection is closed.
            LimitError: It was closed because a message of the server was too long.
        """
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(message)
        except ConnectionClosed:
            raise self.refuse() from None

    async def receive(self) -> bytes | str | None:
        """Wait for the next message; ``None`` if the connection is closed."""
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv()
        except ConnectionClosed:
            return None

    @property
    def close_frame(self) -> tuple[int, str] | None:
        """Code and reason of the server's close; ``None`` if the connection broke."""
        received = self._connection.protocol.close_rcvd
        return None if received is None else (received.code, received.reason)

    def refuse(self) -> TransportError | LimitError:
        """Return the error for a connection that was closed too early."""
        protocol, remedy = self._connection.protocol, ""
        sent = protocol.close_sent
        if sent is not None and sent.code == _TOO_BIG and not protocol.close_rcvd_then_sent:
            return refuse_event(self._limit)
        frame = self.close_frame
        if frame is None:
            detail = f"The connection with {self.address} broke off."
            remedy = "Try again. If it persists, check the network, and proxies on the way."
        else:
            code, reason = frame
            words = f"{code}: {reason[:300]}" if reason else f"{code}"
            detail = f"{self.address} closed the connection early ({words})."
        return TransportError(
            detail=detail,
            remedy=remedy,
            address=self.address,
            stage=Stage.FRAME,
            should_retry=False,
        )

    async def close(self) -> None:
        """Close the connection. May be called again."""
        await self._connection.close()


async def open_socket(
    request: WireRequest,
    facts: failures.ExchangeFacts,
    *,
    tls: ssl.SSLContext | None,
    proxy: str | None,
    message_bytes: int,
) -> Socket:
    """Open a WebSocket for a request, once.

    Args:
        tls: TLS context in place of the default one.
        proxy: Proxy to use.
        message_bytes: Maximum size of a message of the server.

    Raises:
        SocketRefusal: The server answered with an HTTP status.
        TransportError: The server is unreachable, does not speak HTTP, or redirects.
        DependencyError: The package websockets is not installed.
    """
    with needing("live", "websockets", "Live input"):
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus
    options: dict[str, Any] = {}
    if request.url.startswith("https"):
        from vibe_llms.wire.http.tls import access_default_context

        options["ssl"] = tls or access_default_context()
    headers = {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in request.headers.items()
    }
    seconds = facts.timeouts.connect_seconds or _DEFAULT_CONNECT_SECONDS
    failure: Exception
    try:
        connector = connect(
            request.url.replace("http", "ws", 1),
            additional_headers=headers,
            user_agent_header=None,
            proxy=proxy,
            compression=None,
            max_size=message_bytes,
            open_timeout=seconds,
            close_timeout=_CLOSE_SECONDS,
            process_exception=lambda error: error,
            logger=_silent,
            **options,
        )
        # A redirect would be followed, to any host, with all headers but the usual credentials.
        connector.process_redirect = lambda exc: exc  # type: ignore[method-assign]
        return Socket(await connector, facts.address, message_bytes)
    except InvalidStatus as error:
        response = error.response
        found = {name.lower(): value for name, value in response.headers.raw_items()}
        status = response.status_code
        if 300 <= status < 400:
            failure = refuse_redirection(facts.address, status, found.get("location", ""))
        else:
            failure = SocketRefusal(status, found, bytes(response.body or b""))
    except Exception as error:
        failure = failures.translate(_classify(error), facts, Stage.SEND)
        error.__traceback__ = None  # its frames refer to the headers
    raise failure.with_traceback(None)


def _classify(error: Exception) -> Exception:
    """Return the fault for an error of the library."""
    import ssl

    from websockets.exceptions import InvalidHandshake, InvalidProxyStatus, ProxyError

    match error:
        case InvalidProxyStatus():
            fault: Exception = faults.ProxyRefusal(error.response.status_code)
        case ProxyError():
            fault = faults.ProxyUnreachable()
        case InvalidHandshake():
            fault = faults.NotHttp()
        case TimeoutError():
            fault = faults.TimedOut("connect")
        case ssl.SSLCertVerificationError():
            fault = faults.CertificateFault()
        case ssl.SSLError():
            fault = faults.TlsFault()
        case OSError():
            fault = faults.Unreachable()
        case _:
            return error
    fault.__cause__ = error
    return fault
