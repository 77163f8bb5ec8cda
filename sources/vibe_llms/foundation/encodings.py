"""Detection of the encoding of a text that is not UTF-8, for error messages."""

from __future__ import annotations

from typing import NamedTuple

_CONTROLS = frozenset((*range(0x00, 0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))
"""Control characters that do not occur in texts, in any single-byte encoding."""

_CONTROL_CHARACTERS = frozenset((*map(chr, _CONTROLS), "\ufffd"))

_WINDOWS = frozenset(range(0x80, 0xA0))
"""Letters and quotation marks of Windows-1252, where Latin-1 has only controls."""

_MAXIMUM_SHARE_BEYOND_ASCII = 0.4
"""With a larger share of bytes beyond ASCII, the text is not in a western language."""


class Misencoding(NamedTuple):
    """A text that is not UTF-8.

    Attributes:
        name: Its encoding, for people; empty if unknown.
        code: The encoding for ``iconv``.
        byte: The first invalid byte; ``line`` is its line, counted from 1.
    """

    name: str
    code: str
    byte: int
    line: int

    def describe(self, place: str) -> str:
        """Return a description in one sentence."""
        encoding = self.name or "another encoding"
        position = f"byte 0x{self.byte:02X} in line {self.line}"
        return f"{place} is text in {encoding}, not in UTF-8 ({position})."

    def compose_remedy(self, place: str) -> str:
        """Return how to convert the text to UTF-8."""
        return f"Convert it first: iconv -f {self.code or 'ITS-ENCODING'} -t UTF-8 {place}".rstrip()


def find_misencoding(data: bytes) -> Misencoding | None:
    """Return the encoding of a text that is not UTF-8; ``None`` if it is UTF-8, or not a text."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte, line = data[error.start], data.count(b"\n", 0, error.start) + 1
    else:
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        is_text = not frozenset(data.decode("utf-16", "replace")) & _CONTROL_CHARACTERS
        return Misencoding("UTF-16", "UTF-16", byte, 1) if is_text else None
    values = frozenset(data)
    if values & _CONTROLS:
        return None
    if sum(each >= 0x80 for each in data) > len(data) * _MAXIMUM_SHARE_BEYOND_ASCII:
        return Misencoding("", "", byte, line)
    if values & _WINDOWS:
        return Misencoding("Windows-1252", "WINDOWS-1252", byte, line)
    return Misencoding("Latin-1", "LATIN1", byte, line)


def explain_misencoding(data: bytes, place: str, *, path: str = "") -> str:
    """Explain in one line why data are not UTF-8, and what to do.

    Args:
        place: The place of the data, for people.
        path: The file to convert; the place by default.
    """
    found = find_misencoding(data)
    if found is None:
        return f"{place} is not written in UTF-8."
    return f"{found.describe(place)} {found.compose_remedy(path or place)}"
