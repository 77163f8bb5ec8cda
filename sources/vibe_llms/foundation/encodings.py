"""What a text that is not UTF-8 is most likely written in, so that a person can be told."""

from __future__ import annotations

from typing import NamedTuple

_CONTROLS = frozenset((*range(0x00, 0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))
"""Bytes that no text has, in any encoding that goes by single bytes."""

_REFUSED = frozenset((*map(chr, _CONTROLS), "\ufffd"))

_WINDOWS = frozenset(range(0x80, 0xA0))
"""Letters and quotation marks of Windows-1252, where Latin-1 has only controls."""

_MOST_FOREIGN_SHARE = 0.4
"""More letters beyond ASCII than these are no western language: the encoding is anybody's guess."""


class Misencoding(NamedTuple):
    """A text that is not UTF-8.

    Attributes:
        name: Of its encoding, for people; empty where nobody can tell.
        code: The encoding for ``iconv``.
        byte: The first that cannot be read; ``line`` is where it stands, counted from 1.
    """

    name: str
    code: str
    byte: int
    line: int

    def describe(self, place: str) -> str:
        """Says it in one sentence."""
        words = f"text in {self.name}" if self.name else "text in another encoding"
        return f"{place} is {words}, not in UTF-8 (byte 0x{self.byte:02X} in line {self.line})."

    def compose_remedy(self, place: str) -> str:
        """Says what makes UTF-8 of it."""
        return f"Convert it first: iconv -f {self.code or 'ITS-ENCODING'} -t UTF-8 {place}".rstrip()


def find_misencoding(data: bytes) -> Misencoding | None:
    """Tells what a text that is not UTF-8 is written in; ``None`` where it is UTF-8, or no text."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte, line = data[error.start], data.count(b"\n", 0, error.start) + 1
    else:
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        is_text = not frozenset(data.decode("utf-16", "replace")) & _REFUSED
        return Misencoding("UTF-16", "UTF-16", byte, 1) if is_text else None
    letters = frozenset(data)
    if letters & _CONTROLS:
        return None
    if sum(each >= 0x80 for each in data) > len(data) * _MOST_FOREIGN_SHARE:
        return Misencoding("", "", byte, line)
    if letters & _WINDOWS:
        return Misencoding("Windows-1252", "WINDOWS-1252", byte, line)
    return Misencoding("Latin-1", "LATIN1", byte, line)


def explain_misencoding(data: bytes, place: str, *, path: str = "") -> str:
    """Says of what is no UTF-8 what it is, and what to do; for messages of one line.

    Args:
        place: Where it stands, for people.
        path: Of the file that is to be converted; the place where it is left out.
    """
    found = find_misencoding(data)
    if found is None:
        return f"{place} is not written in UTF-8."
    return f"{found.describe(place)} {found.compose_remedy(path or place)}"
