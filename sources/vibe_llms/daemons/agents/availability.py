"""Availability of the agents daemon's database, and waiting for it at the start."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import StoreUnavailableError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish

_LOGGER: Final = logging.getLogger(__name__)
_FRESH_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 1.0


@define(eq=False)
class Availability:
    """Availability of a daemon's database: starts the daemon once the database is reachable.

    Args:
        store: Store of the daemon.
        begin: Starts the parts that need the store.
    """

    _store: ConversationStore
    _begin: Callable[[], Awaitable[None]]
    _is_begun: bool = attrs.field(default=False, init=False)
    _waiting: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _looking: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _seen: float = attrs.field(default=float("-inf"), init=False)
    _is_there: bool = attrs.field(default=False, init=False)

    async def start(self) -> None:
        """Start the parts that need the store; retry in the background while it is unreachable.

        Raises:
            ConverseError: The start failed for another reason.
        """
        try:
            await asyncio.to_thread(_reach, self._store)
            await self._begin()
        except StoreUnavailableError as error:
            _LOGGER.warning("waiting for the database: %s", error)
            self._waiting = asyncio.create_task(self._wait())
        else:
            self._is_begun = True

    async def _wait(self) -> None:
        while not self._is_begun:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await asyncio.to_thread(_reach, self._store)
                await self._begin()
            except StoreUnavailableError:
                continue
            except Exception as error:
                _LOGGER.error("cannot start the daemon: %s", error, exc_info=error)
                continue
            self._is_begun = True
            _LOGGER.warning("connected to the database")

    async def close(self) -> None:
        """End the waiting."""
        tasks = [each for each in (self._waiting, self._looking) if each is not None]
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))

    def ensure_begun(self) -> None:
        """Raise StoreUnavailableError until the daemon has started."""
        if not self._is_begun:
            raise StoreUnavailableError(detail="The database is not reachable yet.")

    async def check(self) -> bool:
        """Tell whether the daemon has started and its database is reachable."""
        if not self._is_begun:
            return False
        if self._looking is None and time.monotonic() > self._seen + _FRESH_SECONDS:
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=_PATIENCE_SECONDS)
        return self._looking is None and self._is_there

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(_reach, self._store)
        except StoreUnavailableError:
            self._is_there = False
        else:
            self._is_there = True
        finally:
            self._seen, self._looking = time.monotonic(), None


def _reach(store: ConversationStore) -> None:
    """Raise StoreUnavailableError if the database of a store is unreachable. Blocks."""
    with store.transact(reading=True):
        pass
