"""Waiting for a run through any :class:`.interfaces.Runs`: check its state after each event."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing

from vibe_llms.agents.interfaces import Runs
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.runs.summaries import RunState, RunSummary


async def await_state(
    runs: Runs, run_id: str, states: Collection[RunState], subject: str
) -> RunSummary:
    """Return the summary of a run as soon as it is in one of some states.

    Raises:
        UnknownConversationError: The run does not exist, or was deleted.
    """
    while True:
        summary = await runs.find(run_id, subject=subject)
        if summary.state in states:
            return summary
        events = runs.watch(run_id, after=summary.sequence, subject=subject)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, LoggedEvent):
                    break
