"""Listening sockets of a server, and the check whether their address is allowed."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import attrs

from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.exceptions import ConfigurationError

_FOREIGN_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def check_binding(settings: ServerSettings, *, is_guarded: bool) -> None:
    """Check that remote access is not open by mistake.

    Args:
        is_guarded: Whether the application authenticates its callers.

    Raises:
        ConfigurationError: The server would listen beyond loopback without TLS or authentication;
            ``insecure`` allows that.
    """
    if settings.insecure or is_loopback(settings.host):
        return
    missing = []
    if settings.certificate is None:
        missing.append("TLS is off (set certificate)")
    if not is_guarded and settings.client_authorities is None:
        missing.append("authentication is off (enable keys, or set client_authorities)")
    if missing:
        raise ConfigurationError.at(
            "server.host",
            f"{settings.host} is reachable from other machines, but {' and '.join(missing)}. "
            "Listen on 127.0.0.1, add what is missing, or accept the risk with insecure = "
            "true or --insecure.",
        )


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only; names are resolved."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # listening there fails with the reason
    return all(ipaddress.ip_address(str(address[0])).is_loopback for *_, address in addresses)


def open_sockets(settings: ServerSettings, *, is_shared: bool = False) -> list[socket.socket]:
    """Return listening sockets for all addresses of the host; for port 0, all on one free port.

    Args:
        is_shared: Allow other sockets with this option to listen on the port, too.

    Raises:
        ConfigurationError: The system does not allow it.
    """
    port = settings.port
    try:
        addresses = _find_addresses(settings.host)
        with ExitStack() as opened:
            sockets: list[socket.socket] = []
            for family, address in addresses:
                listening = _produce_socket(family, is_shared=is_shared)
                opened.enter_context(listening)
                try:
                    listening.bind((address, port))
                except OSError as error:
                    # A name may have addresses of a family that this machine does not support.
                    if error.errno in _FOREIGN_ADDRESS and len(addresses) > 1:
                        continue
                    raise
                listening.listen(settings.backlog)
                port = listening.getsockname()[1]
                sockets.append(listening)
            if not sockets:
                raise OSError(errno.EADDRNOTAVAIL, "none of its addresses belongs to this machine")
            opened.pop_all()
            return sockets
    except OSError as error:
        is_host = not port or isinstance(error, socket.gaierror) or error.errno in _FOREIGN_ADDRESS
        remedy = "Use another port, or stop the program that uses it."
        if is_host:
            remedy = "Use an address of this machine."
        raise ConfigurationError.at(
            "server.host" if is_host else "server.port",
            f"Cannot listen on {settings.host}, port {port}: {error.strerror or error}. {remedy}",
        ) from error


def open_shares(settings: ServerSettings) -> list[list[socket.socket]]:
    """Return the sockets of each worker, all on one port.

    On Linux, each worker has separate sockets, and the system distributes connections evenly. On
    other systems all workers share the sockets, and the fastest worker accepts most connections.

    Raises:
        ConfigurationError: The system does not allow it.
    """
    first = open_sockets(settings)
    if settings.workers == 1 or sys.platform != "linux":
        return [first] * settings.workers
    # The first sockets have checked that no other process listens there: with a shared port, there
    # is not an error.
    settings = attrs.evolve(settings, port=first[0].getsockname()[1])
    for listening in first:
        listening.close()
    return [open_sockets(settings, is_shared=True) for _ in range(settings.workers)]


def _find_addresses(host: str) -> list[tuple[int, str]]:
    """Return the families and addresses of a host, without duplicates."""
    results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in results))


def _produce_socket(family: int, *, is_shared: bool) -> socket.socket:
    listening_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening_socket.setblocking(False)
    listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Send small writes at once; accepted connections inherit the option.
    listening_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if is_shared:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listening_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return listening_socket


def describe_sockets(settings: ServerSettings, sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """Return the URLs of sockets, without a path."""
    scheme = "http" if settings.certificate is None else "https"
    addresses = [listening.getsockname()[:2] for listening in sockets]
    shown = [(f"[{host}]" if ":" in host else host, port) for host, port in addresses]
    return tuple(f"{scheme}://{host}:{port}" for host, port in shown)
