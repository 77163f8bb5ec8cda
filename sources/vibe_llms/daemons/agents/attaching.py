"""Attached runs: a run without watchers for a while is stopped."""

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
_LONGEST_SECONDS: Final = 5.0
_REASON: Final = "All watchers of this attached run have disconnected."
_OPEN: Final[tuple[RunState, ...]] = ("queued", "working", "waiting", "due", "broken_off")


class Attachments:
    """Supervision of attached runs while the daemon runs.

    After a restart of the daemon, their watchers have the same time to reconnect.

    Args:
        seconds: Time that a run continues without watchers.
    """

    def __init__(self, runs: LocalRuns, subscriptions: LogSubscriptions, seconds: float) -> None:
        self._runs = runs
        self._subscriptions = subscriptions
        self._seconds = seconds
        self._seen: dict[str, float] = {}
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the supervision."""
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop the supervision; the runs stay as they are."""
        if self._looking is not None:
            self._looking.cancel()
            await finish(asyncio.wait([self._looking]))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(_LONGEST_SECONDS, self._seconds / 4))
            try:
                found = await asyncio.to_thread(self._runs.index.survey, states=_OPEN)
                await self._attend([each for each in found if each.is_attached])
            except ConverseError as error:
                _LOGGER.warning("cannot check attached runs: %s", error)

    async def _attend(self, attached: list[RunSummary]) -> None:
        now = asyncio.get_running_loop().time()
        seen, self._seen = self._seen, {}
        for each in attached:
            is_watched = self._subscriptions.is_watched(each.id)
            since = now if is_watched else seen.get(each.id, now)
            if now - since > self._seconds:
                await self._runs.stop(each.id, reason=_REASON, subject=each.subject)
            else:
                self._seen[each.id] = since
