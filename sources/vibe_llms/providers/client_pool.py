"""Shared clients of providers: one client for each provider and event loop."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.foundation.attrs_classes import define

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable

    from vibe_llms.models.genera import Genus
    from vibe_llms.providers.interfaces import CallModel, Client, ConverserModel, Provider


@define(eq=False)
class SharedClient:
    """A client with its accessed models, and the objects that hold the client.

    Attributes:
        models: Conversers, by name.
        call_models: Models of other genera, by genus and name.
    """

    client: Client
    models: dict[str, ConverserModel] = attrs.field(factory=dict)
    call_models: dict[tuple[Genus, str], CallModel[Any, Any]] = attrs.field(factory=dict)
    holders: set[object] = attrs.field(factory=set)


class ClientPool:
    """Open clients of providers.

    A client belongs to the event loop in which it was opened. A client is closed when its last
    holder releases it, or when the loop shuts down.

    Args:
        load_provider: Loads a provider by its name; called in a thread.
        produce_client: Creates a client of a provider; called in the event loop.
    """

    def __init__(
        self,
        load_provider: Callable[[str], Provider],
        produce_client: Callable[[Provider], Client],
    ) -> None:
        self._load_provider = load_provider
        self._produce_client = produce_client
        self._clients: dict[tuple[str, asyncio.AbstractEventLoop], SharedClient] = {}
        self._loop_closers: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = (
            WeakKeyDictionary()
        )

    def __len__(self) -> int:
        return len(self._clients)

    def find(
        self, provider: str, loop: asyncio.AbstractEventLoop, holder: object
    ) -> SharedClient | None:
        """Return the client of a provider in an event loop for a holder, if it is open."""
        shared = self._clients.get((provider, loop))
        if shared is not None:
            shared.holders.add(holder)
        return shared

    async def access(self, provider: str, holder: object) -> SharedClient:
        """Return the client of a provider in this event loop; create it on first use.

        Raises:
            ConverseError: The provider cannot be loaded.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        shared = self._clients.get((provider, loop))
        if shared is None:
            await self._forget_dead_loops()
            loaded = await asyncio.to_thread(self._load_provider, provider)
            if (provider, loop) not in self._clients:  # else another caller was faster
                self._clients[provider, loop] = SharedClient(self._produce_client(loaded))
                await self._close_at_end(loop)
            shared = self._clients[provider, loop]
        shared.holders.add(holder)
        return shared

    def forget_models(self) -> None:
        """Forget all accessed models, so that each is validated again on its next access."""
        for shared in self._clients.values():
            shared.models.clear()
            shared.call_models.clear()

    async def release(self, holder: object) -> None:
        """Close the clients of this event loop that only the holder uses."""
        import asyncio

        loop = asyncio.get_running_loop()
        for key, shared in list(self._clients.items()):
            if key[1] is loop and holder in shared.holders:
                shared.holders.discard(holder)
                if not shared.holders:
                    # Remove the client first: a caller that asks for one during the close gets a
                    # new client, which stays open.
                    del self._clients[key]
                    await shared.client.close()

    async def close(self) -> None:
        """Close all clients of this event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        for key in [key for key in self._clients if key[1] is loop]:
            await self._clients.pop(key).client.close()

    async def _close_at_end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the remaining clients when the event loop shuts down.

        When a loop shuts down, for instance by ``asyncio.run``, it closes all asynchronous
        generators that were started in the loop. So a started generator closes the clients in its
        ``finally``.
        """
        if loop not in self._loop_closers:
            self._loop_closers[loop] = self._close_on_exit()
            await anext(self._loop_closers[loop])

    async def _close_on_exit(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.close()

    async def _forget_dead_loops(self) -> None:
        """Close clients whose event loop has ended without closing them itself."""
        for key in [key for key in self._clients if key[1].is_closed()]:
            with contextlib.suppress(Exception):  # best effort: the clients' loop no longer runs
                await self._clients.pop(key).client.close()


_CACHED_NAMES_LIMIT = 1_024
"""Maximum entries of a cache by name; bounded, as the users of a daemon may send any names."""


def evict_oldest(cache: dict[Any, Any]) -> None:
    """Evict the oldest entry if a cache by name is full."""
    while len(cache) >= _CACHED_NAMES_LIMIT:
        del cache[next(iter(cache))]
