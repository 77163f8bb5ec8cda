"""Where a run of a flow stands, for those who draw it themselves: its diagram and its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course
from vibe_llms.flows.drawing import UNREACHED, annotate
from vibe_llms.flows.reading import examine_task
from vibe_llms.flows.records import read_record
from vibe_llms.mermaid import parse_diagram
from vibe_llms.runs.places import produce_log
from vibe_llms.values import frozen


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
    """

    diagram: str
    nodes: Sequence[OutlinedNode]


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
    return _outline(record.reading.task.flow_diagram.mermaid, Course.read(record.log))


def _find_task(store: ConversationStore, run_id: str) -> str | None:
    """Returns the diagram of what was asked for and has not begun."""
    for each in produce_log(store, run_id).read():
        if isinstance(each.event, RunRequestedEvent):
            task = each.event.order.get("task")
            if isinstance(task, Mapping):
                return examine_task(task, strict=False).task.flow_diagram.mermaid
    return None


def _outline(text: str, course: Course) -> Outline:
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
    return Outline(diagram=annotate(text, course, {}), nodes=nodes)
