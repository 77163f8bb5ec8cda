"""A stored run replays to the same states without a model or a tool; a change is named."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.acting import invoke, say, script
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import MemoryStore
from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.messages.canisters import SupervisorCanister
from vibe_llms.runs.replaying import Variant, replay_run


def look(where: str) -> str:
    """Looks somewhere."""
    return f"seen: {where}"


def pay(amount: int) -> str:
    """Pays."""
    if amount > 5:
        raise ValueError("too much")
    return "paid"


PAY = produce_invoker(pay, needs_approval=True)
DONE = attrs.evolve(produce_invoker(look), name="done", is_final=True)


def run(*turns: Any, limits: Limits | None = None, approvals: int = 0) -> tuple[MemoryStore, str]:
    """Performs a run, and goes on with it as often as somebody approves."""
    store = MemoryStore()
    conversation = Conversation()
    conversation.add_canisters([SupervisorCanister("Be brief.")])
    conversation.add_user_message("Go.")

    async def perform() -> None:
        nonlocal conversation
        model = script(*turns)
        engine = Engine(model, [look, PAY, DONE], store=store, limits=limits)
        outcome = await engine.answer(conversation)
        for _ in range(approvals):
            given = [
                Approval(digest=each.digest, decision=Decision.ALLOW) for each in outcome.requests
            ]
            outcome = await engine.answer(outcome.conversation, approvals=given)

    asyncio.run(perform())
    (identity,) = store.survey()
    return store, identity


def replay(store: MemoryStore, identity: str, **variant: Any) -> Any:
    """Replays it."""
    return asyncio.run(replay_run(store, identity, Variant(**variant)))


def test_000_each_step_is_as_it_was() -> None:
    """Asking, calls of one turn, an approval that was waited for, and the end."""
    turns = (
        [invoke("look", "a", where="here"), invoke("look", "b", where="there")],
        [invoke("pay", "c", amount=3)],
        [say("Done.")],
    )
    store, identity = run(*turns, approvals=1)

    replayed = replay(store, identity)

    assert replayed.difference is None, replayed
    assert replayed.state == "ended"
    steps = [(step.step, step.detail) for step in replayed.steps]
    assert [step for step, _ in steps] == [
        "generate",
        "execute",
        "generate",
        "await",
        "await",
        "execute",
        "generate",
        "terminate",
    ]
    assert steps[1] == ("execute", "look, look")
    assert steps[-1] == ("terminate", "answered")


_CALLS = st.sampled_from(
    [
        ("look", {"where": "x"}),
        ("look", {"nothing": 1}),
        ("gone", {}),
        ("pay", {"amount": 3}),
        ("pay", {"amount": 9}),
        ("pay", {"amount": "much"}),
        ("done", {"where": "x"}),
    ]
)


@examples(60)
@given(
    turns=st.lists(st.lists(_CALLS, min_size=1, max_size=3), max_size=4),
    steps=st.integers(1, 6),
    approvals=st.integers(0, 3),
)
def test_010_whatever_a_run_did_replays(turns: Any, steps: int, approvals: int) -> None:
    """Faults, refusals of arguments, names that nothing has, limits, waiting: no step differs."""
    scripted = [
        [invoke(name, f"{number}-{place}", **given) for place, (name, given) in enumerate(turn)]
        for number, turn in enumerate(turns)
    ]
    store, identity = run(
        *scripted, [say("Done.")], limits=Limits(run_steps=steps), approvals=approvals
    )

    replayed = replay(store, identity)

    assert replayed.difference is None, replayed


@pytest.mark.parametrize(
    ("variant", "difference"),
    [
        ({"model": "other:model"}, "the model is other:model"),
        ({"instructions": "Be long."}, "the instructions differ"),
        ({"pattern": digest_pattern({}, [])}, "the tools differ"),
        ({"instructions": "Be brief."}, ""),
    ],
)
def test_020_what_would_be_sent_otherwise_is_named(variant: Any, difference: str) -> None:
    """At the first step that sends it."""
    store, identity = run([say("Hello.")])

    found = replay(store, identity, **variant).difference

    assert found is None if not difference else difference in found.difference
    assert found is None or found.step == "generate"


def test_030_a_conversation_that_is_not_what_the_run_saw_differs() -> None:
    """A log whose conversation was changed by hand does not replay."""
    store, identity = run([invoke("look", "a", where="x")], [say("Done.")])
    entry = store._access(identity)
    del entry.own[2:4]

    assert replay(store, identity).difference is not None


def test_040_what_has_not_run_is_told() -> None:
    """There is nothing to replay."""
    store = MemoryStore()
    conversation = Conversation()
    conversation.add_user_message("Hello.")
    conversation.save(store)

    with pytest.raises(StoreError, match="has no run"):
        replay(store, conversation.id)
    assert not store.open_log(conversation.id).read()
