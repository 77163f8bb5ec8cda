"""Rows of a flow's nodes, in execution order, with their results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime

from vibe_llms.flows.courses import Course, Sum, Visit, VisitState
from vibe_llms.flows.differences import TaskDifference
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.number_texts import (
    MARKS,
    TIMES,
    describe_cost,
    describe_seconds,
    describe_tokens,
)
from vibe_llms.foundation.attrs_classes import frozen

_BRANCH = "\N{BOX DRAWINGS LIGHT VERTICAL} "


@frozen(kw_only=True)
class NodeRow:
    """Row of a node and its state.

    Attributes:
        node: The id of the node.
        state: State of the node; ``None`` if it was not reached.
        head: Mark and label of the node, indented by one step for each enclosing split.
        cells: Visits, time, tokens and costs; empty if there is nothing to show.
    """

    node: str
    state: VisitState | None
    head: str
    cells: tuple[str, str, str, str]


def compose_rows(flow: Flow, course: Course, now: datetime | None = None) -> list[NodeRow]:
    """Return a row for each node."""
    depths, states = find_depths(flow), course.states
    visits: dict[str, list[Visit]] = {}
    for visit in course.visits:
        visits.setdefault(visit.node, []).append(visit)
    rows = []
    for name in order_nodes(flow):
        node, state = flow.nodes[name], states.get(name)
        total = Sum.of(visits.get(name, ()), now)
        mark = MARKS[state] if state else " "
        text = " ".join(node.text.replace("<br/>", " ").replace("<br>", " ").split()) or name
        cells = (
            f"{TIMES}{total.visits}" if total.visits > 1 else "",
            describe_seconds(total.seconds),
            describe_tokens(total.tokens).removesuffix(" tokens"),
            describe_cost(total.cost_cents or None),
        )
        head = f"{_BRANCH * depths[name]}{mark} {text}"
        rows.append(NodeRow(node=name, state=state, head=head, cells=cells))
    return rows


def compose_difference_rows(difference: TaskDifference) -> list[tuple[str, str, str]]:
    """Return a row for each node, edge and other part that differs between two task versions."""
    return [
        *((each.change, each.node, ", ".join(each.details)) for each in difference.nodes),
        *(
            (each.change, f"{each.source} --> {each.target}", each.label)
            for each in difference.edges
        ),
        *(("changed", each, "") for each in difference.others),
    ]


@functools.lru_cache(maxsize=1)
def order_nodes(flow: Flow) -> Sequence[str]:
    """Sort the nodes topologically, ignoring back edges.

    The order in the diagram may be hard to read: for example, a join may precede its branches.
    """
    # Depth-first search: a node is added to the order after all nodes that follow it.
    order: list[str] = []
    seen: set[str] = set()
    pending = [(flow.start, False)]
    while pending:
        name, is_finished = pending.pop()
        if is_finished:
            order.append(name)
        elif name not in seen and name in flow.nodes:
            seen.add(name)
            pending.append((name, True))
            pending += ((each, False) for each in flow.successors[name])
    order.reverse()
    return [*order, *(name for name in flow.nodes if name not in seen)]


@functools.lru_cache(maxsize=1)
def find_depths(flow: Flow) -> Mapping[str, int]:
    """Return each node's depth: the number of splits that enclose it, up to their joins."""
    depths = dict.fromkeys(flow.nodes, 0)
    for split, join in flow.joins.items():
        inside: set[str] = set()
        pending = [edge.target for edge in flow.exits[split].plain]
        while pending:
            name = pending.pop()
            if name in inside or name in (split, join):
                continue
            if flow.dominators.dominates(split, name):  # else an edge led out of the split
                inside.add(name)
                pending += flow.successors[name]
        for name in inside:
            depths[name] += 1
    return depths
