"""The context and the journal of a run in this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.stores.disks import Ledger
from vibe_llms.conversations import Conversation, DirectoryStore, MemoryStore
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.conversations.run_logs.log import LoggedEvent, RunLog
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.contexts import Journal, RunContext, RunEvent
from vibe_llms.events.engine import (
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationProgressEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import (
    StoreError,
)
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.views import text_of
from vibe_llms.runs.journals import ConversationJournal, is_at_hand
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.opening import ClaimedRun, open_run

STATE = StateEnteredEvent(state="generate", turn=0)
PROGRESS = InvocationProgressEvent(key="k", invocation_id="i", name="f", text="half")
STARTED = InvocationStartedEvent(
    key="k", invocation_id="i", name="f", arguments="{}", effect="once", idempotency_key="x"
)
FINISHED = InvocationFinishedEvent(
    key="k", invocation_id="i", name="f", result=ResultCanister("done", invocation_id="i")
)


def produce_context(**options: Any) -> LocalRunContext:
    return LocalRunContext("run", MemoryLog(), **options)


def produce_conversation() -> Conversation:
    conversation = Conversation()
    conversation.add_user_message("Do it.")
    return conversation


async def test_010_what_is_emitted_is_kept_and_told_and_what_is_told_is_not_kept() -> None:
    """What a call says on its way is for whoever looks on, in order, not for the record."""
    log, heard = MemoryLog(), list[RunEvent]()
    context: RunContext = LocalRunContext("run", log, listener=heard.append)

    await context.emit(STATE)
    context.publish(PROGRESS)
    await context.emit(STARTED, durable=True)

    assert heard == [STATE, PROGRESS, STARTED]
    assert [each.event for each in log.read()] == [STATE, STARTED]
    assert context.is_followed
    alone = LocalRunContext("alone", log)
    alone.publish(PROGRESS)
    assert not alone.is_followed


async def test_011_a_listener_that_raises_gets_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The run goes on, and so does the listener."""
    heard = []

    def complain(event: RunEvent) -> None:
        heard.append(event)
        raise ValueError("I do not like it")

    context = produce_context(listener=complain)
    with caplog.at_level(logging.WARNING):
        await context.emit(STATE)
        context.publish(PROGRESS)

    assert len(heard) == 2
    assert len(caplog.records) == 1
    assert "complain raised ValueError" in caplog.text


async def test_012_an_event_is_written_before_it_is_told(tmp_path: Path) -> None:
    """Whoever has heard it finds it in the log, whatever happens next."""
    store, conversation = DirectoryStore(tmp_path), produce_conversation()
    counts = []

    def look(_: RunEvent) -> None:
        counts.append(len(store.open_log(conversation.id).read()))

    async with open_run(conversation, store, listener=look) as (context, _):
        await context.emit(STATE)
        await context.emit(STARTED)

    assert counts == [1, 2]


async def test_012_events_are_told_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Also where one of them waits for the disk and the next does not."""
    store, conversation = DirectoryStore(tmp_path), produce_conversation()
    heard: list[RunEvent] = []
    async with open_run(conversation, store, listener=heard.append) as (context, _):
        await asyncio.gather(
            context.emit(STARTED, durable=True), context.emit(STATE), context.emit(FINISHED)
        )

    logged = [each.event for each in store.open_log(conversation.id).read()]
    assert heard == logged == [STARTED, STATE, FINISHED]


class WritingLog(MemoryLog):
    """Remembers what was written at once; may fail, or be slow."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[list[Any], bool]] = []
        self.error: Exception | None = None
        self.pause: Callable[[], Awaitable[object]] | None = None

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        if self.error is not None:
            raise self.error
        number = await super().write(run_id, *events)
        self.written.append(([*events], durable))
        if self.pause is not None:
            await self.pause()
        return number


async def test_015_what_may_wait_for_the_next_event_is_written_and_told_with_it() -> None:
    """In the order in which it happened, and in one piece."""
    log, heard = WritingLog(), list[RunEvent]()
    context = LocalRunContext("run", log, listener=heard.append)

    await context.emit(STATE, soon=True)
    assert (log.written, heard) == ([], [])
    await context.emit(STARTED, durable=True)
    await context.emit(FINISHED)

    assert log.written == [([STATE, STARTED], True), ([FINISHED], False)]
    assert heard == [STATE, STARTED, FINISHED]


async def test_016_what_waited_is_not_lost_with_the_event_that_could_not_be_written() -> None:
    """Whoever emits that one is told; of what has waited nobody would be."""
    log, heard = WritingLog(), list[RunEvent]()
    context = LocalRunContext("run", log, listener=heard.append)
    log.error = StoreError(detail="The disk is full.")
    await context.emit(STATE, soon=True)
    with pytest.raises(StoreError, match="full"):
        await context.emit(STARTED)

    log.error = None
    await context.emit(FINISHED)

    assert [each.event for each in log.read()] == heard == [STATE, FINISHED]


async def test_017_what_waited_is_written_once_also_where_the_next_is_cancelled() -> None:
    """A log has what it was given when whoever waits for it is cancelled."""
    log, heard = WritingLog(), list[RunEvent]()
    context = LocalRunContext("run", log, listener=heard.append)
    log.pause = asyncio.Event().wait
    await context.emit(STATE, soon=True)
    writing = asyncio.create_task(context.emit(STARTED))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    log.pause = None
    await context.emit(FINISHED)

    assert [each.event for each in log.read()] == heard == [STATE, STARTED, FINISHED]


@pytest.mark.parametrize("error", [None, ValueError("A fault of ours.")])
async def test_018_what_nothing_came_after_is_written_when_the_run_is_let_go(
    tmp_path: Path, error: Exception | None
) -> None:
    """However it ends."""
    store, conversation = DirectoryStore(tmp_path), produce_conversation()
    heard: list[RunEvent] = []
    with suppress(ValueError):
        async with open_run(conversation, store, listener=heard.append) as (context, _):
            await context.emit(STATE, soon=True)
            await context.emit(FINISHED, soon=True)
            if error is not None:
                raise error

    logged = [each.event for each in store.open_log(conversation.id).read()]
    assert heard == logged == [STATE, FINISHED]


async def test_013_a_run_learns_what_earlier_runs_have_left(tmp_path: Path) -> None:
    """Its own events are not among them, and those of its conversation's parents come first."""
    for store in (DirectoryStore(tmp_path), MemoryStore()):
        conversation = produce_conversation()
        asked = GenerationStartedEvent(key="k", turn=1, model="m")
        async with open_run(conversation, store) as (context, _):
            for event in (STATE, asked, STARTED):
                await context.emit(event)
        async with open_run(conversation, store) as (context, _):
            await context.emit(FINISHED)
            assert context.survey() == [STATE, asked, STARTED]

        fork = conversation.fork()
        async with open_run(fork, store) as (context, _):
            await context.emit(STATE)
            assert context.survey() == [STARTED, FINISHED]
        grandchild = Conversation.restore(store, store.fork(fork.id))
        async with open_run(grandchild, store) as (context, _):
            assert context.survey() == [STARTED, FINISHED]
        store.delete(conversation.id)
        async with open_run(Conversation.restore(store, grandchild.id), store) as (context, _):
            assert context.survey() == []


async def test_020_a_run_without_a_store_makes_no_file_and_keeps_the_conversation() -> None:
    """What was said is in the conversation that was given."""
    conversation = produce_conversation()

    async with open_run(conversation) as (context, journal):
        at_hand: Journal = journal
        await at_hand.append([AssistantCanister("Done.")])
        await context.emit(STATE)
        assert at_hand.conversation_id == conversation.id

    assert [text_of(canister) for canister in conversation.canisters] == ["Do it.", "Done."]


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_021_what_was_appended_is_stored(tmp_path: Path, kind: str) -> None:
    """What the conversation had not stored before the run is stored when the run begins."""
    store = DirectoryStore(tmp_path) if kind == "files" else MemoryStore()
    conversation = produce_conversation()

    async with open_run(conversation, store) as (_, journal):
        assert len(store.read(conversation.id).canisters) == 1
        await journal.append([AssistantCanister("One."), AssistantCanister("Two.")])
        stored = store.read(conversation.id).canisters

    assert stored == tuple(journal.canisters)
    assert len(stored) == 3


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_022_what_others_have_said_meanwhile_comes_first(tmp_path: Path, kind: str) -> None:
    """Before the run and while it goes on: it is there, and there is a notice of it."""
    store = DirectoryStore(tmp_path) if kind == "files" else MemoryStore()
    conversation = produce_conversation()
    conversation.save(store)

    def say(text: str) -> None:
        other = Conversation.restore(store, conversation.id)
        other.add_user_message(text)
        other.save(store)

    say("Before.")
    async with open_run(conversation, store) as (_, journal):
        assert text_of(journal.canisters[-1]) == "Before."
        say("Meanwhile.")
        await journal.append([AssistantCanister("Done.")])

    texts = [text_of(canister) for canister in conversation.canisters]
    assert texts == ["Do it.", "Before.", "Meanwhile.", "Done."]
    assert [text_of(each) for each in store.read(conversation.id).canisters] == texts
    assert [str(each).split(": ")[1] for each in conversation.notices] == [
        "Another program has written to it, too."
    ] * 2


class BreakingDisk(Disk):
    """Breaks the writing of messages when told to, and takes its time."""

    is_broken = False
    seconds = 0.0

    def write(self, descriptor: int, data: bytes) -> None:
        time.sleep(self.seconds)
        if self.is_broken:
            raise OSError(5, "Input/output error", "messages.jsonl")
        super().write(descriptor, data)


async def test_023_what_could_not_be_stored_was_not_said(tmp_path: Path) -> None:
    """It is not in the conversation then, and may be said again when the disk is back."""
    disk = BreakingDisk()
    store, conversation = DirectoryStore(tmp_path, disk=disk), produce_conversation()
    async with open_run(conversation, store) as (_, journal):
        disk.is_broken = True
        with pytest.raises(StoreError, match="Input/output"):
            await journal.append([AssistantCanister("Done.")])
        disk.is_broken = False
        assert len(journal.canisters) == 1

        await journal.append([AssistantCanister("Done.")])

    assert store.read(conversation.id).canisters == tuple(conversation.canisters)
    assert len(conversation) == 2


@pytest.mark.parametrize("is_broken", [False, True])
async def test_024_a_cancelled_append_has_happened_or_not(tmp_path: Path, is_broken: bool) -> None:
    """When the cancelling is through, the conversation and the store agree."""
    disk = BreakingDisk()
    store, conversation = DirectoryStore(tmp_path, disk=disk), produce_conversation()
    async with open_run(conversation, store) as (_, journal):
        disk.seconds, disk.is_broken = 0.05, is_broken
        task = asyncio.create_task(journal.append([AssistantCanister("Done.")]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        disk.seconds, disk.is_broken = 0.0, False

        said: Sequence[AnyCanister] = journal.canisters
        assert store.read(conversation.id).canisters == tuple(said)
        assert len(said) == (1 if is_broken else 2)


async def test_030_two_runs_of_one_conversation_at_once_are_refused(tmp_path: Path) -> None:
    """The one that is on its way is not disturbed; afterwards the next may begin."""
    for store in (DirectoryStore(tmp_path), MemoryStore()):
        conversation = produce_conversation()
        async with open_run(conversation, store) as (context, journal):
            other = Conversation.restore(store, conversation.id)
            other.add_user_message("Me, too!")
            with pytest.raises(StoreError, match="already active"):
                async with open_run(other, store):
                    pass
            await journal.append([AssistantCanister("Done.")])
            await context.emit(STATE)

        assert len(store.read(conversation.id).canisters) == 2
        async with open_run(other, store) as (_, journal):
            assert len(journal.canisters) == 3


async def test_031_who_is_cancelled_while_claiming_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim may come through after the wait for it has ended; it is given back then."""
    store, conversation = DirectoryStore(tmp_path), produce_conversation()
    conversation.save(store)
    claim = FileLog.claim

    def claim_slowly(log: FileLog) -> None:
        time.sleep(0.05)
        claim(log)

    monkeypatch.setattr(FileLog, "claim", claim_slowly)
    task = asyncio.create_task(open_run(conversation, store).__aenter__())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with open_run(conversation, store):
        pass


async def test_032_a_run_ends_with_its_lock_given_back_whatever_happens(tmp_path: Path) -> None:
    """Also where it raises; and what was torn before is told in the conversation's notices."""
    store, conversation = DirectoryStore(tmp_path), produce_conversation()

    async def fail() -> None:
        async with open_run(conversation, store) as (context, _):
            await context.emit(STATE)
            raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        await fail()
    path = Path(store.locate(conversation.id), "runs.jsonl")
    path.write_bytes(path.read_bytes() + b'{"seq')

    async with open_run(conversation, store, run_id="again") as (context, _):
        assert context.run_id == "again"
        assert context.survey() == [STATE]

    assert any("(5 bytes, never acknowledged)" in each.message for each in conversation.notices)


def test_040_taking_back_touches_neither_what_is_stored_nor_forks() -> None:
    """Only what was added last and never stored can be taken back."""
    store, conversation = MemoryStore(), produce_conversation()
    conversation.save(store)
    first = conversation.canisters[0]
    call = InvocationCanister(invocation_id="i", name="f", arguments="{}")
    conversation.add_canister(call)
    fork = conversation.fork()

    conversation.remove_unsaved([first, call])

    assert list(conversation.canisters) == [first]
    assert list(fork.canisters) == [first, call]
    ConversationJournal(conversation).conversation.remove_unsaved([first])
    assert list(conversation.canisters) == [first]


async def test_a_result_that_the_log_has_kept_joins_with_its_pictures(tmp_path: Path) -> None:
    """The log leaves their bytes to the store; the model has to be sent them all the same."""
    store = DirectoryStore(tmp_path)
    conversation = Conversation()
    conversation.add_user_message("Draw!")
    picture = ImageContent(mime_type="image/png", data=b"drawn")
    result = ResultCanister([picture], invocation_id="a", name="draw")
    finished = InvocationFinishedEvent(key="k", invocation_id="a", name="draw", result=result)
    async with open_run(conversation, store) as (context, _):
        await context.emit(finished)

    async with open_run(conversation, store) as (context, journal):
        (kept,) = [each for each in context.survey() if isinstance(each, InvocationFinishedEvent)]
        await journal.append([kept.result])

    (content,) = journal.canisters[-1].content
    assert isinstance(content, ImageContent)
    assert content.data == b"drawn"


async def test_what_a_killed_run_has_left_is_made_certain_before_it_is_acted_upon(
    tmp_path: Path,
) -> None:
    """A loss of power must not take away what the next run reads and goes by; where the last run
    came to its end, all of it is certain, and the disk is not troubled."""
    ledger = Ledger()
    store, conversation = DirectoryStore(tmp_path, disk=ledger), produce_conversation()
    async with open_run(conversation, store) as (context, _):
        await context.emit(STATE)  # and the run is killed
    messages = f"{store.locate(conversation.id)}/messages.jsonl"
    ledger.owed.add(messages)

    async with open_run(conversation, store) as (context, _):
        assert messages not in ledger.owed
        await context.emit(RunEndedEvent(run_id=context.run_id, reason="answered"))
    ledger.owed.add(messages)

    async with open_run(conversation, store):
        assert messages in ledger.owed


def produce_claimed(folder: Path, kind: str) -> tuple[ConversationStore, Conversation, RunLog]:
    """Makes a conversation in a store, whose log is held."""
    store = DirectoryStore(folder) if kind == "files" else MemoryStore()
    conversation = produce_conversation()
    conversation.save(store)
    log = store.open_log(conversation.id)
    log.claim()
    return store, conversation, log


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_050_a_run_that_was_just_begun_knows_its_order_and_hears_what_is_said(
    tmp_path: Path, kind: str
) -> None:
    """Nothing is read again for it; its log is held, and given back."""
    store, conversation, log = produce_claimed(tmp_path, kind)
    logged = LoggedEvent(sequence=1, timestamp=datetime.now(UTC), run_id="run", event=STATE)
    begun = ClaimedRun(conversation=conversation, log=log, events=[logged], is_new=True)
    said = MessageReceivedEvent(canister=UserCanister("Wait."), message_id="one")

    async with open_run(conversation, store, run_id="run", claimed=begun) as (context, journal):
        assert context.survey() == [STATE]
        assert journal.log is log
        assert await context.receive() == ()
        store.open_inbox(conversation.id).put(said)
        assert await context.receive() == [said]
        with pytest.raises(StoreError, match="already active"):
            store.open_log(conversation.id).claim()

    assert [(each.run_id, each.event) for each in log.read()] == [("run", said)]
    log.claim()
    log.close()


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_051_a_run_that_is_taken_up_by_who_has_its_log_is_read_and_stored(
    tmp_path: Path, kind: str
) -> None:
    """As any other, but for the claim: whoever had it lets go of nothing then."""
    store, conversation, log = produce_claimed(tmp_path, kind)
    log.append("run", STATE)
    begun = ClaimedRun(conversation=conversation, log=log, events=log.read())
    store.open_inbox(conversation.id).put(
        said := MessageReceivedEvent(canister=UserCanister("Wait."), message_id="one")
    )
    conversation.add_user_message("More.")

    async with open_run(conversation, store, run_id="run", claimed=begun) as (context, journal):
        begun.release()
        assert context.survey() == [STATE, said]
        assert journal.log is log
        assert await context.receive() == [said]
        assert store.read(conversation.id).canisters[-1] == conversation.canisters[-1]
        with pytest.raises(StoreError, match="already active"):
            store.open_log(conversation.id).claim()

    log.claim()  # somebody else, for all that the run knows
    begun.release()
    with pytest.raises(StoreError, match="already active"):
        store.open_log(conversation.id).claim()
    log.close()


def test_052_a_claim_that_nobody_has_taken_is_let_go_of_once() -> None:
    store, conversation = MemoryStore(), produce_conversation()
    conversation.save(store)
    log = store.open_log(conversation.id)
    log.claim()
    begun = ClaimedRun(conversation=conversation, log=log, events=())
    begun.release()
    log.claim()
    begun.release()
    with pytest.raises(StoreError, match="already active"):
        log.claim()


async def test_054_without_a_store_what_is_elsewhere_stays_there() -> None:
    """A picture of which only the name is known is said as it is; no thread is gone to for it."""
    named = ImageContent(mime_type="image/png", content_id="0" * 64)
    journal = ConversationJournal(produce_conversation())

    await journal.append([ResultCanister([named], invocation_id="i")])

    assert journal.canisters[-1].content == (named,)
    assert is_at_hand(None)
    assert is_at_hand(MemoryStore())
