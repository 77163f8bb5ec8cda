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
        proxy: Proxy to use: with a tunnel if the target uses TLS.
        tls: TLS context in place of the default one.

    Raises:
        OSError: One of ``faults``.
    """
    try:
        if proxy is None:
            await _reach(connection, target, resolve, tls, faults.Unreachable)
            return
        await _reach(connection, proxy, resolve, tls, faults.ProxyUnreachable)
        if target.is_secure:
            await _make_tunnel(connection, target, proxy)
            context = tls or access_default_context()
            await _secure(connection, target, context)
    except BaseException:
        connection.leave()
        raise


async def _reach(
    connection: HttpConnection,
    place: RequestTarget,
    resolve: names.Resolve,
    tls: ssl.SSLContext | None,
    kind: type[ConnectionError],
) -> None:
    """Connect to a host, with TLS if the URL says so."""
    loop = asyncio.get_running_loop()
    try:
        made = await names.connect(await resolve(place.host, place.port))
    except OSError as error:
        raise kind from error
    if not place.is_secure:
        await loop.create_connection(lambda: connection, sock=made)
        return
    context = tls or access_default_context()
    securing = loop.create_connection(
        lambda: connection, sock=made, ssl=context, server_hostname=_name(place)
    )
    await _translate(securing, kind)


async def _make_tunnel(
    connection: HttpConnection, target: RequestTarget, proxy: RequestTarget
) -> None:
    connection.ask(heads.compose_tunnel(target, proxy), is_bodiless=True)
    try:
        await connection.wait_until_ready(None, "connect")
    except OSError as error:
        raise faults.ProxyUnreachable from error
    if not 200 <= connection.answer.status < 300:
        raise faults.ProxyRefusal(connection.answer.status)


async def _secure(
    connection: HttpConnection, target: RequestTarget, context: ssl.SSLContext
) -> None:
    loop = asyncio.get_running_loop()
    below = connection.transport
    made = await _translate(
        loop.start_tls(below, connection, context, server_hostname=_name(target)),
        faults.Unreachable,
    )
    if made is None:
        raise faults.Unreachable
    connection.begin_anew(made)


async def _translate(made: Awaitable[_T], kind: type[ConnectionError]) -> _T:
    try:
        return await made
    except OSError as error:
        if kind is faults.ProxyUnreachable or not isinstance(error, ssl.SSLError):
            raise kind from error
        if isinstance(error, ssl.SSLCertVerificationError):
            raise faults.CertificateFault from error
        raise faults.TlsFault from error


def _name(target: RequestTarget) -> str:
    return target.host.rstrip(".")  # which a name may end with, but in no certificate
