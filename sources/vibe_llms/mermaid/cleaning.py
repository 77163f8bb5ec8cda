"""Mermaid's preprocessing of a text: five passes, in this order.

Each is a function that yields edits of the text. All take linear time, even where the original's
regular expressions do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid.spans import SPACE, Edit, SourceText, skip_space

_NEWLINES = "\n\r\u2028\u2029"
_BREAK = re.compile(r"\r\n?")
_TAG = re.compile(r"<\w+", re.ASCII)
_QUOTED_ATTRIBUTE = re.compile(r'="([^"]*)"')
_OPENING = re.compile(rf"([^\S\n\r]*)---(?=[{SPACE}]*[\n\r])")
_DIRECTIVE = re.compile(rf"%%\{{[{SPACE}]*(?:\w+[{SPACE}]*:|\w+)[{SPACE}]*", re.ASCII)
_WORD = re.compile(r"\w+", re.ASCII)
_SEPARATORS = re.compile("[\u2028\u2029]")
_CLOSING_BRACE = re.compile(rf"\}}[{SPACE}]*\n")
_STYLED = re.compile(r":[^\s:#]*#")
_ENTITY = re.compile(r"#(\w+);", re.ASCII)


@frozen
class FrontMatter:
    """The block between two lines of dashes before a diagram.

    Attributes:
        text: The text between the dashes, without its indentation.
        start: Position of the front matter in the original text.
    """

    text: str
    start: int


def clean(source_text: SourceText) -> FrontMatter | None:
    """Clean a text for Mermaid's lexer; return its front matter."""
    source_text.apply(Edit(*found.span(), "\n") for found in _BREAK.finditer(source_text.text))
    source_text.apply(_change_quotes(source_text.text))
    front, end = _find_front_matter(source_text)
    source_text.apply([Edit(0, end, "")] if end else [])
    source_text.apply(_find_directives(source_text.text))
    source_text.apply(_find_comments(source_text.text))
    source_text.apply([Edit(0, skip_space(source_text.text, 0), "")])
    for word in ("style", "classDef"):
        source_text.apply(_find_last_semicolons(source_text.text, word))
    source_text.apply(_hide_entities(source_text.text))
    source_text.apply([Edit(len(source_text.text), len(source_text.text), "\n")])
    source_text.apply(
        Edit(*found.span(), "}\n") for found in _CLOSING_BRACE.finditer(source_text.text)
    )
    return front


def _change_quotes(text: str) -> Iterator[Edit]:
    """Put attributes of HTML tags between single quotes: double ones would end a label."""
    position = 0
    while found := _TAG.search(text, position):
        end = text.find(">", found.end())
        if end < 0:
            return
        for quoted in _QUOTED_ATTRIBUTE.finditer(text, found.end(), end):
            yield Edit(*quoted.span(), f"='{quoted[1]}'")
        position = end + 1  # a tag contains no tag: one pass is enough


def _find_front_matter(source_text: SourceText) -> tuple[FrontMatter | None, int]:
    text = source_text.text
    opening = _OPENING.match(text)
    if opening is None:
        return None, 0
    # It must have the same indentation as the opening line.
    closing = re.compile(rf"[\n\r]{opening[1]}---[{SPACE}]*[\n\r]+")
    blank = text[opening.end() : skip_space(text, opening.end())]
    last = opening.end() + max(map(blank.rfind, "\n\r")) + 1
    first = opening.end() + min(at for at in map(blank.find, "\n\r") if at >= 0) + 1
    # Between the dashes there is either content or an empty line.
    found = closing.search(text, last)
    begin = last
    if found is None and first < last:
        found = closing.match(text, last - 1)
        begin = first
    if found is None:
        return None, 0
    body = text[begin : found.start()]
    indent = opening[1]
    lines = [line.removeprefix(indent) for line in body.split("\n")]
    front = FrontMatter("\n".join(lines), source_text.locate(begin, begin).start)
    return front, found.end()


def _find_directives(text: str) -> Iterator[Edit]:
    position = 0
    while found := _DIRECTIVE.search(text, position):
        position = found.end()
        if word := _WORD.match(text, position):
            position = word.end()
        else:
            position = text.find("}%%", position)
            position = len(text) if position < 0 else position
            separator = _SEPARATORS.search(text, found.end(), position)
            position = separator.start() if separator else position
        end = skip_space(text, position)
        position = end + 3 if text.startswith("}%%", end) else end
        yield Edit(found.start(), position, "")


def _find_comments(text: str) -> Iterator[Edit]:
    """Only whole lines are comments; they are removed with the empty lines before them."""
    position = earliest = 0
    while (found := text.find("%%", position)) >= 0:
        position = found + 1
        # Mermaid's pattern requires a character after it, and no brace.
        if text[found + 2 : found + 3] in ("{", "\n", ""):
            continue
        start = found
        while start > earliest and skip_space(text[start - 1], 0):
            start -= 1
        if start and text[start - 1] not in _NEWLINES:
            # The line has other text before it: only spaces that begin further lines are removed
            # with it.
            breaks = (at + 1 for at in range(start, found) if text[at] in _NEWLINES)
            start = next(breaks, -1)
        if start >= 0:
            end = text.find("\n", found)
            position = earliest = end + 1 if end >= 0 else len(text)
            yield Edit(start, position, "")


def _find_last_semicolons(text: str, word: str) -> Iterator[Edit]:
    """Remove a semicolon that ends a line with a style and a colour; it ends no statement."""
    position = 0
    while (start := text.find(word, position)) >= 0:
        end = len(text)
        for separator in _NEWLINES:
            at = text.find(separator, start, end)
            end = at if at >= 0 else end
        last = text.rfind(";", start, end)  # Mermaid's pattern matches up to the last of the line
        if last >= 0 and _STYLED.search(text, start + len(word), last):
            yield Edit(last, last + 1, "")
        position = end


def _hide_entities(text: str) -> Iterator[Edit]:
    """Give ``#quot;`` a form without the semicolon, which would end the statement."""
    for found in _ENTITY.finditer(text):
        mark = ENTITY_NUMBER if found[1].isdigit() else ENTITY_NAME
        yield Edit(*found.span(), f"{mark}{found[1]}{ENTITY_END}")


# Mermaid's own: rare letters, which it converts back to entities after its parser.
ENTITY_NUMBER, ENTITY_NAME, ENTITY_END = "\ufb02\u00b0\u00b0", "\ufb02\u00b0", "\u00b6\u00df"
