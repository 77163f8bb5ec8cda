"""Clients send the same tools with each request; their descriptions are the same objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vibe_llms.dialects import (
    bedrock,
    chat_completions,
    generate_content,
    interactions,
    messages,
    responses,
)
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.descriptions import InvocableDescription

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
CLIENTS: dict[str, tuple[Any, Any]] = {
    "chat_completions": (chat_completions, {"type": "function", "function": FUNCTION}),
    "bedrock": (
        bedrock,
        {"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": SCHEMA}}},
    ),
    "generate_content": (generate_content, {"functionDeclarations": [FUNCTION]}),
    "interactions": (interactions, {"type": "function", **FUNCTION}),
    "messages": (messages, {"name": "look", "description": "Looks.", "input_schema": SCHEMA}),
    "responses": (responses, {"type": "function", **FUNCTION}),
}

each_client = pytest.mark.parametrize("name", CLIENTS)


def read(name: str, tool: Any) -> InvocableDescription:
    """Return the description of the only tool of a request."""
    dialect, _ = CLIENTS[name]
    native = {"toolConfig": {"tools": [tool]}} if name == "bedrock" else {"tools": [tool]}
    ((description,), _) = dialect.normalize_invocables(native).value
    return description  # type: ignore[no-any-return]


def describe(tool: Any, text: str) -> Any:
    """Return a copy of a tool with another description."""
    if isinstance(tool, dict):
        return {
            name: text if name == "description" else describe(value, text)
            for name, value in tool.items()
        }
    return [describe(each, text) for each in tool] if isinstance(tool, list) else tool


@each_client
def test_an_equal_tool_has_the_same_description(name: str) -> None:
    """So its translation for a vendor is found again, too."""
    _, tool = CLIENTS[name]
    first = read(name, copy.deepcopy(tool))

    assert read(name, copy.deepcopy(tool)) is first
    assert first.description == "Looks."
    assert first.schema is not None
    assert first.schema["properties"] == SCHEMA["properties"]


@each_client
def test_another_tool_has_another_description(name: str) -> None:
    """Even if only one character differs."""
    _, tool = CLIENTS[name]
    first = read(name, tool)

    assert read(name, describe(tool, "Looks!")).description == "Looks!"
    assert read(name, tool) is first


@each_client
def test_long_tools_are_read_each_time(name: str) -> None:
    """So that what is kept for all clients is bounded."""
    _, tool = CLIENTS[name]
    long_tool = describe(tool, "Looks. " * 1_000)
    first, second = read(name, long_tool), read(name, copy.deepcopy(long_tool))

    assert first == second
    assert first is not second


@each_client
def test_a_kept_description_does_not_change_with_the_request(name: str) -> None:
    """A client's request is plain data that others may change."""
    _, tool = CLIENTS[name]
    sent = describe(tool, f"Looks for {name}.")
    first = read(name, sent)
    for part in _survey(sent):
        part.clear()

    assert first.schema is not None
    assert first.schema["properties"] == {"place": {"type": "string"}}


@each_client
@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"rain"])
def test_values_that_json_cannot_represent_are_refused(name: str, value: object) -> None:
    """And are not replaced by values that encoders of JSON write instead."""
    _, tool = CLIENTS[name]
    sent = copy.deepcopy(tool)
    place = next(each["place"] for each in _survey(sent) if "place" in each)
    place["default"] = value

    with pytest.raises(RequestError, match="JSON cannot represent"):
        read(name, sent)


def _survey(node: Any) -> list[dict[str, Any]]:
    """Return all objects in plain data, the innermost first."""
    if isinstance(node, dict):
        return [*(each for value in node.values() for each in _survey(value)), node]
    return [each for value in node for each in _survey(value)] if isinstance(node, list) else []


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("interactions", {"input": "Hi", "tools": [{"type": "function", **FUNCTION}] * 2}),
        (
            "generate_content",
            {
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "tools": [{"functionDeclarations": [FUNCTION, FUNCTION]}],
            },
        ),
    ],
)
def test_two_tools_of_one_name_are_refused(name: str, native: dict[str, Any]) -> None:
    """Where a dialect does not keep the second one as the vendor's own."""
    dialect, _ = CLIENTS[name]
    with pytest.raises(RequestError, match="look"):
        dialect.normalize_request(native)
