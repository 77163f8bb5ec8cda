"""Secrets found in every form that they travel in, and struck out."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES, Secret

LEAST_CHARACTERS = 4
"""A secret shorter than this is none: struck out everywhere, it would leave no text readable."""
STRUCK = HIDDEN.encode()

_Span: TypeAlias = tuple[int, int]

_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_ESCAPED: Final = re.compile(rb"(?i:(?:u00|%)(?:3[0-9]|[46][1-9a-f]|[57][0-9a]))")
"""A letter or digit that need not be escaped, and is."""
_BACKSLASHES: Final = rb"\\{1,63}"
"""The backslashes before a character that was escaped up to six times. The bound keeps the search
linear in a long run of backslashes."""
_PERHAPS_ESCAPED: Final = rb"\\{0,63}"
_OPEN: Final = re.compile(_BACKSLASHES + rb"(?:u[0-9A-Fa-f]{0,3})?|%[0-9A-Fa-f]?")
"""The beginning of an escape."""
_ESCAPES: Final = b"\\%"
_ESCAPE: Final = re.compile(rb"[\\%]")
_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_LONGEST_CHARACTER: Final = 16
"""So many bytes one character has at most, escaped twice."""


class _Form:
    """One way to write a secret.

    Attributes:
        units: Patterns of its characters, one after the other.
        firsts: Bytes that it may begin with.
        needle: Stands in whatever has the form, unless letters or digits are escaped; empty where
            nothing does.
        is_base64: Its ends hold bits of what stands beside the secret.
    """

    def __init__(
        self, units: Sequence[bytes], firsts: bytes, needle: bytes, *, is_base64: bool = False
    ) -> None:
        self.units, self.firsts, self.needle = units, firsts, needle
        self.is_base64 = is_base64

    @property
    def pattern(self) -> bytes:
        """Match all of it."""
        tail = rb"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}" if self.is_base64 else b""
        return b"".join(self.units) + tail

    @cached_property
    def _steps(self) -> list[re.Pattern[bytes]]:
        return [re.compile(unit) for unit in self.units]

    def is_open(self, data: bytes, at: int) -> bool:
        """Tell whether the data from here on are an incomplete occurrence of the form."""
        for step in self._steps:
            if at == len(data):
                return True
            found = step.match(data, at)
            if found is None:
                return data[at] in _ESCAPES and _OPEN.fullmatch(data, at) is not None
            at = found.end()
        return False


class Scrubber:
    """Redacts secrets in bytes.

    Finds a secret unchanged, escaped for JSON (once or several times, each character in its own
    way), quoted for a URL, within base64 of either alphabet, and in hexadecimal digits; and
    anything with the form of a vendor's key.

    Args:
        shapes: Whether to redact unknown keys by their form, too.
        least: Minimum length of a secret; ignore shorter ones.
    """

    def __init__(
        self,
        secrets: Iterable[Secret | str] = (),
        *,
        shapes: bool = True,
        least: int = LEAST_CHARACTERS,
    ) -> None:
        self._texts: list[str] = []
        self._forms: list[_Form] = []
        self._shapes = KEY_SHAPES if shapes else None
        self._least = least
        self.add(*secrets)

    def add(self, *secrets: Secret | str) -> None:
        """Add secrets; ignore those that are too short."""
        for secret in secrets:
            text = secret.reveal() if isinstance(secret, Secret) else secret
            # A key that was read with its line end may be shown without it.
            for form in {text, text.strip()}:
                if len(form) >= self._least and form not in self._texts:
                    self._texts.append(form)
        # The first match counts, so longer secrets come first.
        ordered = sorted(self._texts, key=len, reverse=True)
        self._forms = [form for text in ordered for form in _list_forms(text)]
        self._needles = tuple({form.needle for form in self._forms})
        for name in ("_pattern", "_first", "_last"):
            self.__dict__.pop(name, None)

    def may_hold(self, data: bytes) -> bool:
        """Tell whether data may hold a secret: what does not is seen at once."""
        if self._shapes is not None:
            return True
        for needle in self._needles:
            if data.find(needle) >= 0:  # much faster than `in`, which tries numbers first
                return True
        return (data.find(b"%") >= 0 or data.find(b"\\u00") >= 0) and _ESCAPED.search(
            data
        ) is not None

    def find_open(self, data: bytes) -> int:
        """Return where a secret may begin that data does not end; its length where none does."""
        end = len(data)
        if not end or not self._forms or data[-1] not in self._last:
            return end
        longest = max(len(form.units) for form in self._forms)
        factor = 1
        if _ESCAPE.search(data, max(0, end - _LONGEST_CHARACTER * longest)):
            factor = _LONGEST_CHARACTER
        for found in self._first.finditer(data, max(0, end - factor * longest)):
            at = found.start()
            for form in self._forms:
                is_near = end - at <= factor * len(form.units)
                if is_near and data[at] in form.firsts and form.is_open(data, at):
                    return at
        return end

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(b"(" + form.pattern + b")" for form in self._forms))

    @cached_property
    def _first(self) -> re.Pattern[bytes]:
        firsts = {bytes([each]) for form in self._forms for each in form.firsts}
        return re.compile(b"[" + b"".join(map(re.escape, sorted(firsts))) + b"]")

    @cached_property
    def _last(self) -> frozenset[int]:
        """Bytes that the beginning of a secret may end with."""
        return frozenset(b"\\%" + "".join(self._texts).encode("utf-8", "surrogatepass")) | _DIGITS

    def scrub(self, data: bytes) -> bytes:
        """Strike out all secrets."""
        return self.scrub_pieces([data])[0] if self.may_hold(data) else data

    def scrub_text(self, text: str) -> str:
        """Strike out all secrets."""
        return self.scrub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def scrub_pieces(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Strike out all secrets, those too that lie across the boundaries of pieces.

        Returns:
            As many pieces; what replaces a secret is in the piece where the secret began.
        """
        data = b"".join(pieces)
        ends: list[int] = []
        for piece in pieces:
            ends.append((ends[-1] if ends else 0) + len(piece))
        scrubbed: list[list[bytes]] = [[] for _ in pieces]
        at = 0
        for start, end in [*self._find(data), (len(data), len(data))]:
            while at < start:
                place = bisect.bisect_right(ends, at)
                until = min(start, ends[place])
                scrubbed[place].append(data[at:until])
                at = until
            if start < end:
                scrubbed[bisect.bisect_right(ends, start)].append(STRUCK)
                at = end
        return [b"".join(parts) for parts in scrubbed]

    def _find(self, data: bytes) -> list[_Span]:
        """The spans of secrets, those joined that touch or overlap."""
        if not self.may_hold(data):
            return []
        found = [*self._find_own(data), *self._find_shapes(data)]
        spans: list[_Span] = []
        for start, end in sorted(found):
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans

    def _find_own(self, data: bytes) -> Iterator[_Span]:
        if not self._forms:
            return
        at = 0
        for first in self._first.finditer(data):
            start = first.start()
            if start < at or (match := self._pattern.match(data, start)) is None:
                continue
            is_base64 = self._forms[(match.lastindex or 1) - 1].is_base64
            end = match.end()
            # Another secret may begin within the end of this one.
            at = max(start + 1, end - LEAST_CHARACTERS)
            yield start - (is_base64 and start > 0 and data[start - 1] in _DIGITS), end

    def _find_shapes(self, data: bytes) -> Iterator[_Span]:
        at = 0
        while self._shapes is not None and (match := self._shapes.search(data, at)) is not None:
            start, end = match.span()
            at = max(start + 1, end - LEAST_CHARACTERS)
            yield start, end


def _list_forms(text: str) -> list[_Form]:
    data = text.encode("utf-8", "surrogatepass")
    forms = [_Form(*_write_characters(text), _find_run(text))]
    for digits in (data.hex(), data.hex().upper()):
        units = [digit.encode() for digit in digits]
        forms.append(_Form(units, units[0], digits.encode()))
    return [*forms, *_list_base64_forms(data)]


def _find_run(text: str) -> bytes:
    return max(_RUN.findall(text), key=len, default="").encode()


def _write_characters(text: str) -> tuple[list[bytes], bytes]:
    """Return the patterns of all characters, and what the first may begin with."""
    first = text[0].encode("utf-8", "surrogatepass")[:1]
    return [_match_character(each) for each in text], first + _ESCAPES + b"+"


def _match_character(character: str) -> bytes:
    """Match a character that is plain, escaped for JSON, or quoted for a URL."""
    data = character.encode("utf-8", "surrogatepass")
    quoted = b"".join(b"%%%02x" % byte for byte in data)
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = b"".join(
        _BACKSLASHES + b"u(?i:" + units[at : at + 2].hex().encode() + b")"
        for at in range(0, len(units), 2)
    )
    ways = [escaped, b"(?i:" + quoted + b")"]
    short = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}.get(character)
    if short:
        ways.append(_BACKSLASHES + short)
    if character == " ":
        ways.append(rb"\+")
    if character == "\\":
        ways.append(_BACKSLASHES)
    is_plain = character.isascii() and character.isalnum()
    ways.append((b"" if is_plain else _PERHAPS_ESCAPED) + re.escape(data))
    return b"(?:" + b"|".join(ways) + b")"


def _list_base64_forms(data: bytes) -> list[_Form]:
    """List the digits that depend only on the secret, not on its surroundings."""
    forms = []
    for before in range(3):
        padded = b"\x00" * before + data
        digits = base64.b64encode(padded + b"\x00" * (-len(padded) % 3))
        # Digits at both ends depend on the unknown bytes beside the secret.
        first = -(-before * 8 // 6)
        last = len(padded) * 8 // 6
        core = digits[first:last]
        if len(core) >= LEAST_CHARACTERS:
            units = [_BASE64_WAYS.get(chr(digit), b"%c" % digit) for digit in core]
            firsts = core[:1] + b"\\%-_"
            forms.append(_Form(units, firsts, _find_run(core.decode()), is_base64=True))
    return forms


_BASE64_WAYS: Final = {"+": rb"(?:\+|-|%2[bB])", "/": b"(?:" + _PERHAPS_ESCAPED + b"/|_|%2[fF])"}
