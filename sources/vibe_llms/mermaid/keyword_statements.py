"""Parser of statements that begin with a keyword: styles, classes and clicks."""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.mermaid.cursors import ID_KINDS, Cursor
from vibe_llms.mermaid.labels import reveal_entities
from vibe_llms.mermaid.statements import (
    ClassAssignment,
    ClassDefinition,
    ClickStatement,
    LinkStyleStatement,
    Statement,
    StyleStatement,
)

# UNIT and PCT are in Mermaid's grammar, though its lexer produces neither.
_STYLE = frozenset({"NUM", "NODE_STRING", "COLON", "UNIT", "SPACE", "BRKT", "STYLE", "PCT"})
_NAMES = ID_KINDS - {"DEFAULT"} | {"DIR"}


def _parse_styles(cursor: Cursor, rule: str) -> tuple[str, ...]:
    styles = []
    while True:
        parts = [cursor.expect(_STYLE, rule).text]
        while token := cursor.accept(*_STYLE):
            parts.append(token.text)
        styles.append("".join(parts))
        if not cursor.accept("COMMA"):
            return tuple(styles)


def _parse_class_definition(cursor: Cursor) -> ClassDefinition:
    rule = "does not fit a class, which is written classDef name fill:#f96,stroke:#333."
    start = cursor.take().start
    cursor.expect({"SPACE"}, rule)
    names, _ = cursor.read_id(rule)
    cursor.expect({"SPACE"}, rule)
    styles = _parse_styles(cursor, rule)
    return ClassDefinition(
        place=cursor.locate(start), names=tuple(names.split(",")), styles=split_styles(styles)
    )


def split_styles(styles: tuple[str, ...]) -> tuple[str, ...]:
    """Return the styles of a class; an escaped comma is not a separator."""
    # Replaced in between by a character that no diagram contains; Mermaid itself uses §§§.
    parts = ",".join(styles).replace("\\,", "\0").replace(",", ";").replace("\0", ",").split(";")
    return tuple(parts)


def _parse_class_assignment(cursor: Cursor) -> ClassAssignment:
    rule = "does not fit an assignment, which is written class A,B name."
    start = cursor.take().start
    cursor.expect({"SPACE"}, rule)
    ids, ids_place = cursor.read_id(rule)
    cursor.expect({"SPACE"}, rule)
    class_name, _ = cursor.read_id(rule)
    return ClassAssignment(
        place=cursor.locate(start),
        ids=tuple(ids.split(",")),
        ids_place=ids_place,
        class_name=class_name,
    )


def _parse_style(cursor: Cursor) -> StyleStatement:
    rule = "does not fit a style, which is written style A fill:#f96,stroke:#333."
    start = cursor.take().start
    cursor.expect({"SPACE"}, rule)
    id_, id_place = cursor.read_id(rule)
    cursor.expect({"SPACE"}, rule)
    styles = _parse_styles(cursor, rule)
    return StyleStatement(place=cursor.locate(start), id=id_, id_place=id_place, styles=styles)


def _parse_link_style(cursor: Cursor) -> LinkStyleStatement:
    rule = "does not fit the style of links, which is written linkStyle 0,1 stroke:#f00."
    start = cursor.take().start
    cursor.expect({"SPACE"}, rule)
    first = cursor.token.start
    positions = []
    if not cursor.accept("DEFAULT"):
        positions.append(cursor.expect({"NUM"}, rule).text)
        while cursor.accept("COMMA"):
            positions.append(cursor.expect({"NUM"}, rule).text)
    positions_place = cursor.locate(first)
    cursor.expect({"SPACE"}, rule)
    interpolation, styles = None, None
    if cursor.accept("INTERPOLATE"):
        cursor.expect({"SPACE"}, rule)
        interpolation = _read_name(cursor, rule)
        styles = _parse_styles(cursor, rule) if cursor.accept("SPACE") else None
    else:
        styles = _parse_styles(cursor, rule)
    return LinkStyleStatement(
        place=cursor.locate(start),
        positions=tuple(positions),
        positions_place=positions_place,
        interpolation=interpolation,
        styles=styles,
    )


def _read_name(cursor: Cursor, rule: str) -> str:
    parts = [cursor.expect(_NAMES, rule).text]
    while token := cursor.accept(*_NAMES):
        parts.append(token.text)
    return "".join(parts)


def _parse_click(cursor: Cursor) -> ClickStatement:
    rule = 'does not fit a click, which is written click A "address" "tooltip" or click A call f().'
    first = cursor.take()
    callback, arguments, link, tooltip, target = None, None, None, None, None
    if token := cursor.accept("CALLBACKNAME"):
        callback = token.text
        token = cursor.accept("CALLBACKARGS")
        arguments = token.text if token else None
    elif cursor.token.kind in ("HREF", "STR"):
        cursor.accept("HREF")
        link = reveal_entities(cursor.expect({"STR"}, rule).text)
    else:
        callback = _read_name(cursor, rule)
    if cursor.accept("SPACE"):
        token = cursor.expect({"STR", *(["LINK_TARGET"] if link is not None else [])}, rule)
        if token.kind == "LINK_TARGET":
            target = token.text
        else:
            tooltip = reveal_entities(token.text)
            if link is not None and cursor.accept("SPACE"):
                target = cursor.expect({"LINK_TARGET"}, rule).text
    # neither the keyword nor the last closing quote is a token
    text = cursor.source_text.text
    # Backwards from the id: the keyword is the nearest.
    start = text.rindex("click", 0, first.start)
    written = text[start : cursor.token.start].rstrip()
    return ClickStatement(
        place=cursor.source_text.locate(start, start + len(written)),
        ids=tuple(first.text.split(",")),
        ids_place=cursor.source_text.locate(first.start, first.end),
        callback=callback,
        arguments=arguments,
        link=link,
        tooltip=tooltip,
        target=target,
    )


PARSERS: dict[str, Callable[[Cursor], Statement]] = {
    "CLASSDEF": _parse_class_definition,
    "CLASS": _parse_class_assignment,
    "STYLE": _parse_style,
    "LINKSTYLE": _parse_link_style,
    "CLICK": _parse_click,
}
