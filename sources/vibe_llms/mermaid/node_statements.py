"""Parser of statements about nodes: ``A[label] & B -- text --> C:::class``."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from vibe_llms.mermaid.cursors import ID_KINDS, Cursor
from vibe_llms.mermaid.labels import Label, finish_label
from vibe_llms.mermaid.links import read_line, read_split_line
from vibe_llms.mermaid.spans import skip_space
from vibe_llms.mermaid.statements import Attributes, Link, NodeStatement, NodeUse

_LABEL = {"TEXT", "TAGSTART", "TAGEND", "UNICODE_TEXT"}
_EDGE_LABEL = {"EDGE_TEXT", "UNICODE_TEXT"}
_LABEL_RULE = (
    "cannot stand in a label without quotes, or its end is missing:"
    ' put the label between double quotes, as in A["…"].'
)
_NODE_RULE = "stands where the id of a node must: name the node, as in A --> B."
_END_RULE = "ends a subgraph, and no node can be called so: call it END, or End."


class Brackets(NamedTuple):
    """The opening bracket of a node's label, its closing brackets, and their shapes."""

    opens: tuple[str, ...]
    closes: dict[tuple[str, ...], str]


BRACKETS = [
    Brackets(("SQS",), {("SQE",): "square"}),
    Brackets(("DOUBLECIRCLESTART",), {("DOUBLECIRCLEEND",): "doublecircle"}),
    Brackets(("PS", "PS"), {("PE", "PE"): "circle"}),
    Brackets(("PS",), {("PE",): "round"}),
    Brackets(("(-",), {("-)",): "ellipse"}),
    Brackets(("STADIUMSTART",), {("STADIUMEND",): "stadium"}),
    Brackets(("SUBROUTINESTART",), {("SUBROUTINEEND",): "subroutine"}),
    Brackets(("CYLINDERSTART",), {("CYLINDEREND",): "cylinder"}),
    Brackets(("DIAMOND_START", "DIAMOND_START"), {("DIAMOND_STOP", "DIAMOND_STOP"): "hexagon"}),
    Brackets(("DIAMOND_START",), {("DIAMOND_STOP",): "diamond"}),
    Brackets(("TAGEND",), {("SQE",): "odd"}),
    Brackets(("TRAPSTART",), {("TRAPEND",): "trapezoid", ("INVTRAPEND",): "lean_right"}),
    Brackets(("INVTRAPSTART",), {("INVTRAPEND",): "inv_trapezoid", ("TRAPEND",): "lean_left"}),
]
_FIRST = {each.opens[0] for each in BRACKETS}


def parse_nodes(cursor: Cursor) -> NodeStatement:
    """Parse one statement about nodes, up to its end."""
    start = cursor.token.start
    groups = [_parse_group(cursor)]
    links = []
    while cursor.token.kind in ("LINK", "START_LINK", "LINK_ID"):
        links.append(_parse_link(cursor))
        groups.append(_parse_group(cursor))
    # The end of attributes is not a token, so the last one may end after the last token.
    whole = cursor.locate(start)
    place = attrs.evolve(whole, end=max(whole.end, groups[-1][-1].place.end))
    return NodeStatement(place=place, groups=tuple(groups), links=tuple(links))


def _parse_group(cursor: Cursor) -> tuple[NodeUse, ...]:
    uses = []
    while True:
        use = _parse_use(cursor)
        if cursor.token.kind == "SHAPE_DATA":
            use = _parse_attributes(cursor, use)
        uses.append(use)
        if not _skip_spaces(cursor):
            return tuple(uses)
        if not cursor.accept("AMP"):
            return tuple(uses)
        if not _skip_spaces(cursor):
            raise cursor.refuse("follows & at once: put a space after it, as in A & B.")


def _skip_spaces(cursor: Cursor) -> bool:
    last_end, found = cursor.last_end, False
    while cursor.accept("SPACE"):
        found = True
    if cursor.token.kind != "AMP":
        cursor.last_end = last_end  # spaces at the end belong to no statement
    return found


def _parse_use(cursor: Cursor) -> NodeUse:
    start = cursor.token.start
    rule = _END_RULE if cursor.token.kind == "end" else _NODE_RULE
    id_, id_place = cursor.read_id(rule)
    opening = cursor.token.start
    shape, class_name = "", ""
    label: Label | None = None
    properties: tuple[tuple[str, str], ...] = ()
    if cursor.token.kind in _FIRST:
        shape, label = _parse_brackets(cursor)
    elif cursor.accept("VERTEX_WITH_PROPS_START"):
        label, properties = _parse_properties(cursor)
        shape = "rect"
    brackets = cursor.locate(opening) if shape else None
    if cursor.accept("STYLE_SEPARATOR"):
        class_name, _ = cursor.read_id("follows ::: where the name of a class must stand.")
    return NodeUse(
        id=id_,
        id_place=id_place,
        shape=shape,
        label=label,
        brackets=brackets,
        properties=properties,
        class_name=class_name,
        place=cursor.locate(start),
    )


def _parse_brackets(cursor: Cursor) -> tuple[str, Label]:
    begin = cursor.token.start
    opened = [cursor.take().kind]
    # Circles and hexagons open with two tokens; other doubled brackets are one token.
    if opened[0] == cursor.token.kind and cursor.token.kind in ("PS", "DIAMOND_START"):
        opened.append(cursor.take().kind)
    closes = next(each.closes for each in BRACKETS if each.opens == tuple(opened))
    label = finish_label(cursor.read_label(_LABEL, _LABEL_RULE))
    first = cursor.expect({kinds[0] for kinds in closes}, _LABEL_RULE, begin).kind
    if len(opened) == 2:
        cursor.expect({first}, _LABEL_RULE, begin)
    return closes[(first,) * len(opened)], label


def _parse_properties(cursor: Cursor) -> tuple[Label, tuple[tuple[str, str], ...]]:
    rule = "does not fit a node with a property, which is written A[|field:value|label]."
    field = cursor.expect({"NODE_STRING"}, rule)
    cursor.expect({"COLON"}, rule)
    value = cursor.expect({"NODE_STRING"}, rule)
    begin = cursor.expect({"PIPE"}, rule).start
    label = finish_label(cursor.read_label(_LABEL, _LABEL_RULE))
    cursor.expect({"SQE"}, _LABEL_RULE, begin)
    return label, ((field.text, value.text),)


def _parse_attributes(cursor: Cursor, use: NodeUse) -> NodeUse:
    start = cursor.token.start
    parts = []
    while token := cursor.accept("SHAPE_DATA"):
        parts.append(token.text)
    end = (
        cursor.source_text.text.find("}", cursor.last_end) + 1
    )  # the closing bracket is not a token
    place = cursor.source_text.locate(start, max(end, cursor.last_end))
    whole = attrs.evolve(use.place, end=place.end)
    return attrs.evolve(use, place=whole, attributes=Attributes(text="".join(parts), place=place))


def _parse_link(cursor: Cursor) -> Link:
    # Mermaid's links include the space before them.
    start = cursor.token.start + skip_space(cursor.token.text, 0)
    id_token = cursor.accept("LINK_ID")
    if opening := cursor.accept("START_LINK"):
        rule = (
            "cannot stand in the label of a link, or the link's end is missing, as in -- label -->."
        )
        label = finish_label(cursor.read_label(_EDGE_LABEL, rule))
        closing = cursor.expect({"LINK"}, rule, opening.start)
        line = read_split_line(opening.text, closing.text)
    else:
        closing = cursor.expect({"LINK"}, "follows the id of a link where the link must: e1@-->.")
        line = read_line(closing.text)
        label = None
        if pipe := cursor.accept("PIPE"):
            label = finish_label(cursor.read_label(_LABEL, _LABEL_RULE))
            cursor.expect({"PIPE"}, _LABEL_RULE, pipe.start)
            cursor.accept("SPACE")  # Mermaid's grammar permits exactly one space there
            if cursor.token.kind not in ID_KINDS:
                raise cursor.refuse("follows the label of a link where a node must, one space on.")
    # Remove only the first @, as JavaScript's replace does: further ones stay in the id.
    id_ = id_token.text.replace("@", "", 1) if id_token else None
    return Link(
        place=cursor.locate(start),
        id=id_,
        type=line.type,
        stroke=line.stroke,
        length=line.length,
        label=label,
    )
