"""Descriptions of diagrams by our parser and by Mermaid, for comparison."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.quality.node_programs import FOLDER_VARIABLE, NODE
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.mermaid.diagrams import Diagram, Edge, Node, Subgraph
from vibe_llms.mermaid.labels import Label
from vibe_llms.mermaid.parsing import parse_diagram

ORACLE = Path(__file__).with_name("mermaid_oracle.mjs")


def compose_oracle() -> list[str]:
    """Return the command that runs Mermaid in Node."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    return [str(folder / NODE), str(ORACLE), str(folder)]


def describe(text: str) -> dict[str, Any]:
    """Describe how our parser reads a text, in the format of ``mermaid_oracle.mjs``."""
    try:
        return {"diagram": _describe_diagram(parse_diagram(text))}
    except ConfigurationError as error:
        return {"refused": str(error)}


def ask(command: Sequence[str], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return how Mermaid reads the texts, with one process for all."""
    lines = "".join(f"{json.dumps(text)}\n" for text in texts)
    outcome = subprocess.run(
        command, input=lines, capture_output=True, text=True, encoding="utf-8", check=True
    )
    answers = [json.loads(line) for line in outcome.stdout.split("\n") if line]
    assert len(answers) == len(texts)
    return answers


def agree(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Return whether both descriptions are equal; errors are equal whatever their texts."""
    if "refused" in ours or "refused" in theirs:
        return "refused" in ours and "refused" in theirs
    return bool(ours["diagram"] == theirs["diagram"])


def _describe_diagram(diagram: Diagram) -> dict[str, Any]:
    return {
        "direction": diagram.direction,
        "nodes": [_describe_node(node) for node in diagram.nodes.values()],
        "edges": [_describe_edge(edge) for edge in diagram.edges],
        "subgraphs": [_describe_subgraph(subgraph) for subgraph in diagram.subgraphs],
        "classes": [
            [each.name, list(each.styles), list(each.text_styles)]
            for each in diagram.classes.values()
        ],
        "tooltips": [list(each) for each in diagram.tooltips.items()],
        "default_styles": list(diagram.default_styles),
        "default_curve": diagram.default_interpolation,
        "title": diagram.accessible_title,
        "description": diagram.accessible_description,
    }


def _describe_node(node: Node) -> dict[str, Any]:
    return _drop_empty(
        id=node.id,
        text=node.label.text,
        kind=node.label.kind,
        shape=node.shape,
        classes=list(node.classes),
        styles=list(node.styles),
        properties=[list(each) for each in node.properties],
        attributes=[list(each) for each in sorted(node.attributes) if each[1]],
        link=node.link,
        target=node.target,
        callback="yes" if node.has_callback else "",
    )


def _describe_edge(edge: Edge) -> dict[str, Any]:
    label = edge.label
    return _drop_empty(
        id=edge.id,
        own="yes" if edge.has_own_id else "",
        start=edge.start,
        end=edge.end,
        type=edge.type,
        stroke=edge.stroke,
        length="" if edge.length is None else str(edge.length),
        text=label.text if label else "",
        kind=_describe_kind(label),
        classes=list(edge.classes),
        styles=list(edge.styles),
        curve=edge.interpolation,
        animate=edge.animate,
        animation=edge.animation,
        step=edge.step or "",
    )


def _describe_kind(label: Label | None) -> str:
    return label.kind if label else "text"


def _describe_subgraph(subgraph: Subgraph) -> dict[str, Any]:
    return _drop_empty(
        id=subgraph.id,
        title=subgraph.title.text,
        kind=subgraph.title.kind,
        members=list(subgraph.members),
        direction=subgraph.direction,
        classes=list(subgraph.classes),
        attributes=dict(subgraph.attributes),
    )


def _drop_empty(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", [], {})}
