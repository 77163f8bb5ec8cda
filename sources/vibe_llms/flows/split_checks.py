"""Checks of splits: branches that join too late, start again, or act concurrently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import EdgeKind, Flow, FlowEdge
from vibe_llms.foundation.attrs_classes import define

_FAILURES = (EdgeKind.ERROR, EdgeKind.LIMIT)


@define
class _SplitPaths:
    """Observations on the paths of a split's branches, up to its join.

    Attributes:
        owners: Index of the branch whose path contains each node.
        shared: First node on the paths of two branches.
        back: Edge that leads back to the split.
        failures: Edges that are taken after a failure or a limit.
        side_effects: Tools with side effects, with the branch and the node of each.
    """

    owners: dict[str, int]
    failures: list[FlowEdge]
    side_effects: dict[str, tuple[int, str]]
    shared: str = ""
    back: FlowEdge | None = None
    clash: tuple[str, str, str] | None = None


def find_split_faults(flow: Flow, acting: Mapping[str, str]) -> Iterator[FlowFault]:
    """Yield the faults of splits.

    Args:
        acting: Tools of nodes with side effects, by node id.
    """
    side_effects: dict[str, dict[str, str]] = {}
    reached = flow.dominators.immediate
    early = flow.find_postdominators(set(EdgeKind) - set(_FAILURES)) if flow.joins else {}
    # Inner splits come first, and outer splits skip them: no node is visited twice.
    for name in reversed([each for each in reached if each in flow.joins]):
        paths = _follow_branches(flow, name, acting, side_effects)
        side_effects[name] = {what: node for what, (_, node) in paths.side_effects.items()}
        yield from _compose_faults(flow, name, paths, early.get(name, ""))


def _follow_branches(
    flow: Flow, split: str, acting: Mapping[str, str], inner: Mapping[str, Mapping[str, str]]
) -> _SplitPaths:
    join = flow.joins[split]
    paths = _SplitPaths({}, [], {})
    for place, first in enumerate(flow.exits[split].plain):
        pending = [first]
        while pending:
            edge = pending.pop()
            name = edge.target
            if name == join:
                continue
            if name == split:
                paths.back = paths.back or edge
                continue
            if name in paths.owners:
                if paths.owners[name] != place:
                    paths.shared = paths.shared or name
                continue
            paths.owners[name] = place
            _add_side_effects(paths, place, {acting[name]: name} if name in acting else {})
            if name in flow.joins:
                _add_side_effects(paths, place, inner.get(name, {}))
                # An inner split is already done: one edge to its join represents all its nodes.
                inner_join = flow.joins[name]
                first_edge = flow.leaving[name][0]
                pending.append(
                    FlowEdge(
                        index=first_edge.index,
                        source=name,
                        target=inner_join,
                        line=first_edge.line,
                        column=first_edge.column,
                    )
                )
                continue
            pending += flow.leaving[name]
            paths.failures += [each for each in flow.leaving[name] if each.kind in _FAILURES]
    return paths


def _add_side_effects(paths: _SplitPaths, place: int, side_effects: Mapping[str, str]) -> None:
    for what, node in side_effects.items():
        other, other_node = paths.side_effects.setdefault(what, (place, node))
        if other != place:
            paths.clash = paths.clash or (what, other_node, node)


def _compose_faults(flow: Flow, split: str, paths: _SplitPaths, early: str) -> Iterator[FlowFault]:
    join = flow.joins[split]
    if paths.back is not None:
        message = (
            f"A branch of {split} leads back to {split} before it meets the others at "
            f"{join}, and splits again: lead back from the meeting point instead."
        )
        yield _fault(paths.back, TaskRule.SPLIT_AGAIN, message)
    meets_early = early in paths.owners
    if paths.shared or meets_early:
        shared = early if meets_early else paths.shared
        node = flow.nodes[shared]
        past = (each for each in paths.failures if each.target != early)
        why = next(past, None) if meets_early else None
        reason, remedy = "a path leads past it", f"lead that path to {shared}"
        if why is not None:
            reason = f"{why.label!r} leads from {why.source} past it"
        else:
            remedy += f", or start the branches that meet at {shared} at a node of their own"
        message = (
            f"The branches of {split} do not wait for each other at {shared}, but at {join}, "
            f"because {reason}: {remedy}."
        )
        place = why if why is not None else node
        yield FlowFault(
            line=place.line, column=place.column, message=message, rule=TaskRule.SPLIT_CROSSED
        )
    if paths.clash is not None:
        what, one, other = paths.clash
        message = (
            f"{one} and {other} may invoke {what} at the same time, on branches of {split}: "
            "if they change the same thing, run one after the other."
        )
        node = flow.nodes[other]
        yield FlowFault(line=node.line, column=node.column, message=message, rule=TaskRule.AT_ONCE)


def _fault(edge: FlowEdge, rule: TaskRule, message: str) -> FlowFault:
    return FlowFault(line=edge.line, column=edge.column, message=message, rule=rule)
