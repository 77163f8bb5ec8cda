"""Event stream of a remote run, with reconnects."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, cast

import msgspec

from vibe_llms.agents.connecting import Connection
from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.run_logs.log_lines import open_envelope, read_envelope
from vibe_llms.events.codec import decode_event
from vibe_llms.events.flow import VisitEvent
from vibe_llms.exceptions import (
    CodecError,
    ConverseError,
    StreamTruncatedError,
    UnknownConversationError,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.providers.retries import RetryPolicy
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import RESTS
from vibe_llms.wire.frames import Frame
from vibe_llms.wire.sse import SseFramer

REJOINS: Final = 12
"""Consecutive attempts to reconnect a broken stream; they take about a minute, so that a daemon can
restart."""

DELETED_WORD: Final = "run.deleted"


class _Visit(msgspec.Struct):
    node: str
    visit: int
    branch: int


class _Piece(msgspec.Struct):
    event: msgspec.Raw
    sequence: int | None = None
    visits: tuple[_Visit, ...] = ()


class RemoteEventStream:
    """Event stream of one run: each event of the log once, in order, despite lost connections.

    Args:
        connection: Connection to the daemon that has the run.
        path: Path of the run.
        after: Number of the last known event.
        ends: End the stream once the run has ended or was stopped, after its last event.
    """

    def __init__(self, connection: Connection, path: str, after: int, *, ends: bool) -> None:
        self.after = after
        self._connection = connection
        self._path = path
        self._ends = ends
        self._has_joined = False
        self._attempt = 0

    async def follow(self) -> AsyncGenerator[WatchedEvent]:
        """Yield events. Ends only if ``ends`` is set.

        Raises:
            UnknownConversationError: The run does not exist, or was deleted.
            ConverseError: The run cannot be followed, or no longer.
        """
        while True:
            try:
                async with aclosing(self._listen()) as events:
                    async for event in events:
                        yield event
                if self._ends and await self._is_over():
                    return
                raise StreamTruncatedError(detail="The event stream was interrupted.")
            except ConverseError as error:
                wait = self._decide(error)
                if wait is None:
                    raise
            await self._connection.clock.sleep(wait)

    def _decide(self, error: ConverseError) -> float | None:
        """Return the pause before the next attempt to reconnect; ``None`` to give up."""
        limits = self._connection.limits
        attempts = REJOINS if self._has_joined else limits.attempts
        policy = RetryPolicy(attempts=attempts, longest_seconds=limits.retry_seconds)
        self._attempt += 1
        return policy.decide(error, self._attempt, random.random())

    async def _is_over(self) -> bool:
        """Tell whether the run is over and the stream is complete; a proxy may have closed it."""
        summary = await self._connection.ask(RunSummary, "GET", self._path, is_repeatable=True)
        is_at_rest = summary.state in RESTS and not summary.starts
        return is_at_rest and summary.sequence <= self.after

    async def _listen(self) -> AsyncGenerator[WatchedEvent]:
        """Yield the events of one connection."""
        query = "?follow=false" if self._ends else ""
        headers = {"accept": "text/event-stream"}
        if self.after:
            headers["last-event-id"] = str(self.after)
        path = f"{self._path}/events"
        async with await self._connection.send(
            "GET", path + query, headers=headers, is_stream=True
        ) as exchange:
            kind = exchange.headers.get("content-type", "").partition(";")[0].strip()
            if kind != "text/event-stream":
                raise self._connection.refuse(f"GET {path}", "did not answer with an event stream")
            self._has_joined = True
            framer = SseFramer(self._connection.limits)
            while data := await exchange.receive():
                self._attempt = 0
                for event in map(self._read, framer.feed(data)):
                    if event is not None:
                        yield event

    def _read(self, frame: Frame) -> WatchedEvent | None:
        """Read an event; ``None`` if it is already known, or is not needed here."""
        if frame.event == DELETED_WORD:
            raise UnknownConversationError(identity=self._path.rpartition("/")[2])
        try:
            event = read_event(frame.data)
        except (*UNREADABLE, CodecError) as error:
            detail = f"sent an event that cannot be read ({error})"
            raise self._connection.refuse(f"GET {self._path}/events", detail) from error
        return self._take(event) if isinstance(event, LoggedEvent) else event

    def _take(self, logged: LoggedEvent) -> LoggedEvent | None:
        if logged.sequence <= self.after:
            return None
        self.after = logged.sequence
        return logged


def read_event(data: bytes) -> WatchedEvent | None:
    """Read the data of a frame; ``None`` for an event that only a newer daemon sends.

    Raises:
        MsgspecError, UnicodeDecodeError, CodecError: The data cannot be read.
    """
    piece = msgspec.json.decode(data, type=_Piece)
    if piece.sequence is not None:
        return open_envelope(read_envelope(data))
    try:
        event: Any = decode_event(bytes(piece.event))
    except CodecError:
        return None
    for place in reversed(piece.visits):
        event = VisitEvent(node=place.node, visit=place.visit, branch=place.branch, event=event)
    return cast(WatchedEvent, event)
