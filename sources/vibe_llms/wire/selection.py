"""Detection of a response's format from its first bytes, since its content type is often wrong.

Proxies and servers send streams as ``text/plain``, as ``application/json``, or without a type. Some
send a whole response instead of a stream, or a stream instead of a whole response, or an error as
JSON with the status and the type of a stream. The official packages accept all of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from vibe_llms.exceptions import ConverseError, LimitError, Stage
from vibe_llms.wire.exchanges import Exchange

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
AWS: Final = "application/vnd.amazon.eventstream"
"""Content types of answers."""

_SHOWN_CHARACTERS = 200
_READ_BYTES = 65_536
_LONGEST_FIELD_BYTES = 64
_BLANKS = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry")
_EVENT = re.compile(rb":|(?:data|event|id|retry)[ \t]*[:\r\n]")
"""Beginning of server-sent events: a comment or a known field."""


class AnswerFormat(Enum):
    """Format of a response."""

    WHOLE = auto()  # one JSON value
    STREAM = auto()
    FOREIGN = auto()  # something else, such as a login page
    UNCLEAR = auto()  # more bytes are needed


def strip_beginning(data: bytes) -> bytes:
    """Strip leading blanks and a byte order mark."""
    data = data.lstrip(_BLANKS)
    return (
        data[len(_BYTE_ORDER_MARK) :].lstrip(_BLANKS) if data.startswith(_BYTE_ORDER_MARK) else data
    )


def read_kind(headers: Mapping[str, str]) -> str:
    """Return the content type without parameters; for ``application/x+json``, the one of JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    main, _, subtype = kind.partition("/")
    return f"{main}/{subtype.rpartition('+')[2]}" if subtype else kind


def recognize_format(
    beginning: bytes, kind: str, requested: str, *, is_over: bool = False
) -> AnswerFormat:
    """Detect the format of a response.

    Args:
        beginning: First bytes of the body, without leading blanks.
        kind: Content type of the body.
        requested: The requested content type: JSON, or that of a stream.
        is_over: Whether ``beginning`` is the whole response.
    """
    if (not beginning or _BYTE_ORDER_MARK.startswith(beginning)) and not is_over:
        return AnswerFormat.UNCLEAR
    if beginning[:1] in (b"{", b"["):
        return _recognize_json(beginning, is_over) if requested == NDJSON else AnswerFormat.WHOLE
    if requested == AWS and beginning[:1] == b"\0":  # the first byte of a length
        return AnswerFormat.STREAM
    if requested not in (AWS, NDJSON):
        if _EVENT.match(beginning):
            return AnswerFormat.STREAM
        if _may_become_field(beginning) and not is_over:
            return AnswerFormat.UNCLEAR
    if kind == requested or (not kind and requested == JSON):
        return AnswerFormat.WHOLE if requested == JSON else AnswerFormat.STREAM
    if kind == JSON or not (kind or beginning):
        return AnswerFormat.WHOLE
    return AnswerFormat.FOREIGN


def _may_become_field(beginning: bytes) -> bool:
    name = beginning[:_LONGEST_FIELD_BYTES].rstrip(b" \t")
    return len(beginning) < _LONGEST_FIELD_BYTES and any(each.startswith(name) for each in _FIELDS)


def _recognize_json(beginning: bytes, is_over: bool) -> AnswerFormat:
    """Distinguish lines of JSON from one value that extends over several lines."""
    line, end, _ = beginning.partition(b"\n")
    if end:
        return AnswerFormat.STREAM if line.rstrip().endswith((b"}", b"]")) else AnswerFormat.WHOLE
    # Do not wait for the end of a longer first line: a stream is shown as it arrives.
    return AnswerFormat.STREAM if is_over or len(beginning) > _READ_BYTES else AnswerFormat.UNCLEAR


async def refuse_answer(
    exchange: Exchange, expected: Sequence[str], beginning: bytes = b""
) -> ConverseError:
    """Produce the error of an unexpected response, with the beginning of its text.

    Args:
        exchange: The response; it is closed.
        beginning: Bytes already read from it.
    """
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with exchange:
        excerpt = await _compose_excerpt(exchange, kind, beginning)
    return ConverseError(
        detail=f"The answer (status {exchange.status}) is {kind[:100] or 'of an unknown type'}, "
        f"not {' or '.join(expected)}{excerpt}.",
        remedy="Check the base URL, and whether a proxy or a login page answered instead.",
        stage=Stage.FRAME,
    )


async def _compose_excerpt(exchange: Exchange, kind: str, beginning: bytes) -> str:
    """Return a clause with the beginning of a text, on one line; empty for binary data."""
    if kind and not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
        return ""
    try:
        body = beginning
        if len(body) < _READ_BYTES:
            body += await exchange.read(_READ_BYTES)
    except LimitError:
        return ""
    text = " ".join(body.decode("utf-8", "replace").split())
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return f", and begins {printable[:_SHOWN_CHARACTERS]!r}" if printable else ""
