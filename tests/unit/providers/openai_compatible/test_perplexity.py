"""Perplexity: roles take turns, sources become citations, and there are no tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.dialects.extras import make_native
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.openai_compatible import produce_provider

SOURCE = {"title": "T", "url": "https://example.org", "snippet": "S"}
ANSWER = {
    "id": "chat-1",
    "model": "sonar",
    "citations": ["https://example.org"],
    "search_results": [SOURCE],
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Yes [1]."},
            "delta": {"role": "assistant", "content": ""},
            "finish_reason": "stop",
        }
    ],
}


async def ask(directory: Path, request: Request) -> tuple[Response, dict[str, Any]]:
    """Asks a service that a function plays."""
    counterpart = Counterpart([answer_json(json.dumps(ANSWER).encode())])
    provider: Any = produce_provider(produce_context("perplexity", directory, api_key="k"))
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("sonar")
    response = await model.converse(request, stream=False)
    return response, msgspec.json.decode(counterpart.requests[0].body)


async def test_sources_become_citations_of_the_text(tmp_path: Path) -> None:
    """Once each, and whole beside the response."""
    response, _ = await ask(tmp_path, Request(canisters=[UserCanister("?")]))

    (text,) = response.canisters[0].content
    assert isinstance(text, TextualContent)
    assert [(each.title, each.url) for each in text.citations] == [("T", "https://example.org")]
    assert response.metadata.native is not None
    assert json.loads(response.metadata.native.data)["search_results"] == [SOURCE]


@pytest.mark.slow
async def test_user_and_assistant_take_turns(tmp_path: Path) -> None:
    """Neighbours of one role are joined, and the user begins; each change is told."""
    canisters = (AssistantCanister("Hello."), UserCanister("One."), UserCanister("Two."))
    response, body = await ask(tmp_path, Request(canisters=canisters))

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"] == "One.\n\nTwo."
    assert [str(loss.kind) for loss in response.losses] == ["synthesized", "coerced"]


async def test_the_search_is_steered_by_the_native_of_a_request(tmp_path: Path) -> None:
    """What has no common word goes as it is; tools do not go."""
    steering = {"search_mode": "academic", "search_domain_filter": ["example.org"]}
    tool = InvocableDescription(name="f", description="Does.", schema={"type": "object"})
    request = Request(
        canisters=[UserCanister("?")],
        invocables=[tool],
        native=make_native("chat_completions", steering),
    )
    response, body = await ask(tmp_path, request)

    assert steering.items() <= body.items()
    assert "tools" not in body
    assert [loss.path for loss in response.losses] == ["invocables[0]"]


async def test_the_models_are_known_by_name(tmp_path: Path) -> None:
    """The vendor has no list of them."""
    client = produce_provider(produce_context("perplexity", tmp_path)).produce_client()

    assert tuple(model.name for model in await client.survey_models()) == (
        "sonar",
        "sonar-pro",
        "sonar-reasoning-pro",
        "sonar-deep-research",
    )
