"""Subscriptions to the logs of runs, however many and however slow the subscribers are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.gateways.gateways import wait_until
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs import file_log, memory_log
from vibe_llms.conversations.run_logs.log import PIECE_BYTES
from vibe_llms.conversations.run_logs.log_lines import (
    open_envelope,
    read_envelope,
    read_head,
    write_line,
)
from vibe_llms.conversations.run_logs.publishing import is_subscribed
from vibe_llms.conversations.run_logs.tailing import FileTail
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.daemons.agents.frames import DELETED, EVENT_STREAM
from vibe_llms.daemons.agents.streams import follow, pass_on
from vibe_llms.events.engine import (
    GenerationFinishedEvent,
    InvocationProgressEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, VisitEvent
from vibe_llms.events.runs import RunRequestedEvent, RunResumedEvent, StopRequestedEvent
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.exceptions import StoreError, StoreUnavailableError
from vibe_llms.messages.canisters import StopReason
from vibe_llms.runs import log_readers
from vibe_llms.runs import subscriptions as module
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.log_readers import LogReader
from vibe_llms.runs.recent import KEPT_BYTES
from vibe_llms.runs.resting import MARKS, RestState
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.runs.summaries import RunFold
from vibe_llms.runs.surveying import RESTS

RUN = "a" * 32


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)


def produce_store(folder: Path) -> DirectoryStore:
    store = DirectoryStore(folder)
    store.create(RUN, ConversationMetadata())
    return store


FINISHED = GenerationFinishedEvent(
    key="k",
    turn=1,
    model="m",
    provider="p",
    canisters=1,
    stop_reason=StopReason.ANSWERED,
    usage=None,
)


def produce_subscriptions(store: Any) -> LogSubscriptions:
    return LogSubscriptions(RunIndex(store), EVENT_STREAM)


def grow(store: Any, count: int, size: int = 1) -> int:
    """Writes events; returns the number of the last."""
    log = store.open_log(RUN)
    log.claim()
    number = [log.append("r", StopRequestedEvent(reason="x" * size)) for _ in range(count)][-1]
    log.close()
    return number


def read_numbers(data: bytes) -> list[int]:
    return [int(line[4:]) for line in data.splitlines() if line.startswith(b"id: ")]


async def hear(told: AsyncGenerator[bytes], last: int) -> list[int]:
    """Returns the numbers that are told until the last."""
    found: list[int] = []
    async with asyncio.timeout(60):
        while not found or found[-1] < last:
            found += read_numbers(await anext(told))
    return found


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_an_event_is_written_once_for_all(
    is_elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read, once, only where another process has written it."""
    if is_elsewhere:
        monkeypatch.setattr(file_log, "publish", lambda *_: None)
    else:
        monkeypatch.setattr(module, "POLL_SECONDS", 3_600)
    store = produce_store(tmp_path)
    count, original = 0, FileTail.read

    def read(tail: FileTail) -> Any:
        nonlocal count
        found = original(tail)
        count += bool(found)
        return found

    monkeypatch.setattr(FileTail, "read", read)
    subscriptions = produce_subscriptions(store)
    watching = [follow(subscriptions, RUN, 0, 0, ends=False) for _ in range(20)]
    assert {await anext(each) for each in watching} == {b""}  # they are heard, at once
    await wait_until(lambda: not subscriptions._readers[RUN].is_behind)
    for _ in range(5):
        hearing = [asyncio.create_task(anext(each)) for each in watching]
        await asyncio.sleep(0)
        last = await asyncio.to_thread(grow, store, 1)
        told = await asyncio.gather(*hearing)
        assert {read_numbers(each)[-1] for each in told} == {last}
        assert len({id(each) for each in told}) == 1  # the very same bytes
    assert count == (5 if is_elsewhere else 0)
    for each in watching:
        await each.aclose()
    assert not subscriptions._readers
    assert subscriptions._serving is None


async def test_who_is_slow_reads_the_log_and_costs_no_memory(tmp_path: Path) -> None:
    store = produce_store(tmp_path)
    subscriptions = produce_subscriptions(store)
    slow, quick = (follow(subscriptions, RUN, 0, 0, ends=False) for _ in range(2))
    last = grow(store, 1)
    assert await hear(slow, last) == await hear(quick, last) == [1]
    for _ in range(20):
        last = grow(store, 40, size=1_000)
        subscriptions.read_soon(RUN)
        await hear(quick, last)
        assert subscriptions._readers[RUN].recent._size <= KEPT_BYTES
    assert await hear(slow, last) == [*range(2, last + 1)]
    waiting = asyncio.create_task(anext(slow))
    await wait_until(
        lambda: subscriptions._readers[RUN].recent.last == last and slow.ag_await is not None
    )
    kept = [each for each in slow.ag_frame.f_locals.values() if isinstance(each, bytes)]
    assert not any(kept)  # nothing of what it was sent
    waiting.cancel()
    await asyncio.wait([waiting])
    await slow.aclose()
    await quick.aclose()


async def test_those_who_are_behind_hold_no_more_the_more_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody takes lies in memory: pieces are the smaller, the more wait for theirs."""
    monkeypatch.setattr(module, "TOTAL_BEHIND_BYTES", 1 << 18)
    store = produce_store(tmp_path)
    last = grow(store, 100, size=5_000)
    subscriptions = produce_subscriptions(store)
    slow = [follow(subscriptions, RUN, 0, last, ends=False) for _ in range(16)]
    held = [len(await anext(each)) for each in slow]
    assert max(held) <= PIECE_BYTES + 1_000
    assert held == sorted(held, reverse=True)
    assert held[-1] <= (1 << 18) // len(slow)
    assert sum(held) < 4 << 18  # a harmonic series, as the first had theirs before the others came
    for each in slow[1:]:
        await each.aclose()
    assert len(await anext(slow[0])) > 4 * held[-1]
    assert await hear(slow[0], last)
    waiting = asyncio.create_task(anext(slow[0]))
    await wait_until(lambda: not subscriptions.behind)  # who has caught up is none of them any more
    waiting.cancel()
    await asyncio.wait([waiting])
    await slow[0].aclose()


class Watcher:
    """Watches from a number on; leaves, and comes back behind the last that was told."""

    def __init__(self, subscriptions: LogSubscriptions, after: int, last: int) -> None:
        self.subscriptions, self.after = subscriptions, after
        self.found: list[int] = []
        self.join(last)

    @property
    def known(self) -> int:
        return self.found[-1] if self.found else self.after

    def join(self, last: int) -> None:
        self.told = follow(self.subscriptions, RUN, self.known, last, ends=False)

    async def take(self) -> None:
        self.found += read_numbers(await anext(self.told))


HOWS = ["here", "in a thread", "elsewhere"]


async def write(log: Any, size: int, how: str) -> int:
    """Writes an event, of which those who watch are told, or are not as it is another process."""
    event = StopRequestedEvent(reason="x" * size)
    if how == "here":
        return int(log.append("r", event))
    if how == "in a thread":
        return int(await asyncio.to_thread(log.append, "r", event))
    with patch.object(file_log, "publish"):
        return int(log.append("r", event))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "directory"])
@given(data=st.data())
def test_every_event_is_told_once_and_in_order(kind: str, data: st.DataObject) -> None:
    """Whoever writes it, whenever they join and come back, and however slowly they take it."""

    async def play(store: Any) -> None:
        store.create(RUN, ConversationMetadata())
        log = store.open_log(RUN)
        log.claim()
        subscriptions = produce_subscriptions(store)
        watchers: list[Watcher] = []
        last = 0
        for _ in range(data.draw(st.integers(1, 16))):
            match data.draw(st.sampled_from(["write", "write", "join", "take", "rejoin", "rest"])):
                case "write":
                    size, how = data.draw(st.sampled_from([1, 5_000, 40_000])), None
                    for _ in range(data.draw(st.integers(1, 4))):
                        how = data.draw(st.sampled_from(HOWS))
                        last = await write(log, size, how)
                case "join":
                    watchers.append(Watcher(subscriptions, data.draw(st.integers(0, last)), last))
                case "take" if watchers:
                    if (watcher := data.draw(st.sampled_from(watchers))).known < last:
                        await watcher.take()
                case "rejoin" if watchers:
                    watcher = data.draw(st.sampled_from(watchers))
                    await watcher.told.aclose()
                    watcher.join(last)
                case "rest":
                    await asyncio.sleep(0)
        last = await write(log, 1, data.draw(st.sampled_from(HOWS)))
        for each in watchers:
            each.found += await hear(each.told, last)
            assert each.found == [*range(each.after + 1, last + 1)]
            await each.told.aclose()
        log.close()

    if kind == "memory":
        asyncio.run(play(MemoryStore()))
    else:
        with TemporaryDirectory() as folder:
            asyncio.run(play(DirectoryStore(folder)))


async def test_what_another_process_writes_is_told_however_busy_this_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a look while nobody writes here, and at once where a number is not the next one."""
    store = produce_store(tmp_path)
    log = store.open_log(RUN)
    log.claim()
    subscriptions = produce_subscriptions(store)
    watching = follow(subscriptions, RUN, 0, 0, ends=False)
    assert await hear(watching, await write(log, 1, "here")) == [1]
    assert await hear(watching, await write(log, 1, "here")) == [2]
    assert await hear(watching, await write(log, 1, "elsewhere")) == [3]
    await watching.aclose()

    monkeypatch.setattr(module, "POLL_SECONDS", 3_600)
    watching = follow(subscriptions, RUN, 3, 3, ends=False)
    assert await hear(watching, await write(log, 1, "here")) == [4]
    await write(log, 1, "elsewhere")
    assert await hear(watching, await write(log, 1, "here")) == [5, 6]
    await watching.aclose()
    log.close()


@pytest.mark.parametrize("is_early", [False, True])
async def test_a_run_that_another_process_replaced_is_gone_for_those_who_watch(
    is_early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under its name now has other events of the same numbers."""
    monkeypatch.setattr(module, "DELETION_CHECK_SECONDS", 0.5 if is_early else 0.01)
    store = produce_store(tmp_path)
    last = grow(store, 3)
    subscriptions = produce_subscriptions(store)
    watching = follow(subscriptions, RUN, 0, last, ends=False)
    assert await hear(watching, last) == [1, 2, 3]
    waiting = asyncio.create_task(anext(watching))
    await wait_until(lambda: subscriptions._readers[RUN]._created is not None or is_early)
    store.delete(RUN)
    produce_store(tmp_path)
    with patch.object(file_log, "publish"):
        grow(store, 2 if is_early else 9)
    async with asyncio.timeout(60):
        assert await waiting == DELETED
    await watching.aclose()


@pytest.mark.slow
async def test_who_is_quiet_is_looked_for_however_much_happens_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for what was deleted is one for all that are watched."""
    monkeypatch.setattr(module, "DELETION_CHECK_SECONDS", 0.025)
    store = produce_store(tmp_path)
    quiet = "b" * 32
    store.create(quiet, ConversationMetadata())
    subscriptions = produce_subscriptions(store)
    searched, read_on = list[int](), subscriptions._read_on

    async def note(readers: list[LogReader], *, is_search: bool) -> None:
        if is_search:
            searched.append(len(readers))
        await read_on(readers, is_search=is_search)

    monkeypatch.setattr(subscriptions, "_read_on", note)
    watching = [follow(subscriptions, each, 0, 0, ends=False) for each in (RUN, quiet)]
    assert [await anext(each) for each in watching] == [b"", b""]
    async with asyncio.timeout(60):
        while len(searched) < 8:
            subscriptions.read_soon(RUN)
            await asyncio.sleep(0)
    assert {*searched} == {2}
    for each in watching:
        await each.aclose()


EVENTS = st.sampled_from(
    [
        RunRequestedEvent(spec={"model": "m"}),
        RunStartedEvent(run_id="r", conversation_id=RUN, length=1),
        StopRequestedEvent(),
        RunResumedEvent(),
        RunSuspendedEvent(run_id="r", digests=()),
        InvocationProgressEvent(key="k", invocation_id="i", name="n", text=""),
        *(
            RunEndedEvent(run_id="r", reason=reason)
            for reason in ("answered", "failed", "cancelled")
        ),
        FlowStartedEvent(run_id="r"),
        *(
            FlowEndedEvent(run_id="r", reason=reason)
            for reason in ("ended", "cancelled", "waiting")
        ),
    ]
)


@example([RunRequestedEvent(spec={"model": "m"}), StopRequestedEvent()], 0)
@given(events=st.lists(EVENTS, min_size=5, max_size=40), start=st.integers(0, 4))
def test_it_is_known_from_lines_alone_whether_a_run_may_be_at_rest(
    events: list[Any], start: int
) -> None:
    """Where it says so it is, wherever it began; where it may not be, it is not."""
    rest, fold = RestState(), RunFold(RUN)
    for number, event in enumerate(events, 1):
        line = write_line(number, datetime.now(UTC), "r", event)
        fold.feed(open_envelope(read_envelope(line)))
        head = read_head(line)
        if number > start and head.word in MARKS:
            rest.feed(head)
        is_at_rest = fold.summarize().state in RESTS
        if rest.decision is not None and rest.decision[0] == number:
            assert rest.decision[1] == is_at_rest
        if not rest.may_be_over:
            assert not is_at_rest


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_stopped_run_is_over_when_its_process_has_ended_it_or_is_gone(
    is_killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when it is asked to stop: the rest of an answer, and of its calls, may follow."""
    monkeypatch.setattr(module, "REST_CHECK_SECONDS", 0.01)
    store = produce_store(tmp_path)
    log = store.open_log(RUN)
    log.claim()
    started = RunStartedEvent(run_id=RUN, conversation_id=RUN, length=1)
    log.append("r", RunRequestedEvent(spec={"model": "m:n"}), started, StopRequestedEvent())
    index, checks = RunIndex(store), []
    read_rest = index.read_rest
    monkeypatch.setattr(index, "read_rest", lambda run: checks.append(run) or read_rest(run))
    numbers: list[int] = []

    async def listen() -> None:
        subscriptions = LogSubscriptions(index, EVENT_STREAM)
        with subscriptions.subscribe(RUN, 0, 3, ends=True) as subscription:
            while data := await subscription.receive():
                numbers.extend(read_numbers(data))

    async with asyncio.timeout(60):
        listening = asyncio.create_task(listen())
        await wait_until(lambda: len(checks) > 2 or listening.done())
        if not is_killed:
            log.append("r", RunEndedEvent(run_id=RUN, reason="cancelled"))
        log.close()
        await listening
    assert numbers == ([1, 2, 3] if is_killed else [1, 2, 3, 4])
    assert len(checks) > 2


async def test_what_could_not_be_read_once_is_read_for_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while somebody who has watched before does not take what they were told."""
    store = produce_store(tmp_path)
    subscriptions = produce_subscriptions(store)
    stuck, watching = (follow(subscriptions, RUN, 0, 0, ends=False) for _ in range(2))
    assert [await anext(each) for each in (stuck, watching)] == [b"", b""]

    def fail(reader: LogReader, after: int) -> Any:
        raise StoreUnavailableError(path=RUN, detail="The server was begun anew.")

    with monkeypatch.context() as patched:
        patched.setattr(LogReader, "read", fail)
        subscriptions.read_soon(RUN)
        with pytest.raises(StoreUnavailableError):
            await anext(watching)
    last = grow(store, 3)
    watching = follow(subscriptions, RUN, 0, last, ends=False)
    assert await hear(watching, last) == [1, 2, 3]
    await watching.aclose()
    with pytest.raises(StoreUnavailableError):
        await anext(stuck)
    assert not subscriptions._readers


async def test_where_nobody_reads_any_more_those_who_watch_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = produce_store(tmp_path)
    last = grow(store, 3)
    subscriptions = produce_subscriptions(store)

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    async with asyncio.timeout(60):
        with monkeypatch.context() as patched:
            patched.setattr(LogSubscriptions, "_read_on", fail)
            for _ in range(2):  # also whoever comes back too early
                told = follow(subscriptions, RUN, last, last, ends=False)
                assert await anext(told) == b""
                with pytest.raises(StoreError, match="failed"):
                    await anext(told)
        again = follow(subscriptions, RUN, last, last, ends=False)
        assert await anext(again) == b""
        more = grow(store, 1)
        assert read_numbers(await anext(again)) == [more]
        await again.aclose()


async def test_parts_of_a_response_reach_those_who_are_up_to_date(tmp_path: Path) -> None:
    """They have no number, are dropped once the response is complete, and are bounded."""
    store = MemoryStore()
    store.create(RUN, ConversationMetadata())
    log = store.open_log(RUN)
    log.claim()
    subscriptions = produce_subscriptions(store)
    told = follow(subscriptions, RUN, 0, 0, ends=False)
    assert await anext(told) == b""
    pass_on(subscriptions, "b" * 32, ContentDeltaEvent(index=0, text="To others"))
    pass_on(subscriptions, RUN, ContentDeltaEvent(index=0, text="Hel"))
    part = await anext(told)
    assert b"event: content.delta\n" in part
    assert b"id:" not in part
    assert b"To others" not in part

    pass_on(subscriptions, RUN, ContentDeltaEvent(index=0, text="lo"))
    log.append("r", FINISHED)
    assert (frames := await anext(told)).startswith(b"id: 1\nevent: step.completed\n")
    assert b"content.delta" not in frames
    started = RunStartedEvent(run_id="r", conversation_id="v", length=1)
    pass_on(subscriptions, RUN, started)  # the log has it
    pass_on(subscriptions, RUN, VisitEvent(node="P0", visit=2, branch=1, event=started))
    frames = await anext(told)
    assert frames.startswith(b"event: visit.event\n")
    assert frames.count(b"event: ") == 1
    assert b'"visits":[{"node":"P0","visit":2,"branch":1}]' in frames
    for _ in range(10_000):
        pass_on(subscriptions, RUN, ContentDeltaEvent(index=0, text="x" * 100))
    assert len(await anext(told)) < 2 * KEPT_BYTES
    await told.aclose()
    log.close()


async def test_a_quiet_run_sends_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection on which nothing is sent would be cut."""
    monkeypatch.setattr(log_readers, "KEEP_ALIVE_SECONDS", 0.05)
    store = MemoryStore()
    store.create(RUN, ConversationMetadata())
    told = follow(produce_subscriptions(store), RUN, 0, 0, ends=False)
    assert await anext(told) == b""
    async with asyncio.timeout(60):
        assert [await anext(told) for _ in range(2)] == [b": still here\n\n"] * 2
    await told.aclose()


async def test_without_a_format_lines_come_as_they_are_in_the_log(tmp_path: Path) -> None:
    """Both from the buffer, and from the log."""
    store = produce_store(tmp_path)
    last = grow(store, 100, size=5_000)
    subscriptions = LogSubscriptions(RunIndex(store))
    with subscriptions.subscribe(RUN, 0, last) as subscription:
        found = b""
        while subscription.after < last:
            found += await subscription.receive()
        grow(store, 1)
        found += await subscription.receive()
    assert found == Path(store.locate(RUN), "runs.jsonl").read_bytes()


async def test_one_look_reads_all_that_another_process_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many lines one reading of a log returns."""
    monkeypatch.setattr(module, "POLL_SECONDS", 3_600)
    store = MemoryStore()
    store.create(RUN, ConversationMetadata())
    subscriptions = produce_subscriptions(store)
    told = follow(subscriptions, RUN, 0, 0, ends=False)
    assert await anext(told) == b""
    await wait_until(lambda: not subscriptions._readers[RUN].is_behind)
    with patch.object(memory_log, "publish"):
        last = grow(store, 1_000)
    subscriptions.read_soon(RUN)
    assert await hear(told, last) == [*range(1, last + 1)]
    await told.aclose()


async def test_who_has_left_receives_no_lines(tmp_path: Path) -> None:
    """A log without subscribers is written without any thought of them."""
    store = produce_store(tmp_path)
    place, subscriptions = store.open_log(RUN).topic, produce_subscriptions(store)
    for _ in range(2):
        with (
            subscriptions.subscribe(RUN, 0, 0),
            subscriptions.subscribe(RUN, 0, 0),
        ):
            assert place is not None
            assert is_subscribed(place)
            assert subscriptions.is_watched(RUN)
        assert not is_subscribed(place)
        assert not subscriptions.is_watched(RUN)
