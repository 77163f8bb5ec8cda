"""Entry point of the parser."""

from __future__ import annotations

import re

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.mermaid.building import Builder
from vibe_llms.mermaid.cleaning import FrontMatter, clean
from vibe_llms.mermaid.diagrams import Diagram, StyleClass
from vibe_llms.mermaid.grammar import DiagramParser
from vibe_llms.mermaid.spans import Span, Writing
from vibe_llms.mermaid.yaml import YamlError, read_yaml
from vibe_llms.mermaid.yaml_scalars import write_key

_FOREIGN = re.compile("C4Container|C4Component|C4Dynamic|C4Deployment")
_DIRECTIONS = {"<": "RL", "^": "BT", ">": "LR", "v": "TB", "TD": "TB", "": "TB"}


def parse_diagram(text: str, name: str = "diagram") -> Diagram:
    """Parse a flowchart as Mermaid does.

    Args:
        text: With its first line, ``graph`` or ``flowchart``.
        name: Name of the text in errors, such as a file name.

    Raises:
        ConfigurationError: Mermaid would reject it, too; has a finding for each mistake, with line
            and column.
    """
    writing = Writing(text)
    problems: list[tuple[Span, str]] = []
    front: dict[str, object] = {}
    matter = clean(writing)
    try:
        front = _read_front_matter(matter)
    except YamlError as error:
        assert matter is not None
        at = matter.start + error.position
        problems.append(
            (writing.locate_source(at, at), f"The front matter is not valid YAML: {error}.")
        )
    if foreign := _find_foreign(writing.text):
        message = (
            f"Mermaid reads a text with the word {foreign[0]} as a C4 diagram: change the word."
        )
        problems.append((writing.locate(*foreign.span()), message))
    if writing.text.startswith("swimlane-beta"):
        problems.append(
            (writing.locate(0, 13), "Swimlanes are not a flowchart: begin with flowchart.")
        )
    parser = DiagramParser(writing)
    parser.parse()
    problems += [(refusal.place, refusal.message) for refusal in parser.refusals]
    # Also after refused statements: all mistakes are reported together.
    builder = Builder()
    builder.build(tuple(parser.statements))
    problems += [(problem.place, problem.message) for problem in builder.problems]
    if problems:
        problems.sort(key=lambda each: each[0].start)
        raise ConfigurationError(
            findings=tuple(
                Finding(place=name, line=place.line, column=place.column, message=message)
                for place, message in problems
            )
        )
    return _finish(text, name, front, parser, builder)


def _find_foreign(text: str) -> re.Match[str] | None:
    """Return a word outside of ``%%`` comments that makes Mermaid read another diagram."""
    for found in _FOREIGN.finditer(text):
        comment = text.find("%%", text.rfind("\n", 0, found.start()) + 1, found.start())
        if comment < 0 or text.find("\n", found.end()) in (-1, len(text) - 1):
            return found
    return None


def _read_front_matter(matter: FrontMatter | None) -> dict[str, object]:
    values = read_yaml(matter.text) if matter else None
    return values if isinstance(values, dict) else {}


def _finish(
    text: str, name: str, front: dict[str, object], parser: DiagramParser, builder: Builder
) -> Diagram:
    title = front.get("title")
    return Diagram(
        text=text,
        name=name,
        direction=_DIRECTIONS.get(parser.direction, parser.direction),
        nodes={id_: node.finish() for id_, node in builder.nodes.items()},
        edges=tuple(edge.finish() for edge in builder.edges),
        subgraphs=tuple(subgraph.finish() for subgraph in builder.subgraphs),
        classes={
            id_: StyleClass(name=id_, styles=tuple(styles), text_styles=tuple(text_styles))
            for id_, (styles, text_styles) in builder.classes.items()
        },
        tooltips=builder.tooltips,
        default_styles=builder.default_styles,
        default_interpolation=builder.default_interpolation,
        accessible_title=builder.accessible_title,
        accessible_description=builder.accessible_description,
        statements=tuple(parser.statements),
        title=write_key(title) if title else "",
        front_matter=front,
    )
