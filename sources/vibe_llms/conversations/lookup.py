"""Lookup of conversations by prefix or by age."""

from __future__ import annotations

from datetime import datetime

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import AmbiguousIdentityError, StoreError, UnknownConversationError


def resolve(store: ConversationStore, prefix: str) -> str:
    """Return the only id that begins with a prefix.

    Raises:
        UnknownConversationError: No id begins with it, or it is blank.
        AmbiguousIdentityError: Several ids begin with it; the error names them.
    """
    wanted = prefix.strip().lower()
    fitting = [identity for identity in store.survey() if identity.startswith(wanted)]
    if wanted in fitting:
        return wanted
    if not fitting or not wanted:
        raise UnknownConversationError(
            identity=prefix, remedy="`vibe list` lists the conversations."
        )
    if len(fitting) > 1:
        raise AmbiguousIdentityError(
            identity=prefix, candidates=tuple(sorted(fitting)), remedy="Write more of the id."
        )
    return fitting[0]


def survey_dated(
    store: ConversationStore,
) -> list[tuple[datetime, str, ConversationMetadata]]:
    """Return the time of the last message, the id and the metadata of each conversation.

    Skips conversations with unreadable metadata.

    Raises:
        StoreError: All of them are unreadable.
    """
    dated, trouble = [], None
    for identity in store.survey():
        try:
            metadata = store.read_metadata(identity)
        except UnknownConversationError:  # deleted in the middle of this loop
            continue
        except StoreError as error:  # others may read
            trouble = error
            continue
        dated.append((metadata.updated, identity, metadata))
    if not dated and trouble is not None:
        raise trouble
    return dated


def find_newest(store: ConversationStore) -> str | None:
    """Return the id of the conversation with the newest message, if there is one.

    Skips parts of other conversations, such as visits of flows.

    Raises:
        StoreError: All conversations are unreadable.
    """
    dated = [each for each in survey_dated(store) if not is_part(each[2].tags)]
    newest = max(dated, key=lambda each: each[:2], default=None)
    return None if newest is None else newest[1]
