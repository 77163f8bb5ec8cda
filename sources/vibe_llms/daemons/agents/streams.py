"""Event streams: the events of a run's log after a number, and all later ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from vibe_llms.agents.executing import HostedEvent
from vibe_llms.daemons.agents.frames import DELETED, is_volatile, write_piece
from vibe_llms.exceptions import RequestError, Stage, UnknownConversationError
from vibe_llms.runs.subscriptions import LogSubscriptions, ensure_reached

STREAM_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
}
"""Headers of an event stream."""


def read_number(value: str, last: int) -> int:
    """Read the number of the last event that a client knows; 0 for an empty value.

    Raises:
        RequestError: It is not a number, or the log does not reach it yet.
    """
    if not value:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        detail = f"Last-Event-ID must be the number of an event, not {value[:40]!r}."
        raise RequestError(path="Last-Event-ID", detail=detail, stage=Stage.FRAME)
    ensure_reached(int(value), last)
    return int(value)


def pass_on(subscriptions: LogSubscriptions, run_id: str, event: HostedEvent) -> None:
    """Pass an event that is not in a run's log to the run's watchers."""
    if subscriptions.is_watched(run_id) and is_volatile(event):
        subscriptions.send_transient(run_id, write_piece(run_id, event))


async def follow(
    subscriptions: LogSubscriptions, run_id: str, after: int, last: int, *, ends: bool
) -> AsyncGenerator[bytes]:
    """Yield frames of server-sent events, and comments while nothing happens.

    For a client that is up to date, the first frame is empty, so that the response starts at once.

    Args:
        after: Number of the last event that the client knows.
        last: Number of the last event so far.
        ends: End when the run has ended or was stopped, after its last event.

    Raises:
        StoreError: The log cannot be read.
    """
    with subscriptions.subscribe(run_id, after, last, ends=ends) as subscription:
        if after >= last:
            yield b""
        try:
            while data := await subscription.receive():
                yield data
                del data  # otherwise each of many watchers keeps its last data in memory
        except UnknownConversationError:
            yield DELETED
