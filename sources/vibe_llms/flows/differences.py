"""Differences of two versions of a task, as one diagram and in words."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.graphs import Flow, FlowNode
from vibe_llms.flows.labelling import append_lines, label_nodes, match_edges, quote, style_edges
from vibe_llms.flows.tasks import PromptTemplate, Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.mermaid import Diagram, Edge, add_classes, parse_diagram
from vibe_llms.mermaid.shapes import BRACKETS


class Change(enum.StrEnum):
    """Kinds of changes of nodes and edges."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


MARKS: Final = {Change.ADDED: "+", Change.REMOVED: "\N{MINUS SIGN}", Change.CHANGED: "~"}

STYLES: Final[Mapping[str, str]] = {
    Change.ADDED: "fill:#dcfce7,stroke:#15803d,stroke-width:3px,color:#14532d",
    Change.REMOVED: "fill:#fee2e2,stroke:#b91c1c,stroke-dasharray:4 4,color:#7f1d1d",
    Change.CHANGED: "fill:#fef3c7,stroke:#b45309,stroke-width:3px,color:#78350f",
}
_EDGE_STYLES: Final = {
    Change.ADDED: "stroke:#15803d,stroke-width:3px",
    Change.REMOVED: "stroke:#b91c1c,stroke-width:2px,stroke-dasharray:4 4",
}


@frozen(kw_only=True)
class NodeChange:
    """Change of a node.

    Attributes:
        details: Changed properties of the node: ``label``, ``kind``, ``prompt``.
        old: Previous prompt; ``None`` without one.
        new: New prompt; ``None`` without one.
    """

    node: str
    change: Change
    details: tuple[str, ...] = ()
    old: PromptTemplate | None = None
    new: PromptTemplate | None = None


@frozen(kw_only=True)
class EdgeChange:
    """Added or removed edge; a changed label counts as both."""

    source: str
    target: str
    label: str
    change: Change
    number: int


@frozen(kw_only=True)
class TaskDifference:
    """Differences of two versions of a task.

    Attributes:
        nodes: Changed nodes.
        edges: Changed edges; ``number`` is the index in the diagram that has the edge.
        others: Names of the other parts that have changed, such as ``goal``.
    """

    nodes: tuple[NodeChange, ...] = ()
    edges: tuple[EdgeChange, ...] = ()
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges or self.others)


def compare_tasks(old: Task, new: Task) -> TaskDifference:
    """Compare two versions of a task. Nodes with the same id are the same node.

    Raises:
        ConfigurationError: One of the diagrams is invalid.
    """
    before, after = _Side.of(old), _Side.of(new)
    names = dict.fromkeys([*after.flow.nodes, *before.flow.nodes])
    compared_nodes = (_compare_nodes(before, after, name) for name in names)
    nodes = [each for each in compared_nodes if each is not None]
    # The diagram is compared by its nodes and edges; the place of the file does not matter.
    compared = {"flow_diagram", "place"}
    if any(each.old != each.new for each in nodes):
        compared.add("prompts")
    others = (
        each.name
        for each in attrs.fields(Task)
        if each.name not in compared
        and not is_same(before.plain[each.name], after.plain[each.name])
    )
    return TaskDifference(
        nodes=tuple(nodes),
        edges=(
            *_find_missing(after, before, Change.ADDED),
            *_find_missing(before, after, Change.REMOVED),
        ),
        others=tuple(others),
    )


def draw_difference(old: Task, new: Task, styles: Mapping[str, str] = STYLES) -> str:
    """Return two versions of a task as one diagram: the new version, with removed parts appended.

    Args:
        styles: Styles of added, removed and changed nodes; the names of the classes are the keys,
            prefixed with ``flow-``. Without styles, the legend is omitted, too.

    Raises:
        ConfigurationError: One of the diagrams is invalid.
    """
    difference = compare_tasks(old, new)
    before = parse_diagram(old.flow_diagram.mermaid)
    after = parse_diagram(new.flow_diagram.mermaid)
    remaining = {each.node: each for each in difference.nodes if each.change is not Change.REMOVED}
    legend = _survey_legend(difference, {*before.nodes, *after.nodes}) if styles else []
    lines = [
        *label_nodes(after, {name: _describe(each) for name, each in remaining.items()}),
        *_restore_nodes(before, difference),
        *_restore_edges(before, difference),
        *_compose_legend(legend),
    ]
    if not lines:
        return after.text
    # Styles refer to edges by numbers, which are known only in the complete diagram.
    complete = parse_diagram(append_lines(after.text, lines))
    style_lines = style_edges(complete, _style_edges(len(after.edges), difference))
    complete = parse_diagram(append_lines(complete.text, style_lines))
    members = {}
    for change in Change:
        members[f"flow-{change}"] = [
            each.node for each in difference.nodes if each.change is change
        ]
        if change in legend:
            members[f"flow-{change}"].append(f"{_LEGEND}-{change}")
    shown = {f"flow-{name}": style for name, style in styles.items() if members[f"flow-{name}"]}
    return str(add_classes(complete, shown, members))


@frozen(kw_only=True)
class _Side:
    """One of the versions."""

    task: Task
    diagram: Diagram
    flow: Flow
    numbers: Sequence[int]
    plain: Mapping[str, JsonValue]

    @classmethod
    def of(cls, task: Task) -> _Side:
        diagram = parse_diagram(task.flow_diagram.mermaid)
        flow = compile_flow(diagram).flow
        numbers = match_edges(diagram, flow)
        return cls(task=task, diagram=diagram, flow=flow, numbers=numbers, plain=attrs.asdict(task))

    def find_prompt(self, name: str) -> PromptTemplate | None:
        node = self.flow.nodes.get(name)
        prompts = self.task.prompts
        if node is None or node.prompt is None or node.prompt >= len(prompts):
            return None
        return prompts[node.prompt]


def _compare_nodes(before: _Side, after: _Side, name: str) -> NodeChange | None:
    old, new = before.flow.nodes.get(name), after.flow.nodes.get(name)
    prompts = before.find_prompt(name), after.find_prompt(name)
    details: tuple[str, ...] = ()
    if old and new:
        details = tuple(_find_details(old, new, prompts))
        change = Change.CHANGED
    else:
        change = Change.ADDED if new else Change.REMOVED
    if change is Change.CHANGED and not details:
        return None
    return NodeChange(node=name, change=change, details=details, old=prompts[0], new=prompts[1])


def _find_details(
    old: FlowNode, new: FlowNode, prompts: tuple[PromptTemplate | None, PromptTemplate | None]
) -> Iterator[str]:
    if old.kind is not new.kind:
        yield "kind"
    if old.text != new.text:
        yield "label"
    if prompts[0] != prompts[1]:
        yield "prompt"


def _find_missing(side: _Side, other: _Side, change: Change) -> Iterator[EdgeChange]:
    """Yield the edges missing on the other side: of several alike, as many as are missing."""
    unmatched = [(edge.source, edge.target, edge.label) for edge in other.flow.edges]
    for edge, number in zip(side.flow.edges, side.numbers, strict=True):
        key = (edge.source, edge.target, edge.label)
        if key in unmatched:
            unmatched.remove(key)
        else:
            yield EdgeChange(
                source=key[0], target=key[1], label=key[2], change=change, number=number
            )


def _describe(each: NodeChange) -> str:
    words = f" {', '.join(each.details)}" if each.details else ""
    return f"<br/>{MARKS[each.change]}{words}" if words else f" {MARKS[each.change]}"


def _restore_nodes(before: Diagram, difference: TaskDifference) -> Iterator[str]:
    for each in difference.nodes:
        if each.change is Change.REMOVED:
            node = before.nodes[each.node]
            opening, closing = BRACKETS.get(node.shape, ("[", "]"))
            label = f"{quote(node.label.text)} {MARKS[Change.REMOVED]}"
            yield f'{_escape_keyword(node.id)}{opening}"{label}"{closing}'


def _restore_edges(before: Diagram, difference: TaskDifference) -> Iterator[str]:
    for each in difference.edges:
        if each.change is Change.REMOVED:
            edge: Edge = before.edges[each.number]
            label = f'|"{quote(edge.label.text)}"|' if edge.label else ""
            yield f"{_escape_keyword(edge.start)} -->{label} {_escape_keyword(edge.end)}"


def _escape_keyword(id_: str) -> str:
    """Return the name of a node at the beginning of a line, where keywords have a meaning."""
    return f"{id_}_" if id_ in ("call", "click", "href") else id_


def _style_edges(count: int, difference: TaskDifference) -> dict[int, str]:
    """Return the styles of edges by number in the complete diagram; removed edges are last."""
    removed = [each for each in difference.edges if each.change is Change.REMOVED]
    added = [each for each in difference.edges if each.change is Change.ADDED]
    return {
        **{each.number: _EDGE_STYLES[Change.ADDED] for each in added},
        **{count + place: _EDGE_STYLES[Change.REMOVED] for place, _ in enumerate(removed)},
    }


def _survey_legend(difference: TaskDifference, used_ids: set[str]) -> list[Change]:
    """Return the changes to explain; none if the diagram already uses the legend's names."""
    shown = {each.change for each in difference.nodes}
    shown |= {each.change for each in difference.edges}
    is_available = not any(name.startswith(_LEGEND) for name in used_ids)
    return [change for change in Change if change in shown and is_available]


def _compose_legend(changes: Sequence[Change]) -> Iterator[str]:
    if changes:
        yield f'subgraph {_LEGEND} ["Legend"]'
        for change in changes:
            yield f'{_LEGEND}-{change}["{MARKS[change]} {change}"]'
        yield "end"


_LEGEND: Final = "flow-legend"
