"""Who is at the other end of a connection, as ASGI tells it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Peer:
    """Both ends of a connection.

    Attributes:
        scheme: ``http`` or ``https``.
        client: Address and port; ``None`` where there are none.
        server: The same.
        extensions: What ASGI's extension ``tls`` says, for a connection over it.
    """

    scheme: str
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    extensions: dict[str, Any]


def describe_peer(transport: asyncio.BaseTransport) -> Peer:
    """Returns who is at both ends of a connection."""
    secured = transport.get_extra_info("ssl_object")
    return Peer(
        scheme="http" if secured is None else "https",
        client=_read_address(transport.get_extra_info("peername")),
        server=_read_address(transport.get_extra_info("sockname")),
        extensions={} if secured is None else {"tls": _describe_tls(secured)},
    )


def _read_address(address: Any) -> tuple[str, int] | None:
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None


def _describe_tls(secured: ssl.SSLObject) -> dict[str, Any]:
    """Returns what the extension ``tls`` of ASGI 3 has; of the client's chain its own alone."""
    encoded = secured.getpeercert(binary_form=True)
    shown = secured.getpeercert() or {}
    subject = [
        f"{_SHORT.get(name, name)}={_escape(value)}"
        for part in reversed(shown.get("subject", ()))
        for name, value in part
    ]
    version = secured.version() or ""
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(encoded)] if encoded else [],
        "client_cert_name": ",".join(subject) if encoded else None,
        "client_cert_error": None,
        "tls_version": _VERSIONS.get(version),
        "cipher_suite": None,
    }


_VERSIONS = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""The names that RFC 4514 abbreviates."""


def _escape(value: str) -> str:
    """Writes a value as RFC 4514 has it."""
    escaped = "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped.replace("\0", "\\00")
