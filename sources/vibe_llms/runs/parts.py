"""Conversations within a run: those of a flow's visits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import NodeStartedEvent
from vibe_llms.exceptions import UnknownConversationError


def survey_parts(store: ConversationStore, run_id: str) -> Iterator[str]:
    """Yield the conversations of a flow's visits, and of their visits. Does file work."""
    for logged in store.open_log(run_id).read():
        if isinstance(logged.event, NodeStartedEvent) and logged.event.conversation_id:
            identity = logged.event.conversation_id
            with suppress(UnknownConversationError):
                store.read_metadata(identity)
                yield identity
                yield from survey_parts(store, identity)
