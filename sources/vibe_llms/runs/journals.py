"""Journal of a run: a growing conversation, stored as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

from vibe_llms.conversations.canister_media import hydrate, needs_content_store
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.log import RunLog, wait_for_room
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.exceptions import Finding, StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.canisters import AnyCanister


class ConversationJournal:
    """A conversation and its store; see :class:`vibe_llms.engine.contexts.Journal`.

    Args:
        conversation: The conversation; it grows.
        store: Store of the conversation; ``None`` to keep it in memory only.
        waits: Wait while the disk is full, rather than fail: responses that were paid for must
            not be lost.

    Attributes:
        log: Log of the run, once the run has claimed it. If another process can take over the run,
            nothing is stored without the claim, so a run that was taken over writes nothing.
    """

    log: RunLog | None = None

    def __init__(
        self,
        conversation: Conversation,
        store: ConversationStore | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.conversation = conversation
        self._store = store
        self._waits = waits

    @property
    def conversation_id(self) -> str:
        """Name of the conversation."""
        return self.conversation.id

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All canisters, oldest first."""
        return self.conversation.canisters

    async def append(self, canisters: Sequence[AnyCanister]) -> None:
        """Append canisters, all or none.

        After an error or a cancellation, the conversation contains the canisters only if they are
        stored.
        """
        store = self._store
        # Results from the log of a crashed run lack the bytes of media.
        if store is not None and needs_content_store(canisters):
            canisters = await asyncio.to_thread(hydrate, canisters, store.contents)
        self.conversation.add_canisters(canisters)
        if store is None:
            return
        try:
            while True:
                try:
                    return await self.catch_up()
                except StoreError as error:
                    if not self._waits:
                        raise
                    await wait_for_room(error)
        except BaseException:
            self.conversation.remove_unsaved(canisters)
            raise

    async def catch_up(self) -> None:
        """Store new canisters, and load those that other processes have added."""
        if is_at_hand(self._store):
            self.catch_up_blocking()
        else:
            await finish(asyncio.to_thread(self.catch_up_blocking))

    def catch_up_blocking(self) -> None:
        """Blocking variant of :meth:`catch_up`, for use in a thread."""
        store = self._store
        if store is None:
            return
        if isinstance(store, MemoryStore):  # its runs cannot be taken over
            is_shared = self.conversation.catch_up(store)
        else:
            with nullcontext() if self.log is None else self.log.fencing():
                is_shared = self.conversation.catch_up(store)
        if is_shared:
            notice = Finding(
                place=self.conversation.id, message="Another program has written to it, too."
            )
            self.conversation.notices += (notice,)


def is_at_hand(store: ConversationStore | None) -> bool:
    """Tell whether the store never blocks, so that a thread would cost more than the work."""
    return store is None or isinstance(store, MemoryStore)
