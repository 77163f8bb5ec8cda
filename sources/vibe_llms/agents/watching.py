"""Watching a run of this machine's store: its log, as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from vibe_llms.conversations.run_logs.lines import open_envelope, read_envelope
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.runs.indexing import RunIndex

_PAUSE_SECONDS: Final = 0.1


def ensure_reached(number: int, last: int) -> None:
    """Refuses a number that a log has not come to. Raises RequestError."""
    if number > last:
        detail = f"The last event of this run is {last}; there is no {number} yet."
        raise RequestError(path="event", detail=detail, stage=Stage.FRAME)


async def watch_log(
    index: RunIndex, run_id: str, after: int, *, ends: bool
) -> AsyncGenerator[LoggedEvent]:
    """Yields the events behind a number, and those to come.

    Args:
        ends: Whether it is over when the run has ended or was stopped, and all was told.

    Raises:
        UnknownConversationError: There is no such run (any more).
        StoreError: The log cannot be read.
    """
    tail = index.store.open_log(run_id).tail(after)
    while True:
        lines = await asyncio.to_thread(tail.read)
        for line in lines:
            after = line.sequence
            yield open_envelope(read_envelope(line.data))
        if lines:
            continue
        if ends:
            last, is_over = await asyncio.to_thread(index.read_rest, run_id)
            if is_over and last <= after:
                return
        else:  # what was deleted would be watched for ever
            await asyncio.to_thread(index.store.read_metadata, run_id)
        await asyncio.sleep(_PAUSE_SECONDS)
