"""The examples with which this was asked for, in its words, synchronous and not."""

from __future__ import annotations

import asyncio
import threading

import attrs
import pytest

from support.runs.acting import invoke, say, script
from vibe_llms import (
    Conversation,
    Engine,
    Model,
    Parser,
    Prompt,
    Request,
    SyncEngine,
    SyncModel,
)
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.channels.synchronous import SyncChannel
from vibe_llms.instruments.channels.tools import ToolChannel
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ConverserModel

QUESTION = "What is the stock price of Apple compared to the temperature in NY?"
SYNTHESIS = "Apple costs 231, and in New York it has 21 degrees."


def produce_client() -> ConverserModel:
    """Makes a model that needs both tools at once, and then says what they come to."""
    return script(
        [
            say("I need stock price and weather."),
            invoke("stock", "call-1", symbol="AAPL"),
            invoke("weather", "call-2", city="New York"),
        ],
        [say(SYNTHESIS)],
    )


class Tools:
    """Two tools, each of which ends only while the other one is executed as well."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2)

    def stock(self, symbol: str) -> str:
        """Tells the price of a stock."""
        self.barrier.wait(timeout=60)
        return f"{symbol}: 231"

    def weather(self, city: str) -> str:
        """Tells the temperature in a city."""
        self.barrier.wait(timeout=60)
        return f"{city}: 21 degrees"


def check_synthesis(before: Conversation, after: Conversation) -> None:
    """Asserts that both tools were executed, and that what they brought was answered."""
    results = [each for each in after.canisters if isinstance(each, ResultCanister)]
    invocations = [each for each in after.canisters if isinstance(each, InvocationCanister)]
    assert [text_of(each) for each in results] == ["AAPL: 231", "New York: 21 degrees"]
    assert [each.invocation_id for each in results] == [each.invocation_id for each in invocations]
    assert after.last_message is not None
    assert text_of(after.last_message) == SYNTHESIS
    assert [each.role for each in before.canisters] == ["user"]


def test_the_direct_flow() -> None:
    """A conversation, an engine, and the engine's run: its result has the last word."""
    conversation = Conversation()
    conversation.add_user_message("Why is the sky blue?")
    engine = SyncEngine(client=script([say("Light scatters.")]))

    result = engine.run(conversation)

    assert result.last_message is not None
    assert text_of(result.last_message) == "Light scatters."
    assert result.id == conversation.id
    assert len(conversation) == 1


def test_the_agentic_flow() -> None:
    """With tools the engine asks, executes both in parallel, asks again, and terminates."""
    conversation = Conversation()
    conversation.add_user_message(QUESTION)
    tools = Tools()

    final = SyncEngine(client=produce_client(), tools=[tools.weather, tools.stock]).run(
        conversation
    )

    check_synthesis(conversation, final)


async def test_the_agentic_flow_without_blocking() -> None:
    """The same in asynchronous code; what happens can be heard."""
    conversation = Conversation()
    conversation.add_user_message(QUESTION)
    tools, heard = Tools(), []
    engine = Engine(
        client=produce_client(),
        tools=[tools.weather, tools.stock],
        listener=lambda event: heard.append(event),
    )

    final = await engine.run(conversation)

    check_synthesis(conversation, final)
    states = [str(event.state) for event in heard if event.type == "run.state"]
    assert states == ["generate", "execute", "generate", "terminate"]


async def test_a_conversation_goes_in_and_its_new_state_comes_out() -> None:
    """It can be written down between the steps, and the engine finds what is next in it."""
    conversation = Conversation()
    conversation.add_user_message(QUESTION)
    converter = produce_converter()
    tools = Tools()

    final = await Engine(produce_client(), [tools.weather, tools.stock]).run(conversation)
    written = [converter.unstructure(each) for each in final.canisters]
    again = await Engine(script([say("No more to say.")])).answer(final)

    assert [each["role"] for each in written].count("result") == 2
    assert again.canisters == ()
    assert again.text == SYNTHESIS


@attrs.frozen
class City:
    """A place where many live."""

    name: str
    people: int


PROMPT = Prompt(
    "Which city is the capital of {{ country }}?",
    system="Answer {{ manner|default('briefly') }}.",
    name="capital",
)
PARIS = '{"name": "Paris", "people": 2102650}'


async def test_a_channel_connects_model_prompt_and_parser() -> None:
    """It composes the conversation, keeps its state, and gives what the parser makes of it."""
    channel = AsyncChannel(script([say(PARIS)]), prompt=PROMPT, parser=Parser(City))

    reply = await channel.ask(country="France")

    assert reply.value == City("Paris", 2102650)
    assert [text_of(each) for each in channel.conversation.canisters] == [
        "Answer briefly.",
        "Which city is the capital of France?",
        PARIS,
    ]
    with pytest.raises(ValueError, match=r"unknown variable 'contry' \(did you mean 'country'\?\)"):
        await channel.ask(contry="France")
    assert len(channel.conversation) == 3


def test_a_channel_connects_them_in_synchronous_code() -> None:
    """With tools, too: under it works the same engine."""
    tools = Tools()
    with SyncChannel(produce_client(), tools=[tools.weather, tools.stock]) as channel:
        reply = channel.ask(QUESTION)

    assert reply.value == SYNTHESIS
    assert [each.role for each in channel.conversation.canisters].count("result") == 2


async def test_a_channel_is_a_tool_whose_arguments_are_the_prompts() -> None:
    """What the prompt says of its values is what the other model is told."""
    schema = {"type": "object", "properties": {"country": {"type": "string", "maxLength": 60}}}
    prompt = Prompt("Which city is the capital of {{ country }}?", schema=schema)
    atlas = ToolChannel(script([say(PARIS)]), name="atlas", description="Knows.", prompt=prompt)
    model = script([invoke("atlas", country="France")], [say("It is Paris.")])

    outcome = await Engine(model, tools=[atlas]).answer("What is the capital of France?")

    assert atlas.invoker.schema["properties"] == schema["properties"]
    assert outcome.text == "It is Paris."
    assert text_of(outcome.canisters[1]) == PARIS


async def test_a_model_makes_requests_of_prompts() -> None:
    """A script that only wants an answer needs no more than a name and a prompt."""
    canisters = PROMPT.compose(country="France", manner="in verse")

    async with Model("scripted:echo", temperature=0.2) as model:
        request = model.request(canisters)
        response = await model.ask(request)
    with SyncModel("scripted:echo") as synchronous:
        same = await asyncio.to_thread(synchronous.ask, canisters)

    assert isinstance(request, Request)
    assert dict(request.controls) == {"temperature": 0.2}
    assert text_of(request.canisters[0]) == "Answer in verse."
    assert response.text == same.text == "Which city is the capital of France?"
    converter = produce_converter()
    assert converter.structure(converter.unstructure(request), Request) == request
