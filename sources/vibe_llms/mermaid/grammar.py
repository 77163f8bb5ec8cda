"""Parser of a cleaned text into statements; continues at the next line after an error."""

from __future__ import annotations

import re

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.mermaid.cursors import ID_KINDS, Cursor, SyntaxRefusal
from vibe_llms.mermaid.keyword_statements import PARSERS
from vibe_llms.mermaid.labels import Label, LabelKind, finish_label, reveal_entities
from vibe_llms.mermaid.lexing import END
from vibe_llms.mermaid.node_statements import parse_nodes
from vibe_llms.mermaid.spans import SPACE, SourceText, Span, skip_space, strip_space
from vibe_llms.mermaid.statements import (
    AccessibilityStatement,
    DirectionStatement,
    Statement,
    StraySemicolon,
    SubgraphStatement,
)

MAX_REFUSALS = 50
"""Maximum number of errors, after which the rest of a text is skipped: it is not a diagram."""

_ENDS = ("NEWLINE", "SEMI", "EOF")
_BLANKS = ("NEWLINE", "SPACE", "EOF")
_KEYWORDS = {"STYLE", "LINKSTYLE", "CLASSDEF", "CLASS", "CLICK", "GRAPH", "DIR", "UP"}
_TITLE = ID_KINDS - {"DEFAULT", "COMMA"} | _KEYWORDS | {"SPACE", "START_LINK", "subgraph", "end"}
_LABEL = {"TEXT", "TAGSTART", "TAGEND", "UNICODE_TEXT"}
_END_RULE = (
    "stands where a statement must end: begin a new line, join nodes with a link or with &,"
    " and put labels with brackets between double quotes."
)


@define
class _Subgraph:
    """A subgraph without its ``end`` yet."""

    start: int
    head: Span
    id: str | None = None
    title: Label | None = None
    statements: list[Statement] = attrs.field(factory=list)


@define
class DiagramParser:
    """Parser of the statements of a diagram.

    Attributes:
        direction: Direction in the first line; may be empty.
        refusals: The errors, in the order of the text.
    """

    source_text: SourceText
    direction: str = ""
    statements: list[Statement] = attrs.field(factory=list)
    refusals: list[SyntaxRefusal] = attrs.field(factory=list)
    _open: list[_Subgraph] = attrs.field(factory=list)

    def parse(self) -> None:
        """Parse the text; afterwards ``statements`` and ``refusals`` have the results."""
        cursor = Cursor(self.source_text)
        try:
            self._parse_head(cursor)
        except SyntaxRefusal as refusal:
            self.refusals.append(refusal)
            return
        while cursor.token.kind != END and len(self.refusals) < MAX_REFUSALS:
            try:
                self._parse_line(cursor)
            except SyntaxRefusal as refusal:
                self.refusals.append(refusal)
                # Never go back to a token that was taken: it would be refused forever.
                cursor.resume(max(refusal.position, cursor.last_end))
        for unclosed in self._open:
            message = "This subgraph has no end: close it with a line that says end."
            self.refusals.append(SyntaxRefusal(unclosed.head, unclosed.start, message))

    def _parse_head(self, cursor: Cursor) -> None:
        while cursor.accept("SPACE", "NEWLINE"):
            pass
        rule = "stands where a flowchart begins: with graph or flowchart."
        # After quotes around an empty text.
        if cursor.token.start != skip_space(self.source_text.text, 0):
            raise cursor.refuse(rule)
        cursor.expect({"GRAPH"}, rule)
        rule = (
            "stands where the direction of the diagram must, alone on its line: one of TB, TD, BT,"
            " RL and LR, or <, >, ^ and v."
        )
        token = cursor.expect({"NODIR", "DIR"}, rule)
        if token.kind == "NODIR":
            return
        self.direction = strip_space(token.text)
        if not cursor.accept("SEMI"):
            while cursor.accept("SPACE"):
                pass
            cursor.expect({"NEWLINE"}, rule)

    def _parse_line(self, cursor: Cursor) -> None:
        kind, start = cursor.token.kind, cursor.token.start
        statements = self._open[-1].statements if self._open else self.statements
        if cursor.accept(*_BLANKS):
            return
        if cursor.accept("SEMI"):
            statements.append(StraySemicolon(place=cursor.locate(start)))
        elif cursor.token.kind == "subgraph":
            self._open_subgraph(cursor)
        elif kind == "end":
            self._close_subgraph(cursor)
        elif kind.startswith("direction_"):
            cursor.take()
            direction = kind.removeprefix("direction_").upper()
            statements.append(DirectionStatement(place=cursor.locate(start), direction=direction))
        elif kind.startswith("acc_"):
            statements.append(_parse_accessibility(cursor))
        elif kind in PARSERS:
            statements.append(PARSERS[kind](cursor))
            cursor.expect(_ENDS, _END_RULE)
        elif kind in ID_KINDS:
            statements.append(parse_nodes(cursor))
            cursor.expect(_ENDS, _END_RULE)
        else:
            raise cursor.refuse("begins no statement: name a node, or begin with a keyword.")

    def _open_subgraph(self, cursor: Cursor) -> None:
        start = cursor.take().start
        subgraph = _Subgraph(start, cursor.locate(start))
        # Before the first possible error, so that its ``end`` is matched in any case.
        self._open.append(subgraph)
        cursor.expect({"SPACE"}, "follows subgraph where its id or title must stand.")
        name = cursor.read_label(_TITLE, "cannot be the id or title of a subgraph.")
        if name.kind is LabelKind.STRING:
            name = attrs.evolve(name, kind=LabelKind.TEXT)
        has_spaces = any(skip_space(letter, 0) for letter in name.text)
        title = name
        if opening := cursor.accept("SQS"):
            rule = 'cannot stand in this title without quotes: write subgraph id ["title"].'
            title = cursor.read_label(_LABEL, rule)
            cursor.expect({"SQE"}, rule, opening.start)
        # Mermaid generates an id only if the same words, with spaces, are id and title.
        if title is not name or not has_spaces:
            subgraph.id = reveal_entities(strip_space(name.text))
        subgraph.title = finish_label(title, keeps_quotes=True)
        subgraph.head = cursor.locate(start)
        cursor.expect(_ENDS, "follows the title of a subgraph, where the line must end.")

    def _close_subgraph(self, cursor: Cursor) -> None:
        if not self._open:
            raise cursor.refuse("closes a subgraph where none is open: call a node End, not end.")
        cursor.take()
        subgraph = self._open.pop()
        statements = self._open[-1].statements if self._open else self.statements
        statements.append(
            SubgraphStatement(
                place=cursor.locate(subgraph.start),
                head=subgraph.head,
                id=subgraph.id,
                # Its head was refused; its content is parsed all the same.
                title=subgraph.title or Label("", LabelKind.TEXT, subgraph.head),
                statements=tuple(subgraph.statements),
            )
        )


def _parse_accessibility(cursor: Cursor) -> AccessibilityStatement:
    first = value = cursor.take()
    if first.kind in ("acc_title", "acc_descr"):
        value = cursor.take()
    text = re.sub(rf"\n[{SPACE}]+", "\n", strip_space(value.text))
    return AccessibilityStatement(
        place=cursor.locate(first.start),
        is_title=first.kind == "acc_title",
        text=reveal_entities(text),
    )
