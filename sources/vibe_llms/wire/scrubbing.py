"""Redaction of secrets in bytes, however they are encoded there."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES, Secret

MIN_SECRET_LENGTH = 4
"""Default minimum length of a secret: redacting shorter texts would make data unreadable."""
REPLACEMENT = HIDDEN.encode()

_Span: TypeAlias = tuple[int, int]

_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_ESCAPED_ALPHANUMERIC: Final = re.compile(r"(?ai:(?:u00|%)(?:3[0-9]|[46][1-9a-f]|[57][0-9a]))")
"""A letter or digit that is escaped although it need not be."""
_BACKSLASHES: Final = rb"\\{1,63}"
"""The backslashes before a character that was escaped up to six times. The limit keeps the search
linear in long runs of backslashes."""
_OPTIONAL_BACKSLASHES: Final = rb"\\{0,63}"
_INCOMPLETE_ESCAPE: Final = re.compile(_BACKSLASHES + rb"(?:u[0-9A-Fa-f]{0,3})?|%[0-9A-Fa-f]?")
"""An escape sequence that is cut off."""
_ESCAPE_BYTES: Final = b"\\%"
_ESCAPE: Final = re.compile(rb"[\\%]")
_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_NEEDLE_LENGTH: Final = 24
"""Maximum characters of a spelling that are searched before its pattern."""

_LONGEST_CHARACTER_BYTES: Final = 16
"""Maximum bytes of a character that is escaped twice."""


class _Spelling:
    """One encoding of a secret: a pattern that finds the secret in that encoding.

    Attributes:
        units: Patterns of its characters, one after the other.
        first_bytes: Bytes with which it may begin.
        needle: Text that every occurrence contains, unless letters or digits are escaped; empty if
            there are none. It allows a fast search. Long ones are cut: to prepare the search takes
            longer than to search a small answer.
        is_base64: Whether it is base64, whose digits at both ends also depend on the bytes next to
            the secret.
    """

    def __init__(
        self, units: Sequence[bytes], first_bytes: bytes, needle: str, *, is_base64: bool = False
    ) -> None:
        self.units, self.first_bytes = units, first_bytes
        self.needle = needle[-_NEEDLE_LENGTH:]  # the beginnings of many keys are equal
        self.is_base64 = is_base64

    @property
    def pattern(self) -> bytes:
        """The pattern of the whole spelling."""
        tail = rb"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}" if self.is_base64 else b""
        return b"".join(self.units) + tail

    @cached_property
    def _steps(self) -> list[re.Pattern[bytes]]:
        return [re.compile(unit) for unit in self.units]

    def is_incomplete(self, data: bytes, position: int) -> bool:
        """Return whether the data end within an occurrence that begins at a position."""
        for step in self._steps:
            if position == len(data):
                return True
            found = step.match(data, position)
            if found is None:
                cut_off = _INCOMPLETE_ESCAPE.fullmatch(data, position)
                return data[position] in _ESCAPE_BYTES and cut_off is not None
            position = found.end()
        return False


class Scrubber:
    """Redacts secrets in bytes.

    Finds a secret unchanged, escaped for JSON (once or several times, each character in any way),
    quoted for a URL, within base64 of either alphabet, and in hexadecimal digits; and anything that
    looks like a vendor's key.

    Args:
        shapes: Whether to also redact unknown keys, which are recognized by their shape.
        min_length: Minimum length of a secret; shorter ones are ignored.
    """

    def __init__(
        self,
        secrets: Iterable[Secret | str] = (),
        *,
        shapes: bool = True,
        min_length: int = MIN_SECRET_LENGTH,
    ) -> None:
        self._texts: list[str] = []
        self._spellings: list[_Spelling] = []
        self._shapes = KEY_SHAPES if shapes else None
        self._min_length = min_length
        self.add(*secrets)

    def add(self, *secrets: Secret | str) -> None:
        """Add secrets; ignore those that are too short."""
        for secret in secrets:
            text = secret.reveal() if isinstance(secret, Secret) else secret
            # A key that was read with its line end may be shown without it.
            for spelling in {text, text.strip()}:
                if len(spelling) >= self._min_length and spelling not in self._texts:
                    self._texts.append(spelling)
        # The first match wins, so longer secrets come first.
        ordered = sorted(self._texts, key=len, reverse=True)
        self._spellings = [spelling for text in ordered for spelling in _list_spellings(text)]
        self._needles = tuple({spelling.needle for spelling in self._spellings})
        for name in ("_pattern", "_first", "_last"):
            self.__dict__.pop(name, None)

    def may_contain(self, data: bytes) -> bool:
        """Return whether data may contain a secret; a fast check."""
        # To search bytes takes ten times as long as to search a small text.
        return self.may_contain_text(data.decode("latin-1"))

    def may_contain_text(self, text: str) -> bool:
        """Return whether a text may contain a secret; a fast check."""
        if self._shapes is not None or not self._spellings:
            return self._shapes is not None
        for needle in self._needles:
            if needle in text:
                return True
        # A single character is found by far the fastest, and many large bodies have no backslash.
        has_escapes = "%" in text or ("\\" in text and "\\u00" in text)
        return has_escapes and _ESCAPED_ALPHANUMERIC.search(text) is not None

    def find_incomplete(self, data: bytes) -> int:
        """Return where a secret begins that may be cut off at the end; the length without one."""
        end = len(data)
        if not end or not self._spellings or data[-1] not in self._last:
            return end
        longest = max(len(spelling.units) for spelling in self._spellings)
        factor = 1
        if _ESCAPE.search(data, max(0, end - _LONGEST_CHARACTER_BYTES * longest)):
            factor = _LONGEST_CHARACTER_BYTES
        for found in self._first.finditer(data, max(0, end - factor * longest)):
            position = found.start()
            for spelling in self._spellings:
                is_near = end - position <= factor * len(spelling.units)
                if (
                    is_near
                    and data[position] in spelling.first_bytes
                    and spelling.is_incomplete(data, position)
                ):
                    return position
        return end

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(b"(" + spelling.pattern + b")" for spelling in self._spellings))

    @cached_property
    def _first(self) -> re.Pattern[bytes]:
        first_bytes = {
            bytes([each]) for spelling in self._spellings for each in spelling.first_bytes
        }
        return re.compile(b"[" + b"".join(map(re.escape, sorted(first_bytes))) + b"]")

    @cached_property
    def _last(self) -> frozenset[int]:
        """Bytes that the beginning of a secret may end with."""
        return frozenset(b"\\%" + "".join(self._texts).encode("utf-8", "surrogatepass")) | _DIGITS

    def scrub(self, data: bytes) -> bytes:
        """Redact all secrets."""
        return self.scrub_pieces([data])[0] if self.may_contain(data) else data

    def scrub_text(self, text: str) -> str:
        """Redact all secrets in a text."""
        return self.scrub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def scrub_pieces(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Redact all secrets, including those that extend over several pieces.

        Returns:
            The same number of pieces; the replacement is in the piece in which the secret began.
        """
        data = b"".join(pieces)
        ends: list[int] = []
        for piece in pieces:
            ends.append((ends[-1] if ends else 0) + len(piece))
        scrubbed: list[list[bytes]] = [[] for _ in pieces]
        position = 0
        for start, end in [*self._find(data), (len(data), len(data))]:
            while position < start:
                piece_index = bisect.bisect_right(ends, position)
                until = min(start, ends[piece_index])
                scrubbed[piece_index].append(data[position:until])
                position = until
            if start < end:
                scrubbed[bisect.bisect_right(ends, start)].append(REPLACEMENT)
                position = end
        return [b"".join(parts) for parts in scrubbed]

    def _find(self, data: bytes) -> list[_Span]:
        """Return the spans of secrets; adjacent and overlapping ones are merged."""
        if not self.may_contain(data):
            return []
        found = [*self._find_secrets(data), *self._find_shapes(data)]
        spans: list[_Span] = []
        for start, end in sorted(found):
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans

    def _find_secrets(self, data: bytes) -> Iterator[_Span]:
        if not self._spellings:
            return
        position = 0
        for first in self._first.finditer(data):
            start = first.start()
            if start < position or (match := self._pattern.match(data, start)) is None:
                continue
            is_base64 = self._spellings[(match.lastindex or 1) - 1].is_base64
            end = match.end()
            # Another secret may overlap the end of this one.
            position = max(start + 1, end - MIN_SECRET_LENGTH)
            # In base64, the digit before may contain some bits of the secret.
            includes_digit_before = is_base64 and start > 0 and data[start - 1] in _DIGITS
            yield start - 1 if includes_digit_before else start, end

    def _find_shapes(self, data: bytes) -> Iterator[_Span]:
        position = 0
        while self._shapes is not None and (match := self._shapes.search(data, position)):
            start, end = match.span()
            position = max(start + 1, end - MIN_SECRET_LENGTH)
            yield start, end


def _list_spellings(text: str) -> list[_Spelling]:
    data = text.encode("utf-8", "surrogatepass")
    spellings = [_Spelling(*_compose_character_patterns(text), _find_longest_run(text))]
    for digits in (data.hex(), data.hex().upper()):
        units = [digit.encode() for digit in digits]
        spellings.append(_Spelling(units, units[0], digits))
    return [*spellings, *_list_base64_spellings(data)]


def _find_longest_run(text: str) -> str:
    longest: str = max(_RUN.findall(text), key=len, default="")
    return longest


def _compose_character_patterns(text: str) -> tuple[list[bytes], bytes]:
    """Return the patterns of all characters, and the bytes with which the first may begin."""
    first = text[0].encode("utf-8", "surrogatepass")[:1]
    return [_compose_character_pattern(each) for each in text], first + _ESCAPE_BYTES + b"+"


def _compose_character_pattern(character: str) -> bytes:
    """Return the pattern of a character that is plain, escaped for JSON, or quoted for a URL."""
    data = character.encode("utf-8", "surrogatepass")
    quoted = b"".join(b"%%%02x" % byte for byte in data)
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = b"".join(
        _BACKSLASHES + b"u(?i:" + units[position : position + 2].hex().encode() + b")"
        for position in range(0, len(units), 2)
    )
    alternatives = [escaped, b"(?i:" + quoted + b")"]
    short = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}.get(character)
    if short:
        alternatives.append(_BACKSLASHES + short)
    if character == " ":
        alternatives.append(rb"\+")
    if character == "\\":
        alternatives.append(_BACKSLASHES)
    is_plain = character.isascii() and character.isalnum()
    alternatives.append((b"" if is_plain else _OPTIONAL_BACKSLASHES) + re.escape(data))
    return b"(?:" + b"|".join(alternatives) + b")"


def _list_base64_spellings(data: bytes) -> list[_Spelling]:
    """Return a spelling for each alignment, with the digits that depend only on the secret."""
    spellings = []
    for before in range(3):
        padded = b"\x00" * before + data
        digits = base64.b64encode(padded + b"\x00" * (-len(padded) % 3))
        # The digits at both ends also depend on the unknown bytes next to the secret.
        first = -(-before * 8 // 6)
        last = len(padded) * 8 // 6
        certain_digits = digits[first:last]
        if len(certain_digits) >= MIN_SECRET_LENGTH:
            units = [
                _BASE64_ALTERNATIVES.get(chr(digit), b"%c" % digit) for digit in certain_digits
            ]
            first_bytes = certain_digits[:1] + b"\\%-_"
            needle = _find_longest_run(certain_digits.decode())
            spellings.append(_Spelling(units, first_bytes, needle, is_base64=True))
    return spellings


_BASE64_ALTERNATIVES: Final = {
    "+": rb"(?:\+|-|%2[bB])",
    "/": b"(?:" + _OPTIONAL_BACKSLASHES + b"/|_|%2[fF])",
}
