"""The two places where a response is kept: here, and at the upstream that has made it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from vibe_llms.daemons.gateway.responses.bodies import Fields, complete_body, select_told
from vibe_llms.daemons.gateway.responses.chains import Chain, go_on
from vibe_llms.daemons.gateway.responses.items import read_canisters
from vibe_llms.daemons.gateway.responses.response_streams import select_storable
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.portal import perform_apart
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.responses.storage import ResponseStorage


_MANY_ITEMS: Final = 500
"""So many of a request are read beside the event loop."""

Memory: TypeAlias = dict[str, Chain]
"""What a lane of a socket remembers."""


class UpstreamSink:
    """The upstream keeps the response: who that is has to be known, and nothing else.

    Args:
        keeper: Keeps.
        subject: Whose it is.
        address: The model that answers.
    """

    is_heard = False
    told: ClassVar[Fields] = {}

    def __init__(self, keeper: ResponseStorage, subject: str, address: str) -> None:
        self._keeper = keeper
        self._subject = subject
        self._address = address

    async def begin(self, response: Fields) -> None:
        """Remembers who has the response. Raises StoreError."""
        row = GatewayResponse(
            id=str(response.get("id")), subject=self._subject, address=self._address
        )
        await self._keeper.keep(row)

    async def settle(self, response: Fields) -> None:
        """There is nothing more to keep."""

    async def keep(self, response: Fields) -> Fields:
        """Remembers who has the response. Raises StoreError."""
        await self.begin(response)
        return response


class StoreSink:
    """We keep the response: what was asked before it is told of, what was answered at its end.

    Args:
        keeper: Keeps.
        subject: Whose it is.
        address: The model that answers.
        chain: What was said before.
        given: The items of the request.
        native: The request without its input.
        identity: The id of the response; by default the one that the answer has.
    """

    is_heard = True

    def __init__(
        self,
        keeper: ResponseStorage,
        subject: str,
        address: str,
        chain: Chain,
        given: Sequence[Any],
        native: Fields,
        identity: str | None = None,
    ) -> None:
        self._keeper = keeper
        self._subject = subject
        self._address = address
        self._chain = chain
        self._given = given
        self.native = native
        self.identity = identity
        self.told = select_told(native)
        self._is_begun = False
        self._input: tuple[str, ...] = ()
        self._created = time.time()

    async def begin(self, response: Fields) -> None:
        """Keeps what was asked, and that it is being answered. Raises StoreError."""
        if self._is_begun:  # in the background, before it was
            await self._note(response, (), "in_progress")
            return
        canisters = await asyncio.to_thread(read_canisters, self._given)
        self._input = _list_ids(canisters)
        await self._add(canisters)
        await self._note(response, (), str(response.get("status") or "in_progress"))

    async def settle(self, response: Fields) -> None:
        """Keeps what was answered, whole or cut. Raises StoreError."""
        try:
            await self._settle(response)
        except Exception:  # whatever it is, nobody shall wait for an end that does not come
            self._keeper.endings.note(self._identify(response))
            raise

    async def _settle(self, response: Fields) -> None:
        output = select_storable(response.get("output"))
        canisters = await asyncio.to_thread(read_canisters, output)
        await self._add(canisters)
        await self._note(response, _list_ids(canisters), str(response.get("status")))

    async def keep(self, response: Fields) -> Fields:
        """Keeps what was asked and answered at once. Raises StoreError."""
        if self._is_begun:
            await self.settle(response)
            return response
        told = complete_body(response, self.native)
        read = partial(read_canisters, self._given)
        asked = read() if len(self._given) < _MANY_ITEMS else await perform_apart(read)
        answered = read_canisters(select_storable(told.get("output")))
        self._input = _list_ids(asked)
        await self._add((*asked, *answered))
        await self._note(told, _list_ids(answered), str(told.get("status", "completed")))
        return told

    def _identify(self, response: Fields) -> str:
        return self.identity or str(response["id"])

    async def _add(self, canisters: Sequence[AnyCanister]) -> None:
        if canisters or not self._chain.conversation:
            store = self._keeper.access_store()
            self._chain = await asyncio.to_thread(
                go_on, store, self._chain, canisters, self._address
            )

    async def _note(self, response: Fields, output: tuple[str, ...], status: str) -> None:
        if self.native.get("store") is False:
            return
        body = complete_body(response, self.native)
        body.pop("output", None)
        said = self._chain.canisters
        row = GatewayResponse(
            id=self._identify(response),
            subject=self._subject,
            address=self._address,
            conversation=self._chain.conversation,
            input=self._input,
            output=output,
            last=said[-1].id if said else "",
            created=self._created,
            status=status,
            owner=self._keeper.registry.owner,
            body={**body, "status": status},
        )
        try:
            await self._keeper.keep(row, is_new=not self._is_begun)
        except StoreError:
            if not self._is_begun:  # nobody learns of it, so nobody could remove what was said
                with suppress(StoreError):
                    await self._keeper.release(row.conversation)
            raise
        self._is_begun = True


class MemorySink:
    """A socket remembers the last response of a lane, which shall be stored nowhere.

    Args:
        memory: Of the lane: has one response at most.
        chain: What was said before.
        given: The items of the request.
    """

    is_heard = True
    told: ClassVar[Fields] = {}

    def __init__(self, memory: Memory, chain: Chain, given: Sequence[Any]) -> None:
        self._memory = memory
        self._chain = chain
        self._given = given

    async def begin(self, response: Fields) -> None:
        """There is nothing to keep before its end."""

    async def settle(self, response: Fields) -> None:
        """Remembers it in place of the one before."""
        items = (*self._given, *select_storable(response.get("output")))
        canisters = await asyncio.to_thread(read_canisters, items)
        self._memory.clear()
        self._memory[str(response["id"])] = Chain(canisters=(*self._chain.canisters, *canisters))

    async def keep(self, response: Fields) -> Fields:
        """Remembers it in place of the one before."""
        await self.settle(response)
        return response


def _list_ids(canisters: Sequence[AnyCanister]) -> tuple[str, ...]:
    return tuple(each.id for each in canisters)
