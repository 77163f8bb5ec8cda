"""Pure decision function of flows: from the state of a run to the next command."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows.graphs import WORKING_KINDS, Exits, FlowNode, NodeKind
from vibe_llms.flows.state import Branch, FlowState
from vibe_llms.foundation.attrs_classes import frozen


@frozen
class VisitNode:
    """Perform a visit of a node.

    Attributes:
        branch: Branch at the node.
        node: The node.
    """

    branch: Branch
    node: FlowNode

    @property
    def number(self) -> int:
        """Number of the visit, from 1."""
        return self.branch.visit


@frozen
class Pass:
    """Continue with this event: the node has no work."""

    event: NodeFinishedEvent


@frozen
class Stop:
    """Stop.

    Attributes:
        limit: Limit that was reached; empty if the flow has ended.
        node: Node at which it stopped.
    """

    limit: str = ""
    node: str = ""


Command: TypeAlias = VisitNode | Pass | Stop | None
"""Next command; ``None`` to wait for a visit in progress."""


def decide(state: FlowState, working: Container[int], max_iterations: int) -> Command:
    """Return the next command.

    Args:
        working: Numbers of the branches with visits in progress.
        max_iterations: Maximum number of visits of a run, and of rounds of a loop without a bound.
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
            edges = _choose_loop_edges(state, branch, node, exits, max_iterations)
        elif node.kind in WORKING_KINDS or exits.choices:
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
    """Return the edges to follow after a successful visit; none if no edge fits.

    Args:
        category: Label that fits the response; empty without one.
    """
    for edge in exits.choices:
        if edge.label == category:
            return (edge.index,)
    if exits.choices and exits.default is None:
        return ()
    return exits.onward


def escape(exits: Exits, *, is_limit: bool) -> tuple[int, ...]:
    """Return the edge to follow after a failure or a limit, if there is one."""
    edge = (exits.limit or exits.error) if is_limit else exits.error
    return () if edge is None else (edge.index,)


def find_round(branch: Branch, state: FlowState, max_iterations: int) -> tuple[int, int] | None:
    """Return the round of the innermost loop of a branch, from 0, and the number of rounds."""
    if not branch.loops:
        return None
    name, rounds = branch.loops[-1]
    bound = state.flow.nodes[name].bound
    return rounds, max_iterations if bound is None else bound


def _choose_loop_edges(
    state: FlowState, branch: Branch, node: FlowNode, exits: Exits, max_iterations: int
) -> tuple[int, ...]:
    """Return the edges of a loop: into it while rounds are left, otherwise out of it."""
    inside = state.flow.loops[node.id]
    rounds = branch.loops[-1][1]
    bound = max_iterations if node.bound is None else node.bound
    again, out = exits.split(inside)
    if rounds < bound and again:
        return again
    if rounds >= bound and exits.limit is not None:
        return (exits.limit.index,)
    return out
