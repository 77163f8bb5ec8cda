"""Services by data alone: the rows that ship, a user's own, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.dialects.chat_completions import Quirks
from vibe_llms.exceptions import ConfigurationError, ProviderError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.openai_compatible import produce_provider
from vibe_llms.providers.openai_compatible.kinds import QUIRKS, add_quirks, read_services
from vibe_llms.tables.reading import TableReader, locate_by_name

ANSWER = {
    "id": "chat-1",
    "model": "m",
    "choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}],
}
TURN: tuple[AnyCanister, ...] = (
    SupervisorCanister("Be brief."),
    UserCanister("Now?"),
    InvocationCanister(invocation_id="call_1-long", name="clock", arguments="{}"),
    ResultCanister("noon", invocation_id="call_1-long", name="clock"),
    UserCanister("And then?"),
)


async def ask(
    directory: Path, name: str, request: Request, **settings: Any
) -> tuple[Response, dict[str, Any], str]:
    """Asks a service that a function plays; returns its answer, and the body and URL it got."""
    counterpart = Counterpart([answer_json(json.dumps(ANSWER).encode())])
    settings = {"api_key": "canary", **settings}
    limits = Limits(attempts=1)
    provider: Any = produce_provider(produce_context(name, directory, limits=limits, **settings))
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("m")
    response = await model.converse(request, stream=False)
    (sent,) = counterpart.requests
    return response, msgspec.json.decode(sent.body), sent.url


def test_the_kinds_that_ship_are_in_order() -> None:
    """Each says where it is and where that was read; the local one takes no key."""
    kinds = read_services()

    assert {"deepseek", "groq", "llamacpp", "mistral", "openrouter", "xai"} < set(kinds)
    assert len(kinds) >= 30
    assert kinds["llamacpp"].key_variables == ()
    assert all(kind.source and kind.date and kind.base_url for kind in kinds.values())


def test_mistakes_in_a_file_of_kinds_are_said_all_at_once(tmp_path: Path) -> None:
    """Wrong fields, wrong quirks and wrong values, each with the nearest right word."""
    file = tmp_path / "kinds.toml"
    file.write_text(
        """
        [broken]
        summary = "x"
        adress = "y"
        key_variables = "KEY"
        [broken.quirks]
        reasoning_fields = "x"
        takes_parts = "yes"
        schema_form = "xml"
        media = []
        maximum_stops = true
        """,
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as caught:
        read_services(file)

    text = str(caught.value)
    for word in ("adress", "base_url", "source", "date", "key_variables", "reasoning_field"):
        assert word in text
    for word in ("takes_parts", "json_object", "media", "maximum_stops"):
        assert word in text
    assert len(caught.value.findings) == 10
    assert len(set(caught.value.findings)) == 10


def read(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reads a table of quirks in which nothing is wrong."""
    reader = TableReader(locate_by_name())
    values: Mapping[str, Any] = QUIRKS.read(table, ("quirks",), reader)
    assert not reader.findings
    return values


def test_a_quirk_without_a_value_is_said_by_a_word() -> None:
    """TOML has none for it."""
    quirks = add_quirks(Quirks(), read({"maximum_stops": "none", "reasoning_field": "none"}))

    assert quirks.maximum_stops is None
    assert quirks.reasoning_field is None


def test_fields_are_added_to_those_of_the_kind() -> None:
    """A user who names one keeps the others."""
    base = Quirks(fields={"seed": "random_seed"})
    quirks = add_quirks(base, read({"fields": {"top_k": "k"}}))

    assert quirks.fields["seed"] == "random_seed"
    assert quirks.fields["top_k"] == "k"


async def test_mistral_is_asked_as_it_wants(tmp_path: Path) -> None:
    """Ids of nine letters, named results, a word between a result and the user."""
    response, body, url = await ask(tmp_path, "mistral", Request(canisters=TURN))

    roles = [message["role"] for message in body["messages"]]
    assert url == "https://api.mistral.ai/v1/chat/completions"
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    (call,) = body["messages"][2]["tool_calls"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert body["messages"][3]["tool_call_id"] == call["id"]
    assert body["messages"][3]["name"] == "clock"
    assert sorted(str(loss.kind) for loss in response.losses) == ["coerced", "synthesized"]


async def test_deepseek_gets_the_reasoning_it_insists_on(tmp_path: Path) -> None:
    """With invocations, even where another vendor's model thought nothing aloud."""
    thought = AssistantCanister((ReasoningContent(text="Hm."), TextualContent("So.")))
    request = Request(canisters=(*TURN[:-1], thought, UserCanister("And then?")))
    _, body, _ = await ask(tmp_path, "deepseek", request)

    assert body["messages"][2]["reasoning_content"] == ""
    assert body["messages"][4]["reasoning_content"] == "Hm."


async def test_deepseek_is_told_a_schema_in_words(tmp_path: Path) -> None:
    """It holds its answers to JSON, and to no schema."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = Request(canisters=[UserCanister("?")], schema=schema)
    response, body, _ = await ask(tmp_path, "deepseek", request)

    assert body["response_format"] == {"type": "json_object"}
    assert '"properties"' in body["messages"][0]["content"]
    assert [loss.path for loss in response.losses] == ["schema"]


async def test_openrouter_has_its_own_place_for_effort(tmp_path: Path) -> None:
    """Within an object of its own."""
    request = Request(canisters=[UserCanister("?")], controls={"reasoning_effort": "low"})
    _, body, _ = await ask(tmp_path, "openrouter", request)

    assert body["reasoning"] == {"effort": "low"}
    assert "reasoning_effort" not in body


async def test_a_service_of_the_users_own_needs_but_an_address(tmp_path: Path) -> None:
    """Its quirks are a table of the configuration."""
    quirks = {"supervisor_roles": ["developer"]}
    address = "https://example.org/v9"
    settings: dict[str, Any] = {"base_url": address, "quirks": quirks}
    _, body, url = await ask(tmp_path, "mine", Request(canisters=TURN), **settings)

    assert url == f"{address}/chat/completions"
    assert body["messages"][0]["role"] == "developer"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs a base_url"),
        ({"kind": "grok"}, "groq"),
        ({"base_url": "https://x.org", "quirks": {"take_parts": True}}, "takes_parts"),
    ],
)
def test_mistakes_in_the_settings_name_the_remedy(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    """No address, an unknown kind, a misspelt quirk."""
    provider: Any = produce_provider(produce_context("mine", tmp_path, **settings))
    with pytest.raises(ConfigurationError, match=words):
        provider.produce_client()


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_call_that_groq_could_not_read_is_asked_for_again(
    tmp_path: Path, streaming: bool
) -> None:
    """Its model wrote something else than a call; the request is not to blame."""
    refusal = {
        "message": "Failed to call a function. See 'failed_generation' for more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "<function=clock{}",
    }
    refused = answer_json(json.dumps({"error": refusal}).encode(), 400)
    answer = answer_json(json.dumps(ANSWER).encode())
    counterpart = Counterpart([refused, answer])
    provider: Any = produce_provider(produce_context("groq", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("m")
    request = Request(canisters=[UserCanister("Now?")])

    response = await model.converse(request, stream=streaming)

    assert (response.text, response.metadata.attempts) == ("Yes.", 2)
    counterpart.answers[:] = [refused] * 3
    with pytest.raises(ProviderError, match="failed_generation: <function=clock") as caught:
        await model.converse(request, stream=streaming)
    assert caught.value.sent == 3
