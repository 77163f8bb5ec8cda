"""Where logs are, how much is in them, and what a run learns of calls that are not its own."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
)
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.runs.compacting import compact_log
from vibe_llms.runs.places import (
    at_once,
    keeps_logs,
    measure_log,
    produce_log,
    require_logs,
    survey_doubtful,
    survey_inherited,
)

STARTED = RunStartedEvent(run_id="r", conversation_id="c", length=1)
ENDED = RunEndedEvent(run_id="r", reason="answered", settles=True)
CALL = InvocationCanister(
    id="k", name="pay", arguments='{"amount":3}', invocation_id="call-1", turn_id="t"
)
RESULT = ResultCanister("paid", id="said", invocation_id="call-1", name="pay")


def write(log: RunLog, *events: Any) -> None:
    """Lets a run happen."""
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()


def finish(result: ResultCanister) -> InvocationFinishedEvent:
    return InvocationFinishedEvent(key="k", invocation_id="call-1", name="pay", result=result)


def test_a_call_without_a_result_counts_as_begun_where_no_log_is_kept() -> None:
    bare: Any = SimpleNamespace()
    conversation = Conversation(canisters=[UserCanister("Pay!"), CALL])

    assert survey_doubtful(bare, conversation) == [
        InvocationStartedEvent(
            key="k",
            invocation_id="call-1",
            name="pay",
            arguments='{"amount":3}',
            effect="",
            idempotency_key="",
        )
    ]
    assert survey_doubtful(bare, Conversation()) == ()
    assert survey_doubtful(None, conversation) == survey_doubtful(MemoryStore(), conversation) == ()


def test_a_fork_knows_the_results_that_its_parent_s_short_log_left_to_the_conversation() -> None:
    """One that the conversation never got is still in the log. Without a store nobody knows."""
    store = MemoryStore()
    Conversation(id="a", canisters=[UserCanister("Pay!"), CALL, RESULT]).save(store)
    lost = attrs.evolve(RESULT, id="lost")
    write(produce_log(store, "a"), STARTED, finish(RESULT), finish(lost), ENDED)
    store.fork("a", child="b")
    fork = Conversation.restore(store, "b")
    known = survey_inherited(store, fork)
    assert known == [finish(RESULT), finish(lost)]

    assert compact_log(store, "a", datetime(9999, 1, 1, tzinfo=UTC)) is not None

    kept = [each.event for each in produce_log(store, "a").read()]
    assert finish(RESULT) not in kept
    assert survey_inherited(store, fork) == known
    assert not survey_inherited(None, fork)
    assert survey_inherited(store, Conversation.restore(store, "a")) == ()


def test_what_is_known_of_forks_of_forks_comes_oldest_first() -> None:
    """Also of one that is deleted just when its log was read: what was begun has begun."""

    class Losing(MemoryStore):
        def read_metadata(self, identity: str) -> ConversationMetadata:
            if identity == "a" and is_lost:
                raise UnknownConversationError(identity=identity)
            return super().read_metadata(identity)

    store, is_lost = Losing(), False
    Conversation(id="a", canisters=[UserCanister("Pay!"), CALL]).save(store)
    for identity, parent in (("b", "a"), ("c", "b")):
        store.fork(parent, child=identity)
    events = [attrs.evolve(finish(RESULT), seconds=float(each)) for each in range(3)]
    for identity, event in zip("abc", events, strict=True):
        write(produce_log(store, identity), STARTED, event)
    fork = Conversation.restore(store, "c")

    assert survey_inherited(store, fork) == events[:2]
    is_lost = True
    assert survey_inherited(store, fork) == events[:2]


def test_a_store_in_a_database_does_as_one_what_is_done_at_once() -> None:
    """And says whether it is only to read; with others nothing happens."""
    asked: list[bool] = []

    def transact(*, reading: bool) -> nullcontext[str]:
        asked.append(reading)
        return nullcontext("entered")

    store: Any = SimpleNamespace(database=SimpleNamespace(transact=transact))
    with at_once(store) as one, at_once(store, reading=True) as other:
        assert (one, other) == ("entered", "entered")
    with at_once(MemoryStore()) as nothing:
        assert nothing is None
    assert asked == [False, True]


def test_a_measure_that_is_the_same_says_that_nothing_was_added(tmp_path: Path) -> None:
    """That of another log under the same id is another, also where it is as long."""
    stores = [MemoryStore(), DirectoryStore(tmp_path)]
    for store in stores:
        Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
        log = produce_log(store, "a")
        measures = [measure_log(store, "a")]
        for _ in range(2):
            write(log, STARTED)
            assert measure_log(store, "a") == measure_log(store, "a")
            measures.append(measure_log(store, "a"))
        assert measures[0] is None
        assert None not in measures[1:]
        assert measures[1] != measures[2]
        kept = Path(store.locate("a")) if isinstance(store, DirectoryStore) else None
        if kept is not None:  # its number in the file system is not given again
            kept.rename(tmp_path / "kept")
        else:
            store.delete("a")
        Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
        write(produce_log(store, "a"), STARTED)
        assert measure_log(store, "a") not in measures
        assert log is not produce_log(store, "a")
    Path(stores[1].locate("a"), "runs.jsonl").write_bytes(b"")  # type: ignore[union-attr]
    assert measure_log(stores[1], "a") is None


def test_a_log_that_a_store_puts_wherever_is_measured_by_its_last_number() -> None:
    """Each time it may be another object."""
    lines, given = MemoryLog(), list[RunLog]()
    write(lines, STARTED, ENDED)

    def produce(identity: str) -> Any:
        given.append(SimpleNamespace(read_last=lines.read_last))  # type: ignore[arg-type]
        return given[-1]

    store: Any = SimpleNamespace(produce_log=produce)
    assert measure_log(store, "a") == measure_log(store, "a")
    assert given[0] is not given[1]
    write(lines, STARTED)
    assert measure_log(store, "a") not in [None, (0, 2)]


def test_a_store_that_keeps_no_logs_is_told_by_its_class() -> None:
    assert not keeps_logs(SimpleNamespace())  # type: ignore[arg-type]
    for name in ("access_companion", "database", "produce_log"):
        assert keeps_logs(SimpleNamespace(**{name: None}))  # type: ignore[arg-type]
    assert keeps_logs(SimpleNamespace(locate=None, disk=None))  # type: ignore[arg-type]
    assert not keeps_logs(SimpleNamespace(locate=None))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="SimpleNamespace keeps no logs"):
        require_logs(SimpleNamespace())  # type: ignore[arg-type]
    require_logs(MemoryStore())
