"""Who asks a daemon: by which name they come, and who the authorizer says that they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from vibe_llms.daemons.asgi import HttpCall, read_credential
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.binding import is_loopback
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Grant

_OWN: Final = frozenset({"localhost", "127.0.0.1", "::1"})


async def authorize(
    authorizer: Authorizer | None, call: HttpCall, record: CallRecord
) -> Grant | None:
    """Says who asks; ``None`` where nobody has to say. Raises AccessError."""
    if authorizer is None:
        return None
    arrival = Arrival(
        method=call.method,
        path=call.path,
        headers=call.headers,
        credential=read_credential(call.headers, call.query),
        client=call.client,
        certificate=call.certificate,
    )
    grant = await authorizer.authorize(arrival)
    record.subject = grant.subject
    return grant


def find_hosts(host: str, named: Collection[str]) -> frozenset[str] | None:
    """Returns the names by which a daemon is reached; ``None`` for any.

    Args:
        host: Where it listens.
        named: Names that its file has besides; without any, one that listens wider than this
            machine is reached by whatever name leads there.
    """
    if not named and not is_loopback(host):
        return None
    return _OWN | {each.lower() for each in (host, *named)}


def ensure_place(call: HttpCall, hosts: Collection[str] | None) -> None:
    """Refuses who comes by a name that is not ours, as pages of strangers do that rebind names.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports says why.

    Raises:
        AccessError: The host, or the page that asks, is none of these.
    """
    host, origin = call.headers.get("host", ""), call.headers.get("origin", "")
    place = _read_name(f"//{host}")
    if hosts is not None and place not in hosts:
        raise _refuse("host", host)
    if origin and _read_name(origin) not in {place, *(hosts or ())}:
        raise _refuse("origin", origin)


def admits_page(call: HttpCall, hosts: Collection[str] | None) -> bool:
    """Tells whether the page that asks is of a place that is ours."""
    try:
        ensure_place(call, hosts)
    except AccessError:
        return False
    return True


def _read_name(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def _refuse(header: str, given: str) -> AccessError:
    return AccessError(
        detail=f"Nothing is answered here for the {header} {given[:200]!r}.",
        remedy="Come by a name of this machine; others are named in hosts, in the server's file.",
        fault=ProviderFault.PERMISSION,
    )
