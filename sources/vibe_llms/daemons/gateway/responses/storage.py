"""What is kept of responses and conversations: looked up, added, and forgotten when it is old."""

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
_SWEEP_EVERY: Final = 256
_SWEEP_MOST: Final = 1_024


@frozen(kw_only=True)
class StorageLimits:
    """What is kept of responses and conversations; the oldest go first.

    Attributes:
        responses: How many responses, and how many conversations.
        days: For how long.
    """

    responses: Count = 100_000
    days: Seconds = 30.0


class ResponseStorage:
    """Keeps responses and conversations.

    Args:
        access_store: Says where what was said is kept.
        folder: Of what is known of responses; may not exist yet.
        limits: Of answers.
        keeping: How much is kept.
        knows_subjects: Whether clients say who they are. Where they do, what was made elsewhere
            than here is nobody's.
    """

    def __init__(
        self,
        access_store: Callable[[], ConversationStore],
        folder: Path,
        *,
        limits: Limits,
        keeping: StorageLimits | None = None,
        knows_subjects: bool = False,
    ) -> None:
        self.registry = ResponseDatabase(folder)
        self.access_store = access_store
        self.limits = limits
        self.keeping = keeping or StorageLimits()
        self.knows_subjects = knows_subjects
        self._count = 0
        self.endings = Endings(self.registry, pause)
        self.background = Background(self.registry, limits, self.endings)

    async def access_response(self, identity: str, subject: str) -> GatewayResponse:
        """Returns a response of whoever asks. Raises UnknownNameError."""
        return ensure_own(await self.find(identity), subject, "response", identity)

    async def access_conversation(self, identity: str, subject: str) -> GatewayConversation:
        """Returns a conversation of whoever asks. Raises UnknownNameError."""
        found = await self.registry.perform(partial(rows.find_conversation, identity=identity))
        return ensure_own(found, subject, "conversation", identity)

    async def find(self, identity: str) -> GatewayResponse | None:
        """Looks a response up.

        One whose process has died is told to have been interrupted, and one whose end could not be
        written to have failed.
        """
        found = await self.registry.perform(partial(rows.find_response, identity=identity))
        if found is None or not found.is_running or not found.owner:
            return found
        if await asyncio.to_thread(self.registry.is_alive, found.owner):
            return await self.endings.correct(found)
        # Its owner may have written its end just before it left.
        return await self.endings.write(end_response(found, "incomplete"))

    async def keep(self, response: GatewayResponse, *, is_new: bool = True) -> None:
        """Makes sure that a response is known from now on, whatever happens.

        Args:
            is_new: Whether it was not known before.

        Raises:
            StoreError: It could not be written, or somebody else's has the same id.
        """
        write = rows.write_response if is_new else rows.update_response
        if not await self.registry.perform(partial(write, response=response)):
            raise StoreError(detail=f"An upstream gave the id {response.id} twice.")
        self._count += 1
        if self._count % _SWEEP_EVERY == 1:
            await self.sweep()

    async def read_canisters(self, response: GatewayResponse) -> dict[str, AnyCanister]:
        """Returns what was said in the conversation of a response, by id. Raises StoreError."""
        chain = await asyncio.to_thread(
            read_chain, self.access_store(), response.conversation, response.last
        )
        return {each.id: each for each in chain.canisters}

    async def forget(self, response: GatewayResponse) -> None:
        """Removes a response, and what was said where nothing else that is kept goes on from it."""
        await self.registry.perform(partial(rows.remove_response, identity=response.id))
        await self.release(response.conversation)

    async def release(self, conversation: str) -> None:
        """Removes a conversation from the store, unless it is needed."""
        if not conversation:
            return
        if not await self.registry.perform(partial(rows.is_needed, identity=conversation)):
            with suppress(StoreError):  # gone already
                await asyncio.to_thread(self.access_store().delete, conversation)

    async def sweep(self) -> None:
        """Removes what is too old, or too much."""
        before = time.time() - self.keeping.days * _DAY_SECONDS
        work = partial(rows.take_old, before=before, count=self.keeping.responses, most=_SWEEP_MOST)
        for conversation in await self.registry.perform(work):
            await self.release(conversation)

    async def close(self) -> None:
        """Ends what is answered in the background, and waits for what is being kept."""
        await self.background.close()
        await self.endings.close()
        await self.registry.close()


_Owned = TypeVar("_Owned", GatewayResponse, GatewayConversation)


def ensure_own(found: _Owned | None, subject: str, kind: str, identity: str) -> _Owned:
    """Returns what was found; what is another's is not there."""
    if found is None or found.subject != subject:
        raise UnknownNameError(kind=kind, name=identity)
    return found
