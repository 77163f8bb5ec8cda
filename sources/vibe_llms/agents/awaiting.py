"""Waiting for a run, by whatever face: its events say when to look again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Final, TypeVar

from vibe_llms.agents.interfaces import Runs
from vibe_llms.exceptions import StoreUnavailableError
from vibe_llms.runs.log import LoggedEvent
from vibe_llms.runs.summaries import RunState, RunSummary

_LOGGER: Final = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 0.5
_HEALTHY_SECONDS: Final = 30.0
"""Work that went on for so long had reached the database."""

_T = TypeVar("_T")


async def retry_for(seconds: float, work: Callable[[], Awaitable[_T]]) -> _T:
    """Do some work; try it again while the database is out of reach, but not longer than said.

    Raises:
        StoreUnavailableError: It was out of reach for so long, one attempt after the other.
    """
    now = asyncio.get_running_loop().time
    since: float | None = None
    while True:
        begun = now()
        try:
            return await work()
        except StoreUnavailableError as error:
            if since is None or now() - begun > _HEALTHY_SECONDS:
                since = now()
            if now() - since >= seconds:
                raise
            _LOGGER.warning("the database is waited for: %s", error)
        await asyncio.sleep(_PAUSE_SECONDS)


async def await_state(
    runs: Runs, run_id: str, states: Collection[RunState], subject: str
) -> RunSummary:
    """Returns where a run stands as soon as that is one of some states.

    Raises:
        UnknownConversationError: There is no such run (any longer).
    """
    while True:
        summary = await runs.find(run_id, subject=subject)
        if summary.state in states:
            return summary
        told = runs.watch(run_id, after=summary.sequence, subject=subject)
        async with aclosing(told):
            async for event in told:
                if isinstance(event, LoggedEvent):
                    break
