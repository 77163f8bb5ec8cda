"""Live page of an active run, which is rewritten after events."""

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
"""Minimum pause between two writes: the page has 2 MB, and reloads every two seconds."""

_PAUSE_FACTOR: Final = 9
"""Minimum ratio of pause to write time, so that writing takes at most a tenth of the time."""


class LivePage:
    """Page that follows a run; an asynchronous context manager around the run.

    ::

        async with LivePage(store, Path("run.html").write_text) as page:
            await UniversalAdapter(store=store, listener=page.feed).execute(task)

    Args:
        store: Store of the run.
        save: Receives the page after each change, in a thread; first soon after the run has
            started, and last when it is over.
        pause_seconds: Minimum seconds between two saves.
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
        self._happened, self._ended = asyncio.Event(), asyncio.Event()
        self._saved = ""
        self._writing: asyncio.Task[None] | None = None

    def feed(self, event: object) -> None:
        """Notify the page of an event; returns immediately."""
        if isinstance(event, FlowStartedEvent):
            self._run_id = event.run_id
        self._happened.set()

    async def __aenter__(self) -> Self:
        self._writing = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *details: object) -> None:
        """Save the page for the last time; raises the errors of saving."""
        assert self._writing is not None
        # do not cancel: a thread that is still saving an older state would overwrite the last one
        self._ended.set()
        self._happened.set()
        await self._writing
        if self._run_id:
            await asyncio.to_thread(self._write)

    async def _follow(self) -> None:
        while not self._ended.is_set():
            await self._happened.wait()
            self._happened.clear()
            pause = self._pause_seconds
            if self._run_id:
                start = time.monotonic()
                await asyncio.to_thread(self._write)
                # a run of thousands of visits must not spend its time on writing the page
                pause = max(pause, _PAUSE_FACTOR * (time.monotonic() - start))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause)

    def _write(self) -> None:
        page = read_run_page(self._store, self._run_id)
        if page != self._saved:
            self._save(page)
            self._saved = page
