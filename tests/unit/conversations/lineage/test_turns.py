"""Turns: input with its answer; calls and results stay together."""

from __future__ import annotations

from support.stores.talks import call, exchange
from vibe_llms.conversations.lineage.turns import find_open_calls, split_turns
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)


def measure(canisters: list[AnyCanister]) -> list[int]:
    return [len(turn.canisters) for turn in split_turns(canisters)]


def test_instructions_and_documents_belong_to_the_question_after_them() -> None:
    canisters: list[AnyCanister] = [
        SupervisorCanister("Be brief."),
        DocumentCanister("A page."),
        *exchange("one"),
        *call("two", "x"),
    ]
    turns = split_turns(canisters)
    assert [(turn.number, turn.start, len(turn.canisters)) for turn in turns] == [
        (1, 0, 4),
        (2, 4, 4),
    ]
    assert [turn.question and turn.question.text for turn in turns] == ["one", "two"]
    assert split_turns([]) == ()


def test_a_message_between_a_call_and_its_result_begins_no_turn() -> None:
    """Two calls are open when the user writes; the turn continues until both have results."""
    canisters: list[AnyCanister] = [
        UserCanister("Count."),
        InvocationCanister(invocation_id="a", name="count"),
        InvocationCanister(invocation_id="b", name="count"),
        ResultCanister("1", invocation_id="b"),
        UserCanister("Faster!"),
        ResultCanister("2", invocation_id="a"),
        AssistantCanister("Three."),
        *exchange("next"),
    ]
    assert measure(canisters) == [7, 2]


def test_a_call_without_a_result_does_not_swallow_the_rest() -> None:
    canisters = [*call("count", "x", result=None), *exchange("next"), *call("count", "x")]
    assert measure(canisters) == [2, 2, 4]
    assert [each.invocation_id for each in find_open_calls(canisters[:4])] == ["x"]


def test_ids_of_calls_may_repeat() -> None:
    canisters = [*call("one", "call_0"), *call("two", "call_0")]
    assert measure(canisters) == [4, 4]
    assert not find_open_calls(canisters)
