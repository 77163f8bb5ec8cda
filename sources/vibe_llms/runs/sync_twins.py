"""Twins: a fork from a conflict, and the conversation that it is in the other store.

The conflict does not show them if one store has deleted its version of the conversation. A fork has
the time of the conversation, and its id follows from the conversation's messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from vibe_llms.conversations.exchange.drafts import derive_identity
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import StoreError


def derive_fork(before: str, first: str) -> str:
    """Derive the id of a fork from its first message and the message before it."""
    return derive_identity("sync", before, first)


def find_twins(
    here: ConversationStore,
    there: ConversationStore,
    only_here: Sequence[str],
    only_there: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Yield the ids of twins here and there, each id once.

    Args:
        here: A store.
        there: Another store.
        only_here: Conversations that exist only here, parents first.
        only_there: Conversations that exist only there, parents first.
    """
    theirs: dict[datetime | None, list[str]] = {}
    for identity in only_there if only_here else ():
        theirs.setdefault(_read_created(there, identity), []).append(identity)
    theirs.pop(None, None)
    for identity in only_here if theirs else ():
        others = theirs.get(_read_created(here, identity), [])
        for other in others:
            if other in _survey_forks(here, identity) or identity in _survey_forks(there, other):
                others.remove(other)
                yield identity, other
                break


def _read_created(store: ConversationStore, identity: str) -> datetime | None:
    with suppress(StoreError):  # reported when it is copied
        return store.read_metadata(identity).created
    return None


def _survey_forks(store: ConversationStore, identity: str) -> set[str]:
    """Return the ids of all forks with the ending of a conversation."""
    with suppress(StoreError):
        identities = ["", *(each.id for each in store.read(identity).canisters)]
        return set(map(derive_fork, identities, identities[1:]))
    return set()
