"""Writing of response heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from vibe_llms.wire.http.heads import is_token

_PHRASES: Final = {each.value: each.phrase for each in HTTPStatus}
STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode()
    for status in range(200, 600)
}
"""Status lines of answers; an application cannot answer with 1xx."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

BODILESS: Final = frozenset({204, 304})
"""Statuses of answers that never have a body."""

_FRAMING_HEADERS: Final = frozenset(
    {b"connection", b"content-length", b"keep-alive", b"transfer-encoding"}
)
"""Headers for the framing of an answer and its connection; only the server writes them."""


def compose_head(
    status: int, names: tuple[str | bytes, ...], values: tuple[bytes, ...], server_lines: bytes
) -> tuple[bytes, int | None, bool]:
    """Write the head of an answer, up to where the server may add more headers.

    Args:
        names, values: Headers of the application.
        server_lines: Header lines of the server, which come first.

    Returns:
        The head without its last line; the length of the body, if the application gives it; and
        whether the application wants the connection closed.

    Raises:
        ValueError: The head of the application is malformed.
    """
    line = STATUS_LINES.get(status)
    if line is None:
        raise ValueError("invalid status")
    template, framing = _compose_template(names)
    # One check of all values: one with a line break would start another header.
    text = b"".join(values)
    if (
        len(values) != len(names)
        or text.find(b"\n") >= 0
        or text.find(b"\r") >= 0
        or text.find(b"\0") >= 0
    ):
        raise ValueError("a header contains a line break")
    size: int | None = None
    closes = False
    for position, lower in framing:
        if lower == b"content-length":
            size = _read_size(values[position], size)
        elif lower == b"connection":
            closes = closes or b"close" in values[position].lower()
    return line + server_lines + template % values, size, closes


def compose_whole(
    status: int, headers: Mapping[str, str], server_lines: bytes, size: int
) -> bytes | None:
    """Write the whole head of an answer with a body of this size, on a connection that stays open.

    Twice as fast as :func:`compose_head`, which writes the same for all answers.

    Returns:
        ``None`` for a head that is not plain: a header about the framing, an invalid name, or an
        unusual value.
    """
    template = _compose_whole_template(status, tuple(headers))
    values = tuple(headers.values())
    text = "".join(values)
    if text.isascii():
        is_plain = "\n" not in text and "\r" not in text and "\0" not in text
    else:
        is_plain = text.isprintable()  # slower, and finds lone surrogates, too
    if template is None or not is_plain:
        return None
    return STATUS_LINES[status] + server_lines + (template % (*values, size)).encode()


@lru_cache(maxsize=256)
def _compose_whole_template(status: int, names: tuple[str, ...]) -> str | None:
    try:
        _, framing = _compose_template(names)
    except ValueError:
        return None
    if framing or status not in STATUS_LINES or status in BODILESS:
        return None
    lines = [f"{name.replace('%', '%%')}: %s\r\n" for name in names]
    return f"{''.join(lines)}content-length: %d\r\n\r\n"


def split_headers(
    headers: Iterable[tuple[bytes, bytes]],
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the names and the values of headers in the form of ASGI."""
    names, values = [], []
    for name, value in headers:
        names.append(name)
        values.append(value)
    return tuple(names), tuple(values)


def encode_values(values: Iterable[str]) -> tuple[bytes, ...]:
    """Return header values as bytes; the inverse of how :mod:`vibe_llms.wire` decodes them.

    All are encoded at once, which is much faster than one after the other. A value with a line
    break becomes several, for which :func:`compose_head` raises ValueError.
    """
    text = "\n".join(values)
    encoded = text.encode() if text.isascii() else text.encode("utf-8", "surrogateescape")
    return tuple(encoded.split(b"\n"))


@lru_cache(maxsize=256)
def encode_names(names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return header names as bytes. Cached, as most answers have one set of names."""
    return tuple([name.encode() for name in names])


def compose_last_chunk(trailers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write the end of a chunked body, with its trailers.

    Raises:
        ValueError: A trailer is malformed, or is one that frames a message.
    """
    lines = [b"0\r\n"]
    for name, value in trailers:
        if (
            _check_name(name) in _FRAMING_HEADERS
            or b"\r" in value
            or b"\n" in value
            or b"\0" in value
        ):
            raise ValueError(f"{name!r} is not allowed after a body")
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join([*lines, b"\r\n"])


def _read_size(value: bytes, previous: int | None) -> int:
    """Return a content-length, which must equal that of an earlier header. Raises ValueError."""
    size = int(value) if value.isdigit() else -1
    if size < 0 or previous not in (None, size):
        raise ValueError("invalid content-length")
    return size


@lru_cache(maxsize=256)
def _compose_template(
    names: tuple[str | bytes, ...],
) -> tuple[bytes, tuple[tuple[int, bytes], ...]]:
    """Return a template of the lines, and the positions and names of headers for the framing.

    Cached, as most answers have one set of header names. Raises ValueError.
    """
    lines, framing = [], []
    for position, text in enumerate(names):
        name = text.encode() if isinstance(text, str) else text
        lower = _check_name(name)
        if lower in _FRAMING_HEADERS:
            framing.append((position, lower))
            lines.append(b"%.0b")  # takes a value, and writes nothing
        else:
            lines.append(b"%b: %%b\r\n" % name.replace(b"%", b"%%"))
    return b"".join(lines), tuple(framing)


def _check_name(name: bytes) -> bytes:
    """Return the name of a header in lower case. Raises ValueError."""
    if not is_token(name.decode("latin-1")):
        raise ValueError("invalid header name")
    return name.lower()


def compose_refusal(status: int, date: bytes) -> bytes:
    """Write a complete error response from the server, after which the connection is closed."""
    body = f"{_PHRASES[status]}\n".encode()
    return b"%b%bcontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
        STATUS_LINES[status],
        date,
        len(body),
        body,
    )
