"""Passages: pieces of texts that are short enough for one vector."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from vibe_llms.foundation.attrs_classes import frozen

PASSAGE_CHARACTERS: Final = 1_200
"""Maximum length of a passage. Most embedders read 512 tokens, which most texts of this length
have; of a longer one they would ignore the rest."""

_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(?=\S)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'*+#.])\1{2,}\s*$")
_ENDS: Final = ("\n", ". ", "? ", "! ", "。", "; ", ", ", " ")
"""Where a long paragraph may be cut, the best place first."""


@frozen(kw_only=True)
class Passage:
    """A piece of a message or of a document.

    Attributes:
        item: Id of the canister; empty in a document.
        position: Index of the message in its conversation, from 0, or line of the document, from 1.
        role: Stable name of the message's role; empty in a document.
        timestamp: Time of the message, in UTC.
        heading: The nearest heading above the text; may be empty.
        text: The text.
    """

    item: str = ""
    position: int
    role: str = ""
    timestamp: datetime | None = None
    heading: str = ""
    text: str

    @property
    def embedded_text(self) -> str:
        """The text that is turned into a vector."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text

    @property
    def digest(self) -> bytes:
        """Digest of all that the vector and the display depend on, without the position."""
        content = "\0".join((self.item, self.role, self.heading, self.text))
        return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=16).digest()


@frozen(kw_only=True)
class SourceDocument:
    """A conversation or a file, as passages.

    Attributes:
        name: Id of the conversation, or path of the file in its folder.
        is_part: True for a part of another conversation, such as a visit of a flow.
        passages: The passages, in the order of the document.
    """

    name: str
    is_part: bool = False
    passages: tuple[Passage, ...] = ()


class Piece(NamedTuple):
    """A piece of a text.

    Attributes:
        line: Number of its first line, from 1.
        heading: The nearest heading above it; may be empty.
        text: Text of the piece.
    """

    line: int
    heading: str
    text: str


def split_text(text: str) -> Iterator[Piece]:
    """Split a text at its headings and paragraphs into pieces of limited length.

    Headings are those of Markdown and of reStructuredText. Paragraphs stay together as far as the
    limit allows; longer ones are cut at the end of a line or of a sentence. A text that has only
    headings is a paragraph.
    """
    pieces = _split_sections(text)
    first = next(pieces, None)
    if first is not None:
        yield first
        yield from pieces
    else:
        yield from _cut(Piece(1, "", text))


def _split_sections(text: str) -> Iterator[Piece]:
    collected: list[str] = []
    size, start, heading, section = 0, 1, "", 0
    for number, block in _split_blocks(text):
        if collected and (number != section or size + len(block.text) > PASSAGE_CHARACTERS):
            yield Piece(start, heading, "\n\n".join(collected))
            collected, size = [], 0
        heading, section = block.heading, number
        for part in _cut(block):
            if collected and size + len(part.text) > PASSAGE_CHARACTERS:
                yield Piece(start, heading, "\n\n".join(collected))
                collected, size = [], 0
            if not collected:
                start = part.line
            collected.append(part.text)
            size += len(part.text) + 2
    if collected:
        yield Piece(start, heading, "\n\n".join(collected))


def _split_blocks(text: str) -> Iterator[tuple[int, Piece]]:
    """Yield the paragraphs and code blocks of a text, each with the number of its section."""
    # Form feeds and the like end no line: editors do not count them.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    block: list[str] = []
    start, heading, fence, section = 1, "", "", 0
    for number, line in enumerate(lines, 1):
        fenced = _FENCE.match(line)
        if fenced and fence in ("", fenced[1]):
            fence = "" if fence else fenced[1]
        title = "" if fence or fenced else _find_title(lines, number - 1, block)
        if (title or not line.strip()) and not fence:
            if _UNDERLINE.match(line) and title:  # the title is the line before, not a paragraph
                block = []
            if block:
                yield section, Piece(start, heading, "\n".join(block))
                block = []
            if title:
                heading, section = title, section + 1
        else:
            if not block:
                start = number
            block.append(line)
    if block:
        yield section, Piece(start, heading, "\n".join(block))


def _find_title(lines: list[str], index: int, block: list[str]) -> str:
    """Return the title that a line is or underlines; empty for another line."""
    line = lines[index]
    if match := _HEADING.match(line):
        title = line[match.end() :].rstrip()
        return title.rstrip("#").rstrip() or title
    if len(block) == 1 and _UNDERLINE.match(line) and len(line.rstrip()) >= len(block[0].rstrip()):
        return block[0].strip()
    return ""


def _cut(block: Piece) -> Iterator[Piece]:
    """Cut a paragraph that is longer than a passage."""
    text, start, line = block.text, 0, block.line
    while len(text) - start > PASSAGE_CHARACTERS:
        end = _find_end(text, start)
        yield Piece(line, block.heading, text[start:end].strip())
        line += text.count("\n", start, end)
        start = end
    rest = text[start:].strip("\n") if start == 0 else text[start:].strip()
    if rest.strip():
        yield Piece(line, block.heading, rest)


def _find_end(text: str, start: int) -> int:
    """Return where to cut: at the last good place in the second half of a passage."""
    limit = start + PASSAGE_CHARACTERS
    for end in _ENDS:
        found = text.rfind(end, start + PASSAGE_CHARACTERS // 2, limit)
        if found >= 0:
            return found + len(end)
    return limit
