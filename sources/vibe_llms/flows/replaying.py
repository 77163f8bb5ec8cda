"""A stored run of a flow, walked through without a model and without tools.

The pure machine says at each event where the flow would be, and is held against where the run was.
Another version of the task is held against what was visited: the first visit of a node that is
another there, or that other edges leave, is the first that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent, NodeStartedEvent
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.machine import Pass, Stop, VisitNode, decide
from vibe_llms.flows.reading import TaskReading
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.tasks import Task
from vibe_llms.runs.log import LoggedEvent
from vibe_llms.runs.places import produce_log
from vibe_llms.runs.replaying import Replay, ReplayStep, Variant, replay_run
from vibe_llms.runs.summaries import summarize
from vibe_llms.values import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class _Version:
    """A version of a task, as far as a visit depends on it."""

    task: Task
    flow: Flow

    @classmethod
    def read(cls, reading: TaskReading) -> _Version:
        return cls(reading.task, check_task(reading).access_flow())

    def describe(self, name: str) -> object:
        """Returns all that a visit of a node depends on; ``None`` where there is no such node."""
        node = self.flow.nodes.get(name)
        if node is None:
            return None
        edges = [each for each in self.flow.edges if each.source == name]
        ways = tuple((each.target, each.kind, each.label) for each in edges)
        rules = tuple(str(self.task.categories.get(each.label)) for each in edges)
        if node.prompt is None:
            return node.kind, node.text, node.bound, ways, rules
        prompt = self.task.prompts[node.prompt]
        surroundings = str(self.task.resource_registry) if "{{" in str(prompt) else ""
        asked = (str(self.task.resource_llm), self.task.ensembles, self.task.mcp)
        return node.kind, str(prompt), surroundings, asked, ways, rules

    def compare(self, other: _Version, name: str) -> str:
        """Says what of a node is another in another version; empty where nothing is."""
        old, new = self.describe(name), other.describe(name)
        if new is None:
            return f"there is no {name} any more"
        return "" if old == new else f"{name} is another"


async def replay_flow_run(
    store: ConversationStore, identity: str, task: TaskReading | None = None
) -> Replay:
    """Replays the run of a flow, and what its visits have asked. Does file work.

    Args:
        task: Another version of the task, which is held against what was visited.

    Raises:
        UnknownConversationError: There is no such run.
        StoreError: It is no run of a flow.
        ConfigurationError: There are mistakes in the task.
    """
    record = read_record(store, identity)
    own = _Version(record.reading.task, record.flow)
    other = None if task is None else _Version.read(task)
    usual = AdapterConfig().max_iterations
    bound = record.settings.get("max_iterations", usual)
    walk = FlowWalk(
        record.flow,
        bound if isinstance(bound, int) else usual,
        lambda name: "" if other is None else own.compare(other, name),
    )
    steps: list[ReplayStep] = []
    for logged in record.log:
        for step in walk.check(logged):
            steps.append(step)
            if step.difference:
                return _conclude(record, steps)
        if isinstance(logged.event, NodeStartedEvent) and logged.event.conversation_id:
            steps += await _replay_visit(store, logged.event.conversation_id)
            if steps and steps[-1].difference:
                return _conclude(record, steps)
        walk.state.apply(logged.event)
    return _conclude(record, steps)


def _conclude(record: FlowRecord, steps: Sequence[ReplayStep]) -> Replay:
    state = summarize(record.log, record.run_id).state
    return Replay(identity=record.run_id, state=state, steps=tuple(steps))


async def _replay_visit(store: ConversationStore, identity: str) -> Sequence[ReplayStep]:
    """Replays what a visit has asked; nothing where it was cut off before, or is a subflow's."""
    try:
        if not produce_log(store, identity).read():
            return ()
        replayed = await replay_run(store, identity, Variant())
    except UnknownConversationError:
        return ()
    return [attrs.evolve(step, run_id=identity) for step in replayed.steps]


class FlowWalk:
    """Goes through the events of a run.

    Attributes:
        state: Where the run stands by what it has gone through.

    Args:
        flow: Of the task.
        max_iterations: How many visits the run might have.
        compare: Returns what of a node is another in another version of the task; empty if nothing.
    """

    def __init__(
        self, flow: Flow, max_iterations: int, compare: Callable[[str], str] = lambda name: ""
    ) -> None:
        self.state = FlowState.begin(flow)
        self._bound = max_iterations
        self._compare = compare

    def check(self, logged: LoggedEvent) -> Iterator[ReplayStep]:
        """Yields what is to be told of an event, before the state goes on by it."""
        number, event = logged.sequence, logged.event
        if isinstance(event, NodeStartedEvent):
            difference = self._check_place(event) or self._compare(event.node)
            if difference:  # else the visit is told when it is over
                yield self._tell(number, event, difference)
        elif isinstance(event, NodeFinishedEvent):
            place = self._check_place(event)
            yield self._tell(
                number, event, place or self._compare(event.node) or self._check_ways(event)
            )
        elif isinstance(event, FlowEndedEvent):
            is_over = isinstance(decide(self.state, (), self._bound), Stop)
            if event.reason == "ended" and not is_over:
                difference = "the machine would go on"
            elif event.reason in ("waiting", "failed") and self.state.final is not None:
                difference = "the machine would have ended"
            else:
                difference = ""
            yield ReplayStep(
                sequence=number, step="end", detail=event.reason, difference=difference
            )

    def _tell(
        self, number: int, event: NodeStartedEvent | NodeFinishedEvent, difference: str
    ) -> ReplayStep:
        node = self.state.flow.nodes.get(event.node)
        return ReplayStep(
            sequence=number,
            step=node.kind.value if node else "node",
            detail=f"{event.node} {event.visit}",
            difference=difference,
        )

    def _check_place(self, event: NodeStartedEvent | NodeFinishedEvent) -> str:
        branch = self.state.branches.get(event.branch)
        if branch is None:
            # What judges the goal is asked when all branches are over.
            ends = self.state.final is not None and isinstance(event, NodeStartedEvent)
            return "" if ends else f"there is no branch {event.branch}"
        if (branch.node, branch.visit) != (event.node, event.visit):
            return f"the machine is at {branch.node} {branch.visit}"
        return ""

    def _check_ways(self, event: NodeFinishedEvent) -> str:
        edges = self.state.flow.edges
        if any(each >= len(edges) or edges[each].source != event.node for each in event.edges):
            return "it went on by edges that do not leave it"
        others = [number for number in self.state.branches if number != event.branch]
        match decide(self.state, others, self._bound):
            case Pass(passed) if passed.edges != event.edges:
                return "the machine would go on otherwise"
            case VisitNode() | Pass():
                return ""
        return "the machine would stop"
