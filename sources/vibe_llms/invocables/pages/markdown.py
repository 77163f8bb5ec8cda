"""Conversion of HTML to readable Markdown: headings, paragraphs, lists, links, tables, code."""

from __future__ import annotations

import re
import time
from typing import Final
from urllib.parse import urljoin

from vibe_llms.invocables.pages.markup import Tag, split

_INVISIBLE: Final = frozenset(
    {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "audio", "video"}
    | {"select", "button", "noembed", "textarea", "title", "xmp"}
)
_NAVIGATION: Final = frozenset({"nav", "footer", "aside"})
_BLOCKS: Final = frozenset(
    {"address", "article", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption"}
    | {"figure", "footer", "form", "header", "hgroup", "html", "main", "nav", "aside", "p"}
    | {"section", "summary", "table", "tbody", "thead", "tfoot", "ul", "ol", "caption"}
)
_EMPHASIS: Final = {"b": "**", "strong": "**", "em": "*", "i": "*"}
SECONDS: Final = 5.0
"""Time limit for one page; the rest is left out."""

_DEPTH_LIMIT: Final = 12
_ADDRESS_CHARACTERS: Final = 500
_SPACE: Final = re.compile(r"\s+")
_BACKTICKS: Final = re.compile(r"`+")


def write_markdown(source: str, address: str) -> str:
    """Return a page as Markdown, its title first.

    Navigation, footers and asides are left out, unless the page has nothing else.

    Args:
        address: The address of the page, to which relative addresses refer.
    """
    text = _write(source, address, _INVISIBLE | _NAVIGATION)
    # Some pages have all content in one <nav> or <aside>.
    return text or _write(source, address, _INVISIBLE)


def _write(source: str, address: str, ignored: frozenset[str]) -> str:
    writer = _Writer(address, ignored)
    deadline = time.monotonic() + SECONDS
    for number, piece in enumerate(split(source)):
        # Only every thousandth step, because reading the clock takes longer than most steps.
        if number % 1_000 == 0 and time.monotonic() > deadline:
            return f"{writer.finish()}\n[the page is too complex: the rest was left out]"
        if isinstance(piece, str):
            writer.add_text(piece)
        elif piece.is_end:
            writer.end(piece.name)
        else:
            writer.begin(piece)
    return writer.finish()


class _Writer:
    """Converts tags and texts, in their order, to lines of Markdown."""

    def __init__(self, address: str, ignored: frozenset[str]) -> None:
        self._address = address
        self._ignored = ignored
        self._lines: list[str] = []
        self._line: list[str] = []
        self._hidden: list[str] = []
        self._lists: list[int] = []
        self._quotes = 0
        self._code = 0
        self._code_start = 0
        self._link = ""
        self._link_start = 0
        self._title = ""
        self._is_title = False

    def begin(self, tag: Tag) -> None:
        """Process the start of an element."""
        name = tag.name
        # As in browsers, it affects all following addresses.
        if name == "base" and not self._hidden and tag.attributes.get("href"):
            self._address = _join(self._address, tag.attributes["href"])
        self._is_title = name == "title" and not self._title and not self._hidden
        if name in self._ignored or (self._hidden and name == self._hidden[-1]):
            self._hidden.append(name)
            return
        if self._hidden:
            return
        if name == "a":
            self._end_link()
            self._link, self._link_start = tag.attributes.get("href", ""), len(self._line)
        elif name == "img":
            self.add_text(f" {tag.attributes.get('alt', '')} ")
        elif name in _EMPHASIS:
            self._line.append(_EMPHASIS[name])
        else:
            self._begin_block(name)

    def _begin_block(self, name: str) -> None:
        if len(name) == 2 and name[0] == "h" and name[1] in "123456":
            self._break(blank=True)
            self._line.append(f"{'#' * int(name[1])} ")
        elif name == "li":
            self._break()
            number = self._lists[-1] if self._lists else 0
            if number:
                self._lists[-1] += 1
            indent = "  " * (min(len(self._lists), _DEPTH_LIMIT) - 1)
            self._line.append(f"{indent}{f'{number}.' if number else '-'} ")
        elif name in ("ul", "ol"):
            self._break(blank=not self._lists)
            self._lists.append(int(name == "ol"))
        elif name == "pre":
            self._break(blank=True)
            if not self._code:
                self._code_start = len(self._lines)
            self._code += 1
        elif name == "blockquote" and not self._code:
            self._break(blank=True)
            self._quotes = min(self._quotes + 1, _DEPTH_LIMIT)
        elif name in ("br", "tr"):
            self._break(is_own=name == "br")
        elif name == "hr":
            self._break(blank=True)
            self._lines.append("---")
        elif name in ("td", "th"):
            self._line.append(" | ")
        elif name == "code" and not self._code:
            self._line.append("`")
        elif name in _BLOCKS:
            self._break(blank=True)

    def end(self, name: str) -> None:
        """Process the end of an element."""
        self._is_title = False
        if self._hidden:
            if name == self._hidden[-1]:
                self._hidden.pop()
            return
        if name == "a":
            self._end_link()
        elif name in _EMPHASIS:
            self._line.append(_EMPHASIS[name])
        elif name == "code" and not self._code:
            self._line.append("`")
        elif name in ("ul", "ol"):
            self._break()
            if self._lists:
                self._lists.pop()
            self._break(blank=not self._lists)
        elif name == "pre" and self._code:
            self._break()
            self._code -= 1
            if not self._code:
                self._fence()
        elif name == "blockquote" and not self._code:
            self._break(blank=True)
            self._quotes = max(0, self._quotes - 1)
        elif name in ("td", "th"):
            self._line.append(" ")
        elif name in ("li", "tr"):
            self._break()
        elif name in _BLOCKS or (len(name) == 2 and name[0] == "h" and name != "hr"):
            self._break(blank=True)

    def add_text(self, text: str) -> None:
        """Process a text."""
        if self._is_title:
            self._title = _SPACE.sub(" ", text).strip()
        elif self._hidden:
            return
        elif self._code:
            first, *other_lines = text.split("\n")
            self._line.append(first)
            for other in other_lines:
                self._break(is_own=True)
                self._line.append(other)
        else:
            self._line.append(_SPACE.sub(" ", text))

    def _end_link(self) -> None:
        address, self._link = self._link, ""
        if not address:
            return
        start = min(self._link_start, len(self._line))
        text = "".join(self._line[start:]).strip()
        address = _join(self._address, address) if text else ""
        if address:
            lead = " " if "".join(self._line[start:]).startswith(" ") else ""
            self._line[start:] = [f"{lead}[{text}]({address})"]

    def _break(self, *, blank: bool = False, is_own: bool = False) -> None:
        """End the line.

        Args:
            blank: Add an empty line after it. Never in code.
            is_own: True if the page itself has a line break here. In code, it counts even after an
                empty line.
        """
        self._end_link()
        text = "".join(self._line)
        text = text.rstrip() if self._code else _tidy(text)
        self._line.clear()
        self._link_start = 0
        if self._code:
            if text or is_own:
                self._lines.append(text)
            return
        if text:
            self._lines.append(f"{'> ' * self._quotes}{text}")
        if blank and self._lines and self._lines[-1]:
            self._lines.append("")

    def _fence(self) -> None:
        """Fence the collected lines of code; code without lines is left out."""
        lines = "\n".join(self._lines[self._code_start :]).strip("\n").split("\n")
        del self._lines[self._code_start :]
        if not any(lines):
            return
        longest = max(map(len, _BACKTICKS.findall("\n".join(lines))), default=0)
        # The fence is longer than any backticks in the code, so that the code cannot end it.
        fence = "`" * max(3, longest + 1)
        self._lines += [f"{'> ' * self._quotes}{line}" for line in (fence, *lines, fence)]

    def finish(self) -> str:
        """Return the whole text."""
        self._break()
        if self._code:
            self._fence()
        body = "\n".join(self._lines).strip()
        if self._title and not body.startswith(f"# {self._title}"):
            return f"# {self._title}\n\n{body}".strip() if body else ""
        return body


def _tidy(text: str) -> str:
    """Remove double spaces, and the marks of emphasis without a text."""
    indent = len(text) - len(text.lstrip(" ")) if text.lstrip(" ")[:1] in "-0123456789" else 0
    text = re.sub(r"\*{4,}", "", text)
    words = re.sub(r" {2,}", " ", text.strip())
    is_empty = not words.strip("#-*`| ")
    return "" if is_empty else " " * indent + words


def _join(base: str, address: str) -> str:
    """Return an absolute address; empty unless it is the address of a page or of mail."""
    if len(address) > _ADDRESS_CHARACTERS:
        return ""
    try:
        whole = urljoin(base, address.strip())
    except ValueError:
        return ""
    return whole.replace(" ", "%20") if whole.startswith(("http://", "https://", "mailto:")) else ""
