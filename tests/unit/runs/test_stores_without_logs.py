"""A store need not keep the logs of runs; then what has no result counts as begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say, script
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.defaults import StoreDefaults
from vibe_llms.exceptions import StoreError
from vibe_llms.invocables import invocable
from vibe_llms.invocables.approvals import Approval, allow, produce_approval_request
from vibe_llms.messages.canisters import InvocationCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs import answer, survey_waiting

PAID: list[int] = []
REQUEST = produce_approval_request("call-1", "pay", {"amount": 3})


@invocable(effect="once")
def pay(amount: int) -> str:
    """Pays.

    Args:
        amount: How much.
    """
    PAID.append(amount)
    return "paid"


@invocable(effect="idempotent")
def look(amount: int) -> str:
    """Looks.

    Args:
        amount: How much.
    """
    PAID.append(amount)
    return "seen"


class Bare(StoreDefaults):
    """A store with what every store has, and nothing else."""

    def __init__(self) -> None:
        self._inner = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def store() -> Any:
    PAID.clear()
    return Bare()


def begin(store: Any, name: str) -> Conversation:
    """Stores a conversation whose last word is a call without a result."""
    conversation = Conversation()
    call = InvocationCanister(
        name=name, arguments='{"amount": 3}', invocation_id="call-1", turn_id="t"
    )
    conversation.add_canisters([UserCanister("Pay!"), call])
    conversation.save(store)
    return Conversation.restore(store, conversation.id)


async def test_a_run_of_its_own_acts_without_being_asked(store: Any) -> None:
    """What the run itself has begun it knows; each step is stored as it happens."""
    conversation = Conversation()
    conversation.add_canister(UserCanister("Pay!"))
    model = script([invoke("pay", amount=3)], [say("Done.")])

    done = await Engine(model, [pay], store=store).run(conversation)

    assert PAID == [3]
    stored = Conversation.restore(store, done.id)
    assert [text_of(each) for each in stored.canisters][-1] == "Done."
    assert len(stored) == 4


async def test_what_must_not_be_repeated_is_asked_about(store: Any) -> None:
    """Nobody knows whether an earlier run has executed it."""
    conversation = begin(store, "pay")

    outcome = await Engine(script([say("Done.")]), [pay], store=store).answer(conversation)

    (request,) = outcome.requests
    assert request.in_doubt
    assert PAID == []


async def test_once_it_is_allowed_it_is_executed(store: Any) -> None:
    """By whoever is asked in the process of the run."""

    class Yes:
        async def approve(self, request: Any) -> Approval:
            return allow(request)

    conversation = begin(store, "pay")

    await Engine(script([say("Done.")]), [pay], store=store, approver=Yes()).run(conversation)

    assert PAID == [3]


async def test_what_may_be_repeated_is_repeated(store: Any) -> None:
    """Without asking, as after a crash with a log."""
    conversation = begin(store, "look")

    await Engine(script([say("Done.")]), [look], store=store).run(conversation)

    assert PAID == [3]


async def test_what_can_be_read_is_secured_before_a_run_builds_on_it(store: Any) -> None:
    """A killed run has left no log that would say so; a loss of power could take its words away."""
    secured: list[str] = []
    store.secure = secured.append
    conversation = begin(store, "look")

    await Engine(script([say("Done.")]), [look], store=store).run(conversation)

    assert secured == [conversation.id]


def test_nobody_outside_can_answer(store: Any) -> None:
    """That is said, instead of an empty list."""
    conversation = begin(store, "pay")

    for attempt in (
        lambda: survey_waiting(store),
        lambda: survey_waiting(store, conversation.id),
        lambda: answer(store, conversation.id, allow(REQUEST)),
    ):
        with pytest.raises(StoreError, match=r"Bare keeps no logs of runs.*open_log"):
            attempt()


def test_a_store_s_own_log_is_used(store: Any, tmp_path: Path) -> None:
    """Wherever it puts it."""
    assert isinstance(store.open_log("a"), MemoryLog)

    class Logged(Bare):
        keeps_logs = True

        def open_log(self, identity: str) -> FileLog:
            return FileLog(str(tmp_path / identity))

    log = Logged().open_log("a")  # type: ignore[arg-type]

    assert isinstance(log, FileLog)
    assert survey_waiting(Logged()) == ()  # type: ignore[arg-type]
