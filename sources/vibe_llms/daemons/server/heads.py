"""Writing of response heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from http import HTTPStatus
from operator import itemgetter
from typing import Final

from vibe_llms.wire.http.heads import is_token

_NAME: Final = itemgetter(0)
_VALUE: Final = itemgetter(1)

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
    status: int, headers: Sequence[tuple[bytes, bytes]], server_lines: bytes
) -> tuple[bytes, int | None, bool]:
    """Write the head of an answer, up to where the server may add more headers.

    Args:
        headers: Headers of the application.
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
    template, framing = _compose_template(tuple(map(_NAME, headers)))
    values = tuple(map(_VALUE, headers))
    head = line + server_lines + template % values
    line_count = 1 + server_lines.count(b"\n") + len(values) - len(framing)
    size: int | None = None
    closes = False
    for position, lower in framing:
        if lower == b"content-length":
            size = _read_size(values[position], size)
        elif lower == b"connection":
            closes = closes or b"close" in values[position].lower()
    # One check of the whole head: a value with a line break would start another header.
    breaks = (head.count(b"\n"), head.count(b"\r"))
    if breaks != (line_count, line_count) or head.find(b"\0") >= 0:
        raise ValueError("a header contains a line break")
    return head, size, closes


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
def _compose_template(names: tuple[bytes, ...]) -> tuple[bytes, tuple[tuple[int, bytes], ...]]:
    """Return a template of the lines, and the positions and names of headers for the framing.

    Cached, as most answers have one set of header names. Raises ValueError.
    """
    lines, framing = [], []
    for position, name in enumerate(names):
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
