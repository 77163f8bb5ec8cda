"""The official SDKs converse with the simulator as they do with the vendors, and never complain."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall

from vibe_llms.testing.simulator import (
    Cite,
    Draw,
    Invoke,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Simulator,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.behaviour import produce_png, produce_wav

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": PARAMETERS, "strict": True}}
    for name in ("weather", "tides")
]
RESPONSE_TOOLS: Any = [
    {"type": "function", "name": name, "parameters": PARAMETERS, "strict": True}
    for name in ("weather", "tides")
]
MESSAGE_TOOLS: Any = [
    {"name": name, "input_schema": PARAMETERS, "description": "A tool."}
    for name in ("weather", "tides")
]
PICTURE = base64.b64encode(produce_png(4, 5)).decode()


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A simulator without conditions."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def open_ai(simulator: Simulator) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's client of it."""
    async with openai.AsyncOpenAI(
        base_url=f"{simulator.url}/v1", api_key="sk-test", max_retries=0
    ) as client:
        yield client


@pytest.fixture
async def claude(simulator: Simulator) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """Anthropic's client of it."""
    async with anthropic.AsyncAnthropic(
        base_url=simulator.url, api_key="test", max_retries=0
    ) as client:
        yield client


async def chat(client: openai.AsyncOpenAI, streams: bool, **fields: Any) -> Any:
    """A whole completion, streamed through the SDK's accumulator or not."""
    fields = {"model": "gpt-4o", **fields}
    if not streams:
        return await client.chat.completions.create(**fields)
    fields.setdefault("stream_options", {"include_usage": True})
    async with client.chat.completions.stream(**fields) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


async def respond(client: openai.AsyncOpenAI, streams: bool, **fields: Any) -> Any:
    """A whole response, streamed through the SDK's accumulator or not."""
    fields = {"model": "gpt-5", **fields}
    if not streams:
        return await client.responses.create(**fields)
    async with client.responses.stream(**fields) as stream:
        numbers = [event.sequence_number async for event in stream]
        assert numbers == list(range(len(numbers)))
        return await stream.get_final_response()


async def message(client: anthropic.AsyncAnthropic, streams: bool, **fields: Any) -> Any:
    """A whole message, streamed through the SDK's accumulator or not."""
    fields = {"model": "claude-sonnet-5", "max_tokens": 4000, **fields}
    if not streams:
        return await client.messages.create(**fields)
    async with client.messages.stream(**fields) as stream:
        return await stream.get_final_message()


WAYS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def said(text: str) -> Any:
    """One message of a user."""
    return [{"role": "user", "content": text}]


@WAYS
async def test_text_is_echoed_in_each_protocol(
    open_ai: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, streams: bool
) -> None:
    """The text of the user comes back, with what it took and why it ended."""
    completion = await chat(open_ai, streams, messages=said("Hello, wörld 🌍!"))
    assert completion.choices[0].message.content == "Hello, wörld 🌍!"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens > 0
    response = await respond(open_ai, streams, input="Hello, wörld 🌍!")
    assert response.output_text == "Hello, wörld 🌍!"
    assert response.status == "completed"
    assert response.usage.total_tokens > 0
    answer = await message(claude, streams, messages=said("Hello, wörld 🌍!"))
    assert [block.text for block in answer.content] == ["Hello, wörld 🌍!"]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


@WAYS
async def test_parallel_tools_make_a_round_trip_in_chat(
    open_ai: openai.AsyncOpenAI, streams: bool
) -> None:
    """Both tools are called, and their results are spoken about."""
    messages = said("Please use tools.")
    first = await chat(open_ai, streams, messages=messages, tools=CHAT_TOOLS)
    calls = first.choices[0].message.tool_calls
    assert first.choices[0].finish_reason == "tool_calls"
    assert [call.function.name for call in calls] == ["weather", "tides"]
    assert json.loads(calls[0].function.arguments) == {"city": "text", "days": 7}
    calls = [{"id": c.id, "type": "function", "function": c.function.to_dict()} for c in calls]
    for call in calls:
        call["function"].pop("parsed_arguments", None)
    messages.append({"role": "assistant", "tool_calls": calls})
    for call, result in zip(calls, ["sun", "high"], strict=True):
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    second = await chat(open_ai, streams, messages=messages, tools=CHAT_TOOLS)
    assert second.choices[0].message.content == "weather said: sun; tides said: high"


@WAYS
async def test_reasoning_and_tools_make_a_round_trip_in_responses(
    open_ai: openai.AsyncOpenAI, streams: bool
) -> None:
    """Reasoning comes with its signature, and goes back before the calls that followed it."""
    items: Any = said("Please use tools.")
    fields: Any = {
        "tools": RESPONSE_TOOLS,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }
    first = await respond(open_ai, streams, input=items, **fields)
    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    assert first.output[0].summary[0].text
    for item in first.output:
        plain = item.to_dict()
        plain.pop("parsed_arguments", None)
        items.append(plain)
    for item in first.output[1:]:
        assert isinstance(item, ResponseFunctionToolCall)
        items.append({"type": "function_call_output", "call_id": item.call_id, "output": "sun"})
    second = await respond(open_ai, streams, input=items, **fields)
    assert second.output_text == "weather said: sun; tides said: sun"
    items[1]["encrypted_content"] = "AAAA" + items[1]["encrypted_content"][4:]
    with pytest.raises(openai.BadRequestError) as caught:
        await respond(open_ai, False, input=items, **fields)
    assert caught.value.code == "invalid_encrypted_content"


@WAYS
async def test_thinking_and_tools_make_a_round_trip_in_messages(
    claude: anthropic.AsyncAnthropic, streams: bool
) -> None:
    """Thinking comes signed, goes back before the calls, and is refused when it was changed."""
    messages = said("Please use tools.")
    fields: Any = {"tools": MESSAGE_TOOLS, "thinking": {"type": "adaptive"}}
    first = await message(claude, streams, messages=messages, **fields)
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    assert first.content[1].input == {"city": "text", "days": 7}
    messages.append(first.to_param())
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "sun"}
        for block in first.content[1:]
    ]
    messages.append({"role": "user", "content": results})
    second = await message(claude, streams, messages=messages, **fields)
    assert second.content[-1].text == "weather said: sun; tides said: sun"
    changed: Any = [block.to_dict() for block in first.content]
    changed[0]["thinking"] += "!"
    messages[1] = {"role": "assistant", "content": changed}
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await message(claude, streams, messages=messages, **fields)


@WAYS
async def test_a_schema_is_kept_in_each_protocol(
    open_ai: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, streams: bool
) -> None:
    """The answer is JSON that fits."""
    fitting = {"city": "text", "days": 7}
    form: Any = {"name": "trip", "schema": PARAMETERS, "strict": True}
    completion = await chat(
        open_ai,
        streams,
        messages=said("Plan"),
        response_format={"type": "json_schema", "json_schema": form},
    )
    assert json.loads(completion.choices[0].message.content) == fitting
    response = await respond(
        open_ai, streams, input="Plan", text={"format": {"type": "json_schema", **form}}
    )
    assert json.loads(response.output_text) == fitting
    config = {"format": {"type": "json_schema", "schema": PARAMETERS}}
    answer = await message(claude, streams, messages=said("Plan"), output_config=config)
    assert json.loads(answer.content[0].text) == fitting


async def test_a_picture_is_seen_in_each_protocol(
    open_ai: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic
) -> None:
    """The answer tells the media type and the size in pixels."""
    url = f"data:image/png;base64,{PICTURE}"
    seen = "I see image/png of 4 x 5 pixels."
    part: Any = {"type": "image_url", "image_url": {"url": url}}
    completion = await chat(open_ai, False, messages=said([part]))
    assert completion.choices[0].message.content == seen
    content: Any = [{"type": "input_image", "image_url": url, "detail": "auto"}]
    response = await respond(open_ai, False, input=[{"role": "user", "content": content}])
    assert response.output_text == seen
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    block: Any = [{"type": "image", "source": source}]
    answer = await message(claude, False, messages=said(block))
    assert answer.content[0].text == seen


@WAYS
async def test_scripted_turns_are_said_in_each_protocol(
    simulator: Simulator,
    open_ai: openai.AsyncOpenAI,
    claude: anthropic.AsyncAnthropic,
    streams: bool,
) -> None:
    """Reasoning, searches, citations, refusals, pictures and audio arrive as the SDKs know them."""
    source = Cite(url="https://example.com/a", title="A", quote="So it is.")
    turn = ScriptedAnswer(
        parts=(Think("Hm."), Search("a?", (source,)), Say("So it is.", (source,)))
    )
    simulator.enqueue(turn, turn, turn, simulate="reasoning_content")
    completion = await chat(open_ai, streams, messages=said("x"))
    spoken = completion.choices[0].message
    assert spoken.content == "So it is."
    assert spoken.model_extra["reasoning_content"] == "Hm."
    assert streams or spoken.annotations[0].url_citation.url == source.url
    response = await respond(open_ai, streams, input="x")
    assert [item.type for item in response.output] == ["reasoning", "web_search_call", "message"]
    assert response.output[-1].content[0].annotations[0].url == source.url
    answer = await message(claude, streams, messages=said("x"))
    assert [block.type for block in answer.content] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert answer.content[1].input == {"query": "a?"}
    assert answer.content[-1].citations[0].url == source.url
    assert answer.usage.server_tool_use.web_search_requests == 1 or streams
    simulator.enqueue(
        ScriptedAnswer(parts=(Refuse("No."),)), ScriptedAnswer(parts=(Refuse("No."),))
    )
    completion = await chat(open_ai, streams, messages=said("x"))
    assert completion.choices[0].message.refusal == "No."
    response = await respond(open_ai, streams, input="x")
    assert response.output[0].content[0].refusal == "No."
    simulator.enqueue(Refuse("No."))
    answer = await message(claude, streams, messages=said("x"))
    assert (answer.stop_reason, answer.stop_details.explanation) == ("refusal", "No.")
    simulator.enqueue(Draw(produce_png(1, 1)))
    response = await respond(open_ai, streams, input="x")
    assert base64.b64decode(response.output[0].result) == produce_png(1, 1)
    simulator.enqueue(Speak(produce_wav(10), "Hi."))
    completion = await chat(open_ai, False, messages=said("x"))
    assert base64.b64decode(completion.choices[0].message.audio.data) == produce_wav(10)


@WAYS
async def test_a_custom_tool_gets_free_text(open_ai: openai.AsyncOpenAI, streams: bool) -> None:
    """In Responses the input of a custom tool is text."""
    tools: Any = [{"type": "custom", "name": "script"}]
    response = await respond(open_ai, streams, input="call script", tools=tools)
    assert (response.output[0].type, response.output[0].input) == (
        "custom_tool_call",
        "some free text",
    )


ERRORS: dict[str, tuple[str, str, str]] = {
    # from the condition to the classes of OpenAI's and Anthropic's SDK, and Anthropic's type
    "rate_limit": ("RateLimitError", "RateLimitError", "rate_limit_error"),
    "overloaded": ("InternalServerError", "OverloadedError", "overloaded_error"),
    "server_error": ("InternalServerError", "InternalServerError", "api_error"),
    "context_overflow": ("BadRequestError", "BadRequestError", "invalid_request_error"),
}


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("condition", ERRORS)
async def test_errors_are_the_classes_of_the_sdks(
    simulator: Simulator,
    open_ai: openai.AsyncOpenAI,
    claude: anthropic.AsyncAnthropic,
    condition: str,
    streams: bool,
) -> None:
    """Each refusal is what the SDK makes of the vendor's own."""
    ours, theirs, kind = ERRORS[condition]
    simulator.switch(f"{condition}=3" if condition != "context_overflow" else condition)
    with pytest.raises(getattr(openai, ours)) as first:
        await chat(open_ai, streams, messages=said("x"))
    assert first.value.request_id
    with pytest.raises(getattr(openai, ours)):
        await respond(open_ai, streams, input="x")
    with pytest.raises(anthropic.APIStatusError) as second:
        await message(claude, streams, messages=said("x"))
    assert isinstance(second.value, getattr(anthropic, theirs, anthropic.InternalServerError))
    assert second.value.type == kind
    assert second.value.request_id


async def test_wrong_keys_and_absent_models_are_refused(simulator: Simulator) -> None:
    """401 and 404 as the SDKs know them."""
    async with openai.AsyncOpenAI(
        base_url=f"{simulator.url}/v1", api_key="wrong", max_retries=0
    ) as client:
        with pytest.raises(openai.AuthenticationError):
            await chat(client, False, messages=said("x"))
        with pytest.raises(openai.AuthenticationError):
            await respond(client, False, input="x")
        right = client.with_options(api_key="right")
        with pytest.raises(openai.NotFoundError):
            await chat(right, False, model="does-not-exist", messages=said("x"))
    async with anthropic.AsyncAnthropic(
        base_url=simulator.url, api_key="wrong", max_retries=0
    ) as other:
        with pytest.raises(anthropic.AuthenticationError):
            await message(other, False, messages=said("x"))
        with pytest.raises(anthropic.NotFoundError):
            await message(
                other.with_options(api_key="right"),
                False,
                model="does-not-exist",
                messages=said("x"),
            )


@pytest.mark.slow
async def test_retries_of_the_sdks_end_in_an_answer(simulator: Simulator) -> None:
    """They believe our retry-after and x-should-retry."""
    simulator.switch("overloaded=1")
    async with anthropic.AsyncAnthropic(base_url=simulator.url, api_key="k") as client:
        answer = await message(client, False, messages=said("at last"))
    assert answer.content[0].text == "at last"
    assert len(simulator.requests) == 2


async def test_models_are_listed_and_tokens_counted(
    open_ai: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic
) -> None:
    """The smaller calls of both SDKs work."""
    assert [model.id async for model in open_ai.models.list()]
    listed = [model async for model in claude.models.list()]
    assert listed[0].max_input_tokens == 200_000
    counted = await claude.messages.count_tokens(model="claude", messages=said("Hello there"))
    assert counted.input_tokens > 0
    tokens = await open_ai.responses.input_tokens.count(model="gpt-5", input="Hello there")
    assert tokens.input_tokens > 0
    response = await respond(open_ai, False, input="keep this")
    assert (await open_ai.responses.retrieve(response.id)).output_text == "keep this"


async def test_azure_and_vertex_paths_are_served(simulator: Simulator) -> None:
    """The same protocols stand behind the paths of the clouds."""
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=simulator.url, api_key="k", api_version="2025-01-01", max_retries=0
    ) as client:
        completion = await client.chat.completions.create(model="mine", messages=said("Hi"))
        assert completion.choices[0].message.content == "Hi"
    assert simulator.requests[-1].path == "/openai/deployments/mine/chat/completions"
    assert simulator.requests[-1].query["api-version"] == "2025-01-01"
    assert simulator.requests[-1].headers["api-key"] == "k"
    async with anthropic.AsyncAnthropicVertex(
        base_url=simulator.url, region="x", project_id="p", access_token="t", max_retries=0
    ) as vertex:
        for streams in (False, True):
            answer = await message(vertex, streams, messages=said("Hi"))
            assert answer.content[0].text == "Hi"


async def test_prefix_bound_thinking_is_refused_where_the_prefix_changed(
    simulator: Simulator, claude: anthropic.AsyncAnthropic
) -> None:
    """The same thinking is right after the same messages, and wrong after others."""
    simulator.switch("prefix_bound_thinking")
    messages = said("think about one")
    first = await message(claude, True, messages=messages, system="Be brief.")
    follow: Any = [*messages, first.to_param(), {"role": "user", "content": "and now?"}]
    await message(claude, True, messages=follow, system="Be brief.")
    with pytest.raises(anthropic.BadRequestError):
        await message(claude, True, messages=follow, system="Be long.")
    follow[0] = {"role": "user", "content": "think about two"}
    with pytest.raises(anthropic.BadRequestError):
        await message(claude, True, messages=follow, system="Be brief.")


async def test_an_invocation_as_scripted_keeps_its_id_and_text(
    simulator: Simulator, open_ai: openai.AsyncOpenAI
) -> None:
    """A script may say exactly what is sent, broken or not."""
    simulator.enqueue(Invoke("weather", '{"city": ', id="call_mine"))
    completion = await chat(open_ai, False, messages=said("x"))
    (call,) = completion.choices[0].message.tool_calls
    assert (call.id, call.function.arguments) == ("call_mine", '{"city": ')
