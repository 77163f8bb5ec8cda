"""Public addresses: the check that protects the internal network from requests of a model."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host; raises OSError if there are none."""

_NAT64_NETWORK: Final = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses as seen from a network that has only IPv6 (RFC 6052)."""


def is_public(text: str) -> bool:
    """Return whether an address, and any address embedded in it, is public.

    Args:
        text: An IPv4 or IPv6 address, perhaps with a zone.
    """
    try:
        # Without the zone, as in fe80::1%eth0, which affects only the route.
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    embedded = _find_embedded(address)
    # Such an address reaches the embedded one, as ::ffff:127.0.0.1 reaches this machine.
    if embedded is not None:
        return is_public(str(embedded))
    # is_global alone is not enough, because its definition differs between Python versions.
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified
    is_internal = address.is_loopback or address.is_link_local or address.is_private
    is_internal = is_internal or (address.version == 6 and address.is_site_local)
    return address.is_global and not is_special and not is_internal


def _find_embedded(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains, if any."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in _NAT64_NETWORK:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    return address.teredo[1] if address.teredo is not None else None


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in infos))
