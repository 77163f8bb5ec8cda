"""The simulator refuses what the vendors refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from vibe_llms.testing.simulator import Simulator

OPEN_SCHEMA = {"type": "object", "properties": {"a": {}}}


def chat(*messages: Any, **fields: Any) -> tuple[str, Any]:
    """A request of Chat Completions."""
    return "/v1/chat/completions", {"model": "m", "messages": list(messages), **fields}


def claude(*messages: Any, **fields: Any) -> tuple[str, Any]:
    """A request of Messages."""
    return "/v1/messages", {"model": "m", "max_tokens": 9, "messages": list(messages), **fields}


def respond(*items: Any, **fields: Any) -> tuple[str, Any]:
    """A request of Responses."""
    return "/v1/responses", {"model": "m", "input": list(items), **fields}


def gemini(*contents: Any, **fields: Any) -> tuple[str, Any]:
    """A request of generateContent."""
    return "/v1beta/models/m:generateContent", {"contents": list(contents), **fields}


def ollama(*messages: Any, **fields: Any) -> tuple[str, Any]:
    """A request of Ollama."""
    return "/api/chat", {"model": "m", "stream": False, "messages": list(messages), **fields}


def user(content: Any) -> Any:
    """A message of a user."""
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> Any:
    """A message of an assistant."""
    return {"role": "assistant", "content": content, **fields}


def chat_call(identity: str = "call_1", arguments: Any = "{}") -> Any:
    """An invocation of Chat Completions."""
    function = {"name": "f", "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def tool_use(identity: str = "toolu_1") -> Any:
    """An invocation of Messages."""
    return {"type": "tool_use", "id": identity, "name": "f", "input": {}}


def tool_result(identity: str = "toolu_1") -> Any:
    """A result of Messages."""
    return {"type": "tool_result", "tool_use_id": identity, "content": "x"}


HI = user("hi")
CALL_ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT_ITEM = {"type": "function_call_output", "call_id": "c", "output": "x"}
REASONING_ITEM = {"type": "reasoning", "id": "rs_1", "summary": []}
THINKING = {"type": "thinking", "thinking": "x", "signature": "bm9uZQ=="}
PARTS = {"role": "user", "parts": [{"text": "hi"}]}
FUNCTION = {"name": "f", "strict": True, "parameters": OPEN_SCHEMA}
REFUSED: dict[str, tuple[tuple[str, Any], str]] = {
    "chat: no messages": (chat(), "empty array"),
    "chat: unknown role": (chat({"role": "robot", "content": "x"}), "Invalid value: 'robot'"),
    "chat: no content": (chat({"role": "user"}), "expected a string"),
    "chat: call without result": (
        chat(HI, assistant(None, tool_calls=[chat_call()]), HI),
        "did not have response messages: call_1",
    ),
    "chat: result without call": (
        chat(HI, {"role": "tool", "tool_call_id": "x", "content": "x"}),
        "must be a response to a preceeding message",
    ),
    "chat: long id": (
        chat(HI, assistant(None, tool_calls=[chat_call("x" * 41)])),
        "maximum length 40",
    ),
    "chat: arguments that are no text": (
        chat(HI, assistant(None, tool_calls=[chat_call(arguments={})])),
        "expected a string",
    ),
    "chat: open schema": (
        chat(HI, tools=[{"type": "function", "function": FUNCTION}]),
        "'additionalProperties' is required",
    ),
    "chat: name with a space": (
        chat(HI, tools=[{"type": "function", "function": {"name": "a b"}}]),
        "does not match pattern",
    ),
    "chat: options without a stream": (
        chat(HI, stream_options={"include_usage": True}),
        "only allowed when 'stream' is enabled",
    ),
    "chat: parallel without tools": (
        chat(HI, parallel_tool_calls=True),
        "only allowed when 'tools' are specified",
    ),
    "chat: old limit": (chat(HI, model="gpt-5", max_tokens=5), "max_completion_tokens"),
    "messages: no limit": (
        ("/v1/messages", {"model": "m", "messages": [HI]}),
        "max_tokens: Field required",
    ),
    "messages: unknown field": (claude(HI, seed=1), "Extra inputs are not permitted"),
    "messages: begins with the assistant": (claude(assistant("x"), HI), "first message must"),
    "messages: blank text": (claude(user([{"type": "text", "text": " "}])), "non-whitespace"),
    "messages: bad id": (
        claude(HI, assistant([tool_use("a.b")]), user([tool_result("a.b")])),
        "should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "messages: call without result": (
        claude(HI, assistant([tool_use()]), HI),
        "without `tool_result` blocks immediately after: toolu_1",
    ),
    "messages: result without call": (
        claude(user([tool_result()])),
        "unexpected `tool_use_id`",
    ),
    "messages: ids twice": (
        claude(
            HI,
            assistant([tool_use()]),
            user([tool_result()]),
            assistant([tool_use()]),
            user([tool_result()]),
        ),
        "must be unique",
    ),
    "messages: foreign signature": (
        claude(HI, assistant([THINKING, {"type": "text", "text": "x"}]), HI),
        "Invalid `signature`",
    ),
    "messages: result of the assistant": (
        claude(HI, assistant([tool_result()])),
        "can only be in `user` messages",
    ),
    "messages: small budget": (
        claude(HI, thinking={"type": "enabled", "budget_tokens": 5}),
        "greater than or equal to 1024",
    ),
    "messages: schema that is no object": (
        claude(HI, tools=[{"name": "f", "input_schema": {"type": "string"}}]),
        "Input should be 'object'",
    ),
    "responses: field of another protocol": (respond(HI, max_tokens=5), "Unknown parameter"),
    "responses: call without output": (respond(HI, CALL_ITEM), "No tool output found"),
    "responses: output without call": (respond(HI, OUTPUT_ITEM), "No tool call found"),
    "responses: reasoning alone": (
        respond(HI, REASONING_ITEM, user("x")),
        "without its required following item",
    ),
    "responses: foreign signature": (
        respond(HI, {**REASONING_ITEM, "encrypted_content": "bm9uZQ=="}, assistant("x"), HI),
        "could not be verified",
    ),
    "responses: wrong part": (
        respond(user([{"type": "text", "text": "x"}])),
        "Invalid value: 'text'",
    ),
    "responses: open schema": (
        respond(HI, tools=[{"type": "function", **FUNCTION}]),
        "'additionalProperties' is required",
    ),
    "gemini: no contents": (gemini(), "contents is not specified"),
    "gemini: unknown role": (gemini({"role": "assistant", "parts": [{"text": "x"}]}), "valid role"),
    "gemini: no parts": (gemini({"role": "user", "parts": []}), "must not be empty"),
    "gemini: part without data": (gemini({"parts": [{"thought": True}]}), "must have one"),
    "gemini: response without call": (
        gemini(PARTS, {"parts": [{"functionResponse": {"name": "f", "response": {}}}]}),
        "number of function response parts",
    ),
    "gemini: unknown keyword": (
        gemini(
            PARTS,
            tools=[
                {
                    "functionDeclarations": [
                        {"name": "f", "parameters": {"additionalProperties": False}}
                    ]
                }
            ],
        ),
        "Cannot find field",
    ),
    "ollama: content in parts": (ollama(user([])), "cannot unmarshal array"),
    "ollama: arguments as text": (
        ollama(HI, assistant("", tool_calls=[chat_call()])),
        "cannot unmarshal string",
    ),
    "ollama: unknown format": (ollama(HI, format="xml"), "invalid format"),
}
HEADERS = {
    "authorization": "Bearer k",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A simulator without conditions."""
    async with Simulator() as running:
        yield running


async def post(simulator: Simulator, path: str, body: Any, **headers: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    named = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    named = {name: value for name, value in named.items() if value}
    async with (
        aiohttp.ClientSession(headers=named) as session,
        session.post(simulator.url + path, json=body) as response,
    ):
        return response.status, await response.text()


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_is_refused_as_the_vendor_refuses_it(
    simulator: Simulator, name: str
) -> None:
    """Status 400 and the vendor's sentence; an enqueued turn is not used up."""
    (path, body), sentence = REFUSED[name]
    status, text = await post(simulator, path, body)
    assert (status, sentence in text) == (400, True), text


@pytest.mark.parametrize("name", ["chat", "claude", "respond", "gemini"])
async def test_a_request_without_a_key_is_refused(simulator: Simulator, name: str) -> None:
    """401 or, with Google, 403."""
    path, body = {
        "chat": chat(HI),
        "claude": claude(HI),
        "respond": respond(HI),
        "gemini": gemini(PARTS),
    }[name]
    nothing = {"authorization": "", "x_api_key": "", "x_goog_api_key": ""}
    status, _ = await post(simulator, path, body, **nothing)
    assert status == (403 if name == "gemini" else 401)
    assert (await post(simulator, path, body))[0] == 200


async def test_the_new_version_of_messages_refuses_more(simulator: Simulator) -> None:
    """Sampling parameters, documents of the assistant and citations of the user."""
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    cited = {"type": "text", "text": "x", "citations": [{}]}
    for path, body in (
        claude(HI, temperature=0.5),
        claude(HI, assistant([document]), HI),
        claude(user([cited])),
    ):
        assert (await post(simulator, path, body))[0] == 200
        refused = await post(simulator, path, body, anthropic_version="2026-10-21")
        assert refused[0] == 400


VENDORS: dict[str, tuple[tuple[str, Any], str]] = {
    "mistral": (
        chat(
            HI,
            assistant(None, tool_calls=[chat_call()]),
            {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        ),
        "with a length of 9",
    ),
    "deepseek": (
        chat(
            HI,
            assistant(None, tool_calls=[chat_call()]),
            {"role": "tool", "tool_call_id": "call_1", "content": "x"},
            tools=[{"type": "function", "function": {"name": "f"}}],
        ),
        "must be passed back",
    ),
    "perplexity": (chat(HI, assistant("x")), "Last message must have role"),
    "openrouter": (
        chat(HI, assistant("x", reasoning_details=[{"text": "x", "signature": "bm9uZQ=="}]), HI),
        "Invalid `signature`",
    ),
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_vendors_refuse_what_openai_takes(simulator: Simulator, vendor: str) -> None:
    """With the quirk the request is refused, without it is answered."""
    (path, body), sentence = VENDORS[vendor]
    status, text = await post(simulator, path, body, x_simulate=vendor)
    assert (status, sentence in text) == (400, True), text
    assert (await post(simulator, path, body))[0] == 200 or vendor == "openrouter"


async def test_messages_of_one_role_are_merged(simulator: Simulator) -> None:
    """As Anthropic does, before pairs are looked for."""
    messages = [HI, assistant([tool_use("a")]), assistant([tool_use("b")])]
    results = [user([tool_result("a")]), user([tool_result("b")])]
    status, text = await post(simulator, *claude(*messages, *results))
    assert status == 200, text


async def test_an_empty_text_is_a_text(simulator: Simulator) -> None:
    """In a turn of the model's, which must not be without."""
    status, text = await post(simulator, *chat(HI, assistant(""), HI))
    assert status == 200, text
    status, text = await post(simulator, *chat(HI, assistant(None), HI))
    assert status == 400, text
