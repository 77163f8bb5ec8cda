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
_LONGEST_OPENING: Final = 256
"""Longer input without an opening is read as a whole at the end."""


class WrappedText:
    """Unwraps the text of ``{"input": "…"}`` while its pieces arrive.

    Input in another form is read at its end: an object with a single text field is unwrapped, and
    anything else is returned unchanged.
    """

    def __init__(self) -> None:
        self._said: list[str] = []
        self._held: list[str] = []  # the pieces that have not been read
        self._length = 0
        self._rest = ""  # an escape that has not come whole
        self._state: Literal["opening", "text", "ended", "whole"] = "opening"

    @property
    def text(self) -> str:
        """The text unwrapped so far."""
        return "".join(self._said)

    @property
    def is_begun(self) -> bool:
        """True if any input has arrived."""
        return self._state != "opening" or bool(self._held)

    def feed(self, piece: str) -> str:
        """Return the next part of the text, which may be empty."""
        if self._state == "opening":
            self._held.append(piece)
            self._length += len(piece)
            held = "".join(self._held)
            opening = _OPENING.match(held)
            if opening is None:
                if self._length > _LONGEST_OPENING:
                    self._state = "whole"
                return ""
            self._state, self._held = "text", []
            piece = held[opening.end() :]
        elif self._state == "whole":
            self._held.append(piece)
        return self._tell(self._read(piece)) if self._state == "text" else ""

    def finish(self) -> str:
        """Return the rest of the text, at the end of the input."""
        if self._held:
            return self._tell(_unwrap_object("".join(self._held)))
        rest, self._rest = self._rest, ""
        # An escape that was cut off is dropped.
        return self._tell("\ufffd") if _HIGH.match(rest) and self._state == "text" else ""

    def _tell(self, text: str) -> str:
        if text:
            self._said.append(text)
        return text

    def _read(self, piece: str) -> str:
        """Decode a JSON string up to its end, or up to an incomplete escape."""
        text, at, said = self._rest + piece, 0, list[str]()
        self._rest = ""
        while at < len(text):
            if plain := _PLAIN.match(text, at):
                said.append(plain.group())
                at = plain.end()
            elif text[at] == '"':
                self._state = "ended"
                break
            else:
                read = _read_escape(text, at)
                if read is None:
                    self._rest = text[at:]
                    break
                character, at = read
                said.append(character)
        return "".join(said)


def _read_escape(text: str, at: int) -> tuple[str, int] | None:
    """Return the character of an escape and its end; ``None`` if the escape is incomplete."""
    escape = _ESCAPE.match(text, at)
    if escape is None:  # one that JSON does not know stays as it is
        is_cut = len(text) - at < len("\\u0000") and re.fullmatch(r"\\(u[0-9a-fA-F]*)?", text[at:])
        return None if is_cut else (text[at], at + 1)
    if not _HIGH.match(text, at):
        character = json.loads(f'"{escape.group()}"')
        is_half = "\ud800" <= character <= "\udfff"
        return "\ufffd" if is_half else character, escape.end()
    low = _ESCAPE.match(text, escape.end())
    if low is None:
        is_cut = re.fullmatch(r"(\\(u[0-9a-fA-F]*)?)?", text[escape.end() :])
        return None if is_cut else ("\ufffd", escape.end())
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
        said = value.get(FIELD, next(iter(value.values())) if len(value) == 1 else None)
        if isinstance(said, str):
            return said
        return "" if not value else whole
    return whole
