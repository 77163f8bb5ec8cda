"""What earlier runs left is read from the end of the log: the same after thousands as after ten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say, script
from support.stores.disks import HastyDisk
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import read_unsettled
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
)
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.logs import lines
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.opening import open_run

STARTED = RunStartedEvent(run_id="run", conversation_id="a", length=1)
SETTLED = RunEndedEvent(run_id="run", reason="answered", settles=True)
OPEN = RunEndedEvent(run_id="run", reason="cancelled")


def look() -> str:
    """Looks."""
    return "seen"


def fill(store: DirectoryStore, identity: str, runs: int) -> None:
    """Keeps a conversation with so many runs, and messages that came since."""
    store.create(identity, ConversationMetadata())
    store.append(identity, [UserCanister("Hello.")])
    log = store.open_log(identity)
    log.claim()
    for _ in range(runs):
        log.append("run", STARTED)
        log.append("run", SETTLED)
    log.append("run", STARTED)
    log.append("run", OPEN)
    log.close()


def count_reads(
    store: DirectoryStore, identity: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """Counts the reading calls, and the bytes, of taking a conversation up."""
    conversation = Conversation.restore(store, identity)
    read, counted = lines._read_once, [0, 0]

    def count(descriptor: int, start: int, size: int) -> bytes:
        data = read(descriptor, start, size)
        counted[0] += 1
        counted[1] += len(data)
        return data

    async def take_up() -> None:
        async with open_run(conversation, store) as (context, _):
            assert context.survey() == [STARTED, OPEN]

    with monkeypatch.context() as patch:
        patch.setattr(lines, "_read_once", count)
        asyncio.run(take_up())
    return counted[0], counted[1]


def test_000_after_thousands_of_runs_it_costs_what_it_costs_after_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding a number by halving is all that grows: by a reading for each doubling."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    fill(store, "few", 100)
    fill(store, "many", 10_000)

    few, many = (count_reads(store, each, monkeypatch) for each in ("few", "many"))

    assert many[0] <= few[0] + 3 * 14
    assert many[1] <= few[1] + 3 * 14 * 8192


@pytest.mark.parametrize("runs", [0, 1, 7, 40])
def test_010_what_is_open_is_found_however_far_back_it_is(runs: int) -> None:
    """All behind the last end that settles, and nothing before it."""
    log = MemoryLog()
    begun = InvocationStartedEvent(
        key="k", invocation_id="i", name="n", arguments="{}", effect="once", idempotency_key="x"
    )
    for event in (STARTED, SETTLED, begun, *[STARTED, OPEN] * runs):
        log.append("run", event)

    assert read_unsettled(log) == [begun, *[STARTED, OPEN] * runs]


def test_020_a_run_says_whether_it_settles(tmp_path: Path) -> None:
    """An answer does; a call that is still open does not, nor an answer for calls to come."""
    tool = produce_invoker(look, needs_approval=True)

    def perform(*turns: Any, **settings: Any) -> list[bool]:
        store, conversation = MemoryStore(), Conversation()
        conversation.add_user_message("Go.")
        engine = Engine(script(*turns), [tool], store=store, **settings)
        outcome = asyncio.run(engine.answer(conversation))
        if outcome.requests:
            (request,) = outcome.requests
            given = Approval(digest=request.digest, decision=Decision.ALLOW)
            asyncio.run(engine.answer(outcome.conversation, approvals=[given]))
        events = [each.event for each in store.open_log(conversation.id).read()]
        return [event.settles for event in events if isinstance(event, RunEndedEvent)]

    assert perform([say("Done.")]) == [True]
    assert perform([invoke("look", "a")], [say("Done.")]) == [True]


def test_030_an_answer_for_calls_to_come_is_not_forgotten() -> None:
    """A run that ends after somebody has said always settles nothing."""
    store, conversation = MemoryStore(), Conversation()
    conversation.add_user_message("Go.")
    conversation.save(store)
    log = store.open_log(conversation.id)
    log.claim()
    always = ApprovalAnsweredEvent(
        key="k", name="look", digest="d", decision="allow", scope="always"
    )
    for event in (STARTED, always, OPEN):
        log.append("run", event)
    log.close()

    asyncio.run(Engine(script([say("Done.")]), store=store).answer(conversation))

    assert always in read_unsettled(log)
