"""Texts with unknown fields beside them stay texts for all other vendors."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fidelity.conversations import ask, produce_request
from fidelity.parties import BY_NAME
from vibe_llms.dialects.buckets import read_counts
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import ReasoningContent

MORE: Any = [{"annotations": None}, {"annotations": []}, {"score": 0.5, "logprobs": [1]}]


def respond_with_reasoning(
    party: str, more: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an answer with reasoning whose parts have more fields, and its path in a request."""
    if party == "openai":
        inner = [{"type": "text", "text": "Two ", **more}, {"type": "text", "text": "places."}]
        parts = [{"type": "thinking", "thinking": inner}, {"type": "text", "text": "Oslo."}]
        message: Any = {"role": "assistant", "content": parts}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "c", "model": "m", "choices": [choice]}, message
    item: Any = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Places.", **more}],
        "content": [{"type": "reasoning_text", "text": "Two places.", **more}],
    }
    text_part = {"type": "output_text", "text": "Oslo.", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text_part]}
    body = {"id": "r", "model": "m", "status": "completed", "output": [item, message]}
    return {**body, "object": "response"}, item


def find_reasoning(canisters: tuple[AnyCanister, ...]) -> ReasoningContent:
    contents = [content for canister in canisters for content in canister.content]
    [found] = [content for content in contents if isinstance(content, ReasoningContent)]
    return found


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("name", ["openai", "openai_responses"])
def test_reasoning_with_unknown_fields_round_trips(name: str, more: dict[str, Any]) -> None:
    party = BY_NAME[name]
    body, place = respond_with_reasoning(name, more)

    canisters = party.answer(body, "a")
    again = party.nativize(produce_request((ask("Where?"), *canisters, ask("Sure?")))).value

    found = find_reasoning(canisters)
    assert found.text == "Two places."
    assert found.summary == (() if name == "openai" else ("Places.",))
    assert place in (again.get("input") or again["messages"])  # type: ignore[operator]


@pytest.mark.parametrize("name", ["openai", "openai_responses"])
def test_changed_reasoning_is_sent(name: str) -> None:
    party = BY_NAME[name]
    body, _ = respond_with_reasoning(name, {"score": 0.5})
    thought, *others = party.answer(body, "a")
    altered = attrs.evolve(find_reasoning((thought,)), text="One place.", summary=())
    contents = tuple(
        altered if isinstance(content, ReasoningContent) else content for content in thought.content
    )
    item = (ask("Where?"), attrs.evolve(thought, content=contents), *others, ask("Sure?"))

    again = str(party.nativize(produce_request(item)).value)

    assert "One place." in again
    assert "score" not in again


@pytest.mark.parametrize(
    ("losses", "count"),
    [
        *[(12, 12), (12.0, 12), (0.0, 0), (12.5, None), (True, None), (-1.0, None), ("12", None)],
        *[(float("inf"), None), (float("nan"), None), (1e300, None), (None, None)],
    ],
)
def test_a_count_may_have_a_decimal_point(losses: object, count: int | None) -> None:
    """As some gateways write it; other values are no counts."""
    assert read_counts({"tokens": losses}, "tokens") == [count]


@pytest.mark.parametrize("null", ["googleSearch", "functionDeclarations", "code_execution"])
def test_a_null_tool_of_gemini_is_ignored(null: str) -> None:
    """As clients send objects with all fields."""
    item = {"contents": [{"role": "user", "parts": [{"text": "Where?"}]}]}
    tools = [{"functionDeclarations": [{"name": "look"}]}, {"urlContext": {}, null: None}]
    plain = [{"functionDeclarations": [{"name": "look"}]}, {"urlContext": {}}]

    read = BY_NAME["google"].read({**item, "tools": tools})

    assert read.invocables == BY_NAME["google"].read({**item, "tools": plain}).invocables


SCHEMA: Any = {
    "type": "object",
    "properties": {"sea": {"type": "string"}},
    "required": ["sea"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("more", [{}, {"description": "A sea to swim in."}])
@pytest.mark.parametrize("other", ["anthropic", "google", "ollama", "openai_responses"])
def test_the_description_of_a_format_is_kept_or_lost(other: str, more: dict[str, Any]) -> None:
    """Only OpenAI's format has a description."""
    json_schema = {"name": "sea", "strict": True, "schema": SCHEMA, **more}
    form = {"type": "json_schema", "json_schema": json_schema}
    body: Any = {"messages": [{"role": "user", "content": "A sea?"}], "response_format": form}
    request = BY_NAME["openai"].read(body)

    assert BY_NAME["openai"].nativize(request).value["response_format"] == form
    losses = [loss for loss in BY_NAME[other].nativize(request).losses if "native" in loss.path]
    assert ["response_format" in loss.reason for loss in losses] == [True] * len(more)


def test_fields_beside_a_schema_in_the_older_field_stay_there() -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    body: Any = {
        "messages": [{"role": "user", "content": "A sea?"}],
        "max_tokens": 9,
        "output_format": {**form, "note": "x"},
    }
    again = BY_NAME["anthropic"].nativize(BY_NAME["anthropic"].read(body)).value
    assert again["output_config"] == {"format": {**form, "note": "x"}}
