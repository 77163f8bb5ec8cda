"""HTML tokenizer in linear time.

``html.parser`` of older Python versions takes quadratic time for hostile input.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]{0,60})")
_ATTRIBUTE: Final = re.compile(
    r"""[\s/]*([^\s"'<>/=]{1,100})(?:\s{0,50}=\s{0,50}(?:"([^"]*)"|'([^']*)'|([^\s"'>]*)))?"""
)
_RAW: Final = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed"})
"""Elements whose content is text, even if it looks like tags."""

_TAG_CHARACTERS: Final = 20_000


@frozen
class Tag:
    """The start or the end of an element.

    Attributes:
        name: The name of the element, in lower case.
        is_end: True for the end.
        attributes: The first value of each attribute, with entities decoded.
    """

    name: str
    is_end: bool = False
    attributes: Mapping[str, str] = attrs.field(factory=dict)


def split(source: str) -> Iterator[Tag | str]:
    """Yield the tags and the texts between tags, in their order; comments are omitted."""
    finder = _Finder(source)
    place = 0
    while place < len(source):
        start = finder.find("<", place)
        if start < 0:
            start = len(source)
        if start > place:
            yield html.unescape(source[place:start])
        if start == len(source):
            return
        tag = _TAG.match(source, start)
        if tag is None:
            place = _skip_comment(finder, source, start)
            if place == start:
                yield "<"
                place += 1
            continue
        name = tag[2].lower()
        end, attributes = _read_attributes(source, tag.end(), finder)
        yield Tag(name, bool(tag[1]), attributes)
        place = end
        if name in _RAW and not tag[1]:
            until = _find_end(source, name, place, finder)
            yield html.unescape(source[place:until])
            place = until


class _Finder:
    """Finds texts in a page; remembers texts that no longer occur."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._missing: set[str] = set()

    def find(self, text: str, place: int) -> int:
        """Return the next position of a text, or -1."""
        if text in self._missing:
            return -1
        position = self._source.find(text, place)
        if position < 0:
            # Otherwise each "<!--" without an end would search the rest of the page.
            self._missing.add(text)
        return position


def _skip_comment(finder: _Finder, source: str, start: int) -> int:
    """Return the end of a comment or a declaration; the start if it is neither."""
    if source.startswith("<!--", start):
        end = finder.find("-->", start + 4)
        return len(source) if end < 0 else end + 3
    if source.startswith(("<!", "<?", "</"), start):
        end = finder.find(">", start + 2)
        return len(source) if end < 0 else end + 1
    return start


def _read_attributes(source: str, place: int, finder: _Finder) -> tuple[int, dict[str, str]]:
    """Return the end of a tag, and its attributes."""
    attributes: dict[str, str] = {}
    # A tag without an end must not read the whole page as its attributes.
    limit = place + _TAG_CHARACTERS
    while place < limit:
        match = _ATTRIBUTE.match(source, place, limit)
        if match is None:
            break
        name, *values = match.groups()
        value = next((each for each in values if each is not None), "")
        # As in browsers, the first attribute of a name counts.
        attributes.setdefault(name.lower(), html.unescape(value))
        place = match.end()
    end = finder.find(">", place)
    return (len(source) if end < 0 else end + 1), attributes


def _find_end(source: str, name: str, place: int, finder: _Finder) -> int:
    """Return the start of the end tag of a text-only element."""
    # Lowercasing the page could change its length, and so the positions.
    for spelling in (f"</{name}", f"</{name.upper()}", f"</{name.title()}"):
        position = finder.find(spelling, place)
        if position >= 0:
            return position
    return len(source)
