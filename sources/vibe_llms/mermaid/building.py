"""Construction of nodes, edges and subgraphs from statements, in the order and by the rules of
Mermaid.

The effect of a statement in Mermaid depends on the statements before it: a class is assigned to the
ids known by then, the attributes of an id are those of an edge if one has it. So the builder
processes the statements once, in order, with the same state.
"""

from __future__ import annotations

from typing import assert_never

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.mermaid import statements as syntax
from vibe_llms.mermaid.drafts import EdgeDraft, NodeDraft, Problem, SubgraphDraft
from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.spans import Span, strip_space
from vibe_llms.mermaid.statements import Statement
from vibe_llms.mermaid.yaml import YamlError, read_yaml

_INTERNAL = ("laneRole", "laneIndex", "drawnExtent")
"""Mermaid's internal attributes of swimlanes, which it does not accept from a text."""


@define
class Builder:
    """State after the statements so far; ``problems`` has the invalid ones."""

    nodes: dict[str, NodeDraft] = attrs.field(factory=dict)
    edges: list[EdgeDraft] = attrs.field(factory=list)
    subgraphs: list[SubgraphDraft] = attrs.field(factory=list)
    classes: dict[str, tuple[list[str], list[str]]] = attrs.field(factory=dict)
    tooltips: dict[str, str] = attrs.field(factory=dict)
    default_styles: tuple[str, ...] = ()
    default_interpolation: str = ""
    accessible_title: str = ""
    accessible_description: str = ""
    problems: list[Problem] = attrs.field(factory=list)
    _edges_by_id: dict[str, EdgeDraft] = attrs.field(factory=dict)
    _edge_counts: dict[tuple[str, str], int] = attrs.field(factory=dict)
    _subgraphs_by_id: dict[str, SubgraphDraft] = attrs.field(factory=dict)
    _subgraph_count: int = 0
    _subgraph_members: set[str] = attrs.field(factory=set)

    def build(self, statements: tuple[Statement, ...]) -> None:
        """Process all statements of a diagram."""
        self._process_all(statements)
        known = self.nodes.keys() | self._subgraphs_by_id.keys()
        # At the end: a member may be described after its subgraph, and some words are not nodes.
        for subgraph in self.subgraphs:
            subgraph.members = [member for member in subgraph.members if member in known]

    def _process_all(self, statements: tuple[Statement, ...]) -> None:
        # An explicit stack, because a text may nest subgraphs deeper than Python's call stack.
        frames: list[tuple[syntax.SubgraphStatement | None, list[Statement], list[str], str]] = []
        owner: syntax.SubgraphStatement | None = None
        rest, members, direction = list(reversed(statements)), list[str](), ""
        while True:
            while rest:
                statement = rest.pop()
                if isinstance(statement, syntax.SubgraphStatement):
                    frames.append((owner, rest, members, direction))
                    owner, rest = statement, list(reversed(statement.statements))
                    members, direction = [], ""
                elif isinstance(statement, syntax.DirectionStatement):
                    direction = statement.direction
                else:
                    members += self._process(statement)
            if owner is None:
                return
            name = self._add_subgraph(owner, members, direction)
            owner, rest, members, direction = frames.pop()
            members.append(name)

    def _process(self, statement: Statement) -> list[str]:
        """Process a statement other than a subgraph; return the ids that it names for Mermaid."""
        try:
            match statement:
                case syntax.NodeStatement():
                    return self._process_nodes(statement)
                case syntax.StraySemicolon():
                    return [";"]
                case syntax.AccessibilityStatement(is_title=True, text=text):
                    self.accessible_title = text
                    # Mermaid treats the words as a member, which counts if a node has that id.
                    return [text]
                case syntax.AccessibilityStatement(text=text):
                    self.accessible_description = text
                    return [text]
                case syntax.ClassDefinition():
                    self._define_classes(statement)
                case syntax.ClassAssignment(ids=ids, class_name=class_name):
                    self._assign_class(ids, class_name)
                case syntax.StyleStatement():
                    self._style_node(statement)
                case syntax.LinkStyleStatement():
                    self._style_links(statement)
                case syntax.ClickStatement():
                    self._process_click(statement)
                case syntax.SubgraphStatement() | syntax.DirectionStatement():
                    raise AssertionError("These are taken by their owner.")
                case _:
                    assert_never(statement)
        except Problem as problem:
            self.problems.append(problem)
        return []

    def _process_nodes(self, statement: syntax.NodeStatement) -> list[str]:
        for number, group in enumerate(statement.groups):
            for place, use in enumerate(group):
                self._use_node(use)
                # Mermaid processes attributes after it has seen the token after the ampersand.
                if place and (before := group[place - 1]).attributes:
                    self._describe(before.id, before.attributes)
            if attributes := group[-1].attributes:
                self._describe(group[-1].id, attributes)
            if number:
                self._add_edges(statement.groups[number - 1], group, statement.links[number - 1])
        # In the order of Mermaid's grammar: the last group first.
        return [use.id for group in reversed(statement.groups) for use in group]

    def _use_node(self, use: syntax.NodeUse) -> None:
        if use.id not in self._edges_by_id:  # else an edge is meant, as in e1@{…}
            node = self._access_node(use.id, use.id_place)
            node.uses.append(use.place)
            if use.label:
                node.label = use.label
            if use.shape:
                node.shape = use.shape
            node.properties.update(use.properties)
        if use.class_name:
            # Mermaid assigns classes to each part of an id with commas.
            self._assign_class(tuple(use.id.split(",")), use.class_name)

    def _access_node(self, id_: str, place: Span) -> NodeDraft:
        """Return the node of that id; create it if it is missing."""
        node = self.nodes.get(id_)
        if node is None:
            node = self.nodes[id_] = NodeDraft(id_, Label(id_, LabelKind.TEXT, place))
        return node

    def _describe(self, id_: str, attributes: syntax.Attributes) -> None:
        values = read_attributes(attributes)
        if id_ in self._edges_by_id and id_ not in self._subgraphs_by_id:
            # For an edge null means no attributes; for others it is an error.
            self._edges_by_id[id_].describe(values or {})
        elif values is None:
            raise Problem(attributes.place, "These attributes are nothing: write name: value.")
        elif id_ in self._subgraphs_by_id:
            self._subgraphs_by_id[id_].describe(values)
        else:
            self._access_node(id_, attributes.place).describe(values, attributes.place)

    def _add_edges(
        self,
        starts: tuple[syntax.NodeUse, ...],
        ends: tuple[syntax.NodeUse, ...],
        link: syntax.Link,
    ) -> None:
        for start in starts:
            for end in ends:
                # Of all edges of a link Mermaid gives the id to one: from the last start to the
                # first end.
                takes_id = start.id == starts[-1].id and end.id == ends[0].id
                self._add_edge(start, end, link, link.id if takes_id else None)

    def _add_edge(
        self, start: syntax.NodeUse, end: syntax.NodeUse, link: syntax.Link, id_: str | None
    ) -> None:
        pair = (start.id, end.id)
        count = self._edge_counts.get(pair, 0)
        has_own_id = bool(id_) and id_ not in self._edges_by_id
        if not has_own_id or id_ is None:
            id_ = make_edge_id(start.id, end.id, count)
        edge = EdgeDraft(
            id=id_,
            has_own_id=has_own_id,
            start=start,
            end=end,
            link=link,
            interpolation=self.default_interpolation,
        )
        self._edge_counts[pair] = count + 1
        self._edges_by_id.setdefault(id_, edge)
        self.edges.append(edge)

    def _assign_class(self, ids: tuple[str, ...], class_name: str) -> None:
        for id_ in ids:
            if node := self.nodes.get(id_):
                node.classes.append(class_name)
            if edge := self._edges_by_id.get(id_):
                edge.classes.append(class_name)
            if subgraph := self._subgraphs_by_id.get(id_):
                subgraph.classes.append(class_name)

    def _define_classes(self, statement: syntax.ClassDefinition) -> None:
        for name in statement.names:
            styles, text_styles = self.classes.setdefault(name, ([], []))
            styles += statement.styles
            # Mermaid searches for the letters anywhere, in names as well as in values.
            text_styles += [
                each.replace("fill", "bgFill", 1) for each in statement.styles if "color" in each
            ]

    def _style_node(self, statement: syntax.StyleStatement) -> None:
        if statement.id not in self._edges_by_id:
            node = self._access_node(statement.id, statement.id_place)
            node.styles += statement.styles
            node.uses.append(statement.id_place)

    def _style_links(self, statement: syntax.LinkStyleStatement) -> None:
        edges = [self._access_edge(each, statement) for each in statement.positions]
        if statement.interpolation is not None:
            for edge in edges:
                edge.interpolation = statement.interpolation
            if not edges:
                self.default_interpolation = statement.interpolation
        if statement.styles is None:
            return
        styles = statement.styles
        if not edges:
            self.default_styles = styles
        elif not any(each.startswith("fill") for each in styles):
            styles = (*styles, "fill:none")  # else SVG fills the curve like an area
        for edge in edges:
            edge.styles = styles

    def _access_edge(self, position: str, statement: syntax.LinkStyleStatement) -> EdgeDraft:
        # `int` refuses very long numbers; and JavaScript finds no edge for a number with leading
        # zeros.
        number = int(position) if len(position) < 10 else len(self.edges)
        if str(number) != position or number >= len(self.edges):
            if self.edges:
                found = f"the links before this line are numbered from 0 to {len(self.edges) - 1}"
            else:
                found = "there is no link before this line"
            raise Problem(statement.positions_place, f"No link has the number {position}: {found}.")
        return self.edges[number]

    def _process_click(self, statement: syntax.ClickStatement) -> None:
        for id_ in statement.ids:
            if node := self.nodes.get(id_):
                if statement.link is None:
                    node.has_callback = True
                else:
                    node.link, node.target = strip_space(statement.link), statement.target or ""
        self._assign_class(statement.ids, "clickable")
        if statement.tooltip is not None:
            self.tooltips.update(dict.fromkeys(statement.ids, statement.tooltip))

    def _add_subgraph(
        self, statement: syntax.SubgraphStatement, members: list[str], direction: str
    ) -> str:
        """Add an ended subgraph; several with one id are merged, and the first gives the title."""
        id_ = statement.id if statement.id is not None else f"subGraph{self._subgraph_count}"
        # Mermaid counts all subgraphs, including those with ids of their own.
        self._subgraph_count += 1
        direct_members = [
            each for each in dict.fromkeys(members) if strip_space(each) and each != id_
        ]
        # A node is in one subgraph only: the first that ends.
        direct_members = [each for each in direct_members if each not in self._subgraph_members]
        self._subgraph_members.update(direct_members)
        if subgraph := self._subgraphs_by_id.get(id_):
            subgraph.members += direct_members
        else:
            draft = self._subgraphs_by_id[id_] = SubgraphDraft(
                id_, statement, direct_members, direction
            )
            self.subgraphs.append(draft)
        return id_


def make_edge_id(start: str, end: str, count: int) -> str:
    """Return Mermaid's id of an edge between two nodes.

    Args:
        count: Number of earlier edges between the same two nodes.
    """
    return f"L_{start}_{end}_{count + 1 if count else 0}"  # Mermaid counts 0, 2, 3, …


def read_attributes(attributes: syntax.Attributes) -> dict[str, object] | None:
    """Parse the content of ``@{…}``: names and values; ``None`` for ``null``."""
    text = attributes.text
    is_block = "\n" in text
    try:
        # A single line is wrapped in braces, as in Mermaid.
        values = read_yaml(f"{text}\n" if is_block else f"{{\n{text}\n}}")
    except YamlError as error:
        message = f"These attributes are not valid YAML: {error.message}."
        raise Problem(attributes.place, message) from None
    if isinstance(values, (list, str)):
        return {str(number): each for number, each in enumerate(values)}  # as in JavaScript
    if isinstance(values, dict):
        return {name: value for name, value in values.items() if name not in _INTERNAL}
    return None if values is None else {}
