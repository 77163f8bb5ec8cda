"""Incremental JSON reader: returns the value received so far, without guessing the rest.

While more text is read, the value only grows: texts get longer, arrays and objects get more
members, and existing members stay. A number appears when its end is known, because ``1`` may become
``12``; an escape sequence in a text appears when it is complete.
"""

from __future__ import annotations

import contextlib
import math
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
        position: Position of the fault: the number of characters before it.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at character {position + 1}")
        self.reason = reason
        self.position = position


class GrowingText(str):
    """A text whose end was not received yet."""

    __slots__ = ()


class GrowingArray(list[Any]):
    """An array whose end was not received yet."""

    __slots__ = ()


class GrowingObject(dict[str, Any]):
    """An object whose end was not received yet."""

    __slots__ = ()


_GROWING: Final = (GrowingText, GrowingArray, GrowingObject)


def is_growing(value: Any) -> TypeGuard[GrowingText | GrowingArray | GrowingObject]:
    """Return whether the end of a value was not received yet."""
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

    def copy_with(self, inner: Any) -> Any:
        """Return a copy with a further member; ``ABSENT`` for none."""
        if isinstance(self.container, dict):
            copied = GrowingObject(self.container)
            if inner is not ABSENT:
                copied[self.key] = inner
            return copied
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
_LITERALS: Final = {"true": True, "false": False, "null": None}
_State = Callable[[str, int], int | None]

TRIES_LIMIT: Final = 1_000
"""Maximum number of positions in a text at which reading a value is tried."""


class JsonReader:
    """Incremental reader of one JSON value.

    It also accepts control characters within strings, and a comma before a closing bracket, because
    their meaning is unambiguous.
    """

    def __init__(self) -> None:
        self._frames: list[_Frame] = []
        self._root: Any = ABSENT
        self._pending = ""
        """Text that cannot be interpreted yet: part of an escape, or a number that may continue."""
        self._position = 0
        """Number of characters that were interpreted."""
        self._pieces: list[str] | None = None
        """Parts of the current string; ``None`` outside of strings."""
        self._is_key = False
        self._state: _State = self._read_value
        self.changes = 0
        """Number of changes of the visible value."""
        self.is_complete = False
        """True if the whole value was received."""

    @property
    def value(self) -> Any:
        """The value received so far, ``ABSENT`` at the start; see :func:`is_growing`.

        Open parts are copied, so that they do not change later.
        """
        growing: Any = ABSENT
        if self._pieces is not None and not self._is_key:
            self._pieces = ["".join(self._pieces)]  # the next call does not join them again
            growing = GrowingText(self._pieces[0])
        if not self._frames and growing is ABSENT:
            return self._root
        for frame in reversed(self._frames):
            growing = frame.copy_with(growing)
        return growing

    def feed(self, text: str) -> int:
        """Read more text.

        Returns:
            The number of characters at the end of the text that follow the value.

        Raises:
            JsonFault: The text is not JSON.
        """
        text = f"{self._pending}{text}" if self._pending else text
        start, self._pending, index = self._position, "", 0
        try:
            while index < len(text) and not self.is_complete:
                next_index = self._state(text, index)
                if next_index is None:
                    break
                index = next_index
        except _Fault as fault:
            raise JsonFault(fault.reason, start + fault.index) from None
        self._position = start + index
        if self.is_complete:
            return len(text) - index
        self._pending = text[index:]
        return 0

    def finish(self) -> Any:
        """End the reading and return the value.

        Raises:
            JsonFault: The value is incomplete.
        """
        if not self.is_complete and self._pieces is None:
            self.feed(" ")  # ends a number
        if not self.is_complete:
            raise JsonFault("the text is truncated", self._position + len(self._pending))
        return self._root

    # States: each reads from an index and returns the next index; ``None`` requests more text.

    def _read_value(self, text: str, index: int) -> int | None:
        index = _skip_blank(text, index)
        if index == len(text):
            return index
        first = text[index]
        if first == "]" and self._frames and isinstance(self._frames[-1].container, list):
            return self._close(index)  # the array is empty, or has a trailing comma
        if first in "{[":
            if len(self._frames) >= DEPTH_LIMIT:
                raise _Fault(f"more than {DEPTH_LIMIT} levels", index)
            self._frames.append(_Frame({} if first == "{" else []))
            self._state = self._read_key if first == "{" else self._read_value
            self.changes += 1
            return index + 1
        if first == '"':
            self._start_text(is_key=False)
            self.changes += 1
            return index + 1
        return self._read_scalar(text, index)

    def _read_key(self, text: str, index: int) -> int | None:
        index = _skip_blank(text, index)
        if index == len(text):
            return index
        if text[index] == "}":
            return self._close(index)
        if text[index] != '"':
            raise _Fault(f"{text[index]!r} instead of a name in quotes", index)
        self._start_text(is_key=True)
        return index + 1

    def _read_colon(self, text: str, index: int) -> int | None:
        index = _skip_blank(text, index)
        if index == len(text):
            return index
        if text[index] != ":":
            raise _Fault(f"{text[index]!r} instead of ':'", index)
        self._state = self._read_value
        return index + 1

    def _read_comma(self, text: str, index: int) -> int | None:
        index = _skip_blank(text, index)
        if index == len(text):
            return index
        container = self._frames[-1].container
        closing = "}" if isinstance(container, dict) else "]"
        if text[index] == closing:
            return self._close(index)
        if text[index] != ",":
            raise _Fault(f"{text[index]!r} instead of ',' or {closing!r}", index)
        self._state = self._read_key if closing == "}" else self._read_value
        return index + 1

    def _read_text(self, text: str, index: int) -> int | None:
        assert self._pieces is not None
        plain = _PLAIN.match(text, index)
        if plain is not None:
            self._pieces.append(plain[0])
            self._count_growth()
            return plain.end()
        if text[index] == '"':
            complete_text, self._pieces = "".join(self._pieces), None
            if self._is_key:
                self._frames[-1].key, self._state = complete_text, self._read_colon
            else:
                self._add_complete(complete_text)
            return index + 1
        escape = _read_escape(text, index)
        if escape is None:
            return None
        character, end = escape
        self._pieces.append(character)
        self._count_growth()
        return end

    def _read_scalar(self, text: str, index: int) -> int | None:
        match = _SCALAR.match(text, index)
        assert match is not None
        word, end = match[0], match.end()
        if not word:
            raise _Fault(f"{text[index]!r} instead of a value", index)
        if word in _LITERALS:
            self._add_complete(_LITERALS[word])
            return end
        if end == len(text):
            if _may_become_scalar(word):
                return None
            raise _Fault(f"{word!r} is not a value", index)
        self._add_complete(_read_number(word, index))
        return end

    def _start_text(self, *, is_key: bool) -> None:
        self._pieces, self._is_key, self._state = [], is_key, self._read_text

    def _count_growth(self) -> None:
        if not self._is_key:
            self.changes += 1

    def _close(self, index: int) -> int:
        self._add_complete(self._frames.pop().container)
        return index + 1

    def _add_complete(self, value: Any) -> None:
        """Add a complete value to its container."""
        self.changes += 1
        if self._frames:
            self._frames[-1].add(value)
            self._state = self._read_comma
        else:
            self._root, self.is_complete = value, True


class _Fault(Exception):
    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index


def _skip_blank(text: str, index: int) -> int:
    match = _BLANK.match(text, index)
    assert match is not None
    return match.end()


def _read_escape(text: str, index: int) -> tuple[str, int] | None:
    """Return the character of an escape sequence, and the index after it.

    Returns:
        ``None`` if the end of the sequence was not received yet.
    """
    if index + 1 == len(text):
        return None
    kind = text[index + 1]
    if kind != "u":
        if kind not in _ESCAPES:
            raise _Fault(f"invalid escape \\{kind}", index)
        return _ESCAPES[kind], index + 2
    unit = _read_code_unit(text, index)
    if unit is None:
        return None
    if not 0xD800 <= unit < 0xDC00:
        return chr(unit), index + 6
    # The first half of a surrogate pair; the second half follows as another escape sequence.
    rest = text[index + 6 : index + 8]
    if not "\\u".startswith(rest):
        return chr(unit), index + 6  # there is no second half
    second = _read_code_unit(text, index + 6) if rest == "\\u" else None
    if second is None:
        return None
    if not 0xDC00 <= second < 0xE000:
        return chr(unit), index + 6
    return chr(0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00)), index + 12


def _read_code_unit(text: str, index: int) -> int | None:
    """Return the number in ``\\uXXXX``; ``None`` if its end was not received yet."""
    digits = text[index + 2 : index + 6]
    if _HEXADECIMAL.fullmatch(digits):
        return int(digits, 16)
    if len(digits) == 4 or re.search(r"[^0-9a-fA-F]", digits):
        raise _Fault(f"invalid escape \\u{digits}", index)
    return None


_NUMBER_PREFIX: Final = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<![.])[eE][-+]?[0-9]*)?)?"
)


def _may_become_scalar(word: str) -> bool:
    is_literal_prefix = any(literal.startswith(word) for literal in _LITERALS)
    return is_literal_prefix or _NUMBER_PREFIX.fullmatch(word) is not None


def _read_number(word: str, index: int) -> int | float:
    match = _NUMBER.fullmatch(word)
    if match is None:
        raise _Fault(f"{word!r} is not a value", index)
    if match[1] is None and match[2] is None:  # neither a fraction nor an exponent
        try:
            return int(word)
        except ValueError:  # more digits than Python reads
            raise _Fault("a number with too many digits", index) from None
    number = float(word)
    if math.isinf(number):
        raise _Fault("too large a number", index)
    return number


def read_values(text: str, openings: str = "{") -> Iterator[tuple[Any, int, int]]:
    """Find the JSON values in a text that start with one of the characters in ``openings``.

    Yields:
        Each value with start and end; the values do not overlap.
    """
    index, opening = 0, re.compile(f"[{re.escape(openings)}]")
    # Each try may read to the end: without a limit, a text of brackets takes quadratic time.
    for _ in range(TRIES_LIMIT):
        match = opening.search(text, index)
        if match is None:
            return
        reader, start = JsonReader(), match.start()
        index = start + 1
        with contextlib.suppress(JsonFault):
            rest_length = reader.feed(text[start:])
            if reader.is_complete:
                index = len(text) - rest_length
                yield reader.value, start, index
