"""Attached runs, which are stopped if nothing watches them for a while."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from vibe_llms.agents.local import LocalRuns
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.portal import finish
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.runs.summaries import RunState, RunSummary

_LOGGER = logging.getLogger(__name__)
_MAX_INTERVAL_SECONDS: Final = 5.0
_REASON: Final = "All watchers of this attached run have disconnected."
_UNFINISHED: Final[tuple[RunState, ...]] = ("queued", "working", "waiting", "due", "broken_off")


class Attachments:
    """Supervision of attached runs while the daemon runs.

    After a restart of the daemon, watchers have ``seconds`` to reconnect to an attached run.

    Args:
        runs: Runs of the daemon.
        subscriptions: Watchers of the runs.
        seconds: Time that a run continues without watchers.
    """

    def __init__(self, runs: LocalRuns, subscriptions: LogSubscriptions, seconds: float) -> None:
        self._runs = runs
        self._subscriptions = subscriptions
        self._seconds = seconds
        self._unwatched_since: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the supervision."""
        self._task = asyncio.create_task(self._check_regularly())

    async def close(self) -> None:
        """Stop the supervision; the runs stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await finish(asyncio.wait([self._task]))

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(min(_MAX_INTERVAL_SECONDS, self._seconds / 4))
            try:
                found = await asyncio.to_thread(self._runs.index.survey, states=_UNFINISHED)
                await self._stop_unwatched([run for run in found if run.is_attached])
            except ConverseError as error:
                _LOGGER.warning("cannot check attached runs: %s", error)

    async def _stop_unwatched(self, attached: list[RunSummary]) -> None:
        now = asyncio.get_running_loop().time()
        previous, self._unwatched_since = self._unwatched_since, {}
        for run in attached:
            is_watched = self._subscriptions.is_watched(run.id)
            since = now if is_watched else previous.get(run.id, now)
            if now - since > self._seconds:
                await self._runs.stop(run.id, reason=_REASON, subject=run.subject)
            else:
                self._unwatched_since[run.id] = since
