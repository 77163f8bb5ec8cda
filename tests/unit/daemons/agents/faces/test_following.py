"""A face follows a run: each watcher reads what is new, however long the conversation is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.runs.hosted import produce_application
from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.daemons.agents.faces.following import RunFollower
from vibe_llms.daemons.agents.faces.steps import PartEnded, Settled
from vibe_llms.daemons.agents.frames import EVENT_STREAM
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, NodeStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.runs import log_readers
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.runs.waiting import Waiting

GENERATIONS = 6


class Counting:
    """Counts the messages that a store has read."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages = self.wholes = 0
        kind = type(store)
        read, read_on = kind.read, kind.read_on

        def count(history: Any) -> Any:
            self.messages += 0 if history is None else len(history.canisters)
            return history

        def read_whole(store: Any, identity: str, **options: Any) -> Any:
            self.wholes += 1
            return count(read(store, identity, **options))

        monkeypatch.setattr(kind, "read", read_whole)
        monkeypatch.setattr(kind, "read_on", lambda *arguments: count(read_on(*arguments)))


@asynccontextmanager
async def running(store: ConversationStore, folder: Path, length: int) -> AsyncIterator[Any]:
    """Begin a run in a conversation with some messages; yield its log, and a follower's steps."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister(f"{number}") for number in range(length)])
    runs = LocalRuns(store, produce_application(folder))
    log = store.open_log("a")
    log.claim()
    request = RunRequestedEvent(spec={"model": "x:y"}, canisters=())
    started = RunStartedEvent(
        run_id="a", conversation_id="a", length=length, model="x:y", limits={}
    )
    log.append("a", request, started)
    follower = RunFollower(runs, LogSubscriptions(runs.index, EVENT_STREAM), "a", "")
    try:
        async with aclosing(follower.follow(1, 0)) as steps:
            yield log, steps
    finally:
        log.close()


def answer(store: ConversationStore, log: RunLog, key: str, turn: int) -> str:
    """Write an answer of the model; return the id of its message."""
    log.append("a", GenerationStartedEvent(key=key, turn=turn, model="x:y"))
    canister = AssistantCanister(f"Answer {turn}.")
    store.append("a", [canister])
    finished = GenerationFinishedEvent(
        key=key, turn=turn, model="x:y", provider="x", canisters=1, stop_reason="answered"
    )
    log.append("a", finished)
    return canister.id


async def count_reads(
    store: ConversationStore, folder: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> Counting:
    """Follow a run of several answers as they come; return what was read for that."""
    async with running(store, folder, length) as (log, steps):
        key = store.read("a").canisters[-1].id
        with monkeypatch.context() as patching:
            counting = Counting(store, patching)
            for turn in range(GENERATIONS):
                key = answer(store, log, key, turn)
                async for step in steps:
                    if isinstance(step, PartEnded):
                        assert step.content.text == f"Answer {turn}."  # type: ignore[union-attr]
                        break
            log.append("a", RunEndedEvent(run_id="a", reason="answered"))
            last = [step async for step in steps][-1]
            assert isinstance(last, Settled)
            assert last.outcome == "completed"
    return counting


@pytest.mark.parametrize("kind", ["directory", "memory"])
async def test_a_watcher_reads_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for length in (1, 200):
        store = MemoryStore() if kind == "memory" else DirectoryStore(tmp_path / str(length))
        counting = await count_reads(store, tmp_path, length, monkeypatch)
        assert (counting.wholes, counting.messages) == (1, length + GENERATIONS)


async def test_a_store_that_cannot_read_a_part_is_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    monkeypatch.setattr(MemoryStore, "read_on", lambda *_: None)
    counting = await count_reads(store, tmp_path, 10, monkeypatch)
    assert counting.wholes == GENERATIONS


async def test_a_watcher_that_comes_later_reads_the_conversation_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path / "store")
    async with running(store, tmp_path, 50) as (log, steps):
        key = store.read("a").canisters[-1].id
        for turn in range(GENERATIONS):
            key = answer(store, log, key, turn)
        log.append("a", RunEndedEvent(run_id="a", reason="answered"))
        counting = Counting(store, monkeypatch)
        ended = [step async for step in steps if isinstance(step, PartEnded)]
        assert len(ended) == GENERATIONS
        assert (counting.wholes, counting.messages) == (1, 50 + GENERATIONS)


class WatchedRuns(LocalRuns):
    """Runs that tell when the calls that wait were listed."""

    def __init__(self, store: ConversationStore, folder: Path) -> None:
        super().__init__(store, produce_application(folder))
        self.listed = asyncio.Event()

    async def survey_approvals(self, run_id: str, *, subject: str = "") -> Sequence[Waiting]:
        """Return the calls that wait for an approval."""
        waiting = await super().survey_approvals(run_id, subject=subject)
        self.listed.set()
        return waiting


START = RunStartedEvent(run_id="a", conversation_id="a", length=1, model="x:y", limits={})


@contextmanager
def suspended(store: ConversationStore) -> Iterator[RunLog]:
    """Write a run that waits for an approval; yield its log, which is claimed."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister("Pay.")])
    log = store.open_log("a")
    log.claim()
    try:
        log.append("a", RunRequestedEvent(spec={"model": "x:y"}, canisters=()), START)
        asked = ApprovalRequestedEvent(
            key="k", invocation_id="1", name="pay", arguments="{}", digest="d"
        )
        log.append("a", asked, RunSuspendedEvent(run_id="a", digests=("d",)))
        yield log
    finally:
        log.close()


async def test_a_run_does_not_wait_for_an_approval_that_is_in_its_inbox(tmp_path: Path) -> None:
    """The process that suspends a run may hold the log for longer than an answer waits for it."""
    store = DirectoryStore(tmp_path / "store")
    runs = WatchedRuns(store, tmp_path)
    answered = ApprovalAnsweredEvent(
        key="k", name="pay", digest="d", decision="deny", message_id="m"
    )
    with suspended(store) as log:
        store.open_inbox("a").put(answered)
        follower = RunFollower(runs, LogSubscriptions(runs.index, EVENT_STREAM), "a", "")
        async with aclosing(follower.follow(1, 0)) as steps:
            following = asyncio.create_task(find_settled(steps))
            await runs.listed.wait()
            log.close()
            assert deliver(store, "a")
            log.claim()
            log.append("a", START, RunEndedEvent(run_id="a", reason="answered"))
            log.close()
            settled = await following
    assert (settled.outcome, settled.summary.sequence) == ("completed", 7)


async def test_a_message_that_is_in_log_and_inbox_does_not_keep_the_answer_open(
    tmp_path: Path,
) -> None:
    """The holder of the log writes a message there first, and then removes it from the inbox."""
    store = DirectoryStore(tmp_path / "store")
    runs = LocalRuns(store, produce_application(tmp_path))
    message = MessageReceivedEvent(canister=UserCanister("Soon."), message_id="m")
    with suspended(store) as log:
        log.append("a", message)
        store.open_inbox("a").put(message)
        follower = RunFollower(runs, LogSubscriptions(runs.index, EVENT_STREAM), "a", "")
        async with asyncio.timeout(60), aclosing(follower.follow(1, 0)) as steps:
            settled = await find_settled(steps)
    assert (settled.outcome, settled.summary.sequence) == ("waiting", 5)


@contextmanager
def suspended_flow(store: ConversationStore) -> Iterator[RunLog]:
    """Write a flow that waits for an approval in a visit; yield the visit's log, claimed."""
    with suspended(store) as log:
        store.create("f", ConversationMetadata())
        flow = store.open_log("f")
        flow.claim()
        flow.append(
            "f",
            RunRequestedEvent(spec={"task": {}}, canisters=()),
            FlowStartedEvent(run_id="f"),
            NodeStartedEvent(node="P0", visit=1, conversation_id="a"),
            FlowEndedEvent(run_id="f", reason="waiting"),
        )
        flow.close()
        yield log


async def test_a_flow_does_not_wait_for_an_approval_that_is_in_the_inbox_of_a_visit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is moved, the flow has no event that says so; here another answer came first."""
    monkeypatch.setattr(log_readers, "KEEP_ALIVE_SECONDS", 0.0)
    store = DirectoryStore(tmp_path / "store")
    runs = WatchedRuns(store, tmp_path)
    late = ApprovalAnsweredEvent(
        key="k", name="pay", digest="of another call", decision="deny", message_id="m"
    )
    with suspended_flow(store) as log:
        store.open_inbox("a").put(late)
        follower = RunFollower(runs, LogSubscriptions(runs.index, EVENT_STREAM), "f", "")
        async with asyncio.timeout(60), aclosing(follower.follow(1, 0)) as steps:
            following = asyncio.create_task(find_settled(steps))
            await runs.listed.wait()
            runs.listed.clear()
            log.close()
            assert deliver(store, "a")
            settled = await following
    assert settled.outcome == "waiting"
    assert runs.listed.is_set()  # it was not settled when the calls were first listed


async def find_settled(steps: AsyncIterator[Any]) -> Settled:
    """Return the last step."""
    return [step async for step in steps if isinstance(step, Settled)][-1]
