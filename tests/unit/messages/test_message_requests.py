"""What is asked of a model: a request that leaves nothing to answer is refused."""

from __future__ import annotations

import pytest
from hypothesis import given

from strategies.messages import canisters, canisters_by_role, conversations
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import ANSWERABLE_ROLES, Request, Response, ResponseMetadata


@given(earlier=conversations, last=canisters)
def test_a_request_ends_in_something_to_answer(
    earlier: list[AnyCanister], last: AnyCanister
) -> None:
    """User, Document, Supervisor and Result leave something to answer, the others do not."""
    conversation = [*earlier, last]

    if last.role in ANSWERABLE_ROLES:
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
