"""Flows for tests, written with one line for each edge."""

from __future__ import annotations

from vibe_llms.flows.graphs import EdgeKind, Flow, FlowEdge, FlowNode, NodeKind

KINDS = {"START": NodeKind.START, "END": NodeKind.END}


def draw(*lines: str) -> Flow:
    """Create a flow from lines such as ``A > B`` or ``A > B : label``; ``L…`` are loops."""
    edges = []
    for index, line in enumerate(lines):
        ends, _, label = line.partition(" : ")
        source, target = ends.split(" > ")
        kind = EdgeKind.CHOICE if label else EdgeKind.PLAIN
        kind = {"error": EdgeKind.ERROR, "else": EdgeKind.DEFAULT}.get(label, kind)
        edges.append(FlowEdge(index=index, source=source, target=target, kind=kind, label=label))
    names = dict.fromkeys(name for edge in edges for name in (edge.source, edge.target))
    default = NodeKind.STEP
    nodes = {
        name: FlowNode(id=name, kind=KINDS.get(name, NodeKind.LOOP if name[0] == "L" else default))
        for name in names
    }
    return Flow(nodes=nodes, edges=tuple(edges))
