"""What a replay says of each step of a log: that it is as it was, or what the engine would do."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    StateEnteredEvent,
)
from vibe_llms.invocables.approvals import produce_approval_request
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.runs import replaying
from vibe_llms.runs.replaying import Replay, ReplayStep, Variant, replay_run

CALL = InvocationCanister(id="k", name="look", arguments="{}", invocation_id="i", turn_id="t")
RESULT = ResultCanister("seen", id="r", invocation_id="i", name="look")
SAID: list[AnyCanister] = [
    SupervisorCanister("Be brief.", id="s"),
    UserCanister("Go.", id="u"),
    CALL,
    RESULT,
    AssistantCanister("Done.", id="a", turn_id="t2"),
]
STARTED = RunStartedEvent(
    run_id="r",
    conversation_id="c",
    length=2,
    limits={"run_steps": 2, "run_calls": None, "run_seconds": 9},
)
ASKED = GenerationStartedEvent(key="u", turn=1, model="m", pattern={"tools": "1", "settings": "2"})
TOLD = GenerationFinishedEvent(
    key="u", turn=1, model="m", provider="p", canisters=1, stop_reason=StopReason.INVOCATION
)
ENTERED = StateEnteredEvent(state="execute", turn=1)
BEGUN = InvocationStartedEvent(
    key="k", invocation_id="i", name="look", arguments="{}", effect="pure", idempotency_key="k"
)
CAME = InvocationFinishedEvent(key="k", invocation_id="i", name="look", result=RESULT)
AGAIN = attrs.evolve(ASKED, key="r", turn=2, pattern={})
DONE = attrs.evolve(TOLD, key="r", turn=2, stop_reason=StopReason.ANSWERED)
ENDED = RunEndedEvent(run_id="r", reason="answered")
LOG: list[Any] = [STARTED, ASKED, TOLD, ENTERED, BEGUN, CAME, AGAIN, DONE, ENDED]


def replay(*events: Any, said: list[AnyCanister] = SAID, **variant: Any) -> Replay:
    """Replays a log of these events."""
    store = MemoryStore()
    Conversation(id="c", canisters=said).save(store)
    log = store.open_log("c")
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()
    return asyncio.run(replay_run(store, "c", Variant(**variant)))


def test_each_step_says_what_was_done_and_with_how_much() -> None:
    replayed = replay(*LOG)

    assert replayed.difference is None
    assert (replayed.identity, replayed.state, replayed.remarks) == ("c", "ended", ())
    assert replayed.steps == (
        ReplayStep(sequence=2, step="generate", detail="m, 2 canisters", length=2),
        ReplayStep(sequence=4, step="execute", detail="look"),
        ReplayStep(sequence=7, step="generate", detail="m, 4 canisters", length=4),
        ReplayStep(sequence=9, step="terminate", detail="answered"),
    )


@pytest.mark.parametrize(
    ("events", "step"),
    [
        (
            [STARTED, attrs.evolve(ASKED, key="gone"), *LOG[2:]],
            (2, "generate", "the sent messages are not in the conversation"),
        ),
        (
            [*LOG[:3], attrs.evolve(ASKED, key="k")],
            (4, "generate", "the engine would execute look"),
        ),
        (
            [*LOG[:3], StateEnteredEvent(state="await", turn=1)],
            (4, "await", "the engine would execute look"),
        ),
        ([*LOG[:2], ENTERED], (3, "execute", "the engine would generate")),
        (
            [*LOG[:4], attrs.evolve(BEGUN, key="other")],
            (5, "execute", "look: the engine would execute look"),
        ),
        ([*LOG[:2], BEGUN], (3, "execute", "look: the engine would generate")),
        ([*LOG[:7], BEGUN], (8, "execute", "look: the engine would generate")),
        (
            [*LOG[:6], attrs.evolve(ENDED, reason="refused")],
            (7, "terminate", "the engine would generate"),
        ),
        (
            [*LOG[:8], attrs.evolve(AGAIN, key="a")],
            (9, "generate", "the engine would end (answered)"),
        ),
        (
            [*LOG[:8], attrs.evolve(ENDED, reason="refused")],
            (9, "terminate", "the engine would end (answered)"),
        ),
        (
            [
                *LOG[:6],
                attrs.evolve(ENDED, reason="limit", limit="run_steps", readings={"steps": 1}),
            ],
            (7, "terminate", "the limit is not reached"),
        ),
    ],
)
def test_the_first_step_that_is_otherwise_is_named(
    events: list[Any], step: tuple[int, str, str]
) -> None:
    """And is the last: what comes after it would follow from another history."""
    replayed = replay(*events, *LOG)

    found = replayed.difference
    assert found is not None
    assert found is replayed.steps[-1]
    assert (found.sequence, found.step, found.difference) == step


@pytest.mark.parametrize(
    "end",
    [
        {"reason": "cancelled"},
        {"reason": "failed"},
        {"reason": "limit", "limit": "run_seconds", "readings": {"seconds": 0}},
        {"reason": "limit", "limit": "run_steps", "readings": {"steps": 2}},
        {"reason": "limit", "limit": "run_steps", "readings": {"steps": "?"}},
        {"reason": "limit", "limit": "run_calls", "readings": {"calls": 1}},
        {"reason": "limit", "limit": "run_tokens", "readings": {"tokens": 1}},
    ],
)
def test_an_end_that_came_from_outside_follows_from_nothing(end: Any) -> None:
    """Nor does that of a limit of which the log does not say what it was, and how much was used."""
    replayed = replay(*LOG[:6], RunEndedEvent(run_id="r", **end))

    assert replayed.difference is None
    assert replayed.steps[-1].detail == (end.get("limit") or end["reason"])
    assert replay(*LOG[1:6], RunEndedEvent(run_id="r", **end)).difference is None


@pytest.mark.parametrize(
    ("variant", "difference"),
    [
        ({"model": "m"}, ""),
        ({"model": "o:m"}, "the model is o:m, not m"),
        ({"instructions": "Be brief."}, ""),
        ({"instructions": ""}, "the instructions differ"),
        ({"pattern": {"tools": "1", "settings": "2"}}, ""),
        ({"pattern": {"tools": "1", "settings": "3"}}, "the settings differ"),
        (
            {"pattern": {"tools": "2"}, "model": "x", "instructions": "No."},
            "the model is x, not m; the tools differ; the instructions differ",
        ),
    ],
)
def test_what_a_variant_would_send_otherwise_is_named(variant: Any, difference: str) -> None:
    """Tools and settings are those that were last told, until another run begins."""
    found = replay(*LOG, **variant).difference

    assert (found.difference if found else "") == difference
    assert found is None or (found.sequence, found.length) == (2, 2)


def test_who_was_told_nothing_has_no_instructions() -> None:
    begun = attrs.evolve(STARTED, length=1)
    assert replay(begun, ASKED, said=SAID[1:2], instructions="").difference is None
    assert replay(begun, ASKED, said=SAID[1:2], instructions="Be.").difference is not None


def test_where_tools_and_settings_are_not_told_it_is_remarked_once() -> None:
    silent = [attrs.evolve(each, pattern={}) if each is ASKED else each for each in LOG]
    replayed = replay(*silent, pattern={"tools": "9", "settings": "9"})

    assert replayed.difference is None
    remark = "The log does not record the tools and settings of the request."
    assert replayed.remarks == (remark,)


def test_what_broke_off_and_is_asked_again_replays() -> None:
    """Its words are in the conversation, as far as they came."""
    half = AssistantCanister("Half", id="h", turn_id="t3")
    store = MemoryStore()
    Conversation(id="c", canisters=[*SAID[:2], half]).save(store)
    log = store.open_log("c")
    log.claim()
    for event in (
        STARTED,
        ASKED,
        GenerationFailedEvent(key="u", turn=1, model="m", canisters=(half,)),
        RunEndedEvent(run_id="r", reason="failed"),
    ):
        log.append("r", event)
    log.close()

    replayed = asyncio.run(replay_run(store, "c"))

    assert [each.step for each in replayed.steps] == ["generate", "terminate"]
    assert replayed.difference is None


def test_what_somebody_was_asked_about_needs_an_approval_and_a_final_result_ends() -> None:
    asked = ApprovalRequestedEvent(
        key="k", invocation_id="i", name="look", arguments="{}", digest="d", effect="pure"
    )
    awaited = StateEnteredEvent(state="await", turn=1)
    replayed = replay(*LOG[:3], awaited, asked)
    assert replayed.difference is None
    assert replayed.steps[-1] == ReplayStep(sequence=4, step="await", detail="look")
    digest = produce_approval_request("i", "look", {}).digest
    denial = ApprovalAnsweredEvent(key="k", name="look", digest=digest, decision="deny")
    denied = replay(*LOG[:3], awaited, asked, denial, ENTERED)
    assert denied.steps[-1] == ReplayStep(sequence=7, step="execute", detail="look (denied)")
    executed = replay(*LOG[:3], awaited, asked, ENTERED).difference
    assert executed is not None
    assert executed.difference == "the engine would await look"
    final = replay(*LOG[:6], ENDED)
    assert final.difference is None
    failed = attrs.evolve(CAME, result=attrs.evolve(RESULT, is_error=True))
    assert replay(*LOG[:5], failed, ENDED).difference is not None


def test_what_was_begun_before_is_repeated_or_asked_about_as_its_effect_says() -> None:
    again = attrs.evolve(STARTED, length=3)
    awaited = StateEnteredEvent(state="await", turn=1)
    doubted = ApprovalRequestedEvent(
        key="k", invocation_id="i", name="look", arguments="{}", digest="d", in_doubt=True
    )
    assert replay(*LOG[:5], again, ENTERED).difference is None
    for effect in ("once", ""):
        begun, asked = (attrs.evolve(each, effect=effect) for each in (BEGUN, doubted))
        assert replay(*LOG[:4], begun, again, awaited, asked).difference is None
    stopped = RunEndedEvent(run_id="r", reason="cancelled")
    assert replay(*LOG[:3], stopped).difference is None  # nobody has begun it


def test_a_call_of_which_nobody_was_asked_was_not_to_be_asked_about() -> None:
    """As its arguments did not fit, or an answer held for it, though others of its name were."""
    call = attrs.evolve(CALL, id="k2", invocation_id="i2", turn_id="t2")
    result = attrs.evolve(RESULT, id="r2", invocation_id="i2")
    digest = produce_approval_request("i", "look", {}).digest
    replayed = replay(
        *LOG[:3],
        StateEnteredEvent(state="await", turn=1),
        ApprovalRequestedEvent(
            key="k", invocation_id="i", name="look", arguments="{}", digest=digest, effect="pure"
        ),
        ApprovalAnsweredEvent(key="k", name="look", digest=digest, decision="allow"),
        *LOG[3:7],
        attrs.evolve(DONE, stop_reason=StopReason.INVOCATION),
        ENTERED,
        attrs.evolve(BEGUN, key="k2", invocation_id="i2"),
        attrs.evolve(CAME, key="k2", invocation_id="i2", result=result),
        attrs.evolve(AGAIN, key="r2"),
        said=[*SAID[:4], call, result],
    )
    assert replayed.difference is None
    assert [each.step for each in replayed.steps][-2:] == ["execute", "generate"]


def test_what_was_answered_already_ends_without_asking() -> None:
    assert replay(attrs.evolve(STARTED, length=5), ENDED).difference is None


def test_a_model_that_says_nothing_ends_the_run() -> None:
    silent = attrs.evolve(TOLD, canisters=0, stop_reason=StopReason.ANSWERED)
    assert replay(*LOG[:2], silent, ENDED).difference is None


def test_each_approval_that_was_asked_for_is_one_that_the_machine_would_ask_for() -> None:
    awaited = StateEnteredEvent(state="await", turn=1)
    asked = ApprovalRequestedEvent(
        key="k", invocation_id="i", name="look", arguments="{}", digest="d", effect="pure"
    )
    found = replay(*LOG[:3], awaited, asked, attrs.evolve(asked, key="other")).difference
    assert found is not None
    assert (found.sequence, found.step) == (6, "await")
    assert found.difference == "look: the engine would await look"


def test_what_was_told_later_was_not_sent_before() -> None:
    later = [*SAID[:2], SupervisorCanister("Be long.", id="l")]
    assert replay(STARTED, ASKED, said=later, instructions="Be brief.").difference is None
    assert replay(STARTED, ASKED, said=later, instructions="Be long.").difference is not None


def test_what_was_invoked_is_never_executed() -> None:
    """Not even by mistake: what stands for it in a replay refuses."""
    recorded = replaying._produce_recorded([BEGUN], SAID)
    (invoker,) = asyncio.run(recorded.survey())

    with pytest.raises(AssertionError, match=r"^a replay executes nothing$"):
        invoker.function()


def test_a_fork_knows_what_its_parent_has_begun() -> None:
    store = MemoryStore()
    Conversation(id="c", canisters=SAID[:3]).save(store)
    store.fork("c", child="d")
    once = attrs.evolve(BEGUN, effect="once")
    doubted = ApprovalRequestedEvent(
        key="k", invocation_id="i", name="look", arguments="{}", digest="d", effect="once"
    )
    logs: dict[str, list[Any]] = {
        "c": [STARTED, once],
        "d": [
            attrs.evolve(STARTED, length=3),
            StateEnteredEvent(state="await", turn=0),
            attrs.evolve(doubted, in_doubt=True),
        ],
    }
    for identity, events in logs.items():
        log = store.open_log(identity)
        log.claim()
        for event in events:
            log.append("r", event)
        log.close()
    assert asyncio.run(replay_run(store, "d")).difference is None
