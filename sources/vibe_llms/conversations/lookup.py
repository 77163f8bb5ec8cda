"""Look up conversations by a prefix of their id, or by age."""

from __future__ import annotations

from datetime import datetime

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import AmbiguousIdentityError, StoreError, UnknownConversationError


def resolve(store: ConversationStore, prefix: str) -> str:
    """Return the only id that begins with a prefix.

    Raises:
        UnknownConversationError: No id begins with the text, or the text is blank.
        AmbiguousIdentityError: Several ids begin with the text; the error names these ids.
    """
    identity_prefix = prefix.strip().lower()
    candidates = [identity for identity in store.survey() if identity.startswith(identity_prefix)]
    if identity_prefix in candidates:
        return identity_prefix
    if not candidates or not identity_prefix:
        raise UnknownConversationError(
            identity=prefix, remedy="`vibe list` lists the conversations."
        )
    if len(candidates) > 1:
        raise AmbiguousIdentityError(
            identity=prefix, candidates=tuple(sorted(candidates)), remedy="Write more of the id."
        )
    return candidates[0]


def survey_dated(
    store: ConversationStore,
) -> list[tuple[datetime, str, ConversationMetadata]]:
    """Return the time of the last message, the id and the metadata of each conversation.

    Skips conversations with unreadable metadata.

    Raises:
        StoreError: All conversations are unreadable.
    """
    dated, last_error = [], None
    for identity in store.survey():
        try:
            metadata = store.read_metadata(identity)
        except UnknownConversationError:  # deleted since the survey
            continue
        except StoreError as error:  # others may be readable
            last_error = error
            continue
        dated.append((metadata.updated, identity, metadata))
    if not dated and last_error is not None:
        raise last_error
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
