"""Waiting for a run's state also notices what is in no log: that its process is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vibe_llms.agents import awaiting
from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.agents.local import LocalRuns
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.events.runs import StopRequestedEvent

RUN = "a" * 32
STARTED = RunStartedEvent(run_id="r", conversation_id=RUN, length=1)
STOP = StopRequestedEvent(message_id="one")


class DyingRuns(LocalRuns):
    """Runs whose process dies once somebody watches them."""

    log: RunLog

    async def watch(self, run_id: str, **more: Any) -> AsyncGenerator[WatchedEvent]:
        self.log.close()
        async for event in super().watch(run_id, **more):
            yield event


@pytest.mark.parametrize(
    ("events", "state"), [([STARTED], "broken_off"), ([STARTED, STOP], "stopped")]
)
async def test_the_death_of_a_process_is_noticed(
    events: list[Any], state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting, "CHECK_SECONDS", 0.05)
    store = MemoryStore()
    store.create(RUN, ConversationMetadata())
    application = Application(load_configuration(environment={}))
    runs = DyingRuns(store, application, is_owner=True)
    runs.log = store.open_log(RUN)
    runs.log.claim()
    for event in events:
        runs.log.append("r", event)

    async with asyncio.timeout(60):
        summary = await runs.wait(RUN, states=[state])

    assert (summary.state, summary.starts) == (state, 0)
    await application.close()
