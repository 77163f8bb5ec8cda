"""Edits of a diagram's text: append, rename, renumber and remove statements.

All functions return edits, and depend only on the statements and their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from vibe_llms.mermaid.diagrams import Diagram, Edge
from vibe_llms.mermaid.printing import write_link
from vibe_llms.mermaid.spans import Edit, Span
from vibe_llms.mermaid.statements import (
    ClassAssignment,
    ClickStatement,
    Link,
    LinkStyleStatement,
    NodeStatement,
    NodeUse,
    Statement,
    StyleStatement,
    SubgraphStatement,
)

Group: TypeAlias = tuple[NodeUse, ...]

Names: TypeAlias = Mapping[str, str | None]
"""New ids by old ones; ``None`` for removed ids."""


def survey_statements(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield all statements in the order of the text, including those in subgraphs."""
    # An explicit stack: a text may nest subgraphs deeper than Python's call stack.
    rest = list(reversed(statements))
    while rest:
        statement = rest.pop()
        yield statement
        if isinstance(statement, SubgraphStatement):
            rest += reversed(statement.statements)


def survey_uses(diagram: Diagram, id_: str) -> list[NodeUse]:
    """Return the uses of a node in statements, in the order of the text."""
    return [use for use in _survey_all_uses(diagram) if use.id == id_]


def _survey_all_uses(diagram: Diagram) -> Iterator[NodeUse]:
    for statement in survey_statements(diagram.statements):
        if isinstance(statement, NodeStatement):
            for group in statement.groups:
                yield from group


def append(diagram: Diagram, lines: Sequence[str]) -> Edit:
    """Insert statements after all others, with the indentation of the last one."""
    text = diagram.text
    indent = find_indent(text, diagram.statements[-1].place.start) if diagram.statements else "  "
    newline = find_newline(text)
    gap = "" if text.endswith("\n") else newline
    return Edit(len(text), len(text), gap + "".join(f"{indent}{line}{newline}" for line in lines))


def append_inside(diagram: Diagram, place: Span, lines: Sequence[str]) -> Edit:
    """Insert statements at the end of the subgraph with that place."""
    text, newline = diagram.text, find_newline(diagram.text)
    end = len(text[: place.end].rstrip()) - len("end")
    indent = find_indent(text, end)
    indented_lines = "".join(f"{indent}  {line}{newline}" for line in lines)
    if not text[end - len(indent) : end].strip() and is_line_start(text, end - len(indent)):
        return Edit(end - len(indent), end - len(indent), indented_lines)
    return Edit(end, end, f"{newline}{indented_lines}{indent}")


def find_newline(text: str) -> str:
    """Return the line separator of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def is_line_start(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] in "\r\n"


def find_indent(text: str, position: int) -> str:
    """Return the indentation of the line at a position."""
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    line = text[start:position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove(text: str, place: Span) -> Edit:
    """Remove a statement, with its semicolon, and with its line if that becomes empty."""
    start, end = place.start, place.end
    while end < len(text) and text[end] in " \t":
        end += 1
    if text[end : end + 1] == ";":
        end += 1
    while start and text[start - 1] in " \t":
        start -= 1
    if is_line_start(text, start) and (end == len(text) or text[end] in "\r\n"):
        end += 2 if text.startswith("\r\n", end) else 1
        return Edit(start, min(end, len(text)), "")
    return Edit(place.start, end, "")


def rename(diagram: Diagram, names: Names) -> Iterator[Edit]:
    """Replace names everywhere; remove lists that become empty."""
    text = diagram.text
    for statement in survey_statements(diagram.statements):
        match statement:
            case NodeStatement(groups=groups):
                for group in groups:
                    for use in group:
                        if new := names.get(use.id):
                            yield Edit(use.id_place.start, use.id_place.end, new)
            case StyleStatement(id=id_) if id_ in names:
                new = names[id_]
                place = statement.id_place
                yield Edit(place.start, place.end, new) if new else remove(text, statement.place)
            case ClassAssignment(ids=ids) | ClickStatement(ids=ids) if any(
                id_ in names for id_ in ids
            ):
                renamed = [names.get(id_, id_) for id_ in ids]
                remaining = [id_ for id_ in renamed if id_]
                place = statement.ids_place
                if remaining:
                    yield Edit(place.start, place.end, ",".join(remaining))
                else:
                    yield remove(text, statement.place)
            case _:
                pass


def renumber(diagram: Diagram, numbers: Mapping[str, str]) -> Iterator[Edit]:
    """Replace the numbers of edges; remove statements without edges."""
    for statement in survey_statements(diagram.statements):
        if isinstance(statement, LinkStyleStatement) and statement.positions:
            remaining = [numbers[each] for each in statement.positions if each in numbers]
            place = statement.positions_place
            if not remaining:
                yield remove(diagram.text, statement.place)
            elif tuple(remaining) != statement.positions:
                yield Edit(place.start, place.end, ",".join(remaining))


class NodeStatementEditor:
    """Editor of statements about nodes, which removes or changes nodes and edges.

    A chain is split at a removed edge. Its parts stay unchanged, and other edges of the same link
    are written separately.

    Args:
        edges: The resulting edges by number; without the removed ones.
        nodes: Ids of removed nodes.
        is_tidy: Also remove a remaining node that has no properties and is named elsewhere.
    """

    def __init__(
        self, diagram: Diagram, edges: Mapping[int, Edge], nodes: frozenset[str], *, is_tidy: bool
    ) -> None:
        self._diagram = diagram
        self._edges = edges
        self._nodes = nodes
        self._is_tidy = is_tidy
        self._mentions = Counter(use.id for use in _survey_all_uses(diagram))

    def edit(self) -> Iterator[Edit]:
        """Yield the edits."""
        text, number = self._diagram.text, 0
        for statement in survey_statements(self._diagram.statements):
            if not isinstance(statement, NodeStatement):
                continue
            first = number
            number += sum(
                len(starts) * len(ends)
                for starts, ends in zip(statement.groups, statement.groups[1:], strict=False)
            )
            uses = [use for group in statement.groups for use in group]
            is_same = all(map(self._is_same, range(first, number)))
            if not is_same or any(use.id in self._nodes for use in uses):
                place = statement.place
                pieces = list(self._break(statement, first))
                gap = find_newline(text) + find_indent(text, place.start)
                if pieces:
                    yield Edit(place.start, place.end, gap.join(pieces))
                else:
                    yield remove(text, place)

    def _break(self, statement: NodeStatement, number: int) -> Iterator[str]:
        """Yield the remaining statements of one, whose first edge has that number."""
        chain, uses = self._write_group(statement.groups[0])
        for link, starts, ends in zip(
            statement.links, statement.groups, statement.groups[1:], strict=False
        ):
            numbers = range(number, number + len(starts) * len(ends))
            number = numbers.stop
            following, remaining = self._write_group(ends)
            if link_text := self._join(link, starts, ends, numbers):
                chain, uses = f"{chain}{link_text}{following}", uses + remaining
                continue
            yield from self._finish(chain, uses)
            for edge in (self._edges[each] for each in numbers if each in self._edges):
                yield f"{edge.start} {write_link(edge)} {edge.end}"
            chain, uses = following, remaining
        yield from self._finish(chain, uses)

    def _join(self, link: Link, starts: Group, ends: Group, numbers: range) -> str:
        """Return the link between two groups; empty if one link cannot express all its edges."""
        remaining = [use for use in (*starts, *ends) if use.id not in self._nodes]
        if len(remaining) == len(starts) + len(ends):
            if all(self._is_same(each) for each in numbers):
                return self._slice(starts[-1].place.end, ends[0].place.start)
            single_edge = self._edges.get(numbers[0]) if len(numbers) == 1 else None
            return f" {write_link(single_edge)} " if single_edge else ""
        remaining_numbers = [each for each in numbers if each in self._edges]
        remaining_starts = [use for use in starts if use in remaining]
        remaining_ends = [use for use in ends if use in remaining]
        has_both = bool(remaining_starts and remaining_ends)
        is_whole = len(remaining_numbers) == len(remaining_starts) * len(remaining_ends)
        # An id would move to another edge: Mermaid gives it to only one of the link's edges.
        if not (
            has_both and is_whole and link.id is None and all(map(self._is_same, remaining_numbers))
        ):
            return ""
        return f" {self._slice(link.place.start, link.place.end).strip()} "

    def _is_same(self, number: int) -> bool:
        return self._edges.get(number) == self._diagram.edges[number]

    def _finish(self, chain: str, uses: Group) -> Iterator[str]:
        """Yield a chain, unless it only names nodes that are named elsewhere."""
        if not chain:
            return
        is_bare = chain == " & ".join(use.id for use in uses)
        if self._is_tidy and is_bare and all(self._mentions[use.id] > 1 for use in uses):
            self._mentions.subtract(use.id for use in uses)
        else:
            yield chain

    def _write_group(self, uses: Group) -> tuple[str, Group]:
        remaining = tuple(use for use in uses if use.id not in self._nodes)
        if remaining == uses:
            return self._slice(uses[0].place.start, uses[-1].place.end), uses
        return " & ".join(
            self._slice(use.place.start, use.place.end) for use in remaining
        ), remaining

    def _slice(self, start: int, end: int) -> str:
        return self._diagram.text[start:end]
