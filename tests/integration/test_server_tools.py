"""Server tools over real sockets: from Python, through an engine and through the gateway."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.gateways.gateways import produce_application
from support.vendors.shipped import SHIPPED
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.exceptions import TranslationLossError
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model
from vibe_llms.invocables.invokers import invocable
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import ReasoningContent, TextualContent
from vibe_llms.messages.requests import Response
from vibe_llms.messages.server_tools import ServerTool
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator import Compute, Invoke, Say, ScriptedAnswer, Simulator

pytestmark = pytest.mark.slow


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendors."""
    async with Simulator() as running:
        yield running


MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "google": "gemini-3.8-flash",
    "google_interactions": "gemini-3.8-flash",
    "openai_responses": "gpt-5.5",
}


@contextlib.asynccontextmanager
async def produce_model(simulator: Simulator, directory: Path, vendor: str) -> AsyncIterator[Model]:
    """A model of a simulated vendor."""
    application = produce_application(directory, simulator.url)
    model = Model(f"{vendor}:{MODELS[vendor]}", application=application)
    yield model
    await model.close()


@pytest.mark.parametrize(
    ("vendor", "tool"),
    [
        ("anthropic", {"type": "web_search_20250305", "name": "web_search"}),
        ("openai_responses", {"type": "web_search"}),
        ("google", {"googleSearch": {}}),
        ("google_interactions", {"type": "google_search"}),
    ],
)
async def test_a_model_offers_its_vendors_own(
    simulator: Simulator, tmp_path: Path, vendor: str, tool: dict[str, Any]
) -> None:
    async with produce_model(simulator, tmp_path, vendor) as model:
        response = await model.ask("Hello.", tools=[ServerTool("web_search")])

    assert simulator.requests[-1].body["tools"] == [tool]
    assert [loss for loss in response.losses if "invocables" in loss.path] == []


async def test_with_strict_a_missing_tool_is_an_error(simulator: Simulator, tmp_path: Path) -> None:
    async with produce_model(simulator, tmp_path, "openai_responses") as model:
        with pytest.raises(TranslationLossError, match="no maps"):
            await model.ask("Hello.", tools=ServerTool("maps"), strict=True)
    assert simulator.requests == []


@pytest.mark.parametrize("vendor", ["anthropic", "openai_responses"])
async def test_an_engine_executes_the_tools_of_the_caller(
    simulator: Simulator, tmp_path: Path, vendor: str
) -> None:
    """The vendor's own tool at Anthropic, and a function in its place at OpenAI."""

    @invocable(source=ServerTool("memory"))
    def memory(command: str, path: str) -> str:
        """Read and write notes."""
        return f"{command} {path}"

    arguments = {"command": "view", "path": "/memories"}
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("memory", arguments),)), ScriptedAnswer(parts=(Say("Done."),))
    )
    model = await SHIPPED[vendor].access(simulator.url, tmp_path)

    outcome = await Engine(model, [memory, ServerTool("web_search")]).answer("Remember this.")

    call, result, _ = outcome.canisters
    assert isinstance(call, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert text_of(result) == "view /memories"
    offered, searching = simulator.requests[0].body["tools"]
    assert offered["type"] == ("memory_20250818" if vendor == "anthropic" else "function")
    assert searching["type"].startswith("web_search")
    await model._client.close()  # type: ignore[attr-defined]


vendors = pytest.mark.parametrize("vendor", [*MODELS])
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
SOURCES = [
    ("The first source", "https://example.com/one"),
    ("The second source", "https://example.com/two"),
]


def leave_out_thoughts(
    response: Response,
) -> tuple[InvocationCanister, ResultCanister, AssistantCanister]:
    """Return the call, its result, and the answer without Google's thoughts."""
    thoughts = [
        each
        for each in response.canisters
        if each.content and all(isinstance(one, ReasoningContent) for one in each.content)
    ]
    call, result, answer = (each for each in response.canisters if each not in thoughts)
    assert isinstance(call, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert isinstance(answer, AssistantCanister)
    contents = [each for each in answer.content if not isinstance(each, ReasoningContent)]
    return call, result, attrs.evolve(answer, content=contents)


@vendors
@streamed
async def test_every_vendors_search_has_the_same_contents(
    simulator: Simulator, tmp_path: Path, vendor: str, stream: bool
) -> None:
    async with produce_model(simulator, tmp_path, vendor) as model:
        response = await model.ask(
            "Please search.", tools=[ServerTool("web_search")], stream=stream
        )

    call, result, answer = leave_out_thoughts(response)
    assert (call.name, call.owner, result.name, result.owner) == (
        "web_search",
        Owner.VENDOR,
        "web_search",
        Owner.VENDOR,
    )
    assert "Please search." in call.parse_arguments().get("query", call.arguments)  # type: ignore[operator]
    sources = [citation for content in result.content for citation in content.citations]
    assert [source.url for source in sources] == [url for _, url in SOURCES]
    if vendor != "openai_responses":  # which gives no titles
        assert [(source.title, source.url) for source in sources] == SOURCES
    assert response.text == "The web says so."
    text = answer.content[0]  # Gemini may add an empty one with its signature
    assert isinstance(text, TextualContent)
    assert (text.text, [each.url for each in text.citations]) == (
        "The web says so.",
        ["https://example.com/one"],
    )


@vendors
@streamed
@pytest.mark.parametrize("failed", [False, True])
async def test_every_vendors_code_has_the_same_contents(
    simulator: Simulator, tmp_path: Path, vendor: str, stream: bool, failed: bool
) -> None:
    simulator.enqueue(
        ScriptedAnswer(parts=(Compute("print(1)", "1\n", failed=failed), Say("One.")))
    )
    async with produce_model(simulator, tmp_path, vendor) as model:
        response = await model.ask("Go.", tools=[ServerTool("code_execution")], stream=stream)

    call, result, answer = leave_out_thoughts(response)
    assert (call.name, call.owner) == (result.name, result.owner) == ("code_execution", "vendor")
    assert "print(1)" in call.arguments
    assert text_of(result) == "1\n"
    assert result.is_error is (failed and vendor != "openai_responses")  # which has no such mark
    assert text_of(answer) == response.text == "One."


@vendors
async def test_the_vendor_gets_its_calls_back_unchanged(
    simulator: Simulator, tmp_path: Path, vendor: str
) -> None:
    conversation = Conversation()
    conversation.add_user_message("Please search.")
    async with produce_model(simulator, tmp_path, vendor) as model:
        tools = [ServerTool("web_search"), ServerTool("code_execution")]
        for prompt in ("Please calculate.", "Thanks."):
            response = await model.ask(conversation, tools=tools)
            conversation.add_canisters(response.canisters)
            conversation.add_user_message(prompt)
        response = await model.ask(conversation, tools=tools)

    paths = [loss.path for loss in response.losses]
    assert [path for path in paths if "citations" not in path] == []  # Gemini takes none back
    sent = json.dumps(simulator.requests[-1].body)
    for word in {
        "anthropic": ("web_search_tool_result", "bash_code_execution", "encrypted_content"),
        "openai_responses": ("web_search_call", "code_interpreter_call", "sources"),
        "google": ("toolResponse", "executableCode", "GOOGLE_SEARCH_WEB"),
        "google_interactions": ("google_search_result", "code_execution_call"),
    }[vendor]:
        assert word in sent


async def test_gemini_shows_calls_since_its_third_generation(
    simulator: Simulator, tmp_path: Path
) -> None:
    application = produce_application(tmp_path, simulator.url)
    for name, is_shown in (("gemini-3.8-flash", True), ("gemini-2.5-flash", False)):
        model = Model(f"google:{name}", application=application)
        await model.ask("Hello.", tools=[ServerTool("web_search")])
        config = simulator.requests[-1].body.get("toolConfig", {})
        assert config.get("includeServerSideToolInvocations", False) is is_shown
        await model.close()
