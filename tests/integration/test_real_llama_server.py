"""llama.cpp's own server with real weights, in each protocol that it speaks, by our providers."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.llama_servers import serve_weights
from support.vendors.remoting import produce_context
from vibe_llms.events.stream import ContentDeltaEvent, ResponseStartedEvent
from vibe_llms.exceptions import ContextOverflowError, ProviderError, ProviderFault
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import text_of
from vibe_llms.providers.remote_models import RemoteModel

pytestmark = [
    pytest.mark.weights,
    pytest.mark.skipif(sys.platform == "win32", reason="the program waits for a signal"),
]

KEY = "canary"
MODEL = "claude-sonnet-4-5"
"""The server takes any name; this one is known to take a temperature, wherever it is asked."""
PLACES = {
    "anthropic": ("vibe_llms.providers.anthropic", ""),
    "llamacpp": ("vibe_llms.providers.openai_compatible", "/v1"),
    "openai_conversations": ("vibe_llms.providers.openai_conversations", "/v1"),
    "openai_responses": ("vibe_llms.providers.openai_responses", "/v1"),
    "vllm": ("vibe_llms.providers.vllm", "/v1"),
}
"""From each provider to its module, and the path at which it is to be spoken to."""

QUESTION = (SupervisorCanister("Be brief."), UserCanister("Say hello."))
CLOCK = InvocableDescription(
    name="clock",
    description="Tells the time.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
OWN = "id, status: only openai_responses can read it"
each_provider = pytest.mark.parametrize("name", sorted(PLACES))


@pytest.fixture(scope="module")
def address(weights: Path) -> Iterator[str]:
    """Where the server listens, which is started once."""
    with serve_weights(weights, KEY) as address:
        yield address


Access = Callable[..., Awaitable[RemoteModel]]


@pytest.fixture
async def access_model(address: str, tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to the model by the name of a provider, and closes the clients at the end."""
    clients = []

    async def access(name: str, **settings: Any) -> RemoteModel:
        module, path = PLACES[name]
        settings = {"base_url": address + path, "api_key": KEY, **settings}
        context = produce_context(name, tmp_path, **settings)
        client = importlib.import_module(module).produce_provider(context).produce_client()
        clients.append(client)
        model = await client.access_model(MODEL)
        assert isinstance(model, RemoteModel)
        return model

    yield access
    for client in clients:
        await client.close()


def ask(*canisters: Any, tokens: int = 5, **others: Any) -> Request:
    """Makes a request whose answer is short, and the same each time."""
    controls = {"max_tokens": tokens, "temperature": 0}
    return Request(canisters=canisters or QUESTION, controls=controls, **others)


def access_usage(response: Response) -> Usage:
    """Returns what the server said that an answer took."""
    assert response.metadata.usage is not None
    return response.metadata.usage


@pytest.mark.slow
@each_provider
async def test_a_conversation_goes_on_streamed_and_whole(access_model: Access, name: str) -> None:
    """Piece by piece it says what it says at once; each turn knows the ones before it."""
    model = await access_model(name)
    async with model.stream(ask()) as stream:
        events = [event async for event in stream]
        streamed = await stream.response()
    whole = await model.converse(ask(), stream=False)

    texts = [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    assert len(texts) > 1
    assert "".join(texts) == streamed.text == whole.text
    assert any(isinstance(event, ResponseStartedEvent) for event in events)
    for response in (streamed, whole):
        assert response.losses == ()
        assert access_usage(response).total_output_tokens == 5
    going_on = (*whole.conversation, UserCanister("And goodbye."))
    further = await model.converse(ask(*going_on))
    assert further.text
    assert further.losses == ()
    before, now = (access_usage(each).total_input_tokens for each in (whole, further))
    assert before is not None
    assert now is not None
    assert now > before


async def test_responses_come_with_what_the_server_says_beside_them(access_model: Access) -> None:
    """Its stream names no places and has timings of its own: both are read, none is lost."""
    model = await access_model("openai_responses")
    async with model.stream(ask()) as stream:
        events = [event async for event in stream]
        streamed = await stream.response()

    assert isinstance(events[0], ResponseStartedEvent)
    assert streamed.metadata.native is not None
    assert "timings" in streamed.metadata.native.data


@pytest.mark.slow
@each_provider
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_is_too_long_is_cut_and_says_so(
    access_model: Access, name: str, stream: bool
) -> None:
    """The limit of tokens holds, and is the reason; in Responses this server never says so."""
    response = await (await access_model(name)).converse(ask(tokens=2), stream=stream)

    is_told = name != "openai_responses"
    reason = StopReason.LIMIT if is_told else StopReason.ANSWERED
    assert response.metadata.stop_reason is reason
    assert access_usage(response).total_output_tokens == 2


@pytest.mark.slow
@each_provider
async def test_who_leaves_midway_frees_the_server_for_the_next(
    access_model: Access, name: str
) -> None:
    """It has one seat: what was left would answer until the window is full."""
    model = await access_model(name)
    endless = ask(UserCanister("Count to a thousand, slowly."), tokens=400)
    async with model.stream(endless) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent) and event.text:
                break
    left = stream.canisters

    assert text_of(left[-1])
    going_on = (*endless.canisters, *left, UserCanister("Enough."))
    assert (await model.converse(ask(*going_on, tokens=2))).text


@pytest.mark.slow
@each_provider
async def test_a_schema_holds_where_the_server_holds_to_it(access_model: Access, name: str) -> None:
    """It does so in Chat Completions; in its two other protocols it takes no notice."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    question = UserCanister("Which colour has the sky?")
    response = await (await access_model(name)).converse(ask(question, schema=schema, tokens=24))

    assert response.text
    if name not in ("anthropic", "openai_responses"):
        assert json.loads(response.text)["colour"] in ("red", "blue")


@pytest.mark.slow
@each_provider
async def test_tools_and_their_results_are_understood(access_model: Access, name: str) -> None:
    """The server takes them; that this model's template leaves them out is its own affair."""
    model = await access_model(name)
    invocation = InvocationCanister('{"city": "Bonn"}', name="clock", invocation_id="call_1")
    result = ResultCanister("noon", invocation_id="call_1", name="clock")
    canisters = (UserCanister("What time is it in Bonn?"), invocation, result)
    response = await model.converse(ask(*canisters, invocables=(CLOCK,), tokens=3))

    assert response.canisters
    assert access_usage(response).total_output_tokens


@each_provider
async def test_tokens_are_counted_within_the_bound_that_is_told(
    access_model: Access, name: str
) -> None:
    """By the server where it offers that, and else as an estimate which knows how wrong it is."""
    model = await access_model(name)
    counted = await model.tokenizer.count_request(ask(), model.descriptor)
    response = await model.converse(ask(tokens=1), stream=False)

    actual = access_usage(response).total_input_tokens
    assert actual is not None
    assert abs(counted.tokens - actual) <= counted.error_tokens
    if name in ("anthropic", "openai_responses"):
        assert counted.tokens == actual


@each_provider
@pytest.mark.parametrize("stream", [True, False])
async def test_what_does_not_fit_is_one_error(
    access_model: Access, name: str, stream: bool
) -> None:
    """With how much would have fitted."""
    model = await access_model(name)
    with pytest.raises(ContextOverflowError) as caught:
        await model.converse(ask(UserCanister("word " * 800)), stream=stream)

    assert "512" in str(caught.value)


@each_provider
async def test_a_wrong_key_is_told_as_such(access_model: Access, name: str) -> None:
    """And the key is not in what is told."""
    model = await access_model(name, api_key="forged-canary")
    with pytest.raises(ProviderError) as caught:
        await model.converse(ask())

    assert caught.value.fault is ProviderFault.AUTHENTICATION
    assert "forged-canary" not in str(caught.value)


async def test_its_models_are_listed_with_their_window(access_model: Access) -> None:
    """What the server says of itself is learnt from it."""
    for name in ("llamacpp", "vllm"):
        model = await access_model(name)
        (listed,) = await model._client.survey_models(refresh=True)
        assert listed.attributes.access_value("context_window_tokens") == 512


@pytest.mark.slow
async def test_a_conversation_moves_through_all_protocols(access_model: Access) -> None:
    """Each takes what all the others said; withheld are the ids of the one that gives some."""
    canisters: tuple[Any, ...] = QUESTION
    for name in sorted(PLACES):
        model = await access_model(name)
        response = await model.converse(ask(*canisters, tokens=3))
        assert {loss.reason for loss in response.losses} <= {OWN}
        canisters = (*response.conversation, UserCanister(f"I was {name}. Go on."))
    said = [canister for canister in canisters if isinstance(canister, AssistantCanister)]
    assert len(said) == len(PLACES)
    assert {canister.origin.provider for canister in said if canister.origin} == set(PLACES)
