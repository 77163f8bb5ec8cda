"""Messages to a run: each is in its log once, whenever whoever moves them is killed."""

from __future__ import annotations

import os
import time
from io import FileIO
from pathlib import Path

import attrs
import pytest

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs import inbox as inboxes
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.runs import (
    ApprovalRefusedEvent,
    MessageReceivedEvent,
    RunRequestedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import (
    CorruptionError,
    LimitError,
    Stage,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.runs.delivering import arrived_in_time, deliver, survey_open, take_messages


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    store = DirectoryStore(tmp_path) if request.param == "directory" else MemoryStore()
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    return store


def test_letters_come_in_their_order_and_once(store: ConversationStore) -> None:
    inbox, log = store.open_inbox("a"), store.open_log("a")
    assert inbox.is_empty
    messages = [
        MessageReceivedEvent(canister=UserCanister("More."), message_id="1", subject="ann"),
        StopRequestedEvent(message_id="2", reason="enough"),
    ]
    for message in messages:
        inbox.put(message)
    assert not inbox.is_empty
    assert deliver(store, "a")
    assert inbox.is_empty
    assert [each.event for each in log.read()] == messages
    inbox.put(messages[0])  # as if it had been forgotten only halfway
    assert deliver(store, "a")
    assert len(log.read()) == 2


def test_of_several_answers_the_first_counts_and_the_others_are_refused(
    store: ConversationStore,
) -> None:
    """Whoever gave one learns it: what the log says names the message, and who wrote it."""
    inbox, log = store.open_inbox("a"), store.open_log("a")
    asked = ApprovalRequestedEvent(
        key="k", invocation_id="i", name="pay", arguments="{}", digest="d"
    )
    answer = ApprovalAnsweredEvent(
        key="k", name="pay", digest="d", decision="allow", message_id="2", subject="ann"
    )
    messages = [
        attrs.evolve(answer, digest="other", message_id="1", subject="bob"),
        answer,
        attrs.evolve(answer, decision="deny", message_id="3", subject="cleo"),
        StopRequestedEvent(message_id="4"),
        StopRequestedEvent(),  # neither has a name
        RunRequestedEvent(subject="dora"),
    ]
    for message in messages:
        inbox.put(message)
    log.claim()
    log.append("run", asked)
    taken = take_messages(inbox, log, "run")
    inbox.put(messages[0])
    inbox.put(StopRequestedEvent(message_id="5"))
    again = take_messages(inbox, log, "run")
    log.close()

    assert taken == [
        ApprovalRefusedEvent(key="k", digest="other", message_id="1", subject="bob"),
        answer,
        ApprovalRefusedEvent(key="k", digest="d", message_id="3", subject="cleo"),
        *messages[3:],
    ]
    assert again == [StopRequestedEvent(message_id="5")]
    assert [each.event for each in log.read()] == [asked, *taken, *again]


def test_a_request_is_open_until_its_call_has_begun_or_ended_or_somebody_answered() -> None:
    """An answer is for one attempt; calls that nobody was asked about make no difference."""
    call = {"key": "k", "invocation_id": "i", "name": "pay"}
    asked = ApprovalRequestedEvent(**call, arguments="{}", digest="d")
    answered = ApprovalAnsweredEvent(key="k", name="pay", digest="d", decision="allow")
    begun = InvocationStartedEvent(**call, arguments="{}", effect="once", idempotency_key="k")
    result = ResultCanister("paid", invocation_id="i")
    ended = InvocationFinishedEvent(**call, result=result)

    assert survey_open([begun, ended, asked]) == {"k": asked}
    for settled in ([answered], [begun], [ended], [answered, begun]):
        assert survey_open([asked, *settled]) == {}
    assert survey_open([asked, answered, begun, asked]) == {"k": asked}


@pytest.mark.parametrize(
    ("before", "is_in_time"), [([], True), (["started"], True), (["started", "ended"], False)]
)
def test_a_letter_is_heard_where_a_run_was_not_over(
    store: ConversationStore, before: list[str], is_in_time: bool
) -> None:
    """What happens afterwards makes no difference."""
    log = store.open_log("a")
    log.claim()
    started = RunStartedEvent(run_id="run", conversation_id="a", length=1)
    ended = RunEndedEvent(run_id="run", reason="answered")
    for word in before:
        log.append("run", started if word == "started" else ended)
    log.append("run", StopRequestedEvent(message_id="1"))
    for event in (
        started,
        ended,
        RunSuspendedEvent(run_id="run", digests=()),
        StopRequestedEvent(message_id="2"),
    ):
        log.append("run", event)
    log.close()

    assert arrived_in_time(log, "1") is is_in_time
    assert arrived_in_time(log, "2") is False
    assert arrived_in_time(log, "unknown") is True


def test_nobody_is_waited_for_longer_than_is_said(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, log = store.open_inbox("a"), store.open_log("a")
    log.claim()
    inbox.put(StopRequestedEvent(message_id="1"))
    monkeypatch.setattr(time, "sleep", None)

    assert deliver(store, "a", wait_seconds=0) is False
    log.close()


def test_what_cannot_be_written_down_stays_a_letter(store: ConversationStore) -> None:
    inbox, log = store.open_inbox("a"), store.open_log("a")
    inbox.put(StopRequestedEvent(message_id="1"))
    with pytest.raises(Exception, match="claim"):
        take_messages(inbox, _Unwritable(log), "run")  # type: ignore[arg-type]
    assert not inbox.is_empty


class _Unwritable:
    def __init__(self, log: object) -> None:
        self._log = log

    def read(self) -> list[object]:
        return []

    def append(self, *_: object) -> int:
        raise RuntimeError("no claim")


def test_a_run_that_works_is_waited_for_a_little(store: ConversationStore) -> None:
    log = store.open_log("a")
    log.claim()
    store.open_inbox("a").put(StopRequestedEvent(message_id="1"))
    assert not deliver(store, "a", wait_seconds=0.05)
    log.append("r", RunSuspendedEvent(run_id="r", digests=()))
    log.close()
    assert deliver(store, "a")
    assert [each.run_id for each in log.read()] == ["r", "r", "r"]
    assert [each.event.type for each in log.read()][1:] == ["run.stop_requested", "run.ended"]


def test_a_letter_that_was_torn_was_never_acknowledged(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    inbox = store.open_inbox("a")
    inbox.put(StopRequestedEvent(message_id="1"))
    path = Path(store.locate("a"), inboxes.INBOX)
    path.write_bytes(path.read_bytes() + b'{"type":"run.stop')
    inbox.put(StopRequestedEvent(message_id="2"))
    assert deliver(store, "a")
    messages = [getattr(each.event, "message_id", "") for each in store.open_log("a").read()]
    assert messages == ["1", "2"]


def test_a_letter_that_does_not_read_is_damage_of_the_store(tmp_path: Path) -> None:
    """Whoever looks through a store passes that by; a later version may have written it."""
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    inbox = store.open_inbox("a")
    inbox.put(StopRequestedEvent(message_id="1"))
    path = Path(store.locate("a"), inboxes.INBOX)
    path.write_bytes(path.read_bytes() + b'{"type":"run.to_come"}\n')
    with pytest.raises(CorruptionError, match=r"inbox\.jsonl:2: Cannot read a message"):
        inbox.read()
    with pytest.raises(CorruptionError):
        deliver(store, "a")
    log = store.open_log("a")
    log.claim()  # nobody has it
    log.close()
    assert (inbox.is_empty, store.open_log("a").read()) == (False, [])


def test_an_inbox_has_an_end(store: ConversationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "CAPACITY", 2)
    inbox = store.open_inbox("a")
    inbox.put(StopRequestedEvent(message_id="1"))
    inbox.put(StopRequestedEvent(message_id="2"))
    with pytest.raises(
        LimitError, match=r"2 unread messages already wait.*Resume or stop"
    ) as caught:
        inbox.put(StopRequestedEvent(message_id="3"))
    assert (caught.value.limit, caught.value.value) == ("messages", 2)
    assert caught.value.stage is Stage.EXECUTE


def test_two_who_make_an_inbox_at_once_write_to_the_same(tmp_path: Path) -> None:
    class HastyNeighbour(Disk):
        is_near = False

        def create(self, path: str) -> FileIO:
            file = super().create(path)
            if self.is_near:
                file.close()
                raise FileExistsError(path)
            return file

    disk = HastyNeighbour()
    store = DirectoryStore(tmp_path, disk=disk)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    disk.is_near = True

    store.open_inbox("a").put(StopRequestedEvent(message_id="1"))

    assert len(store.open_inbox("a").read()) == 1


def test_an_inbox_that_could_not_be_opened_is_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    inbox = store.open_inbox("a")

    def fail(*arguments: object, **more: object) -> None:
        raise StoreError(detail="Input/output error.")

    with monkeypatch.context() as patched:
        patched.setattr(inboxes, "Log", fail)
        with pytest.raises(StoreError, match="Input/output"):
            inbox.put(StopRequestedEvent(message_id="1"))
    inbox.put(StopRequestedEvent(message_id="1"))
    assert len(inbox.read()) == 1


def test_who_only_looks_makes_no_inbox(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    inbox, before = store.open_inbox("a"), sorted(tmp_path.rglob("*"))

    assert inbox.is_empty
    assert inbox.read() == ()
    inbox.empty(list.clear)  # type: ignore[arg-type]

    assert sorted(tmp_path.rglob("*")) == before


def test_there_is_no_inbox_without_a_conversation(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    with pytest.raises(UnknownConversationError) as caught:
        store.open_inbox("none").put(StopRequestedEvent(message_id="1"))
    assert (caught.value.identity, caught.value.path) == ("none", store.locate("none"))


def test_an_inbox_is_open_to_others_also_where_a_child_was_forked_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the descriptors that there are: the lock is given back, and not only closed."""
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    inbox, acquire, kept = store.open_inbox("a"), locks.acquire, list[int]()

    def fork(path: str, **more: float) -> FileIO:
        file = acquire(path, **more)  # type: ignore[arg-type]
        kept.append(os.dup(file.fileno()))
        return file

    monkeypatch.setattr(locks, "acquire", fork)
    inbox.put(StopRequestedEvent(message_id="1"))
    try:
        locks.release(acquire(str(Path(store.locate("a"), inboxes.INBOX)), wait_seconds=0.0))
    finally:
        for each in kept:
            os.close(each)
    assert kept
