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
        start_work: Starts the parts that need the store.
    """

    _store: ConversationStore
    _start_work: Callable[[], Awaitable[None]]
    _is_started: bool = attrs.field(default=False, init=False)
    _start_task: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _check_task: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _checked_at: float = attrs.field(default=float("-inf"), init=False)
    _is_reachable: bool = attrs.field(default=False, init=False)

    async def start(self) -> None:
        """Start the parts that need the store; retry in the background while it is unreachable.

        Raises:
            ConverseError: The start failed for another reason.
        """
        try:
            await asyncio.to_thread(_reach, self._store)
            await self._start_work()
        except StoreUnavailableError as error:
            _LOGGER.warning("waiting for the database: %s", error)
            self._start_task = asyncio.create_task(self._retry_start())
        else:
            self._is_started = True

    async def _retry_start(self) -> None:
        while not self._is_started:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await asyncio.to_thread(_reach, self._store)
                await self._start_work()
            except StoreUnavailableError:
                continue
            except Exception as error:
                _LOGGER.error("cannot start the daemon: %s", error, exc_info=error)
                continue
            self._is_started = True
            _LOGGER.warning("connected to the database")

    async def close(self) -> None:
        """Cancel the tasks in the background."""
        tasks = [each for each in (self._start_task, self._check_task) if each is not None]
        for task in tasks:
            task.cancel()
        await finish(asyncio.gather(*tasks, return_exceptions=True))

    def ensure_started(self) -> None:
        """Raise StoreUnavailableError until the daemon has started."""
        if not self._is_started:
            raise StoreUnavailableError(detail="The database is not reachable yet.")

    async def check(self) -> bool:
        """Return whether the daemon has started and its database is reachable."""
        if not self._is_started:
            return False
        if self._check_task is None and time.monotonic() > self._checked_at + _FRESH_SECONDS:
            self._check_task = asyncio.create_task(self._test_connection())
        if self._check_task is not None:
            await asyncio.wait([self._check_task], timeout=_PATIENCE_SECONDS)
        return self._check_task is None and self._is_reachable

    async def _test_connection(self) -> None:
        try:
            await asyncio.to_thread(_reach, self._store)
        except StoreUnavailableError:
            self._is_reachable = False
        else:
            self._is_reachable = True
        finally:
            self._checked_at, self._check_task = time.monotonic(), None


def _reach(store: ConversationStore) -> None:
    """Raise StoreUnavailableError if the database of a store is unreachable. Blocks."""
    with store.transact(reading=True):
        pass
