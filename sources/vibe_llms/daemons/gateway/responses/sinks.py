"""Sinks of responses: the gateway's store, the upstream, or the memory of a WebSocket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from vibe_llms.daemons.gateway.responses.chains import Chain, extend_chain
from vibe_llms.daemons.gateway.responses.items import read_canisters
from vibe_llms.daemons.gateway.responses.response_bodies import (
    Fields,
    complete_body,
    select_continuation,
)
from vibe_llms.daemons.gateway.responses.response_streams import select_storable
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.portal import run_outside_loop
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.responses.storage import ResponseStorage


_MANY_ITEMS: Final = 500
"""From this number on, items are read in a worker thread."""

Memory: TypeAlias = dict[str, Chain]
"""Memory of one lane (``stream_id``) of a WebSocket: the last response, by id."""


class UpstreamSink:
    """The upstream stores the response; the registry records which one.

    Args:
        storage: The storage.
        subject: Owner of the response.
        address: The model that answers.
    """

    needs_answer = False
    continuation: ClassVar[Fields] = {}

    def __init__(self, storage: ResponseStorage, subject: str, address: str) -> None:
        self._storage = storage
        self._subject = subject
        self._address = address

    async def begin(self, response: Fields) -> None:
        """Record the upstream of the response. Raises StoreError."""
        row = GatewayResponse(
            id=str(response.get("id")), subject=self._subject, address=self._address
        )
        await self._storage.store(row)

    async def finish(self, response: Fields) -> None:
        """Do nothing."""

    async def store(self, response: Fields) -> Fields:
        """Record the upstream of the response. Raises StoreError."""
        await self.begin(response)
        return response


class StoreSink:
    """Stores the input before the client learns the id, and the output at the end.

    Args:
        storage: The storage.
        subject: Owner of the response.
        address: The model that answers.
        chain: The conversation or response that the response continues.
        items: Items of the request.
        native: The request without its input.
        identity: Id of the response; by default that of the answer.
    """

    needs_answer = True

    def __init__(
        self,
        storage: ResponseStorage,
        subject: str,
        address: str,
        chain: Chain,
        items: Sequence[Any],
        native: Fields,
        identity: str | None = None,
    ) -> None:
        self._storage = storage
        self._subject = subject
        self._address = address
        self._chain = chain
        self._items = items
        self.native = native
        self.identity = identity
        self.continuation = select_continuation(native)
        self._is_begun = False
        self._input: tuple[str, ...] = ()
        self._created = time.time()

    async def begin(self, response: Fields) -> None:
        """Store the input, and the response as running. Raises StoreError."""
        if self._is_begun:  # a background response was stored before
            await self._store_row(response, (), "in_progress")
            return
        canisters = await asyncio.to_thread(read_canisters, self._items)
        self._input = _list_ids(canisters)
        await self._add(canisters)
        await self._store_row(response, (), str(response.get("status") or "in_progress"))

    async def finish(self, response: Fields) -> None:
        """Store the output, complete or interrupted. Raises StoreError."""
        try:
            await self._store_output(response)
        except Exception:  # with any error, the response must end for its readers
            self._storage.endings.add(self._identify(response))
            raise

    async def _store_output(self, response: Fields) -> None:
        output = select_storable(response.get("output"))
        canisters = await asyncio.to_thread(read_canisters, output)
        await self._add(canisters)
        await self._store_row(response, _list_ids(canisters), str(response.get("status")))

    async def store(self, response: Fields) -> Fields:
        """Store input and output together. Raises StoreError."""
        if self._is_begun:
            await self.finish(response)
            return response
        body = complete_body(response, self.native)
        read = partial(read_canisters, self._items)
        inputs = read() if len(self._items) < _MANY_ITEMS else await run_outside_loop(read)
        outputs = read_canisters(select_storable(body.get("output")))
        self._input = _list_ids(inputs)
        await self._add((*inputs, *outputs))
        await self._store_row(body, _list_ids(outputs), str(body.get("status", "completed")))
        return body

    def _identify(self, response: Fields) -> str:
        return self.identity or str(response["id"])

    async def _add(self, canisters: Sequence[AnyCanister]) -> None:
        if canisters or not self._chain.conversation:
            store = self._storage.access_store()
            self._chain = await asyncio.to_thread(
                extend_chain, store, self._chain, canisters, self._address
            )

    async def _store_row(self, response: Fields, output: tuple[str, ...], status: str) -> None:
        if self.native.get("store") is False:
            return
        body = complete_body(response, self.native)
        body.pop("output", None)
        canisters = self._chain.canisters
        row = GatewayResponse(
            id=self._identify(response),
            subject=self._subject,
            address=self._address,
            conversation=self._chain.conversation,
            input=self._input,
            output=output,
            last=canisters[-1].id if canisters else "",
            created=self._created,
            status=status,
            owner=self._storage.registry.owner,
            body={**body, "status": status},
        )
        try:
            await self._storage.store(row, is_new=not self._is_begun)
        except StoreError:
            if not self._is_begun:  # without the id, the client could not delete the response
                with suppress(StoreError):
                    await self._storage.release(row.conversation)
            raise
        self._is_begun = True


class MemorySink:
    """Keeps the last response of a WebSocket's lane in memory; it is not stored.

    Args:
        memory: Contains one response at most.
        chain: The conversation or response that the response continues.
        items: Items of the request.
    """

    needs_answer = True
    continuation: ClassVar[Fields] = {}

    def __init__(self, memory: Memory, chain: Chain, items: Sequence[Any]) -> None:
        self._memory = memory
        self._chain = chain
        self._items = items

    async def begin(self, response: Fields) -> None:
        """Do nothing."""

    async def finish(self, response: Fields) -> None:
        """Replace the previous response."""
        items = (*self._items, *select_storable(response.get("output")))
        canisters = await asyncio.to_thread(read_canisters, items)
        self._memory.clear()
        self._memory[str(response["id"])] = Chain(canisters=(*self._chain.canisters, *canisters))

    async def store(self, response: Fields) -> Fields:
        """Replace the previous response."""
        await self.finish(response)
        return response


def _list_ids(canisters: Sequence[AnyCanister]) -> tuple[str, ...]:
    return tuple(each.id for each in canisters)
