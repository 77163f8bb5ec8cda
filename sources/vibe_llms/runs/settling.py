"""Results for abandoned calls, taken from the log before the conversation continues.

A run that was cut off leaves calls without results. As long as the user adds nothing, the next run
executes the calls, or asks for their approval. Once the user adds a message, the calls
are no longer executed: each gets a result with exactly what the log says about it, so the model
learns no more and no less than is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.log import PATIENCE_SECONDS, RunLog, claim_soon, read_events
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.dialects.history import BEGUN, NO_RESULT, NOT_BEGUN, pair_results
from vibe_llms.engine.recovery import Record
from vibe_llms.engine.tails import find_end, read_tail
from vibe_llms.events.engine import (
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Owner, ResultCanister
from vibe_llms.runs.earlier_calls import survey_inherited

_CALL_EVENTS: Final = (GenerationStartedEvent, InvocationFinishedEvent, InvocationStartedEvent)


def settle_calls(
    conversation: Conversation,
    store: ConversationStore | None,
    log: RunLog,
    save: Callable[[], object],
) -> None:
    """Add results for calls that no run will execute, before the canisters not stored yet.

    Calls of the last turn are left alone: the next run executes them. Does file work.

    Args:
        conversation: The conversation.
        store: Store of the conversation; ``None`` if it is in memory only.
        log: Claimed log of its runs.
        save: Stores new canisters, and loads canisters that other writers have added.

    Raises:
        StoreError: The log could not be read, or the conversation could not be stored.
    """
    owed = _find_abandoned(conversation.canisters)
    if not owed:
        return
    position = _find_position(conversation.canisters, owed[-1])
    later = conversation.canisters[position:]
    conversation.remove_unsaved(later)  # removes only those that are not stored
    unsaved = later[len(conversation) - position :]
    try:
        save()  # another writer may have settled them by now
        owed = _find_abandoned([*conversation.canisters, *unsaved])
        if owed:
            events = [*survey_inherited(store, conversation, _CALL_EVENTS), *read_events(log)]
            conversation.add_canisters(_state_outcomes(conversation.canisters, owed, events))
    finally:
        conversation.add_canisters(unsaved)


def settle_stored(
    conversation: Conversation,
    store: ConversationStore,
    *,
    wait_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Settle the calls of a stored conversation without an engine.

    While a run of the conversation is active, nothing is changed. Does file work.

    Args:
        wait_seconds: How long to wait until a killed process has released the log.

    Raises:
        StoreError: The log could not be read, or the conversation could not be stored.
    """
    if not _find_abandoned(conversation.canisters):
        return
    log = store.open_log(conversation.id)
    try:
        claim_soon(log, wait_seconds=wait_seconds)
    except StoreError:
        return
    try:
        settle_calls(conversation, store, log, lambda: conversation.catch_up(store))
    finally:
        log.close()


def _find_abandoned(canisters: Sequence[AnyCanister]) -> list[int]:
    """Return the positions of the calls without a result that no run will execute."""
    if not canisters or read_tail(canisters).pending_calls:
        return []
    answered = pair_results(canisters)
    return [
        index
        for index, each in enumerate(canisters)
        if isinstance(each, InvocationCanister)
        and each.owner is Owner.OURS
        and index not in answered
    ]


def _find_position(canisters: Sequence[AnyCanister], index: int) -> int:
    """Return the position behind the turn of a call and the results that follow it."""
    position = index + find_end(canisters[index:])
    while position < len(canisters) and _is_result(canisters[position]):
        position += 1
    return position


def _is_result(canister: AnyCanister) -> bool:
    return isinstance(canister, ResultCanister) and canister.owner is Owner.OURS


def _state_outcomes(
    canisters: Sequence[AnyCanister], owed: Sequence[int], events: Iterable[LogEvent]
) -> list[ResultCanister]:
    """Return the results of calls from the log; for one without, a note on what happened to it."""
    events = list(events)
    record = Record.read(events)
    last_sent_ids = {each.key for each in events if isinstance(each, GenerationStartedEvent)}
    results = []
    for index in owed:
        call = canisters[index]
        assert isinstance(call, InvocationCanister)
        tail = read_tail(canisters[: index + 1])
        if call.id in record.results:
            results.append(record.results[call.id])
            continue
        if call.id in record.started:
            note = BEGUN
        elif (
            tail.sent_count and canisters[tail.sent_count - 1].id in last_sent_ids
        ):  # requested by a run
            note = NOT_BEGUN
        else:
            note = NO_RESULT
        results.append(
            ResultCanister(
                note, invocation_id=call.invocation_id, name=call.name or None, is_error=True
            )
        )
    return results
