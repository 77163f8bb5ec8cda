"""The pure machine of flows: from where a run stands to what comes next. It does nothing itself."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows.graphs import ENGAGED, Exits, FlowNode, NodeKind
from vibe_llms.flows.state import Branch, FlowState
from vibe_llms.foundation.attrs_classes import frozen


@frozen
class VisitNode:
    """Perform what a node does.

    Attributes:
        branch: Which branch is there.
        node: The node.
    """

    branch: Branch
    node: FlowNode

    @property
    def number(self) -> int:
        """How often the node was come to then, from 1."""
        return self.branch.visit


@frozen
class Pass:
    """Nothing is to be done at a node: the flow goes on with this."""

    event: NodeFinishedEvent


@frozen
class Stop:
    """Do nothing more.

    Attributes:
        limit: The limit that was reached; empty where the flow has ended.
        node: Where it stopped.
    """

    limit: str = ""
    node: str = ""


Command: TypeAlias = VisitNode | Pass | Stop | None
"""What comes next; ``None``: wait for a visit that is on its way."""


def decide(state: FlowState, working: Container[int], max_iterations: int) -> Command:
    """Returns what comes next.

    Args:
        working: The numbers of the branches whose visits are on their way.
        max_iterations: How many visits a run may have; what loops go round at most by themselves.
    """
    if state.final is not None:
        return Stop()
    for branch in state.branches.values():
        if branch.number in working:
            continue
        name = branch.node
        if len(state.path) >= max_iterations:
            return Stop(limit="max_iterations", node=name)
        node = state.flow.nodes[name]
        exits = state.flow.exits[name]
        if node.kind is NodeKind.LOOP:
            edges = _turn(state, branch, node, exits, max_iterations)
        elif node.kind in ENGAGED or exits.choices:
            return VisitNode(branch, node)
        elif node.kind is NodeKind.END:
            edges = ()
        else:
            edges = exits.onward
        return Pass(
            NodeFinishedEvent(node=name, visit=branch.visit, branch=branch.number, edges=edges)
        )
    return None


def choose(exits: Exits, category: str) -> tuple[int, ...]:
    """Returns where a flow goes on when a visit has succeeded; nowhere if no way fits.

    Args:
        category: The label that fits what was said; empty where none does.
    """
    for edge in exits.choices:
        if edge.label == category:
            return (edge.index,)
    if exits.choices and exits.default is None:
        return ()
    return exits.onward


def escape(exits: Exits, *, is_limit: bool) -> tuple[int, ...]:
    """Returns where a flow goes on when a visit has failed, or a limit was reached; or nowhere."""
    edge = (exits.limit or exits.error) if is_limit else exits.error
    return () if edge is None else (edge.index,)


def find_round(branch: Branch, state: FlowState, max_iterations: int) -> tuple[int, int] | None:
    """Returns in which round of the innermost loop a branch is, from 0, and of how many."""
    if not branch.loops:
        return None
    name, rounds = branch.loops[-1]
    bound = state.flow.nodes[name].bound
    return rounds, max_iterations if bound is None else bound


def _turn(
    state: FlowState, branch: Branch, node: FlowNode, exits: Exits, max_iterations: int
) -> tuple[int, ...]:
    """A loop goes round while it may, and leaves then; where its edges lead says which is which."""
    inside = state.flow.loops[node.id]
    rounds = branch.loops[-1][1]
    bound = max_iterations if node.bound is None else node.bound
    again, out = exits.split(inside)
    if rounds < bound and again:
        return again
    if rounds >= bound and exits.limit is not None:
        return (exits.limit.index,)
    return out
