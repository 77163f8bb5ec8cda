"""Read lines of a file as text, whatever its size and content."""

from __future__ import annotations

import mimetypes
import os
from typing import Final

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import GrantedPath
from vibe_llms.invocables.shipped.opening import open_file, read_blocks

TEXT_CHARACTERS: Final = 90_000
"""Maximum length of the text of a file in one call; less than the invoker's limit, as notes follow.
"""

_TEXT_BYTES: Final = TEXT_CHARACTERS * 4


def is_binary(block: bytes) -> bool:
    """Return whether a file with this beginning is binary."""
    return b"\0" in block


def read_lines(target: GrantedPath, first: int, count: int, context: InvocationContext) -> str:
    """Return lines of a file.

    Args:
        first: Number of the first line, counted from 1.
        count: Maximum number of lines.

    Returns:
        The text, with a note about how to continue if there is more.

    Raises:
        Refusal: The file is not text, or has fewer lines.
    """
    if first < 1 or count < 1:
        raise Refusal("first_line and lines must be whole numbers of at least 1.")
    with open_file(target) as (descriptor, status):
        extractor = LineExtractor(first, count)
        for number, block in enumerate(read_blocks(descriptor, context)):
            if number == 0 and is_binary(block):
                raise Refusal(_describe_binary(target, status))
            if extractor.feed(block):
                break
    if not extractor.data and first > 1:
        raise Refusal(f"{target.shown} has only {extractor.line_count} lines.")
    return extractor.compose()


class LineExtractor:
    """Extracts a range of lines from the blocks of a file.

    Attributes:
        first, last: Numbers of the first and the last line of the range.
        line: Number of the current line.
        data: The extracted lines.
        is_open: True if the current line has begun but not ended.
        is_cut: True if the range exceeds the limit.
        has_more: True if lines follow the range.
    """

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.last = first + count - 1
        self.line = 1
        self.data = bytearray()
        self.is_open = False
        self.is_cut = False
        self.has_more = False

    @property
    def line_count(self) -> int:
        """Number of lines so far, including the current line if it has begun."""
        return self.line if self.is_open else self.line - 1

    def feed(self, block: bytes) -> bool:
        """Process the next block; return whether the range is complete."""
        start = 0
        if self.line < self.first:
            start = self._skip(block)
        while start < len(block) and self.line >= self.first:
            if self.line > self.last:
                self.has_more = True
                return True
            end = block.find(b"\n", start) + 1
            piece = block[start : end or len(block)]
            self.data += piece
            # A file may consist of one line of gigabytes.
            if len(self.data) > _TEXT_BYTES:
                self.is_cut = True
                return True
            if end:
                self.line += 1
            self.is_open = not end
            start = end or len(block)
        return False

    def _skip(self, block: bytes) -> int:
        """Skip lines before the range; return where the range starts in the block."""
        lines = block.count(b"\n")
        self.is_open = not block.endswith(b"\n")
        # Lines of blocks before the range are only counted.
        if self.line + lines < self.first:
            self.line += lines
            return len(block)
        start = 0
        while self.line < self.first:
            start = block.index(b"\n", start) + 1
            self.line += 1
        return start

    def compose(self) -> str:
        """Return the lines as text, with notes."""
        data, notes = bytes(self.data), []
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8", "replace")
            # The cut may have split a character at the end, which is not a fault of the file.
            is_split_by_cut = self.is_cut and error.start > len(data) - 4
            if not is_split_by_cut:
                notes.append("bytes that are not UTF-8 are shown as \ufffd")
        if len(text) > TEXT_CHARACTERS or self.is_cut:
            text = text[:TEXT_CHARACTERS]
            end = text.rfind("\n") + 1
            if end:  # only complete lines, so that the next call can continue
                text = text[:end]
                next_line = self.first + text.count("\n")
                notes.append(f"cut; continue with first_line={next_line}")
            else:
                notes.append(f"line {self.first} is longer than {TEXT_CHARACTERS} characters: cut")
        elif self.has_more:
            notes.append(f"there are more lines; continue with first_line={self.last + 1}")
        if not text and not notes:
            notes.append("the file is empty")
        return text + "".join(f"\n[{note}]" for note in notes)


def _describe_binary(target: GrantedPath, status: os.stat_result) -> str:
    kind = mimetypes.guess_type(target.name)[0] or "of an unknown type"
    return f"{target.shown} is not text: {status.st_size} bytes, {kind}."
