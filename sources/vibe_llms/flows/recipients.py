"""Recipient of messages to the run of a flow: a visit that asks a model."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.flows.graphs import NodeKind
from vibe_llms.flows.records import find_record
from vibe_llms.flows.state import FlowState
from vibe_llms.runs.waiting import survey_waiting


def find_recipient(store: ConversationStore, run_id: str) -> str | None:
    """Return the conversation that receives messages to a flow. Does file work.

    It belongs to a visit in progress that asks a model, in the flow or a subflow. Of several, the
    first that waits for an approval is chosen, otherwise the first in the order of the flow's
    branches.

    Raises:
        ConfigurationError: The stored task is invalid.
        StoreError: A log cannot be read.
    """
    found = [*_survey_asking(store, run_id)]
    for identity in found:
        if survey_waiting(store, identity):
            return identity
    return found[0] if found else None


def _survey_asking(store: ConversationStore, run_id: str) -> Iterator[str]:
    record = find_record(store, run_id)
    if record is None:
        return
    state = FlowState.fold(record.flow, record.events)
    if state.ending is not None and state.ending.reason == "ended":
        return
    for branch in state.branches.values():
        identity = state.open_conversations.get(branch.number, {}).get("")
        kind = state.flow.nodes[branch.node].kind
        if identity is None:
            continue
        if kind is NodeKind.PROMPT:
            yield identity
        elif kind is NodeKind.SUBFLOW:
            yield from _survey_asking(store, identity)
