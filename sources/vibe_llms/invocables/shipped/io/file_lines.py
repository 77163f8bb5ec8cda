"""Lines of a file as text, for files of any size and content."""

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
        first: Counted from 1.
        count: Maximum number of lines.

    Returns:
        The text, with a note about how to continue if it is not all.

    Raises:
        Refusal: It is not text, or has fewer lines.
    """
    if first < 1 or count < 1:
        raise Refusal("first_line and lines must be whole numbers of at least 1.")
    with open_file(target) as (descriptor, found):
        taker = Taker(first, count)
        for number, block in enumerate(read_blocks(descriptor, context)):
            if number == 0 and is_binary(block):
                raise Refusal(_describe_binary(target, found))
            if taker.take(block):
                break
    if not taker.taken and first > 1:
        raise Refusal(f"{target.shown} has only {taker.line - 1 + taker.is_open} lines.")
    return taker.compose()


class Taker:
    """Extracts the wanted lines from blocks, and discards the rest."""

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.last = first + count - 1
        self.line = 1
        self.taken = bytearray()
        self.is_open = False
        self.is_cut = False
        self.has_more = False

    def take(self, block: bytes) -> bool:
        """Take the next block; return whether all wanted lines are complete."""
        start = 0
        if self.line < self.first:
            start = self._skip(block)
        while start < len(block) and self.line >= self.first:
            if self.line > self.last:
                self.has_more = True
                return True
            end = block.find(b"\n", start) + 1
            piece = block[start : end or len(block)]
            self.taken += piece
            # A file may be one line of gigabytes.
            if len(self.taken) > _TEXT_BYTES:
                self.is_cut = True
                return True
            if end:
                self.line += 1
            self.is_open = not end
            start = end or len(block)
        return False

    def _skip(self, block: bytes) -> int:
        """Skip lines before the first; return the start of the first in the block."""
        lines = block.count(b"\n")
        self.is_open = not block.endswith(b"\n")
        # Blocks before the first line are only counted, not split.
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
        data, notes = bytes(self.taken), []
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8", "replace")
            # A character that this cut has halved is not a fault of the file.
            is_torn = self.is_cut and error.start > len(data) - 4
            if not is_torn:
                notes.append("bytes that are not UTF-8 are shown as \ufffd")
        if len(text) > TEXT_CHARACTERS or self.is_cut:
            text = text[:TEXT_CHARACTERS]
            whole = text.rfind("\n") + 1
            if whole:  # whole lines, so that the next call can continue
                text = text[:whole]
                after = self.first + text.count("\n")
                notes.append(f"cut; continue with first_line={after}")
            else:
                notes.append(f"line {self.first} is longer than {TEXT_CHARACTERS} characters: cut")
        elif self.has_more:
            notes.append(f"there are more lines; continue with first_line={self.last + 1}")
        if not text and not notes:
            notes.append("the file is empty")
        return text + "".join(f"\n[{note}]" for note in notes)


def _describe_binary(target: GrantedPath, found: os.stat_result) -> str:
    kind = mimetypes.guess_type(target.name)[0] or "of an unknown type"
    return f"{target.shown} is not text: {found.st_size} bytes, {kind}."
