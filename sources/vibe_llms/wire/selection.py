"""Whether an answer is of the kind that was asked for."""

from __future__ import annotations

from vibe_llms.exceptions import ConverseError, LimitError, Stage
from vibe_llms.wire.exchanges import Exchange

_SHOWN_CHARACTERS = 200
_READ_BYTES = 65_536


async def ensure_content_type(exchange: Exchange, *expected: str) -> None:
    """Makes sure that an answer is of one of the kinds expected, as ``application/json``.

    An answer that says nothing of its kind passes. The subtype may have a suffix, so that
    ``application/problem+json`` is ``application/json``.

    Raises:
        ConverseError: It is of another kind; the error shows how a text begins. The exchange
            is closed.
    """
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind or kind in expected:
        return
    main, _, subtype = kind.partition("/")
    if f"{main}/{subtype.rpartition('+')[2]}" in expected:
        return
    async with exchange:
        beginning = await _read_beginning(exchange, kind)
    raise ConverseError(
        detail=f"The answer (status {exchange.status}) is {kind[:100]}, not "
        f"{' or '.join(expected)}{beginning}.",
        remedy="Check the base URL, and whether a proxy or a login page stands in between.",
        stage=Stage.FRAME,
    )


async def _read_beginning(exchange: Exchange, kind: str) -> str:
    """Returns how a text begins, on one line; nothing of what is no text."""
    if not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
        return ""
    try:
        body = await exchange.read(_READ_BYTES)
    except LimitError:
        return ""
    text = " ".join(body.decode("utf-8", "replace").split())
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return f", and begins {printable[:_SHOWN_CHARACTERS]!r}" if printable else ""
