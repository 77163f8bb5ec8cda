"""Entry point of the parser."""

from __future__ import annotations

import re

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.mermaid.building import Builder
from vibe_llms.mermaid.cleaning import FrontMatter, clean
from vibe_llms.mermaid.diagrams import Diagram, StyleClass
from vibe_llms.mermaid.grammar import DiagramParser
from vibe_llms.mermaid.spans import SourceText, Span
from vibe_llms.mermaid.yaml import YamlError, read_yaml
from vibe_llms.mermaid.yaml_scalars import write_key

_OTHER_LANGUAGES = re.compile("C4Container|C4Component|C4Dynamic|C4Deployment")
_DIRECTIONS = {"<": "RL", "^": "BT", ">": "LR", "v": "TB", "TD": "TB", "": "TB"}


def parse_diagram(text: str, name: str = "diagram") -> Diagram:
    """Parse a flowchart as Mermaid does.

    Args:
        text: Text of the diagram; its first line begins with ``graph`` or ``flowchart``.
        name: Name of the text in errors, such as a file name.

    Raises:
        ConfigurationError: Mermaid would reject the text, too. The error has a finding for each
            mistake, with line and column.
    """
    source_text = SourceText(text)
    problems: list[tuple[Span, str]] = []
    values: dict[str, object] = {}
    front_matter = clean(source_text)
    try:
        values = _read_front_matter(front_matter)
    except YamlError as error:
        assert front_matter is not None
        position = front_matter.start + error.position
        problems.append(
            (
                source_text.locate_source(position, position),
                f"The front matter is not valid YAML: {error}.",
            )
        )
    if other_language := _find_other_language(source_text.text):
        word = other_language[0]
        message = f"Mermaid reads a text with the word {word} as a C4 diagram: change the word."
        problems.append((source_text.locate(*other_language.span()), message))
    if source_text.text.startswith("swimlane-beta"):
        problems.append(
            (source_text.locate(0, 13), "Swimlanes are not a flowchart: begin with flowchart.")
        )
    parser = DiagramParser(source_text)
    parser.parse()
    problems += [(refusal.place, refusal.message) for refusal in parser.refusals]
    # Build even if statements were refused, so that all mistakes are reported together.
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
    return _finish(text, name, values, parser, builder)


def _find_other_language(text: str) -> re.Match[str] | None:
    """Return a word that makes Mermaid read the text as a diagram of another language.

    Words in ``%%`` comments do not, except in the last line: Mermaid does not remove a comment
    that no other line follows.
    """
    for found in _OTHER_LANGUAGES.finditer(text):
        line_start = text.rfind("\n", 0, found.start()) + 1
        is_in_comment = "%%" in text[line_start : found.start()]
        line_end = text.find("\n", found.end())
        is_last_line = line_end in (-1, len(text) - 1)
        if is_last_line or not is_in_comment:
            return found
    return None


def _read_front_matter(front_matter: FrontMatter | None) -> dict[str, object]:
    values = read_yaml(front_matter.text) if front_matter else None
    return values if isinstance(values, dict) else {}


def _finish(
    text: str, name: str, values: dict[str, object], parser: DiagramParser, builder: Builder
) -> Diagram:
    title = values.get("title")
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
        front_matter=values,
    )
