"""Messages to a running flow: find the conversation that receives them, and send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import RequestError, Stage, UnknownConversationError
from vibe_llms.flows.graphs import NodeKind
from vibe_llms.flows.records import find_record
from vibe_llms.flows.state import FlowState
from vibe_llms.runs.delivering import arrived_in_time, deliver
from vibe_llms.runs.waiting import survey_waiting

_OWN_PURPOSE: Final = ""
"""Purpose of a visit's own conversation; judges of the visit have other purposes."""


def send_to_visit(store: ConversationStore, run_id: str, message: MessageReceivedEvent) -> None:
    """Send a message to the visit of a flow that asks a model. Does file work.

    Raises:
        RequestError: No visit can receive it.
    """
    identity = find_recipient(store, run_id)
    if identity is None:
        raise _refuse(
            "No visit of this flow is asking a model now, so none can receive the message."
        )
    try:
        store.open_inbox(identity).put(message)
    except UnknownConversationError as error:  # it has only just started
        detail = "The visit that could receive the message is just starting: try again."
        raise _refuse(detail) from error
    deliver(store, identity)
    if not arrived_in_time(store.open_log(identity), message.message_id):
        raise _refuse("Too late: the visit that could receive the message has completed.")


def _refuse(detail: str) -> RequestError:
    return RequestError(path="run", detail=detail, stage=Stage.EXECUTE)


def find_recipient(store: ConversationStore, run_id: str) -> str | None:
    """Return the conversation that receives messages to a flow. Does file work.

    It belongs to a visit in progress that asks a model, in the flow or a subflow. Of several, the
    first that waits for an approval is chosen, otherwise the first in the order of the flow's
    branches.

    Raises:
        ConfigurationError: The stored task is invalid.
        StoreError: A log cannot be read.
    """
    conversations = list(_survey_conversations(store, run_id))
    for conversation_id in conversations:
        if survey_waiting(store, conversation_id):
            return conversation_id
    return conversations[0] if conversations else None


def _survey_conversations(store: ConversationStore, run_id: str) -> Iterator[str]:
    """Yield the conversations of visits in progress that ask a model, also of subflows."""
    record = find_record(store, run_id)
    if record is None:
        return
    state = FlowState.fold(record.flow, record.events)
    is_ended = state.ending is not None and state.ending.reason == "ended"
    if is_ended:  # a suspended flow still receives messages
        return
    for branch in state.branches.values():
        conversations_by_purpose = state.open_conversations.get(branch.number, {})
        conversation_id = conversations_by_purpose.get(_OWN_PURPOSE)
        if conversation_id is None:
            continue
        kind = state.flow.nodes[branch.node].kind
        if kind is NodeKind.PROMPT:
            yield conversation_id
        elif kind is NodeKind.SUBFLOW:
            yield from _survey_conversations(store, conversation_id)
