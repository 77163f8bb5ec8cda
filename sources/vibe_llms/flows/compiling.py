"""Compile a diagram to a flow: the id and the shape of a node determine its kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import EdgeKind, Flow, FlowEdge, FlowNode, NodeKind
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid import Diagram, Edge, Node

START, END = "START", "END"

KINDS_BY_SHAPE: Final[Mapping[str, NodeKind]] = {
    **dict.fromkeys(("diamond", "diam", "decision", "question"), NodeKind.CONDITION),
    **dict.fromkeys(("stadium", "pill", "terminal"), NodeKind.LOOP),
    **dict.fromkeys(
        ("subroutine", "subproc", "subprocess", "fr-rect", "framed-rectangle"), NodeKind.SUBFLOW
    ),
    **dict.fromkeys(("lean_right", "lean-r", "lean-right", "in-out"), NodeKind.TOOL),
}
"""Kinds by brackets and by the equivalent names of ``@{ shape: … }``; all other shapes are
steps."""

KINDS_BY_LABEL: Final[Mapping[str, EdgeKind]] = {
    **dict.fromkeys(("default", "else", "otherwise"), EdgeKind.DEFAULT),
    **dict.fromkeys(("error", "on error"), EdgeKind.ERROR),
    **dict.fromkeys(("limit", "on limit"), EdgeKind.LIMIT),
}

_PROMPT: Final = re.compile(r"P(\d{1,9})")
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_BOUND: Final = re.compile(
    rf"(?:[{_TIMES}*]|\b(?:x|max|maximum)(?=[\s\d]))\s*(\d{{1,9}})\b"
    rf"|\b(\d{{1,9}})\s*(?:{_TIMES}|x\b|times\b)",
    re.IGNORECASE,
)


_CIRCLES: Final[Mapping[str, str]] = {"arrow_circle": "o", "arrow_cross": "x"}
"""Edge types that end in a letter, which may have been meant as the first letter of a label."""


@frozen(kw_only=True)
class Compilation:
    """Compiled diagram; the flow does not run if a fault is an error."""

    flow: Flow
    faults: tuple[FlowFault, ...] = ()


def compile_flow(diagram: Diagram, *, prompts: int | None = None) -> Compilation:
    """Compile a diagram to a flow, and find parts without a meaning.

    Args:
        prompts: Number of the task's prompts; ``None`` to skip that check.
    """
    groups = {each.id for each in diagram.subgraphs}
    nodes = {
        node.id: _compile_node(node) for node in diagram.nodes.values() if node.id not in groups
    }
    # Invisible links only affect the layout.
    visible = [edge for edge in diagram.edges if edge.stroke != "invisible"]
    between_nodes = [edge for edge in visible if edge.start in nodes and edge.end in nodes]
    flow = Flow(nodes=nodes, edges=_compile_edges(between_nodes))
    faults = [
        *_check_ends(flow),
        *(fault for edge in visible for fault in _check_edge(edge, groups, diagram.text)),
        *(() if prompts is None else _check_prompts(flow, prompts)),
    ]
    return Compilation(
        flow=flow, faults=tuple(sorted(faults, key=lambda each: (each.line, each.column)))
    )


def read_bound(text: str) -> int | None:
    """Return the maximum number of rounds of a loop from its label: ``Refine x3``, ``max 3``."""
    found = _BOUND.search(text)
    return int(found[1] or found[2]) if found else None


def _compile_node(node: Node) -> FlowNode:
    text = node.label.text
    prompt = _PROMPT.fullmatch(node.id)
    if node.id in (START, END):
        kind = NodeKind.START if node.id == START else NodeKind.END
    elif prompt:
        kind = NodeKind.PROMPT
    else:
        kind = KINDS_BY_SHAPE.get(node.shape, NodeKind.STEP)
    return FlowNode(
        id=node.id,
        kind=kind,
        text=text,
        prompt=int(prompt[1]) if prompt else None,
        bound=read_bound(text) if kind is NodeKind.LOOP else None,
        line=node.place.line,
        column=node.place.column,
    )


def _compile_edges(edges: list[Edge]) -> tuple[FlowEdge, ...]:
    labels = [edge.label.text.strip() if edge.label else "" for edge in edges]
    # A loop chooses its edges by their targets, not by their labels.
    choosing = {
        edge.start
        for edge, label in zip(edges, labels, strict=True)
        if label and label.casefold() not in KINDS_BY_LABEL
    }
    return tuple(
        FlowEdge(
            index=index,
            source=edge.start,
            target=edge.end,
            kind=_choose_kind(label, is_choice=edge.start in choosing),
            label=label,
            line=edge.place.line,
            column=edge.place.column,
        )
        for index, (edge, label) in enumerate(zip(edges, labels, strict=True))
    )


def _choose_kind(label: str, *, is_choice: bool) -> EdgeKind:
    if label:
        return KINDS_BY_LABEL.get(label.casefold(), EdgeKind.CHOICE)
    return EdgeKind.DEFAULT if is_choice else EdgeKind.PLAIN


def _check_ends(flow: Flow) -> Iterator[FlowFault]:
    for name, word in ((START, "begin"), (END, "end")):
        if name not in flow.nodes:
            similar = (each for each in flow.nodes if each.upper() == name)
            near = next((f"; did you mean {each!r}?" for each in similar), ".")
            message = f"The node {name} is missing: a flow must {word} somewhere{near}"
            yield FlowFault(line=1, column=1, message=message)
    defaults = Counter(edge.source for edge in flow.edges if edge.kind is EdgeKind.DEFAULT)
    for edge in flow.edges:
        if edge.target == START:
            message = (
                "An edge leads back to START, which is only the entry; lead it to the node "
                "after START."
            )
            yield FlowFault(line=edge.line, column=edge.column, message=message)
        if edge.source == END:
            message = "An edge leaves END, where the flow ends; remove it."
            yield FlowFault(line=edge.line, column=edge.column, message=message)
        if edge.kind is EdgeKind.DEFAULT and defaults[edge.source] > 1:
            message = (
                f"{edge.source} has {defaults[edge.source]} edges without a matching label; "
                "a choice has only one default: label the others."
            )
            yield FlowFault(line=edge.line, column=edge.column, message=message)


def _check_edge(edge: Edge, groups: set[str], text: str) -> Iterator[FlowFault]:
    place = edge.place
    for name in (edge.start, edge.end):
        if name in groups:
            message = (
                f"{name} is a subgraph, and edges cannot lead to a subgraph; lead the edge "
                "to a node in it."
            )
            yield FlowFault(line=place.line, column=place.column, message=message)
    if edge.type.startswith("double") or edge.type == "INVALID":
        message = (
            "An edge of a flow has one direction: write -->, and a second edge for the way back."
        )
        yield FlowFault(line=place.line, column=place.column, message=message)
    if letter := _CIRCLES.get(edge.type):
        yield from _check_blank(edge, letter, text)
    elif edge.type == "arrow_open":
        message = f"This edge has no arrow; it is read as {edge.start} to {edge.end}. Write -->."
        yield FlowFault(line=place.line, column=place.column, message=message, rule=TaskRule.ARROW)


def _check_blank(edge: Edge, letter: str, text: str) -> Iterator[FlowFault]:
    """Yield a fault if a label's first letter was read as the edge's end: ``A--ok-->B``."""
    start = edge.end_place.start
    if edge.label is not None or text[start - 1 : start] != letter:
        return
    word = f"{letter}{edge.end}"
    message = (
        f"{edge.start}--{word} is read as an edge --{letter} to a node {edge.end}. Is a "
        f"space missing? Write {edge.start} -- {word} --> for a label, or --{letter} "
        f"{edge.end} for the node."
    )
    place = edge.place
    yield FlowFault(line=place.line, column=place.column, message=message, rule=TaskRule.BLANK)


def _check_prompts(flow: Flow, count: int) -> Iterator[FlowFault]:
    for node in flow.nodes.values():
        if node.prompt is not None and node.prompt >= count:
            last = f"the last prompt is P{count - 1}" if count else "there are none"
            message = f"{node.id} refers to a prompt that does not exist: {last}."
            yield FlowFault(
                line=node.line, column=node.column, message=message, rule=TaskRule.PROMPT_MISSING
            )
