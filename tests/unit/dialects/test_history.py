"""Histories that no vendor would take, and what is made of them."""

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
    """Repairs and returns what became of the canisters, and the losses."""
    ledger = Ledger(protocol="any")
    return [entry.canister for entry in repair_history(canisters, rules, ledger)], ledger


def call(identity: str, turn: str | None = "t") -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="look", turn_id=turn)


def result(identity: str) -> ResultCanister:
    return ResultCanister("seen", invocation_id=identity, name="look")


def test_what_is_in_form_passes_unchanged() -> None:
    """A turn with two invocations and its two results needs no repair."""
    good = [UserCanister("hi"), call("a"), call("b"), result("b"), result("a")]

    repaired, ledger = repair(good)

    assert repaired == good
    assert ledger.losses == []


def test_a_missing_result_is_made_up_and_said() -> None:
    """A note stands in for a result that nobody gave, as an error, and is a loss."""
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


def test_a_note_for_a_missing_result_claims_nothing() -> None:
    """A history does not say whether a call was executed."""
    repaired, _ = repair([call("a"), UserCanister("and?")])

    assert "may or may not" in text_of(repaired[1])


def test_an_id_that_is_used_again_gets_the_result_of_its_own_turn() -> None:
    """An earlier call with the same id, which has no result, does not take it."""
    canisters = [call("a"), UserCanister("and?"), call("a", "u"), result("a")]

    assert pair_results(canisters) == {2: 3}
    assert pair_results([*canisters, result("a")]) == {2: 3, 0: 4}


def test_a_call_of_a_response_that_broke_off_takes_no_result_of_the_next_one() -> None:
    """Asked again, the model may use the id again; what was executed is the later call."""
    origin = Origin(provider="any", model="any", stop_reason=StopReason.FAILED)
    broken = attrs.evolve(call("a", "t"), origin=origin)
    canisters = [UserCanister("go"), broken, call("a", "u"), result("a")]

    assert pair_results(canisters) == {2: 3}
    assert pair_results([*canisters, result("a")]) == {2: 3, 1: 4}
    assert pair_results([UserCanister("go"), broken, result("a")]) == {1: 2}


def test_a_late_result_moves_to_its_turn() -> None:
    """Words between an invocation and its result come after both."""
    words = UserCanister("wait")

    repaired, ledger = repair([call("a"), words, result("a")])

    assert repaired[1].role == "result"
    assert repaired[2] == words
    assert [(loss.kind, loss.path) for loss in ledger.losses] == [
        (LossKind.COERCED, "canisters[2]")
    ]


def test_a_result_without_its_invocation_becomes_the_users_words() -> None:
    """What the tool said is not lost where the call is gone."""
    repaired, ledger = repair([result("gone")])

    assert repaired[0].role == "user"
    assert "seen" in text_of(repaired[0])
    assert len(ledger.losses) == 1


def test_a_refused_id_gets_an_alias_that_is_always_the_same() -> None:
    """Both sides of a pair bear it, and another repair finds the same."""
    odd = [call("functions.look:0"), result("functions.look:0")]

    first, ledger = repair(odd)
    again, _ = repair(odd)

    assert first == again
    assert first[0].invocation_id == first[1].invocation_id
    assert re.fullmatch(STRICT.id_pattern, first[0].invocation_id)
    assert [loss.path for loss in ledger.losses] == ["canisters[0].invocation_id"]


def test_an_id_that_is_used_twice_tells_two_invocations_apart() -> None:
    """Vendors without ids of their own count anew in each turn."""
    repaired, _ = repair([call("0", "t"), result("0"), call("0", "u"), result("0")])

    names = [canister.invocation_id for canister in repaired]
    assert names[0] == names[1] == "0"
    assert names[2] == names[3] != "0"


def test_words_between_the_invocations_of_a_turn_stay() -> None:
    """A turn is one turn, in whatever order the model spoke and called."""
    spoken = [call("a"), AssistantCanister("hm", turn_id="t"), call("b"), result("a"), result("b")]

    repaired, ledger = repair(spoken)

    assert repaired == spoken
    assert not ledger.losses


def test_what_a_vendor_executed_is_left_alone() -> None:
    """Its ids and its missing results are its own business."""
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
def test_repairing_twice_is_repairing_once(canisters: list[AnyCanister]) -> None:
    """What has been repaired needs no repair, and loses nothing more."""
    repaired, _ = repair(canisters)

    again, ledger = repair(repaired)

    assert again == repaired
    assert ledger.losses == []


@given(tangled)
def test_every_invocation_is_answered_once_right_after_its_turn(
    canisters: list[AnyCanister],
) -> None:
    """Whatever came in: each invocation has a result, ids differ, and no result is alone."""
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
def test_nothing_is_repaired_in_silence(canisters: list[AnyCanister]) -> None:
    """A conversation without losses went through as it was."""
    repaired, ledger = repair(canisters)

    assert (repaired == canisters) == (ledger.losses == [])
