"""Finds the conversation that a person means."""

from __future__ import annotations

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import AmbiguousIdentityError, StoreError, UnknownConversationError


def resolve(store: ConversationStore, prefix: str) -> str:
    """Returns the identity that is or begins with what a person typed.

    Raises:
        UnknownConversationError: There is none, or nothing was typed.
        AmbiguousIdentityError: There are several; names them.
    """
    wanted = prefix.strip().lower()
    fitting = [identity for identity in store.survey() if identity.startswith(wanted)]
    if wanted in fitting:
        return wanted
    if not fitting or not wanted:
        raise UnknownConversationError(
            identity=prefix, remedy="`vibe list` shows all that there are."
        )
    if len(fitting) > 1:
        raise AmbiguousIdentityError(
            identity=prefix, candidates=tuple(sorted(fitting)), remedy="Type more of it."
        )
    return fitting[0]


def find_newest(store: ConversationStore) -> str | None:
    """Returns the conversation in which something was said last; ``None`` where there is none.

    Raises:
        StoreError: There are conversations, and none can be read.
    """
    newest, trouble = None, None
    for identity in store.survey():
        try:
            updated = store.read_metadata(identity).updated
        except UnknownConversationError:  # deleted meanwhile
            continue
        except StoreError as error:  # others may be newer
            trouble = error
            continue
        newest = max(newest or (updated, identity), (updated, identity))
    if newest is None and trouble is not None:  # there are some, and none can be read
        raise trouble
    return None if newest is None else newest[1]
