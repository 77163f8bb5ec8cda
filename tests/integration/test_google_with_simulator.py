"""The provider of Gemini against a server that is as strict as Google's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import produce_context
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import media_of
from vibe_llms.providers.google import produce_provider
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.testing.simulator import (
    Cite,
    Draw,
    Invoke,
    Say,
    ScriptedAnswer,
    Search,
    Simulator,
    Think,
)
from vibe_llms.testing.simulator.behaviour import produce_png

WEATHER = InvocableDescription(
    name="weather",
    description="Tells the weather.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "additionalProperties": False,
    },
)
CALLS = ScriptedAnswer(
    parts=(
        Think("Two cities."),
        Say("Let me look."),
        Invoke("weather", {"city": "Köln"}),
        Invoke("weather", {"city": "Bonn"}),
    )
)


CLIENTS: list[RemoteClient] = []


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A running server; what asked it is closed in the end."""
    async with Simulator() as running:
        yield running
        while CLIENTS:
            await CLIENTS.pop().close()


async def access_model(
    simulator: Simulator, directory: Path, simulate: str = "", name: str = "gemini-3-flash"
) -> RemoteModel:
    """Returns a model of the provider at the server."""
    url = simulator.access_url(simulate) if simulate else simulator.url
    context = produce_context(
        "google", directory, limits=Limits(attempts=1), base_url=url, api_key="key"
    )
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    CLIENTS.append(provider.produce_client())
    return await CLIENTS[-1].access_model(name)


def ask(*canisters: AnyCanister, **fields: Any) -> Request:
    """Returns a request with a tool."""
    return Request(canisters=canisters, invocables=(WEATHER,), **fields)


def answer_all(response: Response) -> list[AnyCanister]:
    """Returns the results of all invocations."""
    return [
        ResultCanister("fine", invocation_id=each.invocation_id)
        for each in response.canisters
        if isinstance(each, InvocationCanister)
    ]


def show(response: Response) -> list[Any]:
    """Returns what a response says, without what differs from call to call."""
    return [
        (type(each).__name__, getattr(each, "arguments", None), tuple(each.content))
        for each in response.canisters
    ]


@pytest.mark.parametrize("simulate", ["", "missing_ids", "reused_ids"])
@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_invocations_are_answered_and_their_signatures_come_back(
    simulator: Simulator, tmp_path: Path, simulate: str, stream: bool
) -> None:
    """The server refuses a signature that is not on its own call, or a call without an answer."""
    model = await access_model(simulator, tmp_path, simulate)
    simulator.enqueue(CALLS)
    first = await model.converse(ask(UserCanister("Weather?")), stream=stream)
    assert first.metadata.stop_reason is StopReason.INVOCATION
    simulator.enqueue(Say("It is fine."))
    conversation = (*first.conversation, *answer_all(first))
    second = await model.converse(ask(*conversation), stream=stream)
    assert second.text == "It is fine."
    sent = simulator.requests[-1].body["contents"]
    assert [content["role"] for content in sent] == ["user", "model", "user"]
    names = [part["functionResponse"]["name"] for part in sent[2]["parts"]]
    assert names == ["weather", "weather"]
    has_ids = "missing_ids" not in simulate
    assert all(("id" in part["functionResponse"]) is has_ids for part in sent[2]["parts"])


@pytest.mark.parametrize("simulate", ["", "split_bytes=1", "crlf,bom,comments", "empty_choices"])
async def test_a_stream_says_what_a_whole_answer_says(
    simulator: Simulator, tmp_path: Path, simulate: str
) -> None:
    """However its bytes come."""
    model = await access_model(simulator, tmp_path, simulate)
    source = Cite(url="https://example.org/a", title="A")
    turn = ScriptedAnswer(
        parts=(Search("q"), Say("Größe zählt. "), Say("So steht es da.", (source,)))
    )
    simulator.enqueue(turn, turn)
    request = Request(canisters=[UserCanister("Why?")])
    streamed, whole = await model.converse(request), await model.converse(request, stream=False)
    assert show(streamed) == show(whole)
    (citation,) = streamed.canisters[0].content[0].citations  # type: ignore[union-attr]
    assert streamed.text[citation.start : citation.end] == "So steht es da."
    assert citation.url == "https://example.org/a"


async def test_a_call_of_another_vendor_is_taken(simulator: Simulator, tmp_path: Path) -> None:
    """It has no signature of Google's; the word that stands for one is told as made up."""
    origin = Origin(provider="anthropic", model="claude", protocol="messages")
    call = InvocationCanister(
        invocation_id="toolu_1", name="weather", arguments='{"city": "Ulm"}', origin=origin
    )
    conversation = (UserCanister("Hi"), call, ResultCanister("wet", invocation_id="toolu_1"))
    model = await access_model(simulator, tmp_path)
    simulator.enqueue(Say("It is wet."))
    response = await model.converse(ask(*conversation))
    assert response.text == "It is wet."
    assert [loss.kind for loss in response.losses] == [LossKind.SYNTHESIZED]
    older = await access_model(simulator, tmp_path, "signatures_optional", "gemini-2.5-flash")
    simulator.enqueue(Say("It is wet."))
    assert (await older.converse(ask(*conversation))).losses == ()


async def test_pictures_go_both_ways(simulator: Simulator, tmp_path: Path) -> None:
    """As data, byte for byte."""
    model = await access_model(simulator, tmp_path)
    data = produce_png(4, 4)
    picture = ImageContent(mime_type="image/png", data=data)
    simulator.enqueue(Draw(data))
    response = await model.converse(Request(canisters=[UserCanister(["Draw this:", picture])]))
    assert [medium.data for medium in media_of(response.canisters)] == [data]
    simulator.enqueue(Say("Nice."))
    again = Request(canisters=(*response.conversation, UserCanister("And?")))
    assert (await model.converse(again)).text == "Nice."


async def test_an_answer_obeys_a_schema(simulator: Simulator, tmp_path: Path) -> None:
    """The server makes one up that does."""
    model = await access_model(simulator, tmp_path)
    properties: Any = {"n": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["n"]}
    request = Request(canisters=[SupervisorCanister("JSON."), UserCanister("n?")], schema=schema)
    assert '"n"' in (await model.converse(request)).text


@pytest.mark.parametrize(
    ("simulate", "wanted"),
    [
        ("no_terminator", StreamTruncatedError),
        ("cut_at_chunk=2", ConverseError),
        ("garbage_line=1", ConverseError),
        ("context_overflow", ContextOverflowError),
        ("rate_limit", ProviderFault.RATE_LIMITED),
        ("overloaded", ProviderFault.OVERLOADED),
        ("server_error", ProviderFault.SERVER),
        ("midstream_rate_limit=2", ProviderFault.RATE_LIMITED),
        ("midstream_overloaded=2", ProviderFault.OVERLOADED),
    ],
)
async def test_each_failure_is_an_error_of_its_own(
    simulator: Simulator, tmp_path: Path, simulate: str, wanted: Any
) -> None:
    """And none of them passes for an answer."""
    model = await access_model(simulator, tmp_path, simulate)
    simulator.enqueue(Say("A long answer of many words, which come one by one as they are said."))
    with pytest.raises(ConverseError) as caught:
        await model.converse(Request(canisters=[UserCanister("Hi")]))
    if isinstance(wanted, ProviderFault):
        assert isinstance(caught.value, ProviderError)
        assert caught.value.fault is wanted
    else:
        assert isinstance(caught.value, wanted)


async def test_broken_arguments_end_the_answer(simulator: Simulator, tmp_path: Path) -> None:
    """The vendor says so itself, and gives no call."""
    model = await access_model(simulator, tmp_path, "broken_arguments")
    simulator.enqueue(CALLS)
    response = await model.converse(ask(UserCanister("Weather?")))
    assert response.metadata.stop_reason is StopReason.FAILED
    assert response.metadata.origin.native_stop_reason == "MALFORMED_FUNCTION_CALL"


async def test_the_service_counts_and_lists(simulator: Simulator, tmp_path: Path) -> None:
    """Tokens of a request, and the models there are."""
    model = await access_model(simulator, tmp_path)
    request = ask(SupervisorCanister("Be brief."), UserCanister("How are you?"))
    assert (await model.tokenizer.count_request(request, model.descriptor)).tokens > 0
    surveyed = await CLIENTS[-1].survey_models()
    assert surveyed
    assert all(each.attributes.access_value("context_window_tokens") for each in surveyed)
