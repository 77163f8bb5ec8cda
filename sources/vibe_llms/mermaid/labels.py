"""Labels of nodes, edges and subgraphs, and the entities in them."""

from __future__ import annotations

import enum
import html
import re

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid.cleaning import ENTITY_END, ENTITY_NAME, ENTITY_NUMBER
from vibe_llms.mermaid.spans import NOWHERE, Span, strip_space

_HIDDEN = re.compile(f"({ENTITY_NUMBER}|{ENTITY_NAME})(.*?){ENTITY_END}")


class LabelKind(enum.StrEnum):
    """Kind of a label: plain, quoted, or Markdown."""

    TEXT = "text"
    STRING = "string"
    MARKDOWN = "markdown"


@frozen
class Label:
    """A label.

    Attributes:
        text: Text, with decoded entities (``#quot;``, ``#9829;``).
        kind: How it is shown.
        place: Its place; that of the id if Mermaid shows the id.
    """

    text: str
    kind: LabelKind = LabelKind.STRING
    place: Span = attrs.field(default=NOWHERE, eq=False)


def finish_label(label: Label, *, keeps_quotes: bool = False) -> Label:
    """Return a parsed label in the form in which it is shown."""
    text = strip_space(label.text)
    if not keeps_quotes and len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return Label(reveal_entities(text), label.kind, label.place)


def reveal_entities(text: str) -> str:
    """Decode hidden entities; unknown ones stay as ``&name;``."""
    return _HIDDEN.sub(_reveal, text) if ENTITY_NAME in text else text


def _reveal(found: re.Match[str]) -> str:
    mark, name = found.groups()
    if mark == ENTITY_NAME:
        return html.unescape(f"&{name};")
    # HTML has no higher numbers, and keeps control characters that Python drops.
    return "\ufffd" if len(name) > 9 else html.unescape(f"&#{name};") or chr(int(name))
