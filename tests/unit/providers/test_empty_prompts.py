"""A prompt in which nothing is asked is refused before anything is sent, whoever the vendor is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.runs.scripting import produce_model
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, TextualContent
from vibe_llms.messages.requests import Request

ANSWER = {"contents": [{"text": "x"}]}
CALL = InvocationCanister(invocation_id="c", name="f")
PICTURE = ImageContent(data=b"x", mime_type="image/png")
EMPTY: dict[str, Sequence[AnyCanister]] = {
    "an empty text": [UserCanister("")],
    "blanks": [UserCanister(" \n\t\u00a0")],
    "no content": [UserCanister(())],
    "several empty texts": [UserCanister((TextualContent(""), TextualContent(" ")))],
    "an empty document": [DocumentCanister("")],
    "an empty document and an empty text": [DocumentCanister(" "), UserCanister("")],
    "instructions beside it": [SupervisorCanister("Be brief."), UserCanister("")],
    "instructions behind it": [UserCanister(""), SupervisorCanister("Be brief.")],
    "empty instructions": [SupervisorCanister("")],
    "a conversation before it": [UserCanister("hi"), AssistantCanister("hello"), UserCanister("")],
}
SAID: dict[str, Sequence[AnyCanister]] = {
    "a text": [UserCanister("hi")],
    "a picture": [UserCanister((TextualContent(""), PICTURE))],
    "a document": [DocumentCanister("hi"), UserCanister("")],
    "instructions alone": [SupervisorCanister("Begin.")],
    "an empty result": [UserCanister("hi"), CALL, ResultCanister("", invocation_id="c")],
    "an empty turn of before": [UserCanister(""), AssistantCanister("hello"), UserCanister("hi")],
}


@pytest.mark.parametrize("canisters", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_prompt_without_a_word_is_refused(
    canisters: Sequence[AnyCanister], streams: bool
) -> None:
    """Vendors differ in what they make of it; here it is an error that says the rule."""
    model = produce_model(ANSWER)
    request = Request(canisters=canisters)

    with pytest.raises(RequestError, match="The prompt is empty") as caught:
        await model.converse(request, stream=streams)

    assert caught.value.path == f"canisters[{len(canisters) - 1}]"
    with pytest.raises(RequestError, match="The prompt is empty"):
        model.check(request)


@pytest.mark.parametrize("canisters", SAID.values(), ids=SAID)
async def test_whatever_says_something_is_sent(canisters: Sequence[AnyCanister]) -> None:
    """A tool may have nothing to say, and a file may speak for itself."""
    model = produce_model(ANSWER)

    response = await model.converse(Request(canisters=canisters))

    assert response.text == "x"


async def test_a_model_goes_on_without_being_asked() -> None:
    """Who lets it continue its own turn need not say anything."""
    model = produce_model(ANSWER)
    request = Request(canisters=[UserCanister("hi"), AssistantCanister("he")], continuation=True)

    assert (await model.converse(request)).text == "x"
