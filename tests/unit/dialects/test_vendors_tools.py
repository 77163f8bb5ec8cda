"""A vendor's own tool is offered only to that vendor, and an impossible choice is reported."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from fidelity.meanings import distil
from support.vendors.hostility import PROTOCOLS
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossKind, Translation

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
OWN: list[tuple[str, dict[str, Any]]] = [
    ("chat_completions", {"type": "openrouter:datetime"}),
    ("chat_completions", {"name": "unknown"}),
    ("generate_content", {"googleMaps": {}}),
    ("generate_content", {"retrieval": {}}),
    ("generate_content", {"fileSearch": {"fileSearchStoreNames": ["s"]}}),
    ("messages", {"type": "bash_20250124", "name": "bash"}),
    ("messages", {"type": "mcp_toolset", "mcp_server_name": "s"}),
    ("ollama_chat", {"type": "x", "name": "y"}),
    ("responses", {"type": "image_generation"}),
    ("responses", {"type": "local_shell"}),
    ("responses", {"type": "file_search", "vector_store_ids": ["vs_1"]}),
]
FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("chat_completions", {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}),
    ("chat_completions", {"function": {"name": "f", "parameters": SCHEMA}}),
    ("chat_completions", {"type": None, "function": {"name": "f", "parameters": SCHEMA}}),
    ("messages", {"name": "f", "input_schema": SCHEMA}),
    ("messages", {"name": "f", "input_schema": SCHEMA, "strict": False}),
    ("messages", {"name": "f", "input_schema": SCHEMA, "strict": True}),
    ("ollama_chat", {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}),
    ("ollama_chat", {"function": {"name": "f", "parameters": SCHEMA}}),
    ("responses", {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}),
]


def read(protocol: str, tool: dict[str, Any]) -> tuple[InvocableDescription, ...]:
    package = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    invocables: tuple[InvocableDescription, ...]
    invocables, _ = package.normalize_invocables({"tools": [tool]}).value
    return invocables


def write(
    protocol: str, invocables: Sequence[InvocableDescription], choice: str = "auto"
) -> Translation[JsonObject]:
    module = importlib.import_module(f"vibe_llms.dialects.{protocol}.calling.invocations")
    nativize = module.nativize_invocables
    wants = "provider" in inspect.signature(nativize).parameters
    translation: Translation[JsonObject] = nativize(
        invocables, choice, **({"provider": "other"} if wants else {})
    )
    return translation


def list_tools(fields: Any) -> list[Any]:
    """Return the tools in the fields of a request."""
    tools: list[Any] = fields.get("tools") or fields.get("toolConfig", {}).get("tools", [])
    return tools


others = pytest.mark.parametrize("other", PROTOCOLS)


@others
@pytest.mark.parametrize(("protocol", "tool"), OWN, ids=repr)
def test_a_vendors_own_tool_is_sent_only_to_its_vendor(
    protocol: str, tool: dict[str, Any], other: str
) -> None:
    """No other vendor would execute it: it is withheld, with a loss."""
    invocables = read(protocol, tool)

    written = write(other, invocables)

    assert ("tools" in written.value) is (other == protocol)
    kinds = [loss.kind for loss in written.losses]
    assert kinds == ([] if other == protocol else [LossKind.WITHHELD])


@others
@pytest.mark.parametrize(("protocol", "tool"), OWN, ids=repr)
def test_a_choice_without_tools_is_reported(
    protocol: str, tool: dict[str, Any], other: str
) -> None:
    """If all tools are withheld, none can be required."""
    (invocable,) = read(protocol, tool)
    for choice in ("required", invocable.name):
        written = write(other, (invocable,), choice)

        if "tools" not in written.value:
            assert "tool_choice" not in written.value
            assert "toolConfig" not in written.value
            assert "invocation_choice" in {loss.path for loss in written.losses}


@pytest.mark.parametrize(("protocol", "tool"), FUNCTIONS, ids=repr)
def test_the_type_of_a_function_is_optional(protocol: str, tool: dict[str, Any]) -> None:
    """Mistral and others let clients omit it."""
    (invocable,) = read(protocol, tool)

    assert (invocable.name, invocable.schema) == ("f", SCHEMA)
    written: Any = write(protocol, (invocable,))
    assert distil(protocol, written.value["tools"]) == distil(protocol, [tool])
    assert written.losses == ()


@others
@pytest.mark.parametrize(("protocol", "tool"), FUNCTIONS, ids=repr)
def test_a_function_is_sent_to_every_vendor(
    protocol: str, tool: dict[str, Any], other: str
) -> None:
    """Its form in the client's request is no loss."""
    written: Any = write(other, read(protocol, tool))

    assert len(list_tools(written.value)) == 1
    assert '"f"' in str(list_tools(written.value)).replace("'", '"')
    # The schema is open: Gemini enforces such a one, and Ollama none.
    is_lost = tool.get("strict") is True and other not in ("generate_content", "messages")
    assert bool(written.losses) is is_lost or protocol == "ollama_chat"


CLOSED = {**SCHEMA, "required": [*SCHEMA["properties"]], "additionalProperties": False}


@pytest.mark.parametrize("other", ["chat_completions", "responses"])
def test_openai_enforces_only_supported_schemas(other: str) -> None:
    """It rejects the enforcement of others, which Anthropic accepts."""
    for schema, is_strict in ((CLOSED, True), (SCHEMA, False)):
        tool = {"name": "f", "input_schema": schema, "strict": True}
        written: Any = write(other, read("messages", tool))
        (written_tool,) = written.value["tools"]
        assert bool(written_tool.get("function", written_tool).get("strict")) is is_strict
        paths = [loss.path for loss in written.losses]
        assert paths == ([] if is_strict else ["invocables[0].enforced"])


@pytest.mark.parametrize("protocol", ["chat_completions", "responses"])
def test_a_clients_enforced_schema_does_not_change_in_its_own_protocol(protocol: str) -> None:
    """OpenAI or another vendor judges it."""
    inner = {"name": "f", "parameters": SCHEMA, "strict": True}
    is_chat = protocol == "chat_completions"
    tool = {"type": "function", **({"function": inner} if is_chat else inner)}
    written: Any = write(protocol, read(protocol, tool))
    assert written.value["tools"] == [tool]
    assert written.losses == ()


GRAMMARS: list[dict[str, Any] | None] = [
    None,
    {"type": "text"},
    {"syntax": "lark", "definition": 'start: "a"+'},
    {"syntax": "regex", "definition": "a+"},
]


def describe_custom(protocol: str, grammar: dict[str, Any] | None) -> dict[str, Any]:
    """Return a custom tool in the protocol's format."""
    named = {"name": "f", "description": "d"}
    is_chat = protocol == "chat_completions"
    if grammar is not None and "type" not in grammar:
        grammar = {"type": "grammar", **({"grammar": grammar} if is_chat else grammar)}
    inner = named if grammar is None else {**named, "format": grammar}
    return {"type": "custom", "custom": inner} if is_chat else {"type": "custom", **inner}


@pytest.mark.parametrize("source", ["chat_completions", "responses"])
@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
@others
def test_a_tool_of_free_text_is_sent_to_other_vendors(
    source: str, other: str, grammar: dict[str, Any] | None
) -> None:
    """A vendor that has such tools gets it with its grammar; in other dialects it is withheld."""
    written: Any = write(other, read(source, describe_custom(source, grammar)))

    if other in ("chat_completions", "responses"):
        assert written.value["tools"] == [describe_custom(other, grammar)]
        assert written.losses == ()
    else:
        assert "tools" not in written.value
        assert LossKind.WITHHELD in [loss.kind for loss in written.losses]


@pytest.mark.parametrize("source", ["chat_completions", "responses"])
def test_an_unknown_format_is_kept_for_its_vendor(source: str) -> None:
    """Other vendors would reject it: it is left out with a loss."""
    tool = describe_custom(source, {"type": "ebnf", "rules": "a"})
    (other,) = {"chat_completions", "responses"} - {source}

    assert write(source, read(source, tool)).value["tools"] == [tool]
    written: Any = write(other, read(source, tool))
    assert written.value["tools"] == [describe_custom(other, None)]
    assert [loss.kind for loss in written.losses] == [LossKind.WITHHELD]


@pytest.mark.parametrize("strict", [True, False, None])
def test_anthropic_gets_strict_only_if_it_is_true(strict: bool | None) -> None:
    """False is the default."""
    tool = {"name": "f", "input_schema": SCHEMA, "strict": strict}

    (invocable,) = read("messages", tool)

    assert invocable.enforced is bool(strict)
    (written,) = write("messages", (invocable,)).value["tools"]  # type: ignore[misc]
    assert written.get("strict", False) is bool(strict)


def test_a_required_call_of_gemini_without_functions_round_trips() -> None:
    """There is no function to choose."""
    package = importlib.import_module("vibe_llms.dialects.generate_content")
    config = {"functionCallingConfig": {"mode": "ANY"}}

    _, choice = package.normalize_invocables(
        {"tools": [{"googleSearch": {}}], "toolConfig": config}
    ).value

    assert choice == "auto"


PLAIN = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, PLAIN),
        ({"type": "object"}, PLAIN),
        ({"type": ["object", "null"]}, PLAIN),
        ({"properties": {"a": {"type": "string"}}}, SCHEMA),
        ({"$ref": "#/$defs/A", "$defs": {"A": SCHEMA}}, {**SCHEMA, "$defs": {"A": SCHEMA}}),
        (SCHEMA, SCHEMA),
    ],
    ids=repr,
)
@others
def test_the_schema_of_arguments_is_an_object_for_every_vendor(
    other: str, schema: dict[str, Any], written: dict[str, Any]
) -> None:
    """Vendors reject an empty schema, or one without properties, as some servers send them."""
    invocable = InvocableDescription(name="f", description="d", schema=schema, enforced=True)

    tool = list_tools(write(other, (invocable,)).value)[0]

    own = tool.get("function") or tool.get("toolSpec") or tool
    function = (tool.get("functionDeclarations") or [own])[0]
    names = ("parametersJsonSchema", "input_schema", "parameters", "inputSchema")
    found = next(function[name] for name in names if name in function)
    assert found == ({"json": written} if other == "bedrock" else written)
    assert function.get("strict") is not True  # for all of them are open


UNSAID: list[tuple[str, dict[str, Any]]] = [
    ("chat_completions", {"type": "function", "function": {"name": "f", "parameters": {}}}),
    ("messages", {"name": "f", "input_schema": {"type": "object"}}),
    ("ollama_chat", {"type": "function", "function": {"name": "f", "parameters": {}}}),
    ("responses", {"type": "function", "name": "f", "parameters": {}, "strict": False}),
    (
        "generate_content",
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]},
    ),
]


@pytest.mark.parametrize(("protocol", "tool"), UNSAID, ids=repr)
def test_a_clients_schema_does_not_change_in_its_own_protocol(
    protocol: str, tool: dict[str, Any]
) -> None:
    """Even if other vendors would reject it."""
    invocables = read(protocol, tool)

    written: Any = write(protocol, invocables).value["tools"]

    assert distil(protocol, written) == distil(protocol, [tool])
    assert invocables[0].schema == PLAIN
