"""Split streaming Markdown into final blocks and a rest that may still change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PARSED_LINES = 32
"""A rest of up to this many lines is parsed after each line; a longer rest, less often."""


class BlockSplitter:
    """Splitter of text that is being received: final blocks no longer change.

    A block is final when a complete line after it belongs to another block. The sizes of the pieces
    make no difference. All blocks and the rest, joined, are the text.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""
        self._next_parse = 0
        self._parser: MarkdownIt | None = None

    @property
    def rest(self) -> str:
        """The text that may still change."""
        return "".join(self._lines) + self._line

    def feed(self, text: str) -> list[str]:
        """Add a piece of text and return the blocks that it made final."""
        blocks = []
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._lines.append(line + "\n")
            block = self._find_final(line)
            if block:
                blocks.append(block)
        return blocks

    def finish(self) -> str:
        """Return the rest, which is now final."""
        rest = self.rest
        self._lines, self._line, self._fence, self._next_parse = [], "", "", 0
        return rest

    def _find_final(self, line: str) -> str:
        if self._fence:  # avoids parsing a long code block again for each of its lines
            mark = re.escape(self._fence[0])
            if re.fullmatch(rf" {{0,3}}{mark}{{{len(self._fence)},}}[ \t]*", line):
                self._fence = ""
            return ""
        # A long list is one block: parsing the list after each line would take quadratic time.
        if not line.strip() or len(self._lines) < self._next_parse:
            return ""
        return self._parse()

    def _parse(self) -> str:
        """Parse the rest; remove and return its final blocks."""
        if self._parser is None:
            self._parser = produce_parser()
        blocks = [
            token
            for token in self._parser.parse("".join(self._lines))
            if token.level == 0 and token.map and token.nesting >= 0
        ]
        last_start = blocks[-1].map[0] if blocks and blocks[-1].map else 0
        if blocks and blocks[-1].type == "fence" and last_start == len(self._lines) - 1:
            self._fence = blocks[-1].markup
        # The last block may continue on the next line; only the blocks before it are final.
        if len(blocks) < 2:
            self._next_parse = len(self._lines) + len(self._lines) // _PARSED_LINES
            return ""
        final, self._lines = "".join(self._lines[:last_start]), self._lines[last_start:]
        self._next_parse = 0
        return final


def produce_parser() -> MarkdownIt:
    """Build the parser that the splitter and the terminal share.

    HTML is not markup here: ``<b>`` in a model's answer is displayed literally.
    """
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
