"""Where a server listens, and whether it may."""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextlib import ExitStack
from typing import Final

from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.exceptions import ConfigurationError

_NOT_HERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def check_binding(settings: ServerSettings, *, is_guarded: bool) -> None:
    """Makes sure that nobody is let in from afar by oversight.

    Args:
        is_guarded: Somebody stands before the application who asks who comes.

    Raises:
        ConfigurationError: It would listen wider than loopback without TLS or without anybody who
            asks who comes; ``insecure`` allows it.
    """
    if settings.insecure or is_loopback(settings.host):
        return
    lacks = []
    if settings.certificate is None:
        lacks.append("TLS (name a certificate)")
    if not is_guarded and settings.client_authorities is None:
        lacks.append("anybody who asks who comes (switch keys on, or name client_authorities)")
    if lacks:
        raise ConfigurationError.at(
            "server.host",
            f"{settings.host} is open to others, and there is no {' and no '.join(lacks)}. Listen"
            " on 127.0.0.1, add what is missing, or say a second time that you mean it: insecure"
            " = true, or --insecure.",
        )


def is_loopback(host: str) -> bool:
    """Tells whether only this machine reaches what listens there; a name is looked up."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # listening there fails, and says why
    return all(ipaddress.ip_address(str(each[4][0])).is_loopback for each in found)


def open_sockets(settings: ServerSettings) -> list[socket.socket]:
    """Returns sockets that listen wherever the host is; where the port is 0, all on the same.

    Raises:
        ConfigurationError: The system does not allow it.
    """
    host, port = settings.host, settings.port
    try:
        with ExitStack() as opened:
            places = dict.fromkeys(
                (family, str(address[0]))
                for family, _, _, _, address in socket.getaddrinfo(
                    host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                )
            )
            sockets: list[socket.socket] = []
            for family, address in places:
                try:
                    listening = _open(family, address, port, settings.backlog)
                except OSError as error:
                    # A name may have addresses of a family that this machine does not speak.
                    if error.errno in _NOT_HERE and (sockets or len(places) > 1):
                        continue
                    raise
                sockets.append(opened.enter_context(listening))
                port = listening.getsockname()[1]
            if not sockets:
                raise OSError(errno.EADDRNOTAVAIL, "none of its addresses is this machine's")
            opened.pop_all()
            return sockets
    except OSError as error:
        raise ConfigurationError.at(
            "server.port" if port else "server.host",
            f"Nothing can listen on {host}, port {port}: {error.strerror or error}. Name another,"
            " or end what listens there.",
        ) from error


def _open(family: int, address: str, port: int, backlog: int) -> socket.socket:
    # Only a socket that names its protocol sends at once what is written in pieces.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
        listening.listen(backlog)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
