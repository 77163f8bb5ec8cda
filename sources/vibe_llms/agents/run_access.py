"""Access of callers to runs and conversations: each sees its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import (
    CorruptionError,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.runs.owners import read_owner


@frozen
class RunAccess:
    """Access to the runs and conversations of a store. What a caller may not see is unknown.

    Attributes:
        store: The store.
        is_owner: Whether a caller without a name owns all runs, as on the user's own machine.
    """

    store: ConversationStore
    is_owner: bool = False

    def may_access_all(self, subject: str) -> bool:
        """Tell whether a caller may see the runs and conversations of all users."""
        return self.is_owner and not subject

    def admits(self, subject: str, owner: str | None) -> bool:
        """Tell whether a caller may see what belongs to an owner."""
        return owner == subject or self.may_access_all(subject)

    def ensure(self, identity: str, subject: str) -> ConversationMetadata:
        """Return the metadata of a conversation. Does file work.

        Raises:
            UnknownConversationError: It does not exist, or belongs to another user.
        """
        with self.hiding_unreadable(identity, subject):
            metadata = self.store.read_metadata(identity)
            owner = read_owner(self.store, identity, metadata)
        if not self.admits(subject, owner):
            # Do not reveal that it exists.
            raise UnknownConversationError(identity=identity)
        return metadata

    @contextmanager
    def hiding_unreadable(self, run_id: str, subject: str) -> Iterator[None]:
        """Report a run that cannot be read as unknown, so that other users learn nothing."""
        try:
            yield
        except StoreUnavailableError:
            raise
        except StoreError as error:
            if isinstance(error, CorruptionError) and not subject:
                raise
            # the owner of a damaged one is unknown
            raise UnknownConversationError(identity=run_id) from error
