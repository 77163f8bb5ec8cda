"""Composition of a diagram from a program's nodes, edges and subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.mermaid.building import make_edge_id
from vibe_llms.mermaid.diagrams import Diagram, Edge, Node, StyleClass, Subgraph
from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.parsing import parse_diagram
from vibe_llms.mermaid.printing import write_attributes, write_label, write_link, write_node

_CLICKABLE = "clickable"
"""The class that Mermaid gives to nodes with a link."""


def compose_diagram(
    *,
    nodes: Iterable[Node] = (),
    edges: Iterable[Edge] = (),
    subgraphs: Iterable[Subgraph] = (),
    classes: Iterable[StyleClass] = (),
    direction: str = "TB",
) -> Diagram:
    """Compose a diagram of parts, which a program creates or takes from other diagrams.

    All properties of a node, an edge, a subgraph or a class are written; properties that the values
    lack (tooltips, the function of a click) are not. An edge without an id of its own gets one from
    Mermaid.

    Args:
        subgraphs: Inner ones before outer ones.
        direction: ``TB``, ``BT``, ``RL`` or ``LR``.

    Raises:
        ConfigurationError: An id, a class, a style or a shape is invalid in Mermaid.
    """
    nodes, edges, subgraphs, classes = list(nodes), list(edges), list(subgraphs), list(classes)
    groups = {each.id: each.classes for each in subgraphs}
    lines = [f"flowchart {direction}"]
    for node in nodes:
        lines += (f"  {line}" for line in write_statements(node, groups.get(node.id, ())))
    lines += _nest(subgraphs)
    for edge in edges:
        lines.append(f"  {edge.start} {write_link(edge)} {edge.end}")
    for number, (edge, id_) in enumerate(zip(edges, name_edges(edges), strict=True)):
        lines += (f"  {line}" for line in write_edge_properties(edge, id_, number))
    lines += (f"  {write_class(each.name, each.styles)}" for each in classes)
    diagram = parse_diagram("".join(f"{line}\n" for line in lines))
    _verify(diagram, nodes, edges, subgraphs)
    return diagram


def _verify(
    diagram: Diagram, nodes: list[Node], edges: list[Edge], subgraphs: list[Subgraph]
) -> None:
    """Refuse text that Mermaid reads differently, such as a node that is called click."""
    for node in nodes:
        # The function of a click is not written.
        if diagram.nodes.get(node.id) != attrs.evolve(node, has_callback=False):
            raise _refuse(f"The node {node.id!r}")
    for place, edge in enumerate(edges):
        if place >= len(diagram.edges) or diagram.edges[place] != attrs.evolve(
            edge, id=diagram.edges[place].id
        ):
            raise _refuse(f"The edge from {edge.start!r} to {edge.end!r}")
    found = {each.id: each for each in diagram.subgraphs}
    for subgraph in subgraphs:
        if found.get(subgraph.id) != subgraph:
            raise _refuse(f"The subgraph {subgraph.id!r}")


def _refuse(what: str) -> RequestError:
    return RequestError(
        detail=f"{what} cannot be written in Mermaid: it would be read differently.",
        remedy="Choose another id: letters, digits and _, but not one of Mermaid's keywords.",
    )


def write_class(name: str, styles: Iterable[str]) -> str:
    """Return the definition of a class."""
    escaped = (each.replace(",", "\\,") for each in styles)
    return f"classDef {name} {','.join(escaped)}"


def name_edges(edges: Iterable[Edge]) -> Iterator[str]:
    """Yield the ids of edges; those without one get Mermaid's."""
    counts = Counter[tuple[str, str]]()
    for edge in edges:
        pair = (edge.start, edge.end)
        yield edge.id if edge.has_own_id else make_edge_id(*pair, counts[pair])
        counts[pair] += 1


def write_statements(node: Node, subgraph_classes: Iterable[str] = ()) -> Iterator[str]:
    """Yield all statements that describe a node.

    Args:
        subgraph_classes: Classes of a subgraph with the same id; they are assigned with it.
    """
    yield from write_node(node)
    has_link = False
    names = list(node.classes)
    for name in subgraph_classes:
        if name in names:
            names.remove(name)  # the assignment to the subgraph applies to the node, too
    for name in names:
        if name == _CLICKABLE and node.link and not has_link:
            has_link = True
            address = write_label(Label(node.link))
            yield f"click {node.id} href {address} {node.target}".rstrip()
        else:
            yield f"class {node.id} {name}"
    if node.styles:
        yield f"style {node.id} {','.join(node.styles)}"


def write_edge_properties(edge: Edge, id_: str, number: int) -> Iterator[str]:
    """Yield the statements for properties that the link of an edge cannot express."""
    attributes: list[tuple[str, str | int]] = []
    if edge.interpolation:
        yield f"linkStyle {number} interpolate {edge.interpolation}"
    if edge.styles:
        yield f"linkStyle {number} {','.join(edge.styles)}"
    if edge.animate:
        attributes.append(("animate", edge.animate))
    if edge.animation:
        attributes.append(("animation", edge.animation))
    if edge.step:
        attributes.append(("step", edge.step))
    if attributes:
        yield f"{id_}{write_attributes(attributes)}"
    for name in edge.classes:
        yield f"class {id_} {name}"


def _nest(subgraphs: list[Subgraph]) -> Iterator[str]:
    """Yield subgraphs with their members, inner ones inside of outer ones."""
    lines_by_id: dict[str, list[str]] = {}
    for subgraph in subgraphs:
        lines = [_write_head(subgraph)]
        if subgraph.direction:
            lines.append(f"  direction {subgraph.direction}")
        for member in subgraph.members:
            lines += (f"  {line}" for line in lines_by_id.pop(member, [member]))
        lines_by_id[subgraph.id] = [*lines, "end", *_write_rest(subgraph)]
    for lines in lines_by_id.values():
        yield from (f"  {line}" for line in lines)


def _write_head(subgraph: Subgraph) -> str:
    if subgraph.title == Label(subgraph.id, LabelKind.TEXT):
        return f"subgraph {subgraph.id}"
    return f"subgraph {subgraph.id} [{write_label(subgraph.title)}]"


def _write_rest(subgraph: Subgraph) -> Iterator[str]:
    for name in subgraph.classes:
        yield f"class {subgraph.id} {name}"
    if subgraph.attributes:
        yield f"{subgraph.id}{write_attributes(subgraph.attributes)}"
