"""Where a run of a flow stands, for those who draw it themselves: its diagram and its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.exceptions import ConfigurationError, CorruptionError, StoreError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course
from vibe_llms.flows.drawing import UNREACHED, annotate
from vibe_llms.flows.reading import examine_task
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.tasks import Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.mermaid import parse_diagram


@frozen(kw_only=True)
class OutlinedNode:
    """One node of a flow.

    Attributes:
        id: As the diagram has it.
        title: What is written on it, or else its id.
        kind: Of the node.
        state: Of its last visit that is not over; ``unreached`` where there was none.
        visits: How many there were.
        conversation_id: Of what was said at the last of them; empty where nothing was.
    """

    id: str
    title: str
    kind: str
    state: str
    visits: int
    conversation_id: str


@frozen(kw_only=True)
class Outline:
    """Where a run of a flow stands.

    Attributes:
        diagram: As Mermaid, with what has happened; the looks of states are left to who draws it,
            by classes such as ``flow-done``.
        nodes: Of the flow, as the diagram names them.
        goal: What the flow is for.
        response: The final response; empty before the flow has ended.
        verdicts: What became of each condition of the goal: its ``description``,
            ``evaluation_type``, ``is_met`` and ``evidence``; empty before they were looked at.
    """

    diagram: str
    nodes: Sequence[OutlinedNode]
    goal: str = ""
    response: str = ""
    verdicts: tuple[Mapping[str, JsonValue], ...] = ()


def read_outline(store: ConversationStore, run_id: str) -> Outline:
    """Reads where a run stands, also before it has begun. Does file work.

    Raises:
        UnknownConversationError: The store has no such conversation.
        StoreError: It is no run of a flow.
        ConfigurationError: What it has of the task does not read.
    """
    try:
        record = read_record(store, run_id)
    except StoreError:
        task = _find_task(store, run_id)
        if task is None:
            raise
        return _outline(task, Course())
    task, course = record.reading.task, Course.read(record.log)
    return attrs.evolve(
        _outline(task, course),
        response=_find_response(record),
        verdicts=course.ended.verdicts if course.ended else (),
    )


def _find_response(record: FlowRecord) -> str:
    """Return what a flow has said in the end; empty where it does not lead there."""
    try:
        return FlowState.fold(record.flow, record.events).final or ""
    except (ConfigurationError, CorruptionError, KeyError, IndexError):  # a log that was changed
        return ""


def _find_task(store: ConversationStore, run_id: str) -> Task | None:
    """Return the task of a run that is ordered and has not begun."""
    for each in store.open_log(run_id).read():
        if isinstance(each.event, RunRequestedEvent):
            task = each.event.order.get("task")
            if isinstance(task, Mapping):
                return examine_task(task, strict=False).task
    return None


def _outline(task: Task, course: Course) -> Outline:
    text = task.flow_diagram.mermaid
    flow = compile_flow(parse_diagram(text)).flow
    states = course.states
    nodes = []
    for node in flow.nodes.values():
        visits = course.survey(node.id)
        said = [each.conversations[""] for each in visits if each.conversations.get("")]
        nodes.append(
            OutlinedNode(
                id=node.id,
                title=node.text or node.id,
                kind=node.kind,
                state=str(states.get(node.id, UNREACHED)),
                visits=len(visits),
                conversation_id=said[-1] if said else "",
            )
        )
    return Outline(diagram=annotate(text, course, {}), nodes=nodes, goal=task.goal.description)
