"""The event stream of a remote run ends with its last event, whoever closes a connection."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import attrs

from vibe_llms.agents.remote_events import RemoteEventStream
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.run_logs.log_lines import read_head, write_line
from vibe_llms.daemons.agents.frames import write_frame
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import RunRequestedEvent, StopRequestedEvent
from vibe_llms.foundation.limits import Limits
from vibe_llms.runs.summaries import RunSummary, summarize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS: list[LogEvent] = [
    RunRequestedEvent(spec={"model": "m:n"}),
    StopRequestedEvent(),
    RunEndedEvent(run_id="r", reason="cancelled"),
]
LOG = [
    LoggedEvent(sequence=number, timestamp=MOMENT, run_id="r", event=event)
    for number, event in enumerate(EVENTS, 1)
]


@attrs.define
class CutConnection:
    """Connection through a proxy that closes the first stream behind the request to stop."""

    limits: Limits = attrs.field(factory=Limits)
    pieces: list[list[LoggedEvent]] = attrs.field(factory=lambda: [LOG[:2], LOG[2:]])
    summaries: list[RunSummary] = attrs.field(
        factory=lambda: [attrs.evolve(summarize(LOG[:2], "r"), starts=1), summarize(LOG, "r")]
    )

    @property
    def clock(self) -> Any:
        async def sleep(seconds: float) -> None:
            """Return at once."""

        return SimpleNamespace(sleep=sleep)

    async def send(self, method: str, path: str, **more: Any) -> Any:
        frames = [
            write_frame(read_head(write_line(each.sequence, MOMENT, "r", each.event)))
            for each in self.pieces.pop(0)
        ]

        async def receive() -> bytes:
            return frames.pop(0) if frames else b""

        @asynccontextmanager
        async def answer() -> AsyncIterator[Any]:
            yield SimpleNamespace(headers={"content-type": "text/event-stream"}, receive=receive)

        return answer()

    async def ask(self, *arguments: Any, **more: Any) -> RunSummary:
        return self.summaries.pop(0)


async def test_a_stream_that_was_closed_while_a_run_stops_is_joined_again() -> None:
    stream = RemoteEventStream(cast("Any", CutConnection()), "/runs/r", 0, ends=True)
    numbers = [each.sequence async for each in stream.follow() if isinstance(each, LoggedEvent)]
    assert numbers == [1, 2, 3]
