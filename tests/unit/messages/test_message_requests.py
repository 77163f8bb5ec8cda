"""What is asked of a model: a request that leaves nothing to answer is refused."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters, canisters_by_role, conversations
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import (
    Request,
    Response,
    ResponseMetadata,
    is_answerable,
    replace_canisters,
)


@given(earlier=conversations, last=canisters)
def test_a_request_ends_in_something_to_answer(
    earlier: list[AnyCanister], last: AnyCanister
) -> None:
    """User, Document, Supervisor and Result leave something to answer, the others do not."""
    conversation = [*earlier, last]

    if is_answerable(last):
        assert Request(canisters=conversation).canisters == tuple(conversation)
    else:
        with pytest.raises(RequestError) as caught:
            Request(canisters=conversation)
        assert caught.value.path == f"canisters[{len(earlier)}]"


@given(last=canisters_by_role["assistant"] | canisters_by_role["invocation"])
def test_a_continuation_may_end_in_the_models_own_words(last: AnyCanister) -> None:
    """A paused turn, or a prefill, is gone on with when the request says so."""
    assert Request(canisters=[last], continuation=True).canisters == (last,)


def test_the_remedy_fits_what_is_missing() -> None:
    """An invocation asks for its result; an assistant's word for a user's."""
    invocation = InvocationCanister(invocation_id="1", name="a")

    with pytest.raises(RequestError, match="Append the ResultCanister"):
        Request(canisters=[invocation])
    with pytest.raises(RequestError, match="continuation=True"):
        Request(canisters=[AssistantCanister("hi")])


@pytest.mark.parametrize("continuation", [False, True])
def test_an_empty_request_is_refused(continuation: bool) -> None:
    """Nothing cannot be answered, nor gone on with."""
    with pytest.raises(RequestError, match="no canisters"):
        Request(canisters=(), continuation=continuation)


def test_what_is_no_canister_is_refused_with_its_place() -> None:
    """A stranger among the canisters is named, with the classes that would do."""
    with pytest.raises(RequestError, match="UserCanister") as caught:
        Request(canisters=[UserCanister("hi"), "hi"])  # type: ignore[list-item]

    assert caught.value.path == "canisters[1]"


def test_an_invocable_says_what_it_is_for() -> None:
    """A model cannot use well what it is not told about."""
    with pytest.raises(RequestError, match="needs a description"):
        InvocableDescription(name="weather", description=" ", schema={})
    with pytest.raises(RequestError, match="needs a name"):
        InvocableDescription(name="", description="Tells the weather.", schema={})
    native = Native(protocol="messages", data='{"type":"web_search"}')
    assert InvocableDescription(name="search", description="", schema=None, native=native).native


def test_the_vendors_own_result_leaves_nothing_to_answer() -> None:
    """It is part of the model's own turn, which may be gone on with."""
    result = ResultCanister("r", invocation_id="1", owner=Owner.VENDOR)

    with pytest.raises(RequestError, match="continuation=True") as caught:
        Request(canisters=[UserCanister("hi"), result])

    assert caught.value.path == "canisters[1]"
    assert Request(canisters=[result], continuation=True).canisters == (result,)


def _describe(*names: str) -> list[InvocableDescription]:
    return [InvocableDescription(name=name, description="d", schema={}) for name in names]


@pytest.mark.parametrize(
    ("names", "choice", "path"),
    [
        (["a", "a"], "auto", "invocables[1].name"),
        (["a", "none"], "auto", "invocables[1].name"),
        (["required"], "required", "invocables[0].name"),
        (["auto"], "auto", "invocables[0].name"),
        (["a"], "b", "invocation_choice"),
        ([], "required", "invocation_choice"),
    ],
)
def test_invocables_and_the_choice_go_together(names: list[str], choice: str, path: str) -> None:
    """Each name names one thing, and the choice one of them."""
    with pytest.raises(RequestError) as caught:
        Request(
            canisters=[UserCanister("hi")],
            invocables=_describe(*names),
            invocation_choice=choice,
        )

    assert caught.value.path == path
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "path"),
    [
        *((bad, "controls.a[1]") for bad in (float("nan"), float("inf"), 2**64, object(), b"x")),
        ({1: 2}, "controls.a[1]"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(value: Any, path: str) -> None:
    """Nothing is taken as null, as a text or as a near number in its stead."""
    with pytest.raises(RequestError) as caught:
        Request(canisters=[UserCanister("x")], controls={"a": [1, value]})

    assert caught.value.path == path
    assert caught.value.remedy


@pytest.mark.parametrize("field", ["controls", "schema"])
@pytest.mark.parametrize("value", [{1: 2, "a": 1}, [], "x"])
def test_controls_and_schemas_are_objects_with_texts_as_keys(field: str, value: Any) -> None:
    """What is no such object is refused."""
    with pytest.raises(RequestError) as caught:
        Request(canisters=[UserCanister("x")], **{field: value})

    assert caught.value.path == field


@pytest.mark.parametrize("field", ["controls", "schema"])
def test_a_ring_is_refused(field: str) -> None:
    """Data that hold themselves, or nest without end, are refused when they are given."""
    ring: dict[str, Any] = {}
    ring["a"] = ring

    with pytest.raises(RequestError, match="nest deeper"):
        Request(canisters=[UserCanister("x")], **{field: ring})


def test_a_request_shares_nothing_with_its_caller() -> None:
    """What the caller does to a dictionary afterwards does not change what was asked."""
    data: dict[str, Any] = {"a": {"b": [1]}}
    described = InvocableDescription(name="n", description="d", schema=data)
    request = Request(canisters=[UserCanister("x")], controls=data, schema=data)
    digest = request.digest()

    data["a"]["b"].append(2)

    assert request.digest() == digest
    assert described.schema == {"a": {"b": [1]}}


def test_a_response_tells_the_whole_conversation() -> None:
    """A response holds what was asked, what was answered, and how."""
    request = Request(canisters=[UserCanister("Hello?")])
    usage = Usage(output_tokens=2)
    origin = Origin(provider="p", model="m", stop_reason=StopReason.ANSWERED, usage=usage)
    answer = AssistantCanister("Hello.", origin=origin)

    response = Response(
        request=request, canisters=[answer], metadata=ResponseMetadata(origin=origin)
    )

    assert response.conversation == (*request.canisters, answer)
    assert response.text == "Hello."
    assert response.metadata.usage is usage
    assert response.metadata.stop_reason is StopReason.ANSWERED


def test_a_loss_prints_on_one_line() -> None:
    """What was lost, where, and why."""
    loss = Loss(kind=LossKind.DROPPED, path="canisters[0]", reason="no pictures")

    assert str(loss) == "dropped canisters[0]: no pictures"


@pytest.mark.slow
@given(
    first=conversations,
    others=conversations,
    last=canisters,
    continuation=st.booleans(),
    controls=st.dictionaries(st.sampled_from(["temperature", "top_p"]), st.floats(0, 1)),
)
def test_another_conversation_makes_the_same_request_as_a_new_one(
    first: list[AnyCanister],
    others: list[AnyCanister],
    last: AnyCanister,
    continuation: bool,
    controls: dict[str, Any],
) -> None:
    """The short way to replace canisters gives, and refuses, what the long way does."""
    request = Request(
        canisters=[*first, UserCanister("Hello")],
        model="p:m",
        controls=controls,
        schema={"type": "object"},
        continuation=continuation,
        strict=True,
        conversation_id="c",
    )
    wanted = [*others, last]
    try:
        expected = attrs.evolve(request, canisters=wanted)
    except RequestError as error:
        with pytest.raises(RequestError, match=re.escape(str(error))):
            replace_canisters(request, wanted)
    else:
        assert replace_canisters(request, wanted) == expected


def test_another_conversation_must_leave_something_to_answer() -> None:
    """No canisters, and what are none, are refused in the short way, too."""
    request = Request(canisters=[UserCanister("Hello")])

    with pytest.raises(RequestError, match="no canisters"):
        replace_canisters(request, [])
    with pytest.raises(RequestError):
        replace_canisters(request, ["Hello"])  # type: ignore[list-item]
