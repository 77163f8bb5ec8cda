"""Keeps the page of a run that is on its way: it is written anew when things have happened."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, Self

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import FlowStartedEvent
from vibe_llms.flows.run_pages import read_run_page

PAUSE_SECONDS: Final = 1.0
"""At least so long lies between two writings: the page has 2 MB, and reloads every two seconds."""

_SHARE: Final = 9
"""Writing it takes at most a tenth of the time."""


class LivePage:
    """A page that follows a run; an asynchronous context manager around the run.

    ::

        async with LivePage(store, Path("run.html").write_text) as page:
            await UniversalAdapter(store=store, listener=page.feed).execute(task)

    Args:
        store: Where the run is kept.
        save: Takes the page whenever it has changed, in a thread; the first time soon after the
            run has begun, the last time when it is over.
        pause_seconds: The least between two times.
    """

    def __init__(
        self,
        store: ConversationStore,
        save: Callable[[str], object],
        *,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._store = store
        self._run_id = ""
        self._save = save
        self._pause_seconds = pause_seconds
        self._happened, self._over = asyncio.Event(), asyncio.Event()
        self._saved = ""
        self._writing: asyncio.Task[None] | None = None

    def feed(self, event: object) -> None:
        """Hears that something has happened; returns at once."""
        if isinstance(event, FlowStartedEvent):
            self._run_id = event.run_id
        self._happened.set()

    async def __aenter__(self) -> Self:
        self._writing = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *details: object) -> None:
        """Saves it for the last time; raises what saving has raised."""
        assert self._writing is not None
        # it is not cancelled: a thread that still saved an older state would have the last word
        self._over.set()
        self._happened.set()
        await self._writing
        if self._run_id:
            await asyncio.to_thread(self._write)

    async def _follow(self) -> None:
        while not self._over.is_set():
            await self._happened.wait()
            self._happened.clear()
            pause = self._pause_seconds
            if self._run_id:
                began = time.monotonic()
                await asyncio.to_thread(self._write)
                # a run of thousands of visits must not spend its time on telling of them
                pause = max(pause, _SHARE * (time.monotonic() - began))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), pause)

    def _write(self) -> None:
        page = read_run_page(self._store, self._run_id)
        if page != self._saved:
            self._save(page)
            self._saved = page
