"""Forks of flows that a worker performs later."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.flows.records import read_record
from vibe_llms.foundation.json_types import JsonValue


def begin_fork(
    store: ConversationStore,
    run_id: str,
    node: str,
    request: RunRequestedEvent,
    *,
    visit: int = 1,
    variables: Mapping[str, JsonValue] | None = None,
) -> str:
    """Write a run with the state of another one before a visit. Does file work.

    The worker that takes the run continues from there. The request for the run is written last: if
    the writer is killed before that, the run is not requested and never starts.

    Args:
        node: The id of the node.
        request: Request for the run.
        visit: Number of the node's visit from which the run is repeated, from 1.
        variables: Replacements for variables of the run, by name.

    Returns:
        The id of the new run.

    Raises:
        UnknownConversationError: The run does not exist.
        RequestError: The run has not reached that visit.
        StoreError: The id is not that of a flow's run, or the store cannot be written.
    """
    record = read_record(store, run_id)
    before = record.cut(node, visit)
    # The question of the run, without its answer.
    identity = store.fork(run_id, from_index=1)
    started = FlowStartedEvent(
        run_id=identity,
        task=record.started.task,
        place=record.started.place,
        variables={**record.started.variables, **(variables or {})},
        settings=record.settings,
    )
    ended = FlowEndedEvent(run_id=identity, reason="cancelled", detail=f"A fork of {run_id}.")
    events: list[LogEvent] = [started, *before, ended, request]
    log = store.open_log(identity)
    log.claim()
    try:
        for event in events:
            log.append(identity, event)
        log.synchronize()
    finally:
        log.close()
    return identity
