"""How the direct transport makes its connections: all that is made once for many requests."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.files import open_regular
from vibe_llms.wire.certificates import import_aiohttp
from vibe_llms.wire.exchanges import Timeouts

if TYPE_CHECKING:
    import ssl

    import aiohttp

HEADER_BYTES = 32_768
"""How long one line of the headers of an answer may be, and the first line of it."""

_KEEPALIVE_SECONDS = 60
_SMALL_BYTES = 32_768
"""What is written at once even where the other side does not read: less than makes writing wait."""

_DNS_SECONDS = 300

SLOT: ContextVar[list[asyncio.Transport]] = ContextVar("SLOT")
"""Where a request under way notes its connection, so that it can be broken off at once."""


def produce_session(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """Produces the session of the running event loop."""
    import_aiohttp()
    import aiohttp

    connector = _access_connector_class()(
        limit=0,  # how many wait at once is decided above
        ssl=True if tls is None else tls,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        ttl_dns_cache=_DNS_SECONDS,
    )
    return aiohttp.ClientSession(
        connector=connector,
        request_class=_access_request_class(),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "vibe-llms"},
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


@lru_cache(maxsize=1)
def _access_connector_class() -> type[aiohttp.TCPConnector]:
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        """Notes each connection that is handed out."""

        async def connect(self, *arguments: Any, **options: Any) -> Any:
            connection = await super().connect(*arguments, **options)
            if connection.transport is not None:
                SLOT.get([]).append(connection.transport)
            return connection

    return Connector


@lru_cache(maxsize=1)
def _access_request_class() -> type[aiohttp.ClientRequest]:
    import aiohttp
    from aiohttp.http import StreamWriter
    from aiohttp.payload import BytesPayload

    class Request(aiohttp.ClientRequest):
        """Writes a small body together with the headers.

        aiohttp makes a task to write any body, and goes once around the event loop for it.
        """

        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            body, protocol = self._body, conn.protocol
            is_plain = self.chunked is None and self._continue is None and not self.compress
            if (
                not isinstance(body, BytesPayload)
                or (body.size or 0) > _SMALL_BYTES
                or not is_plain
                or protocol.writing_paused
            ):
                return await super().send(conn)
            proxied = self.proxy is not None and not self.is_ssl()
            path = str(self.url) if proxied else self.url.raw_path_qs
            writer = StreamWriter(protocol, self.loop)
            await writer.write_headers(f"{self.method} {path} HTTP/1.1", self.headers)
            await body.write(writer)
            await writer.write_eof()
            protocol.start_timeout()
            self.response = response = self.response_class(  # type: ignore[assignment]
                self.method,
                self.original_url,
                writer=None,
                continue100=None,
                timer=self._timer,
                request_info=self.request_info,
                traces=[],
                loop=self.loop,
                session=self._session,
                stream_writer=writer,
            )
            return response

    return Request


async def refuse_repetition(request: Any, handler: Any) -> Any:
    """A middleware that keeps aiohttp from sending a GET again when its connection breaks."""
    import aiohttp

    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise  # never repeated
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


@lru_cache(maxsize=64)
def produce_timeout(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    """Produces what aiohttp knows of our timeouts, until the headers are there."""
    import aiohttp

    return aiohttp.ClientTimeout(
        total=timeouts.total_seconds,
        connect=timeouts.connect_seconds,
        sock_read=timeouts.first_byte_seconds,
    )


def produce_tls_context(
    authorities: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """Produces the context of all TLS connections; ``None`` where the usual one will do.

    Raises:
        ConfigurationError: A file is missing, is none of the kind, or does not fit another.
    """
    if authorities is None and certificate is None:
        if key is None:
            return None
        raise ConfigurationError(
            detail="There is a client key, but no client certificate.",
            remedy="Name the certificate (PEM) which the key belongs to.",
        )
    import ssl

    context = ssl.create_default_context()
    if authorities is not None:
        is_folder = authorities.is_dir()
        try:
            if not is_folder:
                _ensure_file(authorities)
            context.load_verify_locations(
                cafile=None if is_folder else authorities,
                capath=authorities if is_folder else None,
            )
        except OSError as error:  # ssl.SSLError is one
            raise _refuse_file("certificate authorities", authorities, error) from error
    if certificate is not None:
        try:
            for file in filter(None, (certificate, key)):
                _ensure_file(file)
            # An empty password, so that an encrypted key is an error and not a question.
            context.load_cert_chain(certificate, key, password="")
        except OSError as error:
            raise _refuse_file("client certificate", certificate, error) from error
    return context


def _ensure_file(path: Path) -> None:
    """Raises OSError for a pipe or a device: OpenSSL would read it without end."""
    os.close(open_regular(str(path)))


def _refuse_file(kind: str, path: Path, error: OSError) -> ConfigurationError:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return ConfigurationError(
        detail=f"The {kind} in {path} cannot be loaded: {reason}.",
        remedy="They must be readable PEM files, a key unencrypted and the certificate's own.",
    )
