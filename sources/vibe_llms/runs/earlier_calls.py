"""Calls that may have been executed by runs of parents, or by runs without a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister, ResultCanister


def survey_doubtful(
    store: ConversationStore | None, conversation: Conversation
) -> Sequence[LogEvent]:
    """Return the calls that must be treated as started if the store keeps no logs of runs.

    Without a log, it is unknown whether an earlier run has executed a call that has no result. The
    call counts as started, so that a call that must not be repeated is not repeated silently.
    """
    if store is None or store.keeps_logs or not len(conversation):
        return ()
    return [
        InvocationStartedEvent(
            key=call.id,
            invocation_id=call.invocation_id,
            name=call.name,
            arguments=call.arguments,
            effect="",
            idempotency_key="",
        )
        for call in read_tail(conversation.canisters).pending_calls
    ]


_ABOUT_CALLS: Final = (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)


def survey_inherited(
    store: ConversationStore | None,
    conversation: Conversation,
    kinds: tuple[type[LogEvent], ...] = _ABOUT_CALLS,
) -> Sequence[LogEvent]:
    """Return the events about calls that a fork shares with its parents, oldest first.

    A call that took effect in the parent's run must not be repeated in a fork.
    """
    link: ParentLink | None = conversation.metadata.parent
    if store is None:
        boxes = reversed(conversation.companions.maps[1:])
        logs: list[MemoryLog] = [each[MemoryLog] for each in boxes if MemoryLog in each]
        events = (each.event for log in logs for each in log.read())
        return [event for event in events if isinstance(event, kinds)]
    if link is None:
        return ()
    parents: list[list[LogEvent]] = []
    while link is not None:
        try:
            logged = store.open_log(link.identity).read()
            known: list[LogEvent] = [each.event for each in logged if isinstance(each.event, kinds)]
            if any(each.kept for each in logged):
                known = _restore_results(known, store.read(link.identity).canisters)
            parents.append(known)  # before the parent may be deleted: its calls stay started
            link = store.read_metadata(link.identity).parent
        except UnknownConversationError:  # deleted in the meantime
            break
    return [event for events in reversed(parents) for event in events]


def _restore_results(
    events: Sequence[LogEvent], canisters: Sequence[AnyCanister]
) -> list[LogEvent]:
    """Return the events, with results that a compacted log has omitted and the conversation has."""
    results = {each.id: each for each in canisters if isinstance(each, ResultCanister)}
    return [
        attrs.evolve(each, result=results.get(each.result.id, each.result))
        if isinstance(each, InvocationFinishedEvent)
        else each
        for each in events
    ]
