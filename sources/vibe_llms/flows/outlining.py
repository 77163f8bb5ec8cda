"""Outlines of flows, from the logs of their runs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.exceptions import ConfigurationError, CorruptionError, StoreError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course
from vibe_llms.flows.drawing import UNREACHED, annotate
from vibe_llms.flows.outlines import Outline, OutlinedNode
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.flows.tasks import Task
from vibe_llms.mermaid import parse_diagram


def read_outline(store: ConversationStore, run_id: str) -> Outline:
    """Read the outline of a run, even before it has started. Does file work.

    Raises:
        UnknownConversationError: The store has no such conversation.
        StoreError: The id is not that of a flow's run.
        ConfigurationError: The stored task is invalid.
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
    """Return the final response of a flow; empty if its log does not lead to an end."""
    try:
        return FlowState.fold(record.flow, record.events).final or ""
    except (ConfigurationError, CorruptionError, KeyError, IndexError):  # a log that was changed
        return ""


def _find_task(store: ConversationStore, run_id: str) -> Task | None:
    """Return the task of a run that was requested and has not started."""
    for each in store.open_log(run_id).read():
        if isinstance(each.event, RunRequestedEvent):
            task = each.event.spec.get("task")
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
        conversations = [each.conversations[""] for each in visits if each.conversations.get("")]
        nodes.append(
            OutlinedNode(
                id=node.id,
                title=node.text or node.id,
                kind=node.kind,
                state=str(states.get(node.id, UNREACHED)),
                visits=len(visits),
                conversation_id=conversations[-1] if conversations else "",
            )
        )
    return Outline(diagram=annotate(text, course, {}), nodes=nodes, goal=task.goal.description)
