"""``window = "vendor"``: Anthropic and OpenAI compact the conversation themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import CapabilityError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import Native, NativeContent, TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.providers import anthropic, openai_responses
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.vendor_compaction import compact_messages, compact_responses

KINDS: dict[str, Any] = {"anthropic": anthropic, "openai_responses": openai_responses}
MODELS = {"anthropic": "claude-sonnet-4-5", "openai_responses": "gpt-5"}
PROTOCOLS = {"anthropic": "messages", "openai_responses": "responses"}
BLOCKS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "compaction", "content": "They met.", "encrypted_content": "E"},
    "openai_responses": {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [BLOCKS["anthropic"], {"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 4, "output_tokens": 1},
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5",
        "output": [
            BLOCKS["openai_responses"],
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
            },
        ],
        "usage": {"input_tokens": 4, "output_tokens": 1, "total_tokens": 5},
    },
}


def compose(kind: str, *, compacted: bool) -> Request:
    """Return a request; its second answer may have compacted what precedes it."""
    native = Native(protocol=PROTOCOLS[kind], data=msgspec.json.encode(BLOCKS[kind]).decode())
    contents = [TextualContent("Second answer")]
    second = [NativeContent(kind="compaction", native=native), *contents] if compacted else contents
    canisters: list[AnyCanister] = [
        SupervisorCanister("Be brief."),
        UserCanister("First"),
        AssistantCanister("First answer", turn_id="a"),
        UserCanister("Second"),
        AssistantCanister(second, turn_id="b"),
        UserCanister("Third"),
    ]
    return Request(canisters=canisters, controls={"max_tokens": 64}, window="vendor")


async def exchange(directory: Path, kind: str, request: Request) -> tuple[dict[str, Any], Any, Any]:
    """Send a request; return its body, its headers and the response."""
    counterpart = Counterpart([answer_json(msgspec.json.encode(ANSWERS[kind]))])
    context = produce_context(kind, directory, limits=Limits(attempts=1), api_key="canary")
    provider = KINDS[kind].produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model(MODELS[kind])
    response = await model.converse(request, stream=False)
    (sent,) = counterpart.requests
    body: dict[str, Any] = msgspec.json.decode(sent.body)
    return body, sent.headers, response


@pytest.mark.parametrize("kind", KINDS)
async def test_the_vendor_is_asked_to_compact(tmp_path: Path, kind: str) -> None:
    """By its own field, from three quarters of the model's window on."""
    body, headers, _ = await exchange(tmp_path, kind, compose(kind, compacted=False))

    if kind == "anthropic":
        (edit,) = body["context_management"]["edits"]
        assert edit["type"] == "compact_20260112"
        assert edit["trigger"]["value"] >= 50_000
        assert "compact-2026-01-12" in str(headers)
    else:
        (entry,) = body["context_management"]
        assert entry["type"] == "compaction"
        assert entry["compact_threshold"] > 100_000
    plain, _, _ = await exchange(
        tmp_path, kind, attrs.evolve(compose(kind, compacted=False), window="stop")
    )
    assert "context_management" not in plain
    assert len(str(plain.get("messages") or plain["input"])) == len(
        str(body.get("messages") or body["input"])
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_official_packages_know_the_field(tmp_path: Path, kind: str) -> None:
    """Their types have it, with these parts."""
    from anthropic.types.beta import BetaCompact20260112EditParam
    from openai.types.responses.response_create_params import ContextManagement
    from pydantic import ConfigDict, TypeAdapter, with_config

    body, _, _ = await exchange(tmp_path, kind, compose(kind, compacted=True))
    value = body["context_management"]
    (part,) = value["edits"] if kind == "anthropic" else value
    params: Any = BetaCompact20260112EditParam if kind == "anthropic" else ContextManagement
    strict = with_config(ConfigDict(extra="forbid"))(params)

    assert TypeAdapter(strict).validate_python(part) == part


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_compacted_is_not_sent_again(tmp_path: Path, kind: str) -> None:
    """The request begins with the vendor's block; instructions stay."""
    body, _, _ = await exchange(tmp_path, kind, compose(kind, compacted=True))

    text = str(body)
    assert "'compaction'" in text
    assert "First" not in text
    assert "'Second'" not in text
    for kept in ("Be brief.", "Second answer", "Third"):
        assert kept in text


@pytest.mark.parametrize("kind", KINDS)
async def test_the_answer_says_who_can_read_it(tmp_path: Path, kind: str) -> None:
    """The block is part of the conversation, and opaque to other vendors: a loss says so."""
    _, _, response = await exchange(tmp_path, kind, compose(kind, compacted=False))

    (loss,) = response.losses
    assert f"{kind} has compacted the conversation into data that other vendors" in loss.reason
    kinds = [content.type for each in response.canisters for content in each.content]
    assert kinds == ["native", "text"]
    assert response.text == "Hi"


async def test_others_refuse(tmp_path: Path) -> None:
    """In one line, before anything is sent, with the way to go on."""
    from vibe_llms import Model

    with pytest.raises(CapabilityError, match=r"cannot compact .* window = \"summarize\""):
        await Model("scripted:echo", window="vendor").ask("Hello")


def test_fields_of_the_user_stay() -> None:
    """Other edits and betas are kept, and an own compaction is not overridden."""
    edits = [{"type": "clear_tool_uses_20250919"}]
    body = compact_messages(
        {"messages": [], "context_management": {"edits": edits}, "betas": ["a"]}, 100
    )
    assert [each["type"] for each in body["context_management"]["edits"]] == [  # type: ignore[index, call-overload]
        "clear_tool_uses_20250919",
        "compact_20260112",
    ]
    assert body["betas"] == ["a", "compact-2026-01-12"]
    assert compact_messages(body, 100) == body
    own = [{"type": "compaction", "compact_threshold": 5}]
    assert compact_responses({"context_management": own, "input": "Hi"}, 7) == {
        "context_management": own,
        "input": "Hi",
    }


def test_a_failed_compaction_is_no_beginning() -> None:
    """A block without content replaces nothing."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "First"}]},
        {"role": "assistant", "content": [{"type": "compaction", "content": None}]},
        {"role": "user", "content": "Text"},
    ]
    assert compact_messages({"messages": messages}, None)["messages"] == messages
