"""Checks of a flow's graph: unreachable nodes, dead ends, choices, loops, splits.

Each function checks one property and traverses the graph once, so that the time is proportional to
the number of nodes and edges.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from vibe_llms.flows.dominance import find_cycles
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import WORKING_KINDS, EdgeKind, Flow, FlowEdge, FlowNode, NodeKind
from vibe_llms.foundation.suggestions import find_nearest

FAILING: Final = WORKING_KINDS | {NodeKind.CONDITION}
"""Kinds of nodes whose visits can fail; visits of any node that chooses can fail, too."""

LIMITED: Final = WORKING_KINDS | {NodeKind.LOOP}
"""Kinds of nodes whose visits can reach a limit."""

_SPECIAL: Final = re.compile(r"START|END|P\d{1,9}")
_NUMBER: Final = re.compile(r"\d+")
_MAX_SHOWN: Final = 5
_MAX_COMPARED: Final = 50
"""Maximum number of ids that are compared with a possibly misspelt one."""
_SUCCESS_KINDS: Final = frozenset(EdgeKind) - {EdgeKind.ERROR, EdgeKind.LIMIT}


def find_graph_faults(flow: Flow) -> Iterator[FlowFault]:
    """Yield the faults of the graph itself, in no particular order."""
    for node in flow.nodes.values():
        yield from _check_id(node)
    yield from _check_edges(flow)
    if flow.start not in flow.nodes:
        return  # without reachable nodes, there is nothing else to report
    yield from _check_reachability(flow)
    cycles = _find_unbounded(flow)
    cycles_by_node = {name: cycle for cycle in cycles for name in cycle}
    for name in flow.dominators.immediate:
        node = flow.nodes[name]
        if node.kind is not NodeKind.LOOP:
            yield from _check_choice(flow, node)
        # A loop node on a cycle encloses nothing but itself if another path leads into the cycle.
        elif name in cycles_by_node and len(flow.loops[name]) == 1:
            yield _compose_entry_fault(flow, node, cycles_by_node[name])
        else:
            yield from _check_loop(flow, node)
    for cycle in cycles:
        yield _compose_cycle_fault(flow, cycle)


def join_names(names: Sequence[str]) -> str:
    """Join some names, and the number of further ones."""
    more = len(names) - _MAX_SHOWN
    shown = ", ".join(names[:_MAX_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _at(place: FlowNode | FlowEdge, rule: TaskRule, message: str) -> FlowFault:
    return FlowFault(line=place.line, column=place.column, message=message, rule=rule)


def _check_id(node: FlowNode) -> Iterator[FlowFault]:
    upper = node.id.upper()
    if node.id != upper and _SPECIAL.fullmatch(upper):
        yield _at(
            node,
            TaskRule.LOOKALIKE,
            f"{node.id} is an ordinary node: capitals matter. Write {upper}, or use another name.",
        )


def _check_edges(flow: Flow) -> Iterator[FlowFault]:
    """Yield edges with the same meaning as another, and edges that are never taken."""
    seen: set[tuple[object, ...]] = set()
    for edge in flow.edges:
        kind, node = edge.kind, flow.nodes[edge.source]
        if kind in (EdgeKind.ERROR, EdgeKind.LIMIT):
            key: tuple[object, ...] = (edge.source, kind)
            can = FAILING if kind is EdgeKind.ERROR else LIMITED
            chooses = kind is EdgeKind.ERROR and flow.exits[edge.source].choices
            if node.kind not in can and not chooses:
                verb = "fails" if kind is EdgeKind.ERROR else "reaches a limit"
                message = f"{node.id} never {verb}, so this edge is never taken."
                yield _at(edge, TaskRule.NEVER_TAKEN, f"{message} Remove it.")
        else:
            key = (edge.source, edge.target, edge.label.casefold())
        if key in seen:
            message = f"{edge.source} already has such an edge and takes the first; remove one."
            yield _at(edge, TaskRule.TWICE, message)
        seen.add(key)


def _check_reachability(flow: Flow) -> Iterator[FlowFault]:
    """Find unreachable nodes and dead ends."""
    reached = flow.dominators.immediate
    ends = set(flow.ends)
    # Dictionaries serve as ordered sets, so that the order of messages is deterministic.
    unreachable = {name: None for name in flow.nodes if name not in reached and name not in ends}
    dead_ends = {name: None for name in reached if not flow.leaving[name] and name not in ends}
    for part in _join_parts(flow, unreachable):
        first = part[0]
        message = (
            f"{join_names(part)} cannot be reached from START: lead an edge there, or remove it"
        )
        yield _at(flow.nodes[first], TaskRule.UNREACHABLE, message + _suggest(first, dead_ends))
    for name in reached:
        node, exits = flow.nodes[name], flow.exits[name]
        if name in ends:
            continue
        if name in dead_ends:
            message = f"{name} is a dead end: lead an edge to END, or to the next node"
            yield _at(node, TaskRule.DEAD_END, message + _suggest(name, unreachable))
        elif not (exits.plain or exits.choices or exits.default):
            message = f"{name} has edges for failure, but none for success."
            yield _at(node, TaskRule.DEAD_END, f"{message} Draw one.")
    # A flow that ends only after a failure is stuck when everything succeeds.
    success_edges = {
        name: [] if name in ends else list(_follow_success(flow, name)) for name in reached
    }
    for cycle in find_cycles(success_edges):
        inside = set(cycle)
        if all(each in inside for name in cycle for each in success_edges[name]):
            names = _order(flow, cycle)
            message = (
                f"No path leads from {join_names(names)} to END: draw an edge that leaves the loop."
            )
            yield _at(flow.nodes[names[0]], TaskRule.DEAD_END, message)


def _order(flow: Flow, names: Iterable[str]) -> list[str]:
    """Return names in the order of the diagram."""
    return sorted(names, key=lambda name: (flow.nodes[name].line, flow.nodes[name].column, name))


def _follow_success(flow: Flow, name: str) -> Iterator[str]:
    exits = flow.exits[name]
    for edge in (*exits.plain, *exits.choices, exits.default, exits.limit):
        if edge is not None:
            yield edge.target


def _join_parts(flow: Flow, names: Iterable[str]) -> list[list[str]]:
    """Return the names in groups that are connected by edges, in the order of the diagram."""
    neighbors: dict[str, list[str]] = {name: [] for name in names}
    for edge in flow.edges:
        if edge.source in neighbors and edge.target in neighbors:
            neighbors[edge.source].append(edge.target)
            neighbors[edge.target].append(edge.source)
    parts: list[list[str]] = []
    seen: set[str] = set()
    for name in names:
        if name in seen:
            continue
        part, pending = {name}, [name]
        while pending:
            for each in neighbors[pending.pop()]:
                if each not in part:
                    part.add(each)
                    pending.append(each)
        seen |= part
        parts.append(_order(flow, part))
    return parts


def _suggest(name: str, other_names: Collection[str]) -> str:
    near = find_nearest(name, other_names) if len(other_names) <= _MAX_COMPARED else None
    return f"; did you mean {near!r}?" if near else "."


def _check_choice(flow: Flow, node: FlowNode) -> Iterator[FlowFault]:
    exits = flow.exits[node.id]
    edges = (*exits.plain, *exits.choices, *((exits.default,) if exits.default else ()))
    if node.kind is NodeKind.CONDITION and len(exits.plain) > 1:
        message = f"{node.id} chooses by labels, but {len(exits.plain)} of its edges have no label."
        yield _at(node, TaskRule.AMBIGUOUS, f"{message} Label them: {node.id} -->|yes| A.")
    elif node.kind is NodeKind.CONDITION and len(edges) == 1:
        message = f"{node.id} has only one edge and decides nothing: draw another."
        yield _at(node, TaskRule.ONE_WAY, message)
    elif exits.choices and not (exits.default or exits.error):
        message = f"{node.id} has no default edge, and fails if none of its labels matches."
        yield _at(node, TaskRule.DEFAULT, f"{message} Draw one without a label, or with |else|.")
    targets: dict[str, str] = {}
    for edge in exits.choices:
        first = targets.setdefault(edge.label.casefold(), edge.target)
        if first != edge.target:
            message = (
                f"The label {edge.label!r} leads from {node.id} to both {first} and {edge.target}."
            )
            yield _at(edge, TaskRule.AMBIGUOUS, f"{message} Change one of them.")


def _check_loop(flow: Flow, node: FlowNode) -> Iterator[FlowFault]:
    members, exits = flow.loops[node.id], flow.exits[node.id]
    edges = [edge for edge in flow.leaving[node.id] if edge.kind in _SUCCESS_KINDS]
    rounds = [edge for edge in edges if edge.target in members]
    leaving = [edge for edge in edges if edge.target not in members]
    is_empty = all(edge.target == node.id for edge in rounds)
    number = _NUMBER.search(node.text) if node.bound is None else None
    if number is not None:
        written = f"{node.text[: number.start()]}\N{MULTIPLICATION SIGN}{number[0]}"
        message = f"{node.id} contains {number[0]!r}, which is not read as a bound: write "
        yield _at(
            node,
            TaskRule.LOOP_NUMBER,
            f"{message}([{written}{node.text[number.end() :]}]), or remove the number.",
        )
    elif node.bound is None and not is_empty:
        message = f"{node.id} has no bound, and repeats until max_iterations is reached."
        yield _at(
            node,
            TaskRule.LOOP_BOUND,
            f"{message} Write one: ([{node.text} \N{MULTIPLICATION SIGN}3]).",
        )
    elif node.bound == 0:
        yield _at(node, TaskRule.LOOP_WAYS, f"{node.id} repeats 0 times: write at least 1.")
    if is_empty:
        message = f"{node.id} is not a loop, because no path leads back to it: draw the edge back."
        yield _at(node, TaskRule.LOOP_EMPTY, message)
    if len(rounds) > 1:
        names = " and to ".join(edge.target for edge in rounds)
        message = f"Only one edge may start the rounds of {node.id}, but edges lead to {names}."
        yield _at(rounds[1], TaskRule.LOOP_WAYS, f"{message} Put a node between.")
    if len(leaving) > 1:
        names = " and to ".join(edge.target for edge in leaving)
        message = (
            f"Only one edge may leave {node.id} after its last round, but edges lead to {names}."
        )
        yield _at(leaving[1], TaskRule.LOOP_WAYS, f"{message} Put a node between.")
    if rounds and not leaving and not exits.limit:
        message = (
            f"No edge leaves {node.id} after its last round: draw one, {node.id} -->|done| END."
        )
        yield _at(node, TaskRule.LOOP_WAYS, message)


def _find_unbounded(flow: Flow) -> list[list[str]]:
    """Return the cycles that no loop node bounds: those left without the rounds of loops."""
    loops = flow.loops
    return find_cycles(
        {
            name: [
                each
                for each in flow.successors[name]
                if each not in loops or name not in loops[each]
            ]
            for name in flow.dominators.immediate
        }
    )


def _compose_entry_fault(flow: Flow, node: FlowNode, cycle: Iterable[str]) -> FlowFault:
    inside = set(cycle)
    edges = (
        edge
        for edge in flow.edges
        if edge.target in inside and edge.target != node.id and edge.source not in inside
    )
    path = next(edges, node)
    return _at(
        path,
        TaskRule.LOOP_ENTRY,
        f"{node.id} is not a loop, because this edge enters its round without passing it: "
        f"lead it to {node.id}.",
    )


def _compose_cycle_fault(flow: Flow, members: Iterable[str]) -> FlowFault:
    inside = set(members)
    within = [
        edge
        for name in _order(flow, inside)
        for edge in flow.leaving[name]
        if edge.target in inside
    ]
    # A bound belongs on an edge to a node that dominates its start; some cycles have none.
    back = next(
        (edge for edge in within if flow.dominators.dominates(edge.target, edge.source)), within[0]
    )
    path = find_path(flow, back.target, back.source, within=inside) or [back.source]
    names = " \N{RIGHTWARDS ARROW} ".join([*_shorten(path), back.target])
    message = (
        f"{names} repeats until max_iterations is reached: add a loop node such as ([Again "
        "\N{MULTIPLICATION SIGN}3]) to limit it."
    )
    return _at(back, TaskRule.CYCLE, message)


def find_path(
    flow: Flow, start: str, goal: str, *, within: set[str] | None = None, without: str = ""
) -> list[str]:
    """Return a shortest path, including both ends; empty if there is none.

    Args:
        within: Nodes that the path may contain; by default all.
        without: Node that the path must not contain.
    """
    predecessors: dict[str, str] = {start: ""}
    pending = deque([start])
    while pending and goal not in predecessors:
        name = pending.popleft()
        for each in flow.successors[name]:
            if each not in predecessors and each != without and (within is None or each in within):
                predecessors[each] = name
                pending.append(each)
    if goal not in predecessors:
        return []
    path = [goal]
    while previous := predecessors[path[-1]]:
        path.append(previous)
    return path[::-1]


def write_path(path: Sequence[str]) -> str:
    """Write a path with arrows; the middle of a long one is omitted."""
    return " \N{RIGHTWARDS ARROW} ".join(_shorten(path))


def _shorten(path: Sequence[str]) -> list[str]:
    return list(path) if len(path) <= 6 else [*path[:2], "…", *path[-3:]]
