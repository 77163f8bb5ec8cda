"""Targets and heads of HTTP requests."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.exchanges import FixedHeaders

_PORTS: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods for which the length of an empty body is also sent."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers about the body's length, which callers must not set."""

_DEFAULTS: Final = {
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: gzip, deflate\r\n",  # what `codings` can decompress
    "user-agent": "User-Agent: vibe-llms\r\n",
}


@frozen(kw_only=True)
class RequestTarget:
    """Host, port and path of a URL.

    Attributes:
        host: Name for lookup and TLS; an IPv6 address has no brackets.
        authority: Host, and the port unless it is the default one.
        path: Path and query.
        credentials: ``Basic`` credentials; empty if the URL has none.
    """

    is_secure: bool
    host: str
    port: int
    authority: str
    path: str = attrs.field(repr=False)
    credentials: str = attrs.field(repr=False)

    @property
    def url(self) -> str:
        """Absolute URL, for a proxy without a tunnel."""
        return f"http{'s' if self.is_secure else ''}://{self.authority}{self.path}"


@lru_cache(maxsize=256)
def parse_target(url: str) -> RequestTarget:
    """Parse a URL that has a scheme and a host.

    Raises:
        ValueError: It has a character that is not allowed in requests.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    default_port = _PORTS[parts.scheme]
    port = default_port if parts.port is None else parts.port
    host_in_url = f"[{host}]" if ":" in host else host
    # The percent sign counts as printable, so that quoted characters stay unchanged.
    path = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", _PRINTABLE)
    # urlsplit removes these characters, and quoting would hide them.
    if any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("invalid character in the URL")
    if not re.fullmatch(r"[!-~]+", host) or re.search(r"[/?#@\\]", host):
        raise ValueError("invalid host name")
    return RequestTarget(
        is_secure=parts.scheme == "https",
        host=host,
        port=port,
        authority=host_in_url if port == default_port else f"{host_in_url}:{port}",
        path=path,
        credentials=_write_credentials(parts.username, parts.password),
    )


def _write_credentials(user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return ""
    pair = unquote_to_bytes(user or "") + b":" + unquote_to_bytes(password or "")
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


def compose_head(
    method: str,
    target: RequestTarget,
    headers: Mapping[str, str | Secret],
    size: int,
    *,
    proxy: RequestTarget | None = None,
) -> bytes:
    """Compose the head of a request.

    Args:
        size: Size of the body.
        proxy: Proxy that receives the request; ``None`` in a tunnel.

    Raises:
        RequestError: A header contains a line end or NUL.
        ValueError: Another part is invalid.
    """
    fixed = headers if isinstance(headers, FixedHeaders) and method in _WITH_BODY else None
    if fixed is not None:
        known = fixed.head
        if known is not None and known[:3] == (method, target, proxy):
            return b"%bContent-Length: %d\r\n\r\n" % (known[3], size)
    location = target.path if proxy is None else target.url
    lower_names, template = _compose_template(tuple(headers))
    values = [value.reveal() if isinstance(value, Secret) else value for value in headers.values()]
    # Check all values at once; only search for the invalid one if there is one.
    checked = method + "".join(values)
    if "\n" in checked or "\r" in checked or "\0" in checked:
        _refuse_control_characters(headers)
    lines = [f"{method} {location} HTTP/1.1\r\n", template % tuple(values)]
    if "host" not in lower_names:
        lines.append(f"Host: {target.authority}\r\n")
    if target.credentials:
        if "authorization" in lower_names:
            raise ValueError("credentials both in the URL and in a header")
        lines.append(f"Authorization: {target.credentials}\r\n")
    if proxy is not None and proxy.credentials:
        lines.append(f"Proxy-Authorization: {proxy.credentials}\r\n")
    if fixed is not None:
        fixed.head = (method, target, proxy, "".join(lines).encode())
    if size or method in _WITH_BODY:
        lines.append(f"Content-Length: {size}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode()


def compose_tunnel(target: RequestTarget, proxy: RequestTarget) -> bytes:
    """Compose the request for a tunnel through a proxy."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    location = f"{host}:{target.port}"  # the default port is required here
    authorization = f"Proxy-Authorization: {proxy.credentials}\r\n" if proxy.credentials else ""
    agent = _DEFAULTS["user-agent"]
    return f"CONNECT {location} HTTP/1.1\r\nHost: {location}\r\n{agent}{authorization}\r\n".encode()


def is_token(text: str) -> bool:
    """Return whether a text is a valid name of a header or a method."""
    return bool(_TOKEN.fullmatch(text))


@lru_cache(maxsize=256)
def _compose_template(names: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Return the header names in lower case, and a template of the header lines with the defaults.

    Cached, as most requests have the same header names.

    Raises:
        ValueError: A header name is invalid.
    """
    lower_names = frozenset(map(str.lower, names))
    if not (all(map(is_token, names)) and lower_names.isdisjoint(_FRAMING)):
        raise ValueError("invalid header name")
    lines = [f"{name.replace('%', '%%')}: %s\r\n" for name in names]
    return lower_names, "".join(
        [*lines, *(_DEFAULTS[name] for name in _DEFAULTS if name not in lower_names)]
    )


def _refuse_control_characters(headers: Mapping[str, str | Secret]) -> None:
    for name, value in headers.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if "\n" in text or "\r" in text or "\0" in text:
            raise RequestError(
                detail=f"The header {name!r} contains a line end or NUL, which is invalid.",
                remedy="Check whether a key was read together with its line end.",
                path=f"headers.{name}",
                stage=Stage.SEND,
            )
    raise ValueError("line end in the method")
