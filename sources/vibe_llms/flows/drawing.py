"""Draw the course of a run into its flow's diagram; the result is valid Mermaid.

The original text stays, including comments and layout: links get counts, and everything else is
appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course, Sum, VisitState
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.labelling import (
    append_lines,
    label_edges,
    label_nodes,
    match_edges,
    style_edges,
)
from vibe_llms.flows.number_texts import MARKS, TIMES, describe_cost, describe_sum, describe_tokens
from vibe_llms.mermaid import Diagram, add_classes, parse_diagram

UNREACHED: Final = "unreached"

STYLES: Final[Mapping[str, str]] = {
    VisitState.DONE: "fill:#dcfce7,stroke:#15803d,stroke-width:2px,color:#14532d",
    VisitState.RUNNING: "fill:#dbeafe,stroke:#1d4ed8,stroke-width:4px,color:#1e3a8a",
    VisitState.WAITING: "fill:#fef3c7,stroke:#b45309,stroke-width:2px,color:#78350f",
    VisitState.FAILED: "fill:#fee2e2,stroke:#b91c1c,stroke-width:4px,color:#7f1d1d",
    UNREACHED: "fill:#f8fafc,stroke:#94a3b8,stroke-dasharray:4 4,color:#64748b",
}
"""Styles of nodes by state, for light and dark backgrounds; marks and lines show the state, too."""

_TAKEN: Final = "stroke-width:3.5px"
_NOT_TAKEN: Final = "opacity:0.45"


def annotate(text: str, course: Course, styles: Mapping[str, str] = STYLES) -> str:
    """Return a diagram with the course of a run: states, times, tokens, cost, edges taken.

    Args:
        text: The diagram that was run.
        course: Course of the run.
        styles: Style of each state. For a state without one, the renderer decides by the name of
            the class, which is ``flow-`` and the state.

    Raises:
        ConfigurationError: The diagram is invalid.
    """
    diagram = parse_diagram(text)
    flow = compile_flow(diagram).flow
    numbers = match_edges(diagram, flow)
    counts = {numbers[edge]: count for edge, count in course.edges.items() if edge < len(numbers)}
    repeated = {number: f" {TIMES}{count}" for number, count in counts.items() if count > 1}
    edge_styles = {number: _TAKEN if number in counts else _NOT_TAKEN for number in numbers}
    classified = _classify(diagram, flow, course, styles)
    return append_lines(
        label_edges(classified, repeated),
        [*label_nodes(diagram, _describe(flow, course)), *style_edges(diagram, edge_styles)],
    )


def _describe(flow: Flow, course: Course) -> dict[str, str]:
    """Return the text to add to each node that was reached."""
    additions = {}
    for name, state in course.states.items():
        if name in flow.nodes:
            total = Sum.of(course.survey(name))
            cost = [describe_tokens(total.tokens), describe_cost(total.cost_cents or None)]
            words = [each for each in describe_sum(total) if each not in cost]
            lines = [" · ".join(filter(None, each)) for each in (words, cost)]
            addition = f"{MARKS[state]} {'<br/>'.join(filter(None, lines))}".rstrip()
            additions[name] = ("<br/>" if any(lines) else " ") + addition
    return additions


def _classify(diagram: Diagram, flow: Flow, course: Course, styles: Mapping[str, str]) -> Diagram:
    states = course.states
    members: dict[str, list[str]] = {each: [] for each in (*VisitState, UNREACHED)}
    for name in flow.nodes:
        members[states.get(name, UNREACHED)].append(name)
    return add_classes(
        diagram,
        {f"flow-{name}": style for name, style in styles.items() if members[name]},
        {f"flow-{name}": ids for name, ids in members.items()},
    )
