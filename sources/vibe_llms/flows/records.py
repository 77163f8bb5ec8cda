"""Stored record of a flow's run: enough to resume, fork and inspect it.

No model is asked, and no tool is invoked: the state of a run is folded from its events.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.exceptions import (
    CorruptionError,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.flows.budgets import Spending, measure, read_spending
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.machine import Pass, decide
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_reading import TaskReading, examine_task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.suggestions import end_among

_KINDS = (FlowEndedEvent, FlowStartedEvent, NodeFinishedEvent, NodeStartedEvent)


@frozen(kw_only=True, eq=False, slots=False)
class FlowRecord:
    """Stored run.

    Attributes:
        run_id: Id of its conversation.
        started: First event of the visit.
        reading: The task as it was then, read again.
        log: All events of the visit, each with its time.
    """

    run_id: str
    started: FlowStartedEvent
    reading: TaskReading
    log: tuple[LoggedEvent, ...]

    @property
    def events(self) -> tuple[FlowEvent, ...]:
        """All events of the record."""
        return tuple(each.event for each in self.log if isinstance(each.event, _KINDS))

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Limits of its last start or resumption, by the names of ``AdapterConfig``."""
        last = [event for event in self.events if isinstance(event, FlowStartedEvent)][-1]
        return last.settings

    @functools.cached_property
    def flow(self) -> Flow:
        """Flow of the task.

        Raises:
            ConfigurationError: The task has mistakes.
        """
        return check_task(self.reading).access_flow()

    def cut(self, node: str, visit: int) -> tuple[NodeFinishedEvent, ...]:
        """Return the visits that had ended before a visit of a node began.

        Raises:
            RequestError: The run has not reached that visit.
        """
        earlier: list[NodeFinishedEvent] = []
        for event in self.events:
            if isinstance(event, (NodeFinishedEvent, NodeStartedEvent)):
                if (event.node, event.visit) == (node, visit):
                    return tuple(earlier)
                if isinstance(event, NodeFinishedEvent):
                    earlier.append(event)
        nodes = [event.node for event in earlier]
        count = nodes.count(node)
        end = f"; the last one is {count}." if count else end_among(node, dict.fromkeys(nodes))
        raise RequestError(
            path="node",
            detail=f"The run {self.run_id} has no visit {visit} of {node!r}{end}",
            stage=Stage.EXECUTE,
        )


def read_record(store: ConversationStore, run_id: str) -> FlowRecord:
    """Read the record of a run. Does file work.

    Raises:
        UnknownConversationError: The store has no such conversation.
        StoreError: The id is not that of a flow's run, or the store keeps no logs.
        ConfigurationError: The stored task is invalid.
    """
    require_logs(store)
    log = tuple(store.open_log(run_id).read())
    started = next((each.event for each in log if isinstance(each.event, FlowStartedEvent)), None)
    if started is None:
        store.read_metadata(run_id)  # raises an error if the conversation does not exist
        raise StoreError(
            detail=f"{run_id} is a conversation, not the run of a flow.",
            remedy="`vibe flow run` prints the id of its run.",
        )
    reading = examine_task(started.task, strict=False)
    task = attrs.evolve(reading.task, place=started.place)
    return FlowRecord(
        run_id=run_id, started=started, reading=attrs.evolve(reading, task=task), log=log
    )


def find_record(store: ConversationStore | None, run_id: str) -> FlowRecord | None:
    """Read the record of a run, if it has started. Does file work.

    Raises:
        ConfigurationError: The stored task is invalid.
    """
    if store is None or not store.keeps_logs:
        return None
    with suppress(StoreError):  # other errors are reported when it is resumed
        return read_record(store, run_id)
    return None


def measure_run(store: ConversationStore, identity: str) -> Spending:
    """Add up the usage of responses in a visit, or in a subflow with all of its visits.

    Includes interrupted visits; the usage is empty if there was no response yet. Does file work.
    """
    total = Spending()
    open_by_branch: dict[int, dict[str, str]] = {}  # the conversations of visits, by purpose
    is_flow = False
    for each in store.open_log(identity).read():
        match each.event:
            case FlowStartedEvent():
                is_flow = True
            case NodeStartedEvent() as event:
                conversations = open_by_branch.setdefault(event.branch, {})
                conversations[event.purpose] = event.conversation_id
            case NodeFinishedEvent() as event:
                total += read_spending(event)
                open_by_branch.pop(event.branch, None)
    if is_flow:
        interrupted = chain.from_iterable(each.values() for each in open_by_branch.values())
        return sum((measure_run(store, identity) for identity in interrupted), total)
    with suppress(UnknownConversationError):
        total += measure(Conversation.restore(store, identity).canisters)
    return total


def transfer_visits(
    before: Iterable[NodeFinishedEvent], node: str, flow: Flow, other: Flow
) -> tuple[NodeFinishedEvent, ...]:
    """Return visits of one flow as visits of another flow that is equal on the path of the visits.

    Args:
        before: Visits of a run of the first flow.
        node: Node to which they lead.
        flow: First flow.
        other: Other flow, in which the indices of edges may differ.

    Raises:
        RequestError: The flows differ on that path.
    """
    transferred = []
    for event in before:
        own_edges, other_edges = _index_edges(flow, event.node), _index_edges(other, event.node)
        if own_edges.keys() != other_edges.keys():
            raise _refuse_fork(node, f"{event.node} has changed, or leads to other nodes")
        places = {index: other_edges[key] for key, index in own_edges.items()}
        edges = tuple(places[index] for index in event.edges)
        transferred.append(attrs.evolve(event, edges=edges))
    try:
        # Only the path matters here; the settings of the run limit its length.
        state = replay_flow(other, transferred, max_iterations=sys.maxsize)
    except (CorruptionError, KeyError) as error:  # intermediate nodes decide where branches meet
        raise _refuse_fork(node, "its branches and loops differ") from error
    if node not in {branch.node for branch in state.branches.values()}:
        raise _refuse_fork(node, "the flow reaches other nodes")
    return tuple(transferred)


def _index_edges(flow: Flow, name: str) -> dict[tuple[object, ...], int]:
    """Return the outgoing edges of a node by their meaning, which includes the node's meaning."""
    node = flow.nodes.get(name)
    kind = None if node is None else node.kind
    return {
        (kind, edge.kind, edge.label, edge.target): edge.index
        for edge in flow.leaving.get(name, ())
    }


def _refuse_fork(node: str, reason: str) -> RequestError:
    return RequestError(
        path="task",
        detail=f"The task differs from that of the run before {node}: {reason}.",
        remedy="Fork at an earlier node, or keep the diagram unchanged up to this node.",
        stage=Stage.EXECUTE,
    )


def replay_flow(flow: Flow, events: Iterable[FlowEvent], *, max_iterations: int) -> FlowState:
    """Replay a run without asking a model: its responses are in the events.

    Raises:
        CorruptionError: The flow cannot take a step of the recorded run.
    """
    state = FlowState.begin(flow)
    for event in events:
        if isinstance(event, NodeFinishedEvent):
            _check_step(state, event, max_iterations)
        state.apply(event)
    return state


def _check_step(state: FlowState, event: NodeFinishedEvent, max_iterations: int) -> None:
    branch = state.branches.get(event.branch)
    other_branches = state.branches.keys() - {event.branch}
    expected = decide(state, other_branches, max_iterations) if branch else None
    outgoing = {edge.index for edge in state.flow.edges if edge.source == event.node}
    fits = (
        branch is not None
        and branch.node == event.node
        and outgoing.issuperset(event.edges)
        and (not isinstance(expected, Pass) or expected.event == event)
    )
    if not fits:
        place = (
            f"branch {event.branch} is at {branch.node}" if branch else "the branch does not exist"
        )
        raise CorruptionError(
            detail=f"The run says that branch {event.branch} visited {event.node} and "
            f"continued by {list(event.edges)}, but {place}.",
            remedy="The log was changed, or belongs to another flow.",
        )
