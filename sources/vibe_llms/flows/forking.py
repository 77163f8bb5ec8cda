"""Forks of flows that are performed later, by whoever hosts runs."""

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
    wanted: RunRequestedEvent,
    *,
    visit: int = 1,
    variables: Mapping[str, JsonValue] | None = None,
) -> str:
    """Writes a run that has been where another one was when a visit began. Does file work.

    Whoever takes it up goes on from there. It is asked for last: one whose writer was killed
    before has not been asked for, and is never begun.

    Args:
        node: The id of the node.
        wanted: By what it is asked for.
        visit: Which of the node's visits is the first that is made anew, from 1.
        variables: Instead of those that the run was given, by name.

    Returns:
        The id of the new run.

    Raises:
        UnknownConversationError: There is no such run.
        RequestError: It has not come to that visit.
        StoreError: It is no run of a flow, or something cannot be written.
    """
    record = read_record(store, run_id)
    before = record.cut(node, visit)
    # What it was asked, without the answer that it came to.
    identity = store.fork(run_id, from_index=1)
    started = FlowStartedEvent(
        run_id=identity,
        task=record.started.task,
        place=record.started.place,
        variables={**record.started.variables, **(variables or {})},
        settings=record.settings,
    )
    ended = FlowEndedEvent(run_id=identity, reason="cancelled", detail=f"A fork of {run_id}.")
    events: list[LogEvent] = [started, *before, ended, wanted]
    log = store.open_log(identity)
    log.claim()
    try:
        for event in events:
            log.append(identity, event)
        log.synchronize()
    finally:
        log.close()
    return identity
