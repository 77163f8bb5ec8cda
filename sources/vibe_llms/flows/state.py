"""State of a flow's run, folded from its events.

A run has one branch until it splits. The branches of a split wait for each other at its join, and
merge there. Splits nest like parentheses, because every path from a split leads through its join.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.flows.graphs import Flow
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.views import add_usages


@define
class Branch:
    """Branch of a running flow.

    Attributes:
        node: Id of the node that it visits, or visits next.
        visit: Number of this visit of the node, over all branches. Counted on arrival, so that two
            branches at one node have different numbers.
        response: Last response on its path.
        parent: Branch that was split into this branch and others; ``None`` outside of splits.
        place: Index among the branches of its split, in the order of the diagram's edges.
        loops: Loops that it is in, outermost first, with the number of completed rounds.
    """

    number: int
    node: str
    visit: int = 1
    response: str = ""
    parent: int | None = None
    place: int = 0
    loops: tuple[tuple[str, int], ...] = ()


@define
class Split:
    """Split of a branch, with the responses of the branches that wait at the join."""

    branch: Branch
    join: str
    count: int
    arrived: dict[int, str] = attrs.field(factory=dict)


@define
class FlowState:
    """State of a run; only :meth:`apply` changes it.

    Attributes:
        branches: Active branches by number.
        visits: Number of arrivals at each node.
        responses: Last response of each node.
        open_conversations: Conversations of visits in progress, by branch, then by purpose.
        path: Visited nodes, in the order in which the visits ended.
        category: Last category, at any node.
        failures: Reasons of failed visits after which the flow continued.
        requests: Number of model responses.
        usage: Usage of the responses; ``None`` while unknown.
        cost_cents: Cost of the responses; ``None`` while no price is known.
        final: Last response, once the flow has ended.
        ending: End or suspension of the run; ``None`` while it is working.
        suspended_at: Node at which the run was suspended before it was resumed; empty if it was
            cut off, or has continued from there.
    """

    flow: Flow
    branches: dict[int, Branch] = attrs.field(factory=dict)
    splits: dict[int, Split] = attrs.field(factory=dict)
    visits: dict[str, int] = attrs.field(factory=dict)
    responses: dict[str, str] = attrs.field(factory=dict)
    open_conversations: dict[int, dict[str, str]] = attrs.field(factory=dict)
    path: list[str] = attrs.field(factory=list)
    category: str = ""
    failures: list[str] = attrs.field(factory=list)
    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None
    final: str | None = None
    ending: FlowEndedEvent | None = None
    suspended_at: str = ""
    _last_number: int = 0

    @classmethod
    def begin(cls, flow: Flow) -> FlowState:
        """Return the state before the first visit."""
        return cls(flow, {0: Branch(0, flow.start)}, visits={flow.start: 1})

    @classmethod
    def fold(cls, flow: Flow, events: Iterable[object]) -> FlowState:
        """Return the state after these events; events of other kinds are ignored."""
        state = cls.begin(flow)
        for event in events:
            state.apply(event)
        return state

    def apply(self, event: FlowEvent | object) -> None:
        """Apply an event."""
        if isinstance(event, NodeFinishedEvent):
            self._finish(event)
        elif isinstance(event, NodeStartedEvent):
            conversations = self.open_conversations.setdefault(event.branch, {})
            conversations[event.purpose] = event.conversation_id
        elif isinstance(event, FlowEndedEvent):
            self.ending = event
        elif isinstance(event, FlowStartedEvent):
            self.suspended_at = "" if self.ending is None else self.ending.node
            self.ending = None

    def _finish(self, event: NodeFinishedEvent) -> None:
        branch = self.branches.pop(event.branch)
        self.open_conversations.pop(event.branch, None)
        self.path.append(event.node)
        if event.node == self.suspended_at:
            self.suspended_at = ""
        if event.response is not None:
            branch.response = self.responses[event.node] = event.response
        if event.category:
            self.category = event.category
        if event.detail:
            self.failures.append(f"{event.node}: {event.detail}")
        if event.requests:
            self.requests += event.requests
            self.usage = add_usages((self.usage, event.usage))
            if event.cost_cents is not None:
                self.cost_cents = (self.cost_cents or 0.0) + event.cost_cents
        edges = self.flow.edges
        if not event.edges:
            self.final = branch.response
        elif len(event.edges) == 1:
            self._arrive(branch, edges[event.edges[0]].target)
        else:
            self._split(branch, [edges[index].target for index in event.edges])

    def _split(self, branch: Branch, targets: list[str]) -> None:
        join = self.flow.joins[branch.node]
        self.splits[branch.number] = Split(branch, join, len(targets))
        for place, target in enumerate(targets):
            self._last_number += 1
            part = Branch(
                self._last_number,
                branch.node,
                response=branch.response,
                parent=branch.number,
                place=place,
                loops=branch.loops,
            )
            self._arrive(part, target)

    def _arrive(self, branch: Branch, target: str) -> None:
        """Move a branch to a node; at a join, only the last branch to arrive continues."""
        while branch.parent is not None:
            split = self.splits[branch.parent]
            if split.join != target:
                break
            split.arrived[branch.place] = branch.response
            if len(split.arrived) < split.count:
                return
            del self.splits[branch.parent]
            responses = (split.arrived[place] for place in range(split.count))
            branch = split.branch
            branch.response = "\n\n".join(dict.fromkeys(filter(None, responses)))
        if branch.loops or target in self.flow.loops:
            branch.loops = self._update_loops(branch.loops, target)
        branch.node = target
        branch.visit = self.visits[target] = self.visits.get(target, 0) + 1
        self.branches[branch.number] = branch

    def _update_loops(
        self, loops: tuple[tuple[str, int], ...], target: str
    ) -> tuple[tuple[str, int], ...]:
        """Count rounds of a loop that is entered again, and drop loops that were left."""
        members = self.flow.loops
        remaining = tuple(each for each in loops if target in members[each[0]])
        if target not in members:
            return remaining
        for depth, (name, rounds) in enumerate(remaining):
            if name == target:
                return (*remaining[:depth], (name, rounds + 1))
        return (*remaining, (target, 0))
