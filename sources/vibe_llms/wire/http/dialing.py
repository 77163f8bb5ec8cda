"""Connecting to a server: name lookup, socket, proxy and TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.wire.http import faults, heads, names
from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.tls import access_default_context

if TYPE_CHECKING:
    from vibe_llms.wire.http.heads import RequestTarget

_T = TypeVar("_T")


async def dial(
    connection: HttpConnection,
    target: RequestTarget,
    *,
    resolve: names.Resolve,
    proxy: RequestTarget | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Connect to a target; close the connection on failure and cancellation.

    Args:
        proxy: Proxy to use, with a tunnel if the target uses TLS.
        tls: TLS context in place of the default one.

    Raises:
        OSError: One of ``faults``.
    """
    try:
        if proxy is None:
            await _connect(connection, target, resolve, tls, faults.Unreachable)
            return
        await _connect(connection, proxy, resolve, tls, faults.ProxyUnreachable)
        if target.is_secure:
            await _make_tunnel(connection, target, proxy)
            context = tls or access_default_context()
            await _start_tls(connection, target, context)
    except BaseException:
        connection.abort()
        raise


async def _connect(
    connection: HttpConnection,
    server: RequestTarget,
    resolve: names.Resolve,
    tls: ssl.SSLContext | None,
    fault_class: type[ConnectionError],
) -> None:
    """Connect to a host, with TLS if the URL says so."""
    loop = asyncio.get_running_loop()
    try:
        connected = await names.connect(await resolve(server.host, server.port))
    except OSError as error:
        raise fault_class from error
    if not server.is_secure:
        await loop.create_connection(lambda: connection, sock=connected)
        return
    context = tls or access_default_context()
    connecting = loop.create_connection(
        lambda: connection,
        sock=connected,
        ssl=context,
        server_hostname=_compose_server_name(server),
    )
    await _translate(connecting, fault_class)


async def _make_tunnel(
    connection: HttpConnection, target: RequestTarget, proxy: RequestTarget
) -> None:
    connection.send(heads.compose_tunnel(target, proxy), is_bodiless=True)
    try:
        await connection.wait_until_ready(None, "connect")
    except OSError as error:
        raise faults.ProxyUnreachable from error
    if not 200 <= connection.answer.status < 300:
        raise faults.ProxyRefusal(connection.answer.status)


async def _start_tls(
    connection: HttpConnection, target: RequestTarget, context: ssl.SSLContext
) -> None:
    loop = asyncio.get_running_loop()
    plain_transport = connection.transport
    new_transport = await _translate(
        loop.start_tls(
            plain_transport, connection, context, server_hostname=_compose_server_name(target)
        ),
        faults.Unreachable,
    )
    if new_transport is None:
        raise faults.Unreachable
    connection.switch_transport(new_transport)


async def _translate(connecting: Awaitable[_T], fault_class: type[ConnectionError]) -> _T:
    try:
        return await connecting
    except OSError as error:
        if fault_class is faults.ProxyUnreachable or not isinstance(error, ssl.SSLError):
            raise fault_class from error
        if isinstance(error, ssl.SSLCertVerificationError):
            raise faults.CertificateFault from error
        raise faults.TlsFault from error


def _compose_server_name(target: RequestTarget) -> str:
    return target.host.rstrip(".")  # names may end with a dot, but those in certificates do not
