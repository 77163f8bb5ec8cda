"""Calls of earlier runs: those of parents, and those of which there is no log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.defaults import StoreDefaults, require_logs
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
from vibe_llms.runs.earlier_calls import survey_doubtful, survey_inherited

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
    bare: Any = StoreDefaults()
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
    write(store.open_log("a"), STARTED, finish(RESULT), finish(lost), ENDED)
    store.fork("a", child="b")
    fork = Conversation.restore(store, "b")
    known = survey_inherited(store, fork)
    assert known == [finish(RESULT), finish(lost)]

    assert compact_log(store, "a", datetime(9999, 1, 1, tzinfo=UTC)) is not None

    kept = [each.event for each in store.open_log("a").read()]
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
        write(store.open_log(identity), STARTED, event)
    fork = Conversation.restore(store, "c")

    assert survey_inherited(store, fork) == events[:2]
    is_lost = True
    assert survey_inherited(store, fork) == events[:2]


def test_a_store_that_keeps_no_logs_is_named() -> None:
    bare: Any = StoreDefaults()
    with pytest.raises(StoreError, match="StoreDefaults keeps no logs"):
        require_logs(bare)
    require_logs(MemoryStore())
