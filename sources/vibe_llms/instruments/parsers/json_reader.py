"""Incremental JSON reader: returns the value received so far, and invents nothing.

The value of a longer text contains or continues the value of its prefix: texts grow, arrays and
objects get more members, and existing members stay. A number appears when it has ended, because
``1`` may become ``12``; an escape in a text appears when it is complete.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeGuard

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.json_values import DEPTH_LIMIT


class JsonFault(ValueError):
    """Invalid JSON.

    Args:
        reason: The fault, in words.
        position: Its position in characters from the start of the reading.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at character {position + 1}")
        self.reason = reason
        self.position = position


class GrowingText(str):
    """A text whose end has not arrived."""

    __slots__ = ()


class GrowingArray(list[Any]):
    """An array whose end has not arrived."""

    __slots__ = ()


class GrowingObject(dict[str, Any]):
    """An object whose end has not arrived."""

    __slots__ = ()


_GROWING: Final = (GrowingText, GrowingArray, GrowingObject)


def is_growing(value: Any) -> TypeGuard[GrowingText | GrowingArray | GrowingObject]:
    """Return whether more of a value may arrive."""
    return value.__class__ in _GROWING


@define
class _Frame:
    """An open array or object, and the name of its next member."""

    container: list[Any] | dict[str, Any]
    key: str = ""

    def add(self, value: Any) -> None:
        if isinstance(self.container, dict):
            self.container[self.key] = value
        else:
            self.container.append(value)

    def picture(self, inner: Any) -> Any:
        """Return a copy, including growing values within."""
        if isinstance(self.container, dict):
            pictured = GrowingObject(self.container)
            if inner is not ABSENT:
                pictured[self.key] = inner
            return pictured
        return GrowingArray(self.container if inner is ABSENT else [*self.container, inner])


_BLANK: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\]+')
_SCALAR: Final = re.compile(r"[-+.0-9A-Za-z_]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_WORDS: Final = {"true": True, "false": False, "null": None}
_State = Callable[[str, int], int | None]

TRIES_LIMIT: Final = 1_000
"""Maximum number of positions in a text at which a value is searched."""


class JsonReader:
    """Incremental reader of one JSON value.

    It accepts control characters within strings, and a comma before a closing bracket: neither can
    mean anything else.
    """

    def __init__(self) -> None:
        self._frames: list[_Frame] = []
        self._root: Any = ABSENT
        self._held = ""
        """Text that cannot be interpreted yet: half an escape, or a number that may continue."""
        self._position = 0
        self._pieces: list[str] | None = None
        """Parts of the current string; ``None`` outside of strings."""
        self._is_key = False
        self._state: _State = self._read_value
        self.changes = 0
        """Counts changes of the visible value."""
        self.is_complete = False
        """True if the whole value has arrived."""

    @property
    def value(self) -> Any:
        """The value received so far, ``ABSENT`` at the start; see :func:`is_growing`.

        Open parts are copied, so that they do not change later.
        """
        growing: Any = ABSENT
        if self._pieces is not None and not self._is_key:
            self._pieces = ["".join(self._pieces)]  # so that they are joined once
            growing = GrowingText(self._pieces[0])
        if not self._frames and growing is ABSENT:
            return self._root
        for frame in reversed(self._frames):
            growing = frame.picture(growing)
        return growing

    def feed(self, text: str) -> int:
        """Read more text.

        Returns:
            The number of characters at the end of the text that follow the value.

        Raises:
            JsonFault: The text is not JSON.
        """
        text = f"{self._held}{text}" if self._held else text
        start, self._held, place = self._position, "", 0
        try:
            while place < len(text) and not self.is_complete:
                following = self._state(text, place)
                if following is None:
                    break
                place = following
        except _Fault as fault:
            raise JsonFault(fault.reason, start + fault.place) from None
        self._position = start + place
        if self.is_complete:
            return len(text) - place
        self._held = text[place:]
        return 0

    def finish(self) -> Any:
        """End the reading and return the value.

        Raises:
            JsonFault: The value is incomplete.
        """
        if not self.is_complete and self._pieces is None:
            self.feed(" ")  # ends a number
        if not self.is_complete:
            raise JsonFault("the text is truncated", self._position + len(self._held))
        return self._root

    # Each state reads from a position and returns the next position; ``None`` requests more text.

    def _read_value(self, text: str, place: int) -> int | None:
        place = _skip_blank(text, place)
        if place == len(text):
            return place
        first = text[place]
        if first == "]" and self._frames and isinstance(self._frames[-1].container, list):
            return self._close(place)  # an empty array, or after a trailing comma
        if first in "{[":
            if len(self._frames) >= DEPTH_LIMIT:
                raise _Fault(f"more than {DEPTH_LIMIT} levels", place)
            self._frames.append(_Frame({} if first == "{" else []))
            self._state = self._read_key if first == "{" else self._read_value
            self.changes += 1
            return place + 1
        if first == '"':
            self._begin_text(is_key=False)
            self.changes += 1
            return place + 1
        return self._read_scalar(text, place)

    def _read_key(self, text: str, place: int) -> int | None:
        place = _skip_blank(text, place)
        if place == len(text):
            return place
        if text[place] == "}":
            return self._close(place)
        if text[place] != '"':
            raise _Fault(f"{text[place]!r} instead of a name in quotes", place)
        self._begin_text(is_key=True)
        return place + 1

    def _read_colon(self, text: str, place: int) -> int | None:
        place = _skip_blank(text, place)
        if place == len(text):
            return place
        if text[place] != ":":
            raise _Fault(f"{text[place]!r} instead of ':'", place)
        self._state = self._read_value
        return place + 1

    def _read_comma(self, text: str, place: int) -> int | None:
        place = _skip_blank(text, place)
        if place == len(text):
            return place
        container = self._frames[-1].container
        closing = "}" if isinstance(container, dict) else "]"
        if text[place] == closing:
            return self._close(place)
        if text[place] != ",":
            raise _Fault(f"{text[place]!r} instead of ',' or {closing!r}", place)
        self._state = self._read_key if closing == "}" else self._read_value
        return place + 1

    def _read_text(self, text: str, place: int) -> int | None:
        assert self._pieces is not None
        plain = _PLAIN.match(text, place)
        if plain is not None:
            self._pieces.append(plain[0])
            self._note_growth()
            return plain.end()
        if text[place] == '"':
            whole, self._pieces = "".join(self._pieces), None
            if self._is_key:
                self._frames[-1].key, self._state = whole, self._read_colon
            else:
                self._settle(whole)
            return place + 1
        written = _read_escape(text, place)
        if written is None:
            return None
        self._pieces.append(written[0])
        self._note_growth()
        return written[1]

    def _read_scalar(self, text: str, place: int) -> int | None:
        found = _SCALAR.match(text, place)
        assert found is not None
        word, end = found[0], found.end()
        if not word:
            raise _Fault(f"{text[place]!r} instead of a value", place)
        if word in _WORDS:
            self._settle(_WORDS[word])
            return end
        if end == len(text):
            if _may_become_scalar(word):
                return None
            raise _Fault(f"{word!r} is not a value", place)
        self._settle(_read_number(word, place))
        return end

    def _begin_text(self, *, is_key: bool) -> None:
        self._pieces, self._is_key, self._state = [], is_key, self._read_text

    def _note_growth(self) -> None:
        self.changes += not self._is_key

    def _close(self, place: int) -> int:
        self._settle(self._frames.pop().container)
        return place + 1

    def _settle(self, value: Any) -> None:
        """Add a complete value to its container."""
        self.changes += 1
        if self._frames:
            self._frames[-1].add(value)
            self._state = self._read_comma
        else:
            self._root, self.is_complete = value, True


class _Fault(Exception):
    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


def _skip_blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()


def _read_escape(text: str, place: int) -> tuple[str, int] | None:
    """Read an escape sequence; ``None`` if its end has not arrived."""
    if place + 1 == len(text):
        return None
    kind = text[place + 1]
    if kind != "u":
        if kind not in _ESCAPES:
            raise _Fault(f"invalid escape \\{kind}", place)
        return _ESCAPES[kind], place + 2
    unit = _read_unit(text, place)
    if unit is None or not 0xD800 <= unit < 0xDC00:
        return None if unit is None else (chr(unit), place + 6)
    rest = text[place + 6 : place + 8]
    # Empty or incomplete: the other half of the surrogate pair may still arrive.
    if not "\\u".startswith(rest):
        return chr(unit), place + 6  # half of a surrogate pair, without the other half
    second = _read_unit(text, place + 6) if rest == "\\u" else None
    if second is None:
        return None
    if not 0xDC00 <= second < 0xE000:
        return chr(unit), place + 6
    return chr(0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00)), place + 12


def _read_unit(text: str, place: int) -> int | None:
    digits = text[place + 2 : place + 6]
    if _HEXADECIMAL.fullmatch(digits):
        return int(digits, 16)
    if len(digits) == 4 or re.search(r"[^0-9a-fA-F]", digits):
        raise _Fault(f"invalid escape \\u{digits}", place)
    return None


_BEGUN_NUMBER: Final = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<![.])[eE][-+]?[0-9]*)?)?"
)


def _may_become_scalar(word: str) -> bool:
    begun = any(name.startswith(word) for name in _WORDS)
    return begun or _BEGUN_NUMBER.fullmatch(word) is not None


def _read_number(word: str, place: int) -> int | float:
    found = _NUMBER.fullmatch(word)
    if found is None:
        raise _Fault(f"{word!r} is not a value", place)
    if found[1] is None and found[2] is None:
        try:
            return int(word)
        except ValueError:  # more digits than Python reads
            raise _Fault("a number with too many digits", place) from None
    number = float(word)
    if number - number != 0:  # false for finite numbers
        raise _Fault("too large a number", place)
    return number


def read_values(text: str, openings: str = "{") -> Iterator[tuple[Any, int, int]]:
    """Find the JSON values in a text that begin with one of some characters.

    Yields:
        Each value with its start and its end; the values do not overlap.
    """
    place, opening = 0, re.compile(f"[{re.escape(openings)}]")
    # Each try may read to the end: without a limit, a text of brackets takes quadratic time.
    for _ in range(TRIES_LIMIT):
        found = opening.search(text, place)
        if found is None:
            return
        reader, place = JsonReader(), found.start() + 1
        with contextlib.suppress(JsonFault):
            left = reader.feed(text[found.start() :])
            if reader.is_complete:
                place = len(text) - left
                yield reader.value, found.start(), place
