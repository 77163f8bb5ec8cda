"""Admission of clients: the Host and Origin checks, and the authorizer."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from vibe_llms.daemons.asgi import HttpCall, read_credential
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.binding import is_loopback
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Grant

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_CACHED_CHARACTERS: Final = 256
"""Longest Host header whose name is cached."""

_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
"""Refused values of ``Sec-Fetch-Site``; another port is the same site. https://w3c.github.io/webappsec-fetch-metadata/"""


async def authorize(
    authorizer: Authorizer | None, call: HttpCall, record: CallRecord
) -> Grant | None:
    """Return the client's grant; ``None`` without an authorizer. Raises AccessError."""
    if authorizer is None:
        return None
    grant = await authorizer.authorize(describe_arrival(call))
    record.subject = grant.subject
    return grant


def describe_arrival(call: HttpCall) -> Arrival:
    """Return the request as an authorizer sees it."""
    return Arrival(
        method=call.method,
        path=call.path,
        headers=call.headers,
        credential=read_credential(call.headers, call.query),
        client=call.client,
        certificate=call.certificate,
    )


async def admit(
    authorizer: Authorizer | None,
    hosts: Collection[str] | None,
    call: HttpCall,
    record: CallRecord,
) -> Grant | None:
    """Check the Host, the Origin and the credential; return the grant. Raises AccessError."""
    ensure_host(call, hosts)
    return await authorize(authorizer, call, record)


def find_hosts(host: str, configured: Collection[str]) -> frozenset[str] | None:
    """Return the names of a daemon in requests; ``None`` for any.

    Entries with a port, and whole origins, are sites whose pages may send requests.

    Args:
        host: The address that the daemon listens on.
        configured: Further names from its file, with a port or without, and origins such as
            ``tauri://localhost``. If there are none, a daemon that listens on more than loopback
            accepts any name.
    """
    if not configured and not is_loopback(host):
        return None
    hosts = {*_LOOPBACK_NAMES, host.lower()}
    for entry in map(str.lower, configured):
        if "://" in entry:
            hosts.add(entry)
            continue
        name, port = _split(f"//{entry}")
        hosts.add(name or entry)
        ports = [port] if port else _DEFAULT_PORTS.values()
        hosts |= {f"{name}:{number}" for number in ports}
    return frozenset(hosts)


def ensure_host(call: HttpCall, hosts: Collection[str] | None) -> None:
    """Refuse requests by an unknown host name, as DNS rebinding produces them, and foreign pages.

    See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports.

    Raises:
        AccessError: The Host or the Origin is not among the hosts.
    """
    if hosts is not None:
        host = call.headers.get("host", "")
        if _find_name(host) not in hosts:
            raise _refuse("host", host)
    ensure_page(call, hosts)


def ensure_page(call: HttpCall, hosts: Collection[str] | None) -> None:
    """Refuse requests from pages of other sites, including other ports of this machine.

    A browser states the site of the page in ``Origin``. Browsers send simple requests before they
    check whether the page may read the response. By then the request would have had its effect.

    Raises:
        AccessError: The page is of another site.
    """
    origin = call.headers.get("origin", "")
    if origin:
        if not _is_allowed(origin, call.headers.get("host", ""), hosts or ()):
            raise _refuse("origin", origin)
        return
    site = call.headers.get("sec-fetch-site", "none")
    if site in _OTHER_SITES and not _is_navigation(call):
        raise _refuse("sec-fetch-site", site)


def _is_allowed(origin: str, host: str, hosts: Collection[str]) -> bool:
    """Return whether an origin is this daemon (by the Host header), or one of the hosts."""
    if origin.lower() in hosts:
        return True
    default_port = _DEFAULT_PORTS.get(origin.partition("://")[0], "")
    origin_name, origin_port = _split(origin)
    host_name, host_port = _split(f"//{host}")
    origin_port = origin_port or default_port
    host_port = host_port or default_port
    if not origin_name:  # such as null, the origin of local files and sandboxed frames
        return False
    is_same = origin_port == host_port and (origin_name == host_name or origin_name in hosts)
    return is_same or f"{origin_name}:{origin_port}" in hosts


def _is_navigation(call: HttpCall) -> bool:
    """Return whether the user follows a link; only the user sees the response then."""
    headers = call.headers
    mode, destination = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return call.method in ("GET", "HEAD") and mode == "navigate" and destination == "document"


def admits_page(call: HttpCall, hosts: Collection[str] | None) -> bool:
    """Return whether the page that sent the request may read the response."""
    try:
        ensure_host(call, hosts)
    except AccessError:
        return False
    return True


def _find_name(host: str) -> str:
    """Return the name in a Host header."""
    if len(host) <= _CACHED_CHARACTERS:
        return _read_name(host)
    return _split(f"//{host}")[0]


@lru_cache(maxsize=256)
def _read_name(host: str) -> str:
    return _split(f"//{host}")[0]


def _split(text: str) -> tuple[str, str]:
    """Return the host name and the port of an address; empty if missing."""
    try:
        parts = urlsplit(text)
        return (parts.hostname or "").removesuffix("."), str(parts.port or "")
    except ValueError:
        return "", ""


def _refuse(header: str, value: str) -> AccessError:
    return AccessError(
        detail=f"Requests with the {header} {value[:200]!r} are refused.",
        remedy="Use a name of this machine, or add the name to hosts in the server's file; add"
        " a page as HOST:PORT or as its whole origin.",
        fault=ProviderFault.PERMISSION,
    )
