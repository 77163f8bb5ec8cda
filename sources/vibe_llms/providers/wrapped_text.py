"""Incremental reader of a text in the single field of a JSON object."""

from __future__ import annotations

import json
import re
from typing import Final, Literal

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE

FIELD: Final = "input"
"""The field that holds the text."""

_OPENING: Final = re.compile(rf'\s*\{{\s*"{FIELD}"\s*:\s*"')
_PLAIN: Final = re.compile(r'[^"\\]+')
_ESCAPE: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_HIGH: Final = re.compile(r"\\u[dD][89abAB]..")
"""The first half of a surrogate pair."""

_LONGEST_OPENING: Final = 256
"""Maximum characters of the opening. Longer input without one is read as a whole at its end."""


class WrappedText:
    """Unwraps the text of ``{"input": "…"}`` while its pieces arrive.

    Input in another form is read at its end: an object with a single text field is unwrapped, and
    anything else is returned unchanged.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unread: list[str] = []  # pieces that are not decoded yet
        self._length = 0
        self._rest = ""  # an incomplete escape
        self._state: Literal["opening", "text", "ended", "whole"] = "opening"

    @property
    def text(self) -> str:
        """The text unwrapped so far."""
        return "".join(self._pieces)

    @property
    def is_begun(self) -> bool:
        """True if any input has arrived."""
        return self._state != "opening" or bool(self._unread)

    def feed(self, piece: str) -> str:
        """Return the next part of the text, which may be empty."""
        if self._state == "opening":
            self._unread.append(piece)
            self._length += len(piece)
            unread = "".join(self._unread)
            opening = _OPENING.match(unread)
            if opening is None:
                if self._length > _LONGEST_OPENING:
                    self._state = "whole"
                return ""
            self._state, self._unread = "text", []
            piece = unread[opening.end() :]
        elif self._state == "whole":
            self._unread.append(piece)
        return self._record(self._read(piece)) if self._state == "text" else ""

    def finish(self) -> str:
        """Return the rest of the text, at the end of the input."""
        if self._unread:
            return self._record(_unwrap_object("".join(self._unread)))
        rest, self._rest = self._rest, ""
        # An escape that was cut off is dropped.
        return self._record("\ufffd") if _HIGH.match(rest) and self._state == "text" else ""

    def _record(self, text: str) -> str:
        if text:
            self._pieces.append(text)
        return text

    def _read(self, piece: str) -> str:
        """Decode a JSON string up to its end, or up to an incomplete escape."""
        text, position = self._rest + piece, 0
        decoded: list[str] = []
        self._rest = ""
        while position < len(text):
            if plain := _PLAIN.match(text, position):
                decoded.append(plain.group())
                position = plain.end()
            elif text[position] == '"':
                self._state = "ended"
                break
            else:
                escape = _read_escape(text, position)
                if escape is None:
                    self._rest = text[position:]
                    break
                character, position = escape
                decoded.append(character)
        return "".join(decoded)


def _read_escape(text: str, position: int) -> tuple[str, int] | None:
    """Return the character of an escape and its end; ``None`` if the escape is incomplete."""
    escape = _ESCAPE.match(text, position)
    if escape is None:  # an escape that is invalid in JSON stays unchanged, unless it is incomplete
        is_incomplete = len(text) - position < len("\\u0000") and re.fullmatch(
            r"\\(u[0-9a-fA-F]*)?", text[position:]
        )
        return None if is_incomplete else (text[position], position + 1)
    if not _HIGH.match(text, position):
        character = json.loads(f'"{escape.group()}"')
        is_half = "\ud800" <= character <= "\udfff"
        return "\ufffd" if is_half else character, escape.end()
    low = _ESCAPE.match(text, escape.end())
    if low is None:
        is_incomplete = re.fullmatch(r"(\\(u[0-9a-fA-F]*)?)?", text[escape.end() :])
        return None if is_incomplete else ("\ufffd", escape.end())
    pair = json.loads(f'"{escape.group()}{low.group()}"')
    return (pair, low.end()) if len(pair) == 1 else ("\ufffd", escape.end())


def unwrap(arguments: str) -> str:
    """Return the text in the arguments of a call."""
    text = WrappedText()
    text.feed(arguments)
    text.finish()
    return text.text


def _unwrap_object(whole: str) -> str:
    """Return the text of an object in another form; otherwise the input unchanged."""
    try:
        value = msgspec.json.decode(whole)
    except UNREADABLE:
        return whole
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        only_value = next(iter(value.values())) if len(value) == 1 else None
        text = value.get(FIELD, only_value)
        if isinstance(text, str):
            return text
        return "" if not value else whole
    return whole
