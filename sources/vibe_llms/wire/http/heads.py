"""Targets and heads of requests."""

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

_PORTS: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods that send the length of an empty body, too."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers of the body's length, which callers may not set."""

_DEFAULTS: Final = {
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: gzip, deflate\r\n",  # what `codings` can unpack
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
    def whole(self) -> str:
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
    usual = _PORTS[parts.scheme]
    port = usual if parts.port is None else parts.port
    shown = f"[{host}]" if ":" in host else host
    # The percent sign counts as printable, so that quoted characters stay unchanged.
    path = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", _PRINTABLE)
    # urlsplit removes these characters, and quoting would hide them.
    if any(character <= " " or character == "\x7f" for character in url):
        raise ValueError("a character that no address may hold")
    if not re.fullmatch(r"[!-~]+", host) or re.search(r"[/?#@\\]", host):
        raise ValueError("no name of a host")
    return RequestTarget(
        is_secure=parts.scheme == "https",
        host=host,
        port=port,
        authority=shown if port == usual else f"{shown}:{port}",
        path=path,
        credentials=_write_credentials(parts.username, parts.password),
    )


def _write_credentials(user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return ""
    words = unquote_to_bytes(user or "") + b":" + unquote_to_bytes(password or "")
    return f"Basic {base64.b64encode(words).decode('ascii')}"


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
        proxy: Proxy that gets the request; ``None`` in a tunnel.

    Raises:
        RequestError: A header contains a line end.
        ValueError: Another part is invalid.
    """
    place = target.path if proxy is None else target.whole
    lower, form = _lay_out(tuple(headers))
    values = [value.reveal() if isinstance(value, Secret) else value for value in headers.values()]
    # Check all of them at once; search the invalid one afterwards.
    said = method + "".join(values)
    if "\n" in said or "\r" in said or "\0" in said:
        _refuse_ends_of_lines(headers)
    lines = [f"{method} {place} HTTP/1.1\r\n", form % tuple(values)]
    if "host" not in lower:
        lines.append(f"Host: {target.authority}\r\n")
    if target.credentials:
        if "authorization" in lower:
            raise ValueError("two words on who asks: in the address and in a header")
        lines.append(f"Authorization: {target.credentials}\r\n")
    if proxy is not None and proxy.credentials:
        lines.append(f"Proxy-Authorization: {proxy.credentials}\r\n")
    if size or method in _WITH_BODY:
        lines.append(f"Content-Length: {size}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode()


def compose_tunnel(target: RequestTarget, proxy: RequestTarget) -> bytes:
    """Compose the request for a tunnel through a proxy."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    place = f"{host}:{target.port}"  # the default port is required here
    known = f"Proxy-Authorization: {proxy.credentials}\r\n" if proxy.credentials else ""
    agent = _DEFAULTS["user-agent"]
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{agent}{known}\r\n".encode()


def is_token(text: str) -> bool:
    """Tell whether a text may be the name of a header, or of a method."""
    return bool(_TOKEN.fullmatch(text))


@lru_cache(maxsize=256)
def _lay_out(names: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Return names of headers in lower case, and a template of the lines, with default headers.

    Cached, as most requests have the same header names.

    Raises:
        ValueError: A name is not valid for a header.
    """
    lower = frozenset(map(str.lower, names))
    if not (all(map(is_token, names)) and lower.isdisjoint(_FRAMING)):
        raise ValueError("invalid header name")
    lines = [f"{name.replace('%', '%%')}: %s\r\n" for name in names]
    return lower, "".join([*lines, *(_DEFAULTS[name] for name in _DEFAULTS if name not in lower)])


def _refuse_ends_of_lines(headers: Mapping[str, str | Secret]) -> None:
    for name, value in headers.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if "\n" in text or "\r" in text or "\0" in text:
            raise RequestError(
                detail=f"The header {name!r} holds the end of a line, which no header may.",
                remedy="Look whether a key was read with the end of its line.",
                path=f"headers.{name}",
                stage=Stage.SEND,
            )
    raise ValueError("the end of a line where none may be")  # in the method
