"""Finds the conversation that a person means."""

from __future__ import annotations

from datetime import datetime

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
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


def survey_dated(
    store: ConversationStore,
) -> list[tuple[datetime, str, ConversationMetadata]]:
    """Returns when something was last said in each conversation, its identity, its metadata.

    Those whose metadata do not read are left out.

    Raises:
        StoreError: There are conversations, and none can be read.
    """
    dated, trouble = [], None
    for identity in store.survey():
        try:
            metadata = store.read_metadata(identity)
        except UnknownConversationError:  # deleted meanwhile
            continue
        except StoreError as error:  # others may read
            trouble = error
            continue
        dated.append((metadata.updated, identity, metadata))
    if not dated and trouble is not None:  # there are some, and none can be read
        raise trouble
    return dated


def find_newest(store: ConversationStore) -> str | None:
    """Returns the conversation in which something was said last; ``None`` where there is none.

    What is a part of another, as a visit of a flow is, does not count.

    Raises:
        StoreError: There are conversations, and none can be read.
    """
    dated = [each for each in survey_dated(store) if not is_part(each[2].tags)]
    newest = max(dated, key=lambda each: each[:2], default=None)
    return None if newest is None else newest[1]
