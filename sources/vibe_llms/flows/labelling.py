"""Add labels to nodes and edges of a diagram without changing the rest of its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from vibe_llms.flows.graphs import Flow
from vibe_llms.mermaid import Diagram, Edge, LabelKind
from vibe_llms.mermaid.spans import Edit, apply_edits

_SPECIAL = re.compile(
    '["#%`\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]'
    # Mermaid searches the whole text for names of other diagrams and for directions
    r"|C(?=4(?:Container|Component|Dynamic|Deployment))|(?<=direction)\s"
)


def quote(text: str) -> str:
    """Escape a text for double quotes: characters that could end it become numeric entities."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)


def match_edges(diagram: Diagram, flow: Flow) -> Sequence[int]:
    """Return the number of each edge of a flow in its diagram."""
    return [
        number
        for number, edge in enumerate(diagram.edges)
        if edge.stroke != "invisible" and edge.start in flow.nodes and edge.end in flow.nodes
    ]


def label_nodes(diagram: Diagram, additions: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each node with an addition to its label."""
    for name, words in additions.items():
        label = diagram.nodes[name].label
        kind = label.kind if label.kind is LabelKind.MARKDOWN else LabelKind.STRING
        text = "<br/>".join(map(quote, label.text.split("\n")))
        yield f'{name}@{{ label: "{text}{words}", labelType: "{kind}" }}'


def label_edges(diagram: Diagram, additions: Mapping[int, str]) -> str:
    """Return the text of the diagram with additions to the labels of edges.

    Args:
        additions: Additions by the number of the edge. One link may draw several edges (``A --> B &
            C``): their additions must be equal, or the link gets none.
    """
    numbered = enumerate(diagram.edges)
    edits = []
    for _, group in groupby(numbered, key=lambda each: each[1].place):
        edges = list(group)
        words = {additions.get(number, "") for number, _ in edges}
        if words != {""} and len(words) == 1:
            edits.append(_label_link(diagram.text, edges[0][1], words.pop()))
    return apply_edits(diagram.text, sorted(edits, key=lambda each: each.start))


def _label_link(text: str, edge: Edge, words: str) -> Edit:
    if edge.label is None:
        arrow = text[edge.place.start : edge.place.end]
        end = edge.place.start + len(arrow.rstrip())
        # a line may end between an arrow and its node, but not between a label and its node
        is_split = "\n" in arrow[len(arrow.rstrip()) :] or "\r" in arrow[len(arrow.rstrip()) :]
        end = edge.place.end if is_split else end
        return Edit(end, end, f'|"{words.strip()}"|')
    place = edge.label.place
    label = "<br/>".join(map(quote, edge.label.text.split("\n"))) + words
    if text[place.start - 1] not in '"`':
        return Edit(place.start, place.end, f'"{label}"')
    if text[place.end] in '"`':
        return Edit(place.start, place.end, label)
    return Edit(place.start, place.end, f'{label}"')  # more text followed the quotes


def style_edges(diagram: Diagram, styles: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines that add styles to edges."""
    numbers_by_style: dict[str, list[int]] = {}
    for number, style in styles.items():
        # A linkStyle replaces an earlier linkStyle: repeat the earlier styles. Mermaid itself adds
        # fill:none.
        own_styles = [each for each in diagram.edges[number].styles if each != "fill:none"]
        combined = ",".join([*(each.replace(",", "\\,") for each in own_styles), style])
        numbers_by_style.setdefault(combined, []).append(number)
    for combined, numbers in numbers_by_style.items():
        yield f"linkStyle {','.join(map(str, numbers))} {combined}"


def append_lines(text: str, lines: Iterable[str]) -> str:
    """Append lines to a text, with the indentation of its last line."""
    last = text.rstrip().rpartition("\n")[2]
    indent = last[: len(last) - len(last.lstrip(" \t"))]
    gap = "" if text.endswith("\n") else "\n"
    return text + gap + "".join(f"{indent}{line}\n" for line in lines)
