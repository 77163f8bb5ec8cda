"""Asking before a call, calls as data, and results that later ones make stale."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.runs.approvers import AllowAll, DenyAll
from vibe_llms.exceptions import RequestError
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    Decision,
    Scope,
    allow,
    consult,
    deny,
    edit,
    produce_approval_request,
    settle,
)
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.calls import (
    canonicalize,
    compose_result,
    digest_call,
    group_identical,
    read_arguments,
)
from vibe_llms.invocables.deduplicators import ByArgument, ByArguments, trim_stale
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister, UserCanister
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.views import text_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


def ask(name: str = "delete", identity: str = "i", **arguments: Any) -> ApprovalRequest:
    """Makes a request."""
    return produce_approval_request(identity, name, arguments)


@given(ARGUMENTS, st.randoms())
def test_equal_arguments_have_one_text_and_one_digest(
    arguments: dict[str, Any], random: Any
) -> None:
    """The order of keys and the writing of numbers mean nothing; the text reads back."""
    keys = list(arguments)
    random.shuffle(keys)
    shuffled = json.loads(json.dumps({key: arguments[key] for key in keys}))

    assert canonicalize(arguments) == canonicalize(shuffled)
    assert digest_call("f", arguments) == digest_call("f", shuffled)
    assert digest_call("f", arguments) != digest_call("g", arguments)
    assert json.loads(canonicalize(arguments)) == arguments


def test_different_arguments_have_different_texts() -> None:
    """What is equal to Python alone is not equal here."""
    texts = {canonicalize({"a": value}) for value in (1, True, "1", None, [1], {"1": 1}, 1.5)}
    assert len(texts) == 7
    assert canonicalize({"a": 1.0}) == canonicalize({"a": 1})


@pytest.mark.parametrize("value", [float("nan"), object(), b"bytes"])
def test_what_is_no_json_has_no_canonical_form(value: Any) -> None:
    """There is nothing that an approval of it could be about."""
    with pytest.raises(RequestError, match="canonical"):
        canonicalize({"a": value})


async def test_allowing_denying_and_editing() -> None:
    """An answer says what is executed, if anything."""
    request = ask(path="/tmp/x")

    assert settle(request, await AllowAll().approve(request)) == {"path": "/tmp/x"}
    assert settle(request, await DenyAll().approve(request)) is None
    assert settle(request, deny(request, "no")) is None
    assert settle(request, edit(request, {"path": "/tmp/y"})) == {"path": "/tmp/y"}


def test_an_answer_cannot_be_used_for_another_call() -> None:
    """An approval is for what was seen, whatever somebody would like to execute with it."""
    approval = allow(ask(path="/tmp/x"))
    for other in (ask(path="/"), ask("wipe", path="/tmp/x")):
        with pytest.raises(RequestError, match="another call"):
            settle(other, approval)


@attrs.frozen
class Policy:
    """Answers with a value, or fails with an error."""

    answer: Any

    async def approve(self, request: ApprovalRequest) -> Any:
        """Does so."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer", [ValueError("no"), SystemExit(0), "yes", True, allow(ask(identity="other", path="/"))]
)
async def test_a_policy_that_fails_refuses(answer: Any) -> None:
    """So does one that answers something else, or about another call; and why is told once."""
    told: list[BaseException] = []
    given = await consult(Policy(answer), ask(), told.append)

    assert given is not None
    assert given.decision is Decision.DENY
    assert len(told) == 1


async def test_a_policy_may_answer_or_leave_it_to_a_person() -> None:
    """Neither is a failure."""
    told: list[BaseException] = []

    assert await consult(Policy(None), ask(), told.append) is None
    assert await consult(Policy(allow(ask())), ask(), told.append) == allow(ask())
    assert told == []


def test_answers_travel_as_plain_data() -> None:
    """Another process may answer later."""
    request = ask(path="/tmp/x")
    sent = json.loads(json.dumps(attrs.asdict(request)))
    answer = json.loads(json.dumps(attrs.asdict(edit(ApprovalRequest(**sent), {"path": "/"}))))

    assert ApprovalRequest(**sent) == request
    assert settle(request, Approval(**answer)) == {"path": "/"}


@pytest.mark.parametrize(
    "facts",
    [
        {"decision": Decision.EDIT},
        {"decision": Decision.ALLOW, "arguments": "{}"},
        {"decision": Decision.EDIT, "arguments": "{}", "scope": Scope.ALWAYS},
        {"decision": "perhaps"},
    ],
)
def test_an_answer_is_of_one_kind(facts: dict[str, Any]) -> None:
    """What does not go together is refused when it is made."""
    with pytest.raises(RequestError) as caught:
        Approval(digest="d", **facts)
    assert "()" not in str(caught.value)  # over HTTP nobody has functions


@pytest.mark.parametrize("arguments", ["[]", "nothing", '"text"'])
def test_edited_arguments_are_an_object(arguments: str) -> None:
    """What a person typed is looked at before it is executed."""
    request = ask()
    approval = Approval(digest=request.digest, decision=Decision.EDIT, arguments=arguments)
    with pytest.raises(RequestError, match="arguments"):
        settle(request, approval)


def call(name: str, arguments: str = "{}", identity: str = "i", **facts: Any) -> InvocationCanister:
    """Makes an invocation."""
    return InvocationCanister(invocation_id=identity, name=name, arguments=arguments, **facts)


def test_identical_calls_are_one_execution_where_nothing_happens() -> None:
    """Only of pure invocables, only with readable arguments, and in the order of the calls."""
    calls = [
        call("pure", '{"a": 1, "b": 2}'),
        call("once", "{}"),
        call("pure", '{"b": 2.0, "a": 1}'),
        call("once", "{}"),
        call("pure", '{"a": 1}'),
        call("pure", "{broken"),
        call("pure", "{broken"),
    ]
    groups = group_identical(calls, lambda name: name == "pure")

    assert groups == ((0, 2), (1,), (3,), (4,), (5,), (6,))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("fg"), ARGUMENTS), max_size=8))
def test_each_call_is_in_one_group(calls: list[tuple[str, dict[str, Any]]]) -> None:
    """No call is without an execution, none has two."""
    canisters = [call(name, json.dumps(arguments)) for name, arguments in calls]
    groups = group_identical(canisters, lambda name: name == "f")

    assert sorted(index for group in groups for index in group) == list(range(len(calls)))
    for group in groups:
        texts = {(calls[i][0], canonicalize(calls[i][1])) for i in group}
        assert len(texts) == 1


@pytest.mark.parametrize("text", ["[]", "{", "3", '{"a": NaN}', "[" * 100_000])
def test_what_is_no_object_is_a_fault(text: str) -> None:
    """A model may write anything."""
    assert isinstance(read_arguments(call("f", text)), ArgumentFault)
    assert isinstance(read_arguments(call("f", "{}", form="text")), ArgumentFault)
    assert read_arguments(call("f", '{"a": 1}')) == {"a": 1}


def test_a_result_answers_its_call() -> None:
    """Id and name are those of the invocation."""
    result = compose_result(call("f", identity="7"), Outcome(contents="x", is_error=True))
    assert (result.invocation_id, result.name, result.is_error) == ("7", "f", True)
    assert text_of(result) == "x"


LONG = "content of the file " * 20


def read(path: str, identity: str, text: str = LONG, **facts: Any) -> list[Any]:
    """Makes a call that reads a file, and its result."""
    return [
        call("read", json.dumps({"path": path}), identity),
        ResultCanister(text, invocation_id=identity, name="read", **facts),
    ]


def trim(canisters: list[Any], used: int = 90) -> Any:
    """Trims with a window of 100 tokens."""
    deduplicator = ByArgument("path", "file")
    return trim_stale(
        canisters,
        lambda name: deduplicator if name == "read" else None,
        used_tokens=used,
        window_tokens=100,
    )


def test_stale_results_are_left_out_near_the_window() -> None:
    """The last result about a file stays, earlier ones become a line, and it is reported."""
    canisters = [UserCanister("go"), *read("a", "1"), *read("b", "2"), *read("a", "3")]
    sent = trim(canisters)

    assert [loss.path for loss in sent.losses] == ["canisters[2]"]
    assert sent.losses[0].kind is LossKind.WITHHELD
    assert "the later call 3" in text_of(sent.value[2])
    assert [sent.value[i] for i in (0, 1, 3, 4, 5, 6)] == [canisters[i] for i in (0, 1, 3, 4, 5, 6)]
    assert text_of(canisters[2]) == LONG


def test_nothing_is_trimmed_far_from_the_window() -> None:
    """The vendor's prompt cache is worth more."""
    canisters = [UserCanister("go"), *read("a", "1"), *read("a", "2")]
    sent = trim(canisters, used=79)
    assert (sent.value, sent.losses) == (tuple(canisters), ())


def test_a_failure_replaces_nothing_and_short_results_stay() -> None:
    """What would be lost, or would not become shorter, is left alone."""
    failed = [*read("a", "1"), *read("a", "2", is_error=True)]
    short = [*read("b", "3", "ok"), *read("b", "4")]
    vendor = read("c", "5") + read("c", "6")
    vendor[0] = attrs.evolve(vendor[0], owner=Owner.VENDOR)
    for canisters in (failed, short, vendor):
        assert trim(canisters).losses == ()


def test_what_a_result_is_about() -> None:
    """By all arguments, or by one."""
    assert ByArguments().identify("f", {"a": 1, "b": 2}) == ByArguments().identify(
        "f", {"b": 2, "a": 1.0}
    )
    assert ByArguments().identify("f", {}) != ByArguments().identify("g", {})
    shared = ByArgument("path", "file")
    assert shared.identify("read", {"path": "x"}) == shared.identify("write", {"path": "x"})
    assert shared.identify("read", {}) is None
