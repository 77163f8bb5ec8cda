"""Editing of diagrams: unaffected text stays unchanged, with its comments.

Each function changes parts of the text, parses it again, and compares the result with the request:
a diagram with another change is never returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from vibe_llms.exceptions import ConfigurationError, RequestError, UnknownNameError
from vibe_llms.mermaid.building import read_attributes
from vibe_llms.mermaid.composing import name_edges, write_edge_properties, write_statements
from vibe_llms.mermaid.diagrams import Diagram, Edge, Node
from vibe_llms.mermaid.drafts import to_text
from vibe_llms.mermaid.labels import Label
from vibe_llms.mermaid.parsing import parse_diagram
from vibe_llms.mermaid.printing import write_attributes, write_brackets, write_label, write_link
from vibe_llms.mermaid.shapes import BRACKETS, NAMES, find_shape_fault
from vibe_llms.mermaid.spans import Edit, apply_edits
from vibe_llms.mermaid.statements import NodeUse
from vibe_llms.mermaid.text_edits import (
    NodeStatementEditor,
    append,
    append_inside,
    rename,
    renumber,
    survey_uses,
)

T = TypeVar("T")


def add_node(diagram: Diagram, node: Node, *, subgraph: str = "") -> Diagram:
    """Return the diagram with one more node, in a subgraph if one is named."""
    if node.id in diagram.nodes:
        raise RequestError(
            detail=f"There is a node {node.id!r} already.", remedy="Choose another id."
        )
    lines = list(write_statements(node))
    groups = {each.id: each for each in diagram.subgraphs}
    if subgraph:
        group = _find(groups, "subgraph", subgraph)
        groups[subgraph] = attrs.evolve(group, members=(*group.members, node.id))
        edit = append_inside(diagram, group.place, lines)
    else:
        edit = append(diagram, lines)
    expected = attrs.evolve(
        diagram, nodes={**diagram.nodes, node.id: node}, subgraphs=tuple(groups.values())
    )
    return _commit(diagram, expected, [edit])


def remove_node(diagram: Diagram, node: str) -> Diagram:
    """Return the diagram without a node, and without its edges."""
    _refuse_subgraph(diagram, node)
    _find(diagram.nodes, "node", node)
    edges = {
        number: edge
        for number, edge in enumerate(diagram.edges)
        if node not in (edge.start, edge.end)
    }
    return _reduce(diagram, edges, nodes=frozenset((node,)))


def rename_node(diagram: Diagram, node: str, name: str) -> Diagram:
    """Return the diagram with another id for a node; a node without a label shows the new id."""
    _refuse_subgraph(diagram, node)
    old = _find(diagram.nodes, "node", node)
    if name in diagram.nodes:
        raise RequestError(detail=f"There is a node {name!r} already.", remedy="Choose another id.")
    label_use = _find_describing_use(diagram, node, "label")
    has_own_label = label_use and (
        label_use.label or "label" in _read(label_use) or not old.label.text
    )
    new = attrs.evolve(old, id=name, label=old.label if has_own_label else Node(id=name).label)
    edges = _assign_ids(
        attrs.evolve(
            edge,
            start=name if edge.start == node else edge.start,
            end=name if edge.end == node else edge.end,
        )
        for edge in diagram.edges
    )
    names = {before.id: after.id for before, after in zip(diagram.edges, edges, strict=True)}
    names = {before: after for before, after in names.items() if before != after} | {node: name}
    expected = attrs.evolve(
        diagram,
        nodes={names.get(id_, id_): each for id_, each in {**diagram.nodes, node: new}.items()},
        edges=edges,
        subgraphs=tuple(
            attrs.evolve(each, members=tuple(names.get(id_, id_) for id_ in each.members))
            for each in diagram.subgraphs
        ),
        tooltips={names.get(id_, id_): text for id_, text in diagram.tooltips.items()},
    )
    return _commit(diagram, expected, list(rename(diagram, names)))


def set_label(diagram: Diagram, node: str, text: str) -> Diagram:
    """Return the diagram with another text on a node, shown literally.

    A node without a shape gets square brackets, which do not change its look.
    """
    old = _find(diagram.nodes, "node", node)
    _refuse_subgraph(diagram, node)
    use = _find_describing_use(diagram, node, "label")
    values = _read(use)
    default_shape = "" if "label" in values else "square"
    shape = old.shape or default_shape
    expected = _replace_node(diagram, attrs.evolve(old, label=Label(text), shape=shape))
    edits: list[Edit] = []
    if use and "label" in values:
        # Without labelType it would be Markdown.
        edits = [_edit_attributes(use, {**values, "label": text, "labelType": "string"})]
    elif use:
        edits = [_edit_brackets(use, use.shape or "square", Label(text))]
    appended = append(
        diagram, list(write_statements(Node(id=node, label=Label(text), shape=shape)))
    )
    return _commit(diagram, expected, edits, [appended])


def set_shape(diagram: Diagram, node: str, shape: str) -> Diagram:
    """Return the diagram with another shape of a node.

    Args:
        shape: The new shape; see :attr:`Node.shape`: ``diamond``, ``stadium`` or any of Mermaid's
            names.
    """
    if shape not in BRACKETS and find_shape_fault(shape):
        raise UnknownNameError(kind="shape", name=shape, known=tuple(sorted({*BRACKETS, *NAMES})))
    old = _find(diagram.nodes, "node", node)
    _refuse_subgraph(diagram, node)
    expected = _replace_node(diagram, attrs.evolve(old, shape=shape))
    use = _find_describing_use(diagram, node, "shape")
    values = _read(use)
    edits: list[Edit] = []
    if use and shape not in BRACKETS:
        edits = [_edit_attributes(use, {**values, "shape": shape})]
    elif use:
        edits = [_edit_brackets(use, shape, use.label or old.label)]
        if values.pop("shape", None):
            edits.append(_edit_attributes(use, values))
    appended = append(diagram, list(write_statements(Node(id=node, label=old.label, shape=shape))))
    return _commit(diagram, expected, edits, [appended])


def add_edge(diagram: Diagram, edge: Edge) -> Diagram:
    """Return the diagram with one more edge, between existing nodes or subgraphs."""
    groups = [each.id for each in diagram.subgraphs]
    for id_ in (edge.start, edge.end):
        _find(dict.fromkeys((*diagram.nodes, *groups)), "node", id_)
    curve = edge.interpolation or diagram.default_interpolation
    edges = _assign_ids((*diagram.edges, attrs.evolve(edge, interpolation=curve)))
    # a subgraph that an edge names becomes a node
    nodes = {id_: Node(id=id_) for id_ in (edge.start, edge.end)} | dict(diagram.nodes)
    lines = [
        f"{edge.start} {write_link(edge)} {edge.end}",
        *write_edge_properties(edge, edges[-1].id, len(diagram.edges)),
    ]
    expected = attrs.evolve(diagram, nodes=nodes, edges=edges)
    return _commit(diagram, expected, [append(diagram, lines)])


def remove_edge(diagram: Diagram, edge: str) -> Diagram:
    """Return the diagram without the edge of that id; its nodes stay."""
    removed = _find_edge(diagram, edge)
    return _reduce(diagram, {n: each for n, each in enumerate(diagram.edges) if n != removed})


def set_edge_label(diagram: Diagram, edge: str, text: str) -> Diagram:
    """Return the diagram with another text on the edge of that id, or none for an empty text."""
    number = _find_edge(diagram, edge)
    edges = dict(enumerate(diagram.edges))
    edges[number] = attrs.evolve(edges[number], label=Label(text) if text else None)
    return _reduce(diagram, edges)


def add_classes(
    diagram: Diagram, styles: Mapping[str, str], members: Mapping[str, Iterable[str]]
) -> Diagram:
    """Return the diagram with classes, and with assignments of them to nodes, edges or subgraphs.

    Args:
        styles: Styles of each class, such as ``fill:#9f6,stroke:#333``.
        members: Ids of each class.

    Raises:
        ConfigurationError: A name or a style is invalid in Mermaid.
    """
    lines = [f"classDef {name} {style}" for name, style in styles.items()]
    for name, ids in members.items():
        if joined_ids := ",".join(ids):
            lines.append(f"class {joined_ids} {name}")
    return parse_diagram(_apply(diagram, [append(diagram, lines)]), diagram.name)


def _reduce(
    diagram: Diagram, edges: Mapping[int, Edge], nodes: frozenset[str] = frozenset()
) -> Diagram:
    """Return the diagram with only these edges, by their old numbers, and without some nodes."""
    edges_left = _assign_ids(edges.values())
    old = [diagram.edges[number].id for number in edges]
    names: dict[str, str | None] = {each.id: None for each in diagram.edges if each.id not in old}
    names |= dict.fromkeys(nodes)
    names |= {id_: each.id for id_, each in zip(old, edges_left, strict=True) if id_ != each.id}
    removed = frozenset(id_ for id_, name in names.items() if name is None)
    numbers = {str(number): str(place) for place, number in enumerate(edges)}
    expected = attrs.evolve(
        diagram,
        nodes={id_: each for id_, each in diagram.nodes.items() if id_ not in nodes},
        edges=edges_left,
        subgraphs=tuple(
            attrs.evolve(each, members=tuple(id_ for id_ in each.members if id_ not in nodes))
            for each in diagram.subgraphs
        ),
        tooltips={id_: text for id_, text in diagram.tooltips.items() if id_ not in nodes},
    )
    others = [*rename(diagram, names), *renumber(diagram, numbers)]
    # First without statements that have become meaningless; if that changes more, with them.
    tidy, whole = (
        [*NodeStatementEditor(diagram, edges, removed, is_tidy=is_tidy).edit(), *others]
        for is_tidy in (True, False)
    )
    return _commit(diagram, expected, tidy, whole)


def _commit(diagram: Diagram, expected: Diagram, *candidates: Iterable[Edit]) -> Diagram:
    """Return the first of several variants that is parsed as the expected diagram."""
    # The edited text is parsed, to see Mermaid's result instead of guessing it.
    for edits in candidates:
        try:
            found = parse_diagram(_apply(diagram, edits), diagram.name)
        except ConfigurationError:
            continue
        if found == expected:
            return found
    raise RequestError(
        detail="This change cannot be written in Mermaid so that nothing else changes.",
        remedy="Use ids of letters, digits and _ that are not its keywords, or edit the text.",
    )


def _apply(diagram: Diagram, edits: Iterable[Edit]) -> str:
    return apply_edits(diagram.text, sorted(edits, key=lambda edit: (edit.start, edit.end)))


def _assign_ids(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return edges with the ids that they get in this order."""
    edges = tuple(edges)
    names = zip(edges, name_edges(edges), strict=True)
    return tuple(attrs.evolve(edge, id=id_) for edge, id_ in names)


def _find(known: Mapping[str, T], kind: str, name: str) -> T:
    if name not in known:
        raise UnknownNameError(kind=kind, name=name, known=tuple(known))
    return known[name]


def _find_edge(diagram: Diagram, id_: str) -> int:
    # If several edges have the same id, the first is used.
    numbers = {edge.id: n for n, edge in reversed(list(enumerate(diagram.edges)))}
    return _find(numbers, "edge", id_)


def _refuse_subgraph(diagram: Diagram, node: str) -> None:
    if any(each.id == node for each in diagram.subgraphs):
        raise RequestError(detail=f"{node!r} is a subgraph.", remedy="Edit the text.")


def _replace_node(diagram: Diagram, node: Node) -> Diagram:
    return attrs.evolve(diagram, nodes={**diagram.nodes, node.id: node})


def _find_describing_use(diagram: Diagram, node: str, what: str) -> NodeUse | None:
    """Return the last use of a node with a label or shape, otherwise its first use, if any."""
    uses = survey_uses(diagram, node)
    describing = (use for use in reversed(uses) if use.brackets or what in _read(use))
    return next(describing, uses[0] if uses else None)


def _read(use: NodeUse | None) -> dict[str, object]:
    values = read_attributes(use.attributes) if use and use.attributes else None
    return {name: value for name, value in (values or {}).items() if value}


def _edit_brackets(use: NodeUse, shape: str, label: Label) -> Edit:
    place = use.brackets or attrs.evolve(use.id_place, start=use.id_place.end)
    if use.properties:
        fields = "".join(f"{field}:{value}" for field, value in use.properties)
        return Edit(place.start, place.end, f"[|{fields}|{write_label(label)}]")
    return Edit(place.start, place.end, write_brackets("", shape, label))


def _edit_attributes(use: NodeUse, values: Mapping[str, object]) -> Edit:
    place = use.attributes.place if use.attributes else attrs.evolve(use.place, start=use.place.end)
    written = [(name, to_text(value)) for name, value in values.items()]
    return Edit(place.start, place.end, write_attributes(written) if written else "")
