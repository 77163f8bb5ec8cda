"""Storage of responses and conversations: look up, add, and delete old ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.background import Background, pause
from vibe_llms.daemons.gateway.responses.chains import read_chain
from vibe_llms.daemons.gateway.responses.endings import Endings, end_response
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.rows import GatewayConversation, GatewayResponse
from vibe_llms.exceptions import StoreError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.tables.annotations import Count, Seconds

_T = TypeVar("_T")

_DAY_SECONDS: Final = 86_400
_SWEEP_INTERVAL: Final = 256
"""Number of responses after which old rows are deleted."""
_MAX_SWEPT: Final = 1_024


@frozen(kw_only=True)
class StorageLimits:
    """Limits of stored responses and conversations; the oldest are deleted first.

    Attributes:
        responses: Number of responses, and number of conversations.
        days: Maximum age.
    """

    responses: Count = 100_000
    days: Seconds = 30.0


class ResponseStorage:
    """Stores responses and conversations.

    Args:
        access_store: Returns the conversation store.
        folder: Folder of the registry; created if it is missing.
        limits: Limits of answers.
        storage_limits: Limits of the storage.
        knows_subjects: Whether clients authenticate; then they cannot use responses that were
            created without the gateway.
    """

    def __init__(
        self,
        access_store: Callable[[], ConversationStore],
        folder: Path,
        *,
        limits: Limits,
        storage_limits: StorageLimits | None = None,
        knows_subjects: bool = False,
    ) -> None:
        self.registry = ResponseDatabase(folder)
        self.access_store = access_store
        self.limits = limits
        self.storage_limits = storage_limits or StorageLimits()
        self.knows_subjects = knows_subjects
        self._count = 0
        self.endings = Endings(self.registry, pause)
        self.background = Background(self.registry, limits, self.endings)

    async def access_response(self, identity: str, subject: str) -> GatewayResponse:
        """Return a response of the client. Raises UnknownNameError."""
        return ensure_own(await self.find(identity), subject, "response", identity)

    async def access_conversation(self, identity: str, subject: str) -> GatewayConversation:
        """Return a conversation of the client. Raises UnknownNameError."""
        found = await self.registry.perform(partial(rows.find_conversation, identity=identity))
        return ensure_own(found, subject, "conversation", identity)

    async def find(self, identity: str) -> GatewayResponse | None:
        """Return a response by its id.

        A response whose process has died counts as interrupted; one whose end could not be written
        counts as failed.
        """
        found = await self.registry.perform(partial(rows.find_response, identity=identity))
        if found is None or not found.is_running or not found.owner:
            return found
        if await asyncio.to_thread(self.registry.is_alive, found.owner):
            return await self.endings.correct(found)
        # The owner may have written the end just before it died.
        return await self.endings.write(end_response(found, "incomplete"))

    async def store(self, response: GatewayResponse, *, is_new: bool = True) -> None:
        """Store a response durably.

        Args:
            is_new: Whether it was not stored before.

        Raises:
            StoreError: The response could not be written, or another client's response has this id.
        """
        write = rows.write_response if is_new else rows.update_response
        if not await self.registry.perform(partial(write, response=response)):
            raise StoreError(detail=f"Duplicate response id {response.id} from an upstream.")
        self._count += 1
        if self._count % _SWEEP_INTERVAL == 1:
            await self.sweep()

    async def read_canisters(self, response: GatewayResponse) -> dict[str, AnyCanister]:
        """Return the canisters of a response's conversation by id. Raises StoreError."""
        chain = await asyncio.to_thread(
            read_chain, self.access_store(), response.conversation, response.last
        )
        return {each.id: each for each in chain.canisters}

    async def delete(self, response: GatewayResponse) -> None:
        """Delete a response, and its conversation unless another row refers to the conversation."""
        await self.registry.perform(partial(rows.remove_response, identity=response.id))
        await self.release(response.conversation)

    async def release(self, conversation: str) -> None:
        """Delete a conversation from the store, unless a row refers to the conversation."""
        if not conversation:
            return
        if not await self.registry.perform(partial(rows.is_needed, identity=conversation)):
            with suppress(StoreError):  # deleted before
                await asyncio.to_thread(self.access_store().delete, conversation)

    async def sweep(self) -> None:
        """Delete rows that are too old or exceed the limit."""
        before = time.time() - self.storage_limits.days * _DAY_SECONDS
        work = partial(
            rows.remove_old,
            before=before,
            count=self.storage_limits.responses,
            max_deleted=_MAX_SWEPT,
        )
        for conversation in await self.registry.perform(work):
            await self.release(conversation)

    async def close(self) -> None:
        """Cancel background responses, and wait for pending writes."""
        await self.background.close()
        await self.endings.close()
        await self.registry.close()


_Owned = TypeVar("_Owned", GatewayResponse, GatewayConversation)


def ensure_own(found: _Owned | None, subject: str, kind: str, identity: str) -> _Owned:
    """Return a row of the client. Raises UnknownNameError for another client's."""
    if found is None or found.subject != subject:
        raise UnknownNameError(kind=kind, name=identity)
    return found
