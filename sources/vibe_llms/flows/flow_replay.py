"""Replay of a flow's stored run, without models and tools.

At each event, the pure machine computes the place of the flow, which is compared with the place of
the run. Another version of the task is compared with the recorded visits: the first visit of a node
that is different there, or has different edges, is the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.flows.categorizing import find_rule
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.graphs import Flow, FlowNode, NodeKind
from vibe_llms.flows.interpolation import Reference
from vibe_llms.flows.machine import Pass, Stop, VisitNode, decide
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_reading import TaskReading, examine_task
from vibe_llms.flows.tasks import Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.runs.replaying import Replay, ReplayStep, Variant, replay_run
from vibe_llms.runs.summaries import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class _Version:
    """Version of a task, as far as a visit depends on it.

    Attributes:
        caller_variables: Names of the variables set by the caller, which override the task's own.
        model: Model chosen by the caller instead of the task's; empty for none.
    """

    task: Task
    check: TaskCheck
    caller_variables: Collection[str]
    model: str

    @classmethod
    def read(cls, reading: TaskReading, record: FlowRecord) -> _Version:
        check = check_task(reading)
        check.access_flow()
        model = str(record.settings.get("model") or "")
        return cls(reading.task, check, record.started.variables, model)

    def describe(self, name: str) -> JsonValue:
        """Return all that a visit of a node depends on, as plain data; ``None`` without the node.

        Texts that are only for people, such as the description of a prompt, are omitted.
        """
        task, flow = self.task, self.check.access_flow()
        node = flow.nodes.get(name)
        if node is None:
            return None
        edges = flow.leaving[name]
        rules = [find_rule(task.categories, each.label) for each in edges]
        parts: dict[str, Any] = {
            "kind": node.kind,
            "text": node.text,
            "bound": node.bound,
            "edges": [[each.target, each.kind, each.label] for each in edges],
            "rules": [rule and attrs.asdict(rule) for rule in rules],
        }
        if node.prompt is not None:
            prompt = task.prompts[node.prompt]
            parts |= {"template": prompt.template, "role": prompt.role}
            # Instructions are sent with the goal, if there is no earlier message.
            parts["goal"] = task.goal.description if prompt.role == "system" else ""
        if node.kind in (NodeKind.PROMPT, NodeKind.TOOL):
            parts |= {"ensembles": task.ensembles, "mcp": task.mcp}
            parts["references"] = [self._resolve(each) for each in self._survey_references(node)]
        if node.prompt is not None or any(rule and not rule.has_rule for rule in rules):
            llm = task.resource_llm
            parts["model"] = [self.model or llm.address, llm.controls]
        return parts

    def compare(self, other: _Version, name: str) -> str:
        """Name the first difference of a node in another version; empty if there is none."""
        old, new = self.describe(name), other.describe(name)
        if new is None:
            return f"{name} no longer exists"
        return "" if is_same(old, new) else f"{name} has changed"

    def compare_goal(self, other: _Version) -> str:
        """Describe the difference in the conditions of another version; empty if there is none."""
        old, new = (attrs.asdict(each.task.goal)["target_conditions"] for each in (self, other))
        return "" if is_same(old, new) else "the conditions of the goal differ"

    def _survey_references(self, node: FlowNode) -> Iterable[Reference]:
        if node.prompt is not None:
            return self.check.templates[node.prompt].references
        return self.check.invocations[node.id].references

    def _resolve(self, reference: Reference) -> JsonValue:
        """Return the value that the task itself defines for a reference."""
        if reference.source == "registry":
            entry = self.task.resource_registry.find(reference.name)
            return None if entry is None else attrs.asdict(entry)
        if reference.source == "variable" and reference.name not in self.caller_variables:
            return self.task.variables.get(reference.name)
        return None


async def replay_flow_run(
    store: ConversationStore, identity: str, task: TaskReading | None = None
) -> Replay:
    """Replay the run of a flow, and the requests of its visits. Does file work.

    Args:
        task: Another version of the task, which is compared with the recorded visits.

    Raises:
        UnknownConversationError: The run does not exist.
        StoreError: The id is not that of a flow's run.
        ConfigurationError: The task has mistakes.
    """
    record = read_record(store, identity)
    recorded_version = _Version.read(record.reading, record)
    other = None if task is None else _Version.read(task, record)
    default_bound = AdapterConfig().max_iterations
    bound = record.settings.get("max_iterations", default_bound)
    replay = FlowReplay(
        record.flow,
        bound if isinstance(bound, int) else default_bound,
        lambda name: "" if other is None else recorded_version.compare(other, name),
        "" if other is None else recorded_version.compare_goal(other),
    )
    steps: list[ReplayStep] = []
    for logged in record.log:
        for step in replay.check(logged):
            steps.append(step)
            if step.difference:
                return _conclude(record, steps)
        if isinstance(logged.event, NodeStartedEvent) and logged.event.conversation_id:
            steps += await _replay_visit(store, logged.event, other)
            if steps and steps[-1].difference:
                return _conclude(record, steps)
        replay.state.apply(logged.event)
    return _conclude(record, steps)


def _conclude(record: FlowRecord, steps: Sequence[ReplayStep]) -> Replay:
    state = summarize(record.log, record.run_id).state
    return Replay(identity=record.run_id, state=state, steps=tuple(steps))


async def _replay_visit(
    store: ConversationStore, event: NodeStartedEvent, other: _Version | None
) -> Sequence[ReplayStep]:
    """Replay the requests of a visit, or its subflow; nothing if it was interrupted before."""
    identity = event.conversation_id
    try:
        if not (log := store.open_log(identity).read()):
            return ()
        if any(isinstance(each.event, FlowStartedEvent) for each in log):
            subflow_check = None if other is None else other.check.subflows.get(event.node)
            task = None
            if subflow_check is not None:
                task = examine_task(subflow_check.task.place, strict=False)
            replay = await replay_flow_run(store, identity, task)
            return [attrs.evolve(step, run_id=step.run_id or identity) for step in replay.steps]
        replay = await replay_run(store, identity, Variant())
    except UnknownConversationError:
        return ()
    return [attrs.evolve(step, run_id=identity) for step in replay.steps]


class FlowReplay:
    """Walk through the events of a run.

    Attributes:
        state: State of the run after the events so far.

    Args:
        flow: Flow of the task.
        max_iterations: Maximum number of visits of the run.
        compare: Returns the first difference of a node in another version of the task; empty if
            there is none.
        goal: Difference of the goal in that version; empty if there is none.
    """

    def __init__(
        self,
        flow: Flow,
        max_iterations: int,
        compare: Callable[[str], str] = lambda name: "",
        goal: str = "",
    ) -> None:
        self.state = FlowState.begin(flow)
        self._bound = max_iterations
        self._compare = compare
        self._goal = goal

    def check(self, logged: LoggedEvent) -> Iterator[ReplayStep]:
        """Yield the replay steps of an event that is not yet applied to the state."""
        number, event = logged.sequence, logged.event
        if isinstance(event, NodeStartedEvent):
            difference = self._check_place(event) or self._compare(event.node)
            if difference:  # otherwise the visit is reported when it ends
                yield self._compose_step(number, event, difference)
        elif isinstance(event, NodeFinishedEvent):
            place = self._check_place(event)
            yield self._compose_step(
                number, event, place or self._compare(event.node) or self._check_edges(event)
            )
        elif isinstance(event, FlowEndedEvent):
            is_over = isinstance(decide(self.state, (), self._bound), Stop)
            if event.reason == "ended" and not is_over:
                difference = "the flow would continue"
            elif event.reason in ("waiting", "failed") and self.state.final is not None:
                difference = "the flow would have ended"
            else:
                difference = self._goal if event.goal_met is not None else ""
            yield ReplayStep(
                sequence=number, step="end", detail=event.reason, difference=difference
            )

    def _compose_step(
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
            # The goal is judged when all branches have ended.
            ends = self.state.final is not None and isinstance(event, NodeStartedEvent)
            return "" if ends else f"branch {event.branch} does not exist"
        if (branch.node, branch.visit) != (event.node, event.visit):
            return f"the flow is at {branch.node}, visit {branch.visit}"
        return ""

    def _check_edges(self, event: NodeFinishedEvent) -> str:
        edges = self.state.flow.edges
        if any(each >= len(edges) or edges[each].source != event.node for each in event.edges):
            return "it took edges that do not leave it"
        other_branches = [number for number in self.state.branches if number != event.branch]
        match decide(self.state, other_branches, self._bound):
            case Pass(passed) if passed.edges != event.edges:
                return "the flow would take other edges"
            case VisitNode() | Pass():
                return ""
        return "the flow would stop"
