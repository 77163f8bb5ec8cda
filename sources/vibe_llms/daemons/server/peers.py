"""Addresses and TLS data of a connection's peers, in the format of ASGI."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Peer:
    """Addresses of both ends of a connection, and its TLS data.

    Attributes:
        scheme: ``http`` or ``https``.
        client: Address and port of the client; ``None`` if there are none.
        server: Address and port of the server; ``None`` if there are none.
        extensions: ASGI's extension ``tls``, for a connection with TLS.
    """

    scheme: str
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    extensions: dict[str, Any]


def describe_peer(transport: asyncio.BaseTransport) -> Peer:
    """Return the addresses of both ends of a connection."""
    tls = transport.get_extra_info("ssl_object")
    return Peer(
        scheme="http" if tls is None else "https",
        client=_read_address(transport.get_extra_info("peername")),
        server=_read_address(transport.get_extra_info("sockname")),
        extensions={} if tls is None else {"tls": _describe_tls(tls)},
    )


def _read_address(address: Any) -> tuple[str, int] | None:
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None


def _describe_tls(tls: ssl.SSLObject) -> dict[str, Any]:
    """Return the extension ``tls`` of ASGI 3, with only the first certificate of a client."""
    encoded = tls.getpeercert(binary_form=True)
    certificate = tls.getpeercert() or {}
    subject = [
        f"{_ABBREVIATIONS.get(name, name)}={_escape(value)}"
        for part in reversed(certificate.get("subject", ()))
        for name, value in part
    ]
    version = tls.version() or ""
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(encoded)] if encoded else [],
        "client_cert_name": ",".join(subject) if encoded else None,
        "client_cert_error": None,
        "tls_version": _VERSIONS.get(version),
        "cipher_suite": None,
    }


_VERSIONS = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}
_ABBREVIATIONS = {
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
"""Names that RFC 4514 abbreviates."""


def _escape(value: str) -> str:
    """Escape a value as in RFC 4514."""
    escaped = "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped.replace("\0", "\\00")
