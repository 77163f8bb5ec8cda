"""Official packages use their server tools through the gateway, with models of other vendors."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

pytestmark = pytest.mark.slow

MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "google": "google:gemini-3.8-flash",
    "openai": "openai_responses:gpt-5.5",
}
ORIGINALS = {
    "anthropic": ("server_tool_use", "web_search_tool_result", "encrypted_content"),
    "google": ("toolCall", "toolResponse", "GOOGLE_SEARCH_WEB"),
    "openai": ("web_search_call", "sources"),
}
"""Words in a request by which a vendor receives the calls that it executed."""
OFFERED = {
    "anthropic": {"web_search_20250305", "code_execution_20250825"},
    "google": {"googleSearch", "codeExecution"},
    "openai": {"web_search", "code_interpreter"},
}
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@contextlib.asynccontextmanager
async def serve(directory: Path) -> AsyncIterator[tuple[str, Simulator]]:
    """A gateway before simulated vendors."""
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(directory, simulator.url)) as address,
    ):
        yield address, simulator


def list_offered(simulator: Simulator) -> set[str]:
    """Return the tools in the last request of the gateway."""
    tools = simulator.requests[-1].body["tools"]
    return {tool.get("type") or next(iter(tool)) for tool in tools}


def assert_restored(simulator: Simulator, vendor: str) -> None:
    """Check that the vendor gets its own call back, and not what the client was shown."""
    body = json.dumps(simulator.requests[-1].body)
    assert "_vibe_" not in body
    assert [word for word in ORIGINALS[vendor] if word not in body] == []


def list_other(client: str) -> list[str]:
    """Return the vendors other than the client's."""
    return [name for name in MODELS if name != client]


SEARCHING: Any = {"type": "web_search_20260318", "name": "web_search"}
CODING: Any = {"type": "code_execution_20250825", "name": "code_execution"}


@streamed
@pytest.mark.parametrize("vendor", list_other("anthropic"))
async def test_anthropics_package(tmp_path: Path, vendor: str, stream: bool) -> None:
    async with (
        serve(tmp_path) as (address, simulator),
        anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0) as client,
    ):
        messages: list[Any] = [{"role": "user", "content": "Please search."}]

        async def ask() -> anthropic.types.Message:
            fields: Any = {"model": MODELS[vendor], "max_tokens": 99, "messages": messages}
            fields["tools"] = [SEARCHING, CODING]
            if not stream:
                return await client.messages.create(**fields)
            async with client.messages.stream(**fields) as stream_of_events:
                return await stream_of_events.get_final_message()

        found = await ask()
        blocks = [each for each in found.content if "thinking" not in each.type]
        call, result, text = blocks[:3]
        assert isinstance(call, anthropic.types.ServerToolUseBlock)
        assert (call.name, call.input) == ("web_search", {"query": "Please search."})
        assert isinstance(result, anthropic.types.WebSearchToolResultBlock)
        assert result.tool_use_id == call.id
        assert isinstance(result.content, list)
        assert [page.url for page in result.content] == [
            "https://example.com/one",
            "https://example.com/two",
        ]
        assert isinstance(text, anthropic.types.TextBlock)
        (citation,) = text.citations or ()
        assert isinstance(citation, anthropic.types.CitationsWebSearchResultLocation)
        assert citation.url == "https://example.com/one"
        assert list_offered(simulator) == OFFERED[vendor]
        assert found.usage.server_tool_use is not None
        assert found.usage.server_tool_use.web_search_requests == 1

        messages += [
            {"role": "assistant", "content": found.content},
            {"role": "user", "content": "Please calculate."},
        ]
        calculated = await ask()
        assert_restored(simulator, vendor)
        call, result, text = [e for e in calculated.content if "thinking" not in e.type][:3]
        assert isinstance(call, anthropic.types.ServerToolUseBlock)
        assert (call.name, call.input) == ("code_execution", {"code": "print(6 * 7)"})
        assert isinstance(result, anthropic.types.CodeExecutionToolResultBlock)
        assert isinstance(result.content, anthropic.types.CodeExecutionResultBlock)
        assert (result.content.stdout, result.content.return_code) == ("42\n", 0)
        assert isinstance(text, anthropic.types.TextBlock)
        assert text.text == "It is 42."


@streamed
@pytest.mark.parametrize("vendor", list_other("openai"))
async def test_openais_package(tmp_path: Path, vendor: str, stream: bool) -> None:
    async with (
        serve(tmp_path) as (address, simulator),
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        given: list[Any] = [{"role": "user", "content": "Please search."}]

        async def ask() -> Any:
            tools: Any = [
                {"type": "web_search"},
                {"type": "code_interpreter", "container": {"type": "auto"}},
            ]
            fields: Any = {"model": MODELS[vendor], "input": given, "tools": tools, "store": False}
            if not stream:
                return await client.responses.create(**fields)
            async with client.responses.stream(**fields) as events:
                return await events.get_final_response()

        found = await ask()
        call, message = [each for each in found.output if each.type != "reasoning"]
        assert call.type == "web_search_call"
        assert call.action.query == "Please search."
        assert [source.url for source in call.action.sources] == [
            "https://example.com/one",
            "https://example.com/two",
        ]
        (annotation,) = message.content[0].annotations
        assert (annotation.url, annotation.start_index, annotation.end_index) == (
            "https://example.com/one",
            0,
            len("The web says so."),
        )
        assert list_offered(simulator) == OFFERED[vendor]

        given += [*found.output, {"role": "user", "content": "Please calculate."}]
        calculated = await ask()
        assert_restored(simulator, vendor)
        call, message = [each for each in calculated.output if each.type != "reasoning"]
        assert (call.type, call.code) == ("code_interpreter_call", "print(6 * 7)")
        assert [output.logs for output in call.outputs] == ["42\n"]
        assert calculated.output_text == "It is 42."


@streamed
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("vendor", list_other("google"))
async def test_googles_package(tmp_path: Path, vendor: str, stream: bool) -> None:
    async with serve(tmp_path) as (address, simulator):
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read all authorities takes long
        arguments = {"verify": trust, "ssl": trust}
        options = types.HttpOptions(
            base_url=address, client_args=arguments, async_client_args=arguments
        )
        client = genai.Client(api_key="k", http_options=options)

        async def ask(words: str, *, shows: bool) -> list[Any]:
            config = types.GenerateContentConfig(
                tools=[
                    types.Tool(google_search=types.GoogleSearch()),
                    types.Tool(code_execution=types.ToolCodeExecution()),
                ],
                tool_config=types.ToolConfig(include_server_side_tool_invocations=shows or None),
            )
            call: Any = {"model": MODELS[vendor], "contents": words, "config": config}
            if not stream:
                chunks = [await client.aio.models.generate_content(**call)]
            else:
                chunks = [
                    chunk async for chunk in await client.aio.models.generate_content_stream(**call)
                ]
            metadata = [
                chunk.candidates[0].grounding_metadata
                for chunk in chunks
                if chunk.candidates[0].grounding_metadata
            ]
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
            shown = [part for part in parts if not part.thought]
            text = "".join(part.text for part in shown if part.text)
            return [*metadata, *(part for part in shown if part.text is None), text]

        grounding, text = await ask("Please search.", shows=False)
        (chunk,) = grounding.grounding_chunks
        assert (chunk.web or chunk.retrieved_context).uri == "https://example.com/one"
        assert text == "The web says so."
        assert list_offered(simulator) == OFFERED[vendor]

        _, call, result, text = await ask("Please search.", shows=True)
        assert call.tool_call.args == {"queries": ["Please search."]}
        assert result.tool_response.id == call.tool_call.id
        assert [page["url"] for page in result.tool_response.response["results"]] == [
            "https://example.com/one",
            "https://example.com/two",
        ]

        code, result, text = await ask("Please calculate.", shows=False)
        assert code.executable_code.code == "print(6 * 7)"
        assert (result.code_execution_result.outcome, result.code_execution_result.output) == (
            "OUTCOME_OK",
            "42\n",
        )
        assert text == "It is 42."
        await client.aio.aclose()


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")  # interactions are experimental
@pytest.mark.parametrize("vendor", list_other("google"))
async def test_googles_interactions(tmp_path: Path, vendor: str) -> None:
    async with serve(tmp_path) as (address, simulator):
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read all authorities takes long
        arguments = {"verify": trust, "ssl": trust}
        options = types.HttpOptions(
            base_url=address, client_args=arguments, async_client_args=arguments
        )
        client = genai.Client(api_key="k", http_options=options)
        tools: Any = [{"type": "google_search"}, {"type": "code_execution"}]

        async def ask(words: str) -> list[Any]:
            answer: Any = await client.aio.interactions.create(
                model=MODELS[vendor], input=words, tools=tools, store=False
            )
            return [step for step in answer.steps if step.type not in ("thought", "user_input")]

        call, result, output = await ask("Please search.")
        assert (call.type, call.arguments.queries) == ("google_search_call", ["Please search."])
        assert (result.type, result.call_id) == ("google_search_result", call.id)
        assert output.content[0].annotations[0].url == "https://example.com/one"
        assert list_offered(simulator) == OFFERED[vendor]

        call, result, output = await ask("Please calculate.")
        assert (call.type, call.arguments.code) == ("code_execution_call", "print(6 * 7)")
        assert (result.type, result.result) == ("code_execution_result", "42\n")
        assert output.content[0].text == "It is 42."
        await client.aio.aclose()


@pytest.mark.parametrize("vendor", [*MODELS])
async def test_the_web_search_of_chat_completions(tmp_path: Path, vendor: str) -> None:
    """The protocol shows its sources alone."""
    async with (
        serve(tmp_path) as (address, simulator),
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        answer = await client.chat.completions.with_raw_response.create(
            model=MODELS[vendor],
            messages=[{"role": "user", "content": "Please search."}],
            web_search_options={},
        )
        (choice,) = answer.parse().choices
        (annotation,) = choice.message.annotations or ()
        assert annotation.url_citation.url == "https://example.com/one"
        assert (choice.message.content or "").strip() == "The web says so."
        losses = json.loads(answer.headers["x-vibe-losses"])
        assert [loss for loss in losses if "vendor executed" in loss]
    (tool,) = simulator.requests[-1].body["tools"]
    assert (tool.get("type") or next(iter(tool))) in OFFERED[vendor]
