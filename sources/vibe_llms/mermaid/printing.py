"""Writer of labels, nodes and links that Mermaid reads with the same meaning.

In a label, entities replace characters with a special meaning: those that end the label, begin an
entity or HTML, or are changed by Mermaid's preprocessing of the whole text. Line breaks (``<br/>``)
stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vibe_llms.mermaid.diagrams import Edge, Node
from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.shapes import BRACKETS
from vibe_llms.mermaid.spans import SPACE

_NAMES = {'"': "quot", "<": "lt", ">": "gt", "&": "amp"}
_ANYWHERE = rf"""<br[ ]?/?>|["<>&]
    |^[{SPACE}]|[{SPACE}]\Z|[\r\u2028\u2029]
    |\#(?=\w+;)|\ufb02(?=\u00b0)                      # an entity, as written and as cleaned
    |%(?=%)                                           # a comment
    |(?<=direction)[{SPACE}](?=[{SPACE}]*(?:[TL][BRD]|BT|RL))
    |C(?=4(?:Container|Component|Dynamic|Deployment)) # is the diagram of another language
    |\}}(?=[{SPACE}]*\n)                              # loses the spaces
"""
_FLAGS = re.VERBOSE | re.ASCII
_SPECIAL = {
    LabelKind.TEXT: re.compile(rf"{_ANYWHERE}|[][(){{}}|/\\~@]|^-", _FLAGS),
    LabelKind.STRING: re.compile(rf"{_ANYWHERE}|^`", _FLAGS),
    LabelKind.MARKDOWN: re.compile(rf"{_ANYWHERE}|`", _FLAGS),
}
_IN_ATTRIBUTES = re.compile(_ANYWHERE, _FLAGS)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_COLON = re.compile(rf":(?=[^{SPACE}]*#)")
_QUOTES = {
    LabelKind.TEXT: ("", ""),
    LabelKind.STRING: ('"', '"'),
    LabelKind.MARKDOWN: ('"`', '`"'),
}
_STROKES = {"normal": "-", "thick": "=", "invisible": "~"}
_ENDS = {"arrow_open": "", "arrow_point": ">", "arrow_circle": "o", "arrow_cross": "x"}
_STARTS = {"arrow_point": "<", "arrow_circle": "o", "arrow_cross": "x"}


def write_label(label: Label) -> str:
    """Return a label's text between brackets or pipes."""
    opening, closing = _QUOTES[label.kind]
    text = _escape_colons(_SPECIAL[label.kind].sub(_write_entity, label.text))
    return f"{opening}{text or ' '}{closing}"  # Mermaid rejects an empty label


def _escape_colons(text: str) -> str:
    """Replace colons before a ``#`` by an entity: Mermaid would take the word for a style."""
    return _COLON.sub("#58;", text)


def _write_entity(found: re.Match[str]) -> str:
    character = found[0]
    return character if len(character) > 1 else f"#{_NAMES.get(character, ord(character))};"


def write_node(node: Node) -> Iterator[str]:
    """Yield the statements for a node's brackets and attributes."""
    statement, shape, label = node.id, "", node.label
    for field, value in node.properties:
        yield f"{node.id}[|{field}:{value}|{write_label(label)}]"
    if node.properties:
        shape, label = "rect", Label(node.id, LabelKind.TEXT)  # already written
    attributes = dict(node.attributes)
    has_picture = "icon" in attributes or "img" in attributes
    is_named = label != Label(node.id, LabelKind.TEXT)
    if node.shape in BRACKETS or (is_named and node.shape and not has_picture):
        shape = node.shape if node.shape in BRACKETS else "square"
        statement = write_brackets(node.id, shape, label)
        is_named = False
    if node.shape != shape:
        attributes = {"shape": node.shape, **attributes}
    if is_named or has_picture:
        attributes["label"] = label.text
        if label.kind is not LabelKind.MARKDOWN:
            attributes["labelType"] = label.kind
    if attributes:
        statement += write_attributes(attributes.items())
    if statement != node.id or not node.properties:
        yield statement


def write_brackets(start: str, shape: str, label: Label) -> str:
    """Return a label in the brackets of a shape, after the text before them."""
    opening, closing = BRACKETS[shape]
    return f"{start}{opening}{write_label(label)}{closing}"


def write_attributes(values: Iterable[tuple[str, str | int]]) -> str:
    """Return names and values as ``@{…}``; only numbers are unquoted."""
    pairs = ", ".join(f"{_write_name(name)}: {_write_value(value)}" for name, value in values)
    return f"@{{ {pairs} }}"


def _write_name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z]+", name) else _write_value(name)


def _write_value(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    text = _IN_ATTRIBUTES.sub(_write_entity, value).replace("\\", "\\\\")
    # as a YAML escape: an entity of a control character may be another one
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'"{_escape_colons(text)}"'


def write_link(edge: Edge) -> str:
    """Return the text between the two nodes of an edge."""
    id_ = f"{edge.id}@" if edge.has_own_id else ""
    if edge.length is None:
        # Contradictory ends can only be written around a label.
        label = write_label(edge.label or Label("", LabelKind.TEXT))
        return f"{id_}x-- {label} --o"
    end = edge.type.removeprefix("double_")
    start = _STARTS[end] if edge.type != end else ""
    if edge.stroke == "dotted":
        line = f"-{'.' * edge.length}-{_ENDS[end]}"
    else:
        stroke = _STROKES[edge.stroke]
        line = f"{stroke * (edge.length + 1)}{_ENDS[end] or stroke}"
    label = f"|{write_label(edge.label)}|" if edge.label else ""
    return f"{id_}{start}{line}{label}"
