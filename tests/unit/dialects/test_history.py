"""Histories that no vendor would accept, and their repair."""

from __future__ import annotations

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters_by_role
from vibe_llms.dialects.history import NO_RESULT, HistoryRules, pair_results, repair_history
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.views import text_of

STRICT = HistoryRules(id_pattern="[a-zA-Z0-9_-]{1,64}")


def repair(
    canisters: list[AnyCanister], rules: HistoryRules = STRICT
) -> tuple[list[AnyCanister], Ledger]:
    """Repair canisters; return them and the losses."""
    ledger = Ledger(protocol="any")
    return [entry.canister for entry in repair_history(canisters, rules, ledger)], ledger


def call(identity: str, turn: str | None = "t") -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="look", turn_id=turn)


def result(identity: str) -> ResultCanister:
    return ResultCanister("seen", invocation_id=identity, name="look")


def test_a_valid_history_does_not_change() -> None:
    """A turn with two invocations and two results needs no repair."""
    good = [UserCanister("hi"), call("a"), call("b"), result("b"), result("a")]

    repaired, ledger = repair(good)

    assert repaired == good
    assert ledger.losses == []


def test_a_missing_result_is_generated_and_reported() -> None:
    """A note replaces it, as an error, with a loss."""
    repaired, ledger = repair([call("a"), call("b"), result("b"), UserCanister("and?")])

    assert [type(canister).__name__ for canister in repaired] == [
        "InvocationCanister",
        "InvocationCanister",
        "ResultCanister",
        "ResultCanister",
        "UserCanister",
    ]
    assert text_of(repaired[3]) == NO_RESULT
    assert repaired[3].is_error
    assert [(loss.kind, loss.path) for loss in ledger.losses] == [
        (LossKind.SYNTHESIZED, "canisters[0]")
    ]


def test_the_note_for_a_missing_result_leaves_the_execution_open() -> None:
    """A history does not show whether a call was executed."""
    repaired, _ = repair([call("a"), UserCanister("and?")])

    assert "may or may not" in text_of(repaired[1])


def test_a_repeated_id_gets_the_result_of_its_own_turn() -> None:
    """An earlier call with the same id and without a result does not get it."""
    canisters = [call("a"), UserCanister("and?"), call("a", "u"), result("a")]

    assert pair_results(canisters) == {2: 3}
    assert pair_results([*canisters, result("a")]) == {2: 3, 0: 4}


def test_a_call_of_an_interrupted_response_gets_no_later_result() -> None:
    """The model may repeat the id in its next response; only the later call was executed."""
    origin = Origin(provider="any", model="any", stop_reason=StopReason.FAILED)
    broken = attrs.evolve(call("a", "t"), origin=origin)
    canisters = [UserCanister("go"), broken, call("a", "u"), result("a")]

    assert pair_results(canisters) == {2: 3}
    assert pair_results([*canisters, result("a")]) == {2: 3, 1: 4}
    assert pair_results([UserCanister("go"), broken, result("a")]) == {1: 2}


def test_a_late_result_moves_to_its_turn() -> None:
    """Messages between an invocation and its result come after both."""
    words = UserCanister("wait")

    repaired, ledger = repair([call("a"), words, result("a")])

    assert repaired[1].role == "result"
    assert repaired[2] == words
    assert [(loss.kind, loss.path) for loss in ledger.losses] == [
        (LossKind.COERCED, "canisters[2]")
    ]


def test_a_result_without_its_invocation_becomes_a_user_message() -> None:
    """The output of the tool is not lost."""
    repaired, ledger = repair([result("gone")])

    assert repaired[0].role == "user"
    assert "seen" in text_of(repaired[0])
    assert len(ledger.losses) == 1


def test_an_invalid_id_always_gets_the_same_alias() -> None:
    """On the invocation and on its result."""
    odd = [call("functions.look:0"), result("functions.look:0")]

    first, ledger = repair(odd)
    again, _ = repair(odd)

    assert first == again
    assert first[0].invocation_id == first[1].invocation_id
    assert re.fullmatch(STRICT.id_pattern, first[0].invocation_id)
    assert [loss.path for loss in ledger.losses] == ["canisters[0].invocation_id"]


def test_a_repeated_id_gets_an_alias() -> None:
    """Vendors without ids number the calls of each turn."""
    repaired, _ = repair([call("0", "t"), result("0"), call("0", "u"), result("0")])

    names = [canister.invocation_id for canister in repaired]
    assert names[0] == names[1] == "0"
    assert names[2] == names[3] != "0"


def test_texts_between_the_invocations_of_a_turn_stay() -> None:
    """A turn is not divided, whatever its order."""
    turn = [call("a"), AssistantCanister("hm", turn_id="t"), call("b"), result("a"), result("b")]

    repaired, ledger = repair(turn)

    assert repaired == turn
    assert not ledger.losses


def test_calls_of_the_vendor_do_not_change() -> None:
    """Their ids and missing results are the vendor's concern."""
    theirs = attrs.evolve(call("srv.1"), owner=Owner.VENDOR)

    repaired, ledger = repair([theirs, UserCanister("go on")])

    assert repaired[0] == theirs
    assert not ledger.losses


few_ids = st.sampled_from(["a", "b", "c d", ""])
tangled = st.lists(
    st.one_of(
        canisters_by_role["user"],
        canisters_by_role["assistant"],
        st.builds(call, few_ids, st.sampled_from([None, "t", "u"])),
        st.builds(result, few_ids),
    ),
    max_size=9,
)


@pytest.mark.slow
@given(tangled)
def test_the_repair_is_idempotent(canisters: list[AnyCanister]) -> None:
    """A repaired history needs no repair, and has no further losses."""
    repaired, _ = repair(canisters)

    again, ledger = repair(repaired)

    assert again == repaired
    assert ledger.losses == []


@given(tangled)
def test_every_invocation_is_answered_once_right_after_its_turn(
    canisters: list[AnyCanister],
) -> None:
    """For any history: each invocation has a result, ids differ, and no result is alone."""
    repaired, _ = repair(canisters)

    answers = pair_results(repaired)
    calls = [i for i, canister in enumerate(repaired) if canister.role == "invocation"]
    assert sorted(answers) == calls
    assert sorted(answers.values()) == [i for i, c in enumerate(repaired) if c.role == "result"]
    assert len({repaired[i].invocation_id for i in calls}) == len(calls)
    for canister in repaired:
        if canister.role == "invocation":
            assert re.fullmatch(STRICT.id_pattern, canister.invocation_id)


@given(tangled)
def test_every_repair_is_reported(canisters: list[AnyCanister]) -> None:
    """A conversation without losses did not change."""
    repaired, ledger = repair(canisters)

    assert (repaired == canisters) == (ledger.losses == [])
