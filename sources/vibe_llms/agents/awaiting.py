"""Waiting for a run through any :class:`.interfaces.Runs`: check its state after each event."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing, suppress
from typing import Final

from vibe_llms.agents.interfaces import Runs
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.runs.summaries import RunState, RunSummary

CHECK_SECONDS: Final = 10.0
"""Interval of checks without an event: a process that dies writes none."""


async def await_state(
    runs: Runs, run_id: str, states: Collection[RunState], subject: str
) -> RunSummary:
    """Wait until a run is in one of some states; return its summary.

    A run counts as stopped when no process executes it.

    Raises:
        UnknownConversationError: The run does not exist, or was deleted.
    """
    while True:
        summary = await runs.find(run_id, subject=subject)
        is_stopping = summary.state == "stopped" and summary.starts > 0
        if summary.state in states and not is_stopping:
            return summary
        events = runs.watch(run_id, after=summary.sequence, subject=subject)
        async with aclosing(events):
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    async for event in events:
                        if isinstance(event, LoggedEvent):
                            break
