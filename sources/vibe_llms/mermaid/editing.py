"""Alters diagrams: what was written stays as it was, and what is new is written behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_llms.mermaid.diagrams import Diagram
from vibe_llms.mermaid.reading import parse_diagram


def add_classes(
    diagram: Diagram, styles: Mapping[str, str], members: Mapping[str, Iterable[str]]
) -> Diagram:
    """Returns the diagram with classes, and with nodes, edges or subgraphs that have them.

    Args:
        styles: Of each class, as ``fill:#9f6,stroke:#333``.
        members: Ids of each class.

    Raises:
        ConfigurationError: A name or a style is none that Mermaid reads.
    """
    lines = [f"classDef {name} {style}" for name, style in styles.items()]
    for name, ids in members.items():
        if listed := ",".join(ids):
            lines.append(f"class {listed} {name}")
    gap = "" if diagram.text.endswith("\n") else "\n"
    return parse_diagram(diagram.text + gap + "".join(f"{line}\n" for line in lines), diagram.name)
