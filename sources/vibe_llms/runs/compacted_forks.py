"""Compacted fork of a run: found also if the worker that stored it was killed before it said so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.events.runs import RunContinuedEvent, RunRequestedEvent, StopRequestedEvent
from vibe_llms.exceptions import CorruptionError, UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.owners import read_subject

_IDENTITY_DIGITS: Final = 32
_INPUT_ROLES: Final = ("user", "supervisor", "document")


def derive_fork(identity: str, request: int, last: AnyCanister) -> str:
    """Return the id of the fork in which a run continues.

    Args:
        identity: Id of the parent.
        request: Number of the event that requested the run.
        last: Last canister of the parent that the fork has, or has a summary of.
    """
    source = f"{identity}\0{request}\0{last.id}"
    return hashlib.sha256(source.encode()).hexdigest()[:_IDENTITY_DIGITS]


def list_unanswered(canisters: Sequence[AnyCanister]) -> list[AnyCanister]:
    """Return the unanswered messages, the last one first, and the canister before them."""
    found = []
    for canister in reversed(canisters):
        found.append(canister)
        if canister.role not in _INPUT_ROLES:
            break
    return found


def find_fork(
    store: ConversationStore,
    identity: str,
    events: Sequence[LoggedEvent],
    canisters: Sequence[AnyCanister] | None = None,
) -> str:
    """Return the fork to which the newest request of a run has moved; empty without one.

    Does file work.

    Args:
        identity: Id of the parent.
        events: Events of its log.
        canisters: Canisters of the parent; by default they are read if they are needed.

    Raises:
        StoreError: The store cannot be read.
    """
    requests = [i for i, each in enumerate(events) if isinstance(each.event, RunRequestedEvent)]
    if not requests:
        return ""
    since = events[requests[-1] :]
    for event in reversed([each.event for each in since]):
        if isinstance(event, RunContinuedEvent) and event.continues == identity:
            with suppress(UnknownConversationError):  # it was deleted
                store.read_metadata(event.conversation)
                return event.conversation
    if not any(isinstance(each.event, RunStartedEvent) for each in since):
        return ""
    if canisters is None:
        canisters = store.read(identity).canisters
    names = (derive_fork(identity, since[0].sequence, each) for each in list_unanswered(canisters))
    return _find_requested(store, names)


def stop_fork(store: ConversationStore, identity: str, stop: StopRequestedEvent) -> str:
    """Send a stop to the fork in which a run continues; return its id, or an empty text.

    Does file work.

    Args:
        identity: Id of the parent.

    Raises:
        StoreError: The store cannot be read or written.
    """
    # A damaged parent must not prevent that its own run is stopped.
    with suppress(CorruptionError, UnknownConversationError):
        if fork := find_fork(store, identity, store.open_log(identity).read()):
            store.open_inbox(fork).put(stop)
            return fork
    return ""


def _find_requested(store: ConversationStore, names: Iterable[str]) -> str:
    """Return the first of some conversations that is stored with the request of a run."""
    for name in names:
        with suppress(UnknownConversationError):
            if read_subject(store, name) is not None:
                return name
    return ""
