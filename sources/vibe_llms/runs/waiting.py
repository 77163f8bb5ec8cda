"""Approvals from outside: list the calls that a store's runs wait for, and answer them.

A run is suspended if no approver is available. An answer, from any process and at any time, is
written to its log, where the run finds it when it is resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import attrs

from vibe_llms.conversations.run_logs.inbox import read_message_id
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.approving import produce_answer
from vibe_llms.events.engine import ApprovalRequestedEvent, RunEndedEvent
from vibe_llms.events.runs import ApprovalRefusedEvent
from vibe_llms.exceptions import Stage, StoreError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, settle
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.delivering import deliver, survey_open


@frozen(kw_only=True)
class Waiting:
    """A call that waits for an approval.

    Attributes:
        conversation_id: Id of the call's conversation.
        key: Id of the canister with the invocation.
        request: Latest request for approval.
        run_id: Id of the run that made the request.
        timestamp: Time of the request.
    """

    conversation_id: str
    key: str
    request: ApprovalRequest
    run_id: str
    timestamp: datetime


def survey_waiting(
    store: ConversationStore, conversation_id: str | None = None
) -> tuple[Waiting, ...]:
    """List calls that wait for an approval, oldest first. Does file work.

    Args:
        conversation_id: Id of a single conversation to search; ``None`` for all, in which case
            damaged logs are skipped.

    Raises:
        CorruptionError: The log of the conversation cannot be read.
        StoreError: The store keeps no logs of runs.
    """
    require_logs(store)
    if conversation_id is not None:
        return tuple(_find_waiting(conversation_id, store.open_log(conversation_id)))
    found: list[Waiting] = []
    for identity in store.survey():
        with suppress(StoreError):  # deleted in the meantime, or damaged
            log = store.open_log(identity)
            # For most runs the last event is enough, so that not all logs have to be read whole.
            last = log.read_last()
            if last is not None and not isinstance(last.event, RunEndedEvent):
                found.extend(_find_waiting(identity, log))
    return tuple(sorted(found, key=lambda each: (each.timestamp, each.conversation_id)))


def answer(
    store: ConversationStore,
    conversation_id: str,
    approval: Approval,
    *,
    key: str | None = None,
    subject: str = "",
) -> Waiting:
    """Answer a waiting call; run the conversation again to continue. Does file work.

    When this returns, the answer is durable. The first of several answers counts. An active run
    of the conversation receives the answer between two steps.

    Args:
        approval: The answer; identifies the call by its digest.
        key: Key of the call, if several identical calls wait; by default the first of them.
        subject: User who answers.

    Returns:
        The call that was answered.

    Raises:
        UnknownNameError: No such call is waiting; it may have been answered already.
        RequestError: The arguments of an edit are not a JSON object.
        StoreError: The answer cannot be written, or the store keeps no logs of runs.
    """
    require_logs(store)
    log = store.open_log(conversation_id)
    call = choose(_find_waiting(conversation_id, log), approval.digest, key)
    # Called only to raise if the answer is invalid: such an answer must not be written.
    settle(call.request, approval)
    answered = produce_answer(call.key, call.request, approval)
    message = attrs.evolve(answered, message_id=produce_identity(), subject=subject)
    store.open_inbox(conversation_id).put(message)
    deliver(store, conversation_id)
    # Another answer may have been delivered first; then this one is in the log as refused.
    for logged in reversed(log.read()):
        if read_message_id(logged.event) == message.message_id:
            if isinstance(logged.event, ApprovalRefusedEvent):
                raise _describe_unknown(approval.digest, key, ())
            break
    return call


def choose(waiting: Sequence[Waiting], digest: str, key: str | None) -> Waiting:
    """Return the call that an answer refers to; raise UnknownNameError if it is not waiting."""
    for each in waiting:
        if each.request.digest == digest and key in (None, each.key):
            return each
    raise _describe_unknown(digest, key, waiting)


def _describe_unknown(digest: str, key: str | None, waiting: Sequence[Waiting]) -> UnknownNameError:
    known = [(each.request.digest, each.key if key is not None else None) for each in waiting]
    return UnknownNameError(
        kind="waiting call",
        name=_name(digest, key),
        known=tuple(_name(*each) for each in known),
        remedy="It may have been answered already." if not waiting else "",
        stage=Stage.EXECUTE,
    )


def _name(digest: str, key: str | None) -> str:
    return digest if key is None else f"{digest} ({key})"


def _find_waiting(conversation_id: str, log: RunLog) -> list[Waiting]:
    """Find the calls that a user was asked to approve, and that are still open."""
    logged = log.read()
    open_events = survey_open([each.event for each in logged])
    # Compared by identity: an earlier request for the same call may be equal, but closed.
    open_ids = {id(event) for event in open_events.values()}
    return [
        Waiting(
            conversation_id=conversation_id,
            key=each.event.key,
            request=_restore_request(each.event),
            run_id=each.run_id,
            timestamp=each.timestamp,
        )
        for each in logged
        if isinstance(each.event, ApprovalRequestedEvent) and id(each.event) in open_ids
    ]


def _restore_request(event: ApprovalRequestedEvent) -> ApprovalRequest:
    return ApprovalRequest(
        invocation_id=event.invocation_id,
        name=event.name,
        arguments=event.arguments,
        digest=event.digest,
        description=event.description,
        effect=event.effect,
        in_doubt=event.in_doubt,
    )
