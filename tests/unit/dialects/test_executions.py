"""Calls that another vendor executed are shown to clients, and never sent to the wrong vendor."""

from __future__ import annotations

import importlib
import json
from typing import Any

import attrs
import pytest

from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.server_results import read_pages
from vibe_llms.dialects.serving import UNKNOWN_MODEL
from vibe_llms.dialects.signatures import SealedData, is_wrapped, read_sealed, seal
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.codec.canister_lines import encode_canister
from vibe_llms.messages.contents import Citation, TextualContent
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

ELSEWHERE = Origin(
    provider="x", model="m", protocol="elsewhere", stop_reason=StopReason.ANSWERED, response_id="r"
)


def execute(
    name: str, arguments: str, *contents: Any, form: str = "json", native: Any = None
) -> list[Any]:
    """Return a call that another vendor executed, and its result."""
    call = InvocationCanister(
        invocation_id="c-1",
        name=name,
        arguments=arguments,
        form=form,  # type: ignore[arg-type]
        owner=Owner.VENDOR,
        origin=ELSEWHERE,
        native=native,
    )
    result = ResultCanister(
        contents, invocation_id="c-1", name=name, owner=Owner.VENDOR, origin=ELSEWHERE
    )
    return [call, result]


MCP = make_native("messages", {"type": "mcp_tool_use", "server_name": "wiki", "name": "look"})
PAGES = read_pages([{"title": "T", "url": "https://a.org"}])
CALLS = {
    "web_search": execute("web_search", '{"query": "q"}', *PAGES),
    "web_fetch": execute("web_fetch", '{"url": "https://a.org"}', *PAGES),
    "code_execution": execute("code_execution", "print(1)", "1", form="text"),
    "file_search": execute("file_search", '{"queries": ["q"]}', "found"),
    "mcp": execute("look", '{"at": 1}', "seen", native=MCP),
    "other": execute("advisor", "{}", "said"),
}
SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "messages": {
        "web_search": ("server_tool_use", "web_search_tool_result"),
        "web_fetch": ("server_tool_use", "web_fetch_tool_result"),
        "code_execution": ("server_tool_use", "code_execution_tool_result"),
    },
    "responses": {
        "web_search": ("web_search_call",),
        "web_fetch": ("web_search_call",),
        "code_execution": ("code_interpreter_call",),
        "file_search": ("file_search_call",),
        "mcp": ("mcp_call",),
    },
    "generate_content": {"code_execution": ("executableCode", "codeExecutionResult")},
    "interactions": {
        "web_search": ("google_search_call", "google_search_result"),
        "web_fetch": ("url_context_call", "url_context_result"),
        "code_execution": ("code_execution_call", "code_execution_result"),
    },
    "chat_completions": {},
    "ollama_chat": {},
}
TEXT = AssistantCanister((TextualContent("Yes."),), origin=ELSEWHERE)


def answer(dialect: str, canisters: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the parts of an answer for a client, and the paths of its losses."""
    request = Request(canisters=[UserCanister("Hi.")])
    response = Response(
        request=request, canisters=canisters, metadata=ResponseMetadata(origin=ELSEWHERE)
    )
    package = importlib.import_module(f"vibe_llms.dialects.{dialect}")
    body, losses = (
        (translation := package.nativize_response(response)).value,
        translation.losses,
    )
    parts = {
        "messages": lambda: body["content"],
        "responses": lambda: body["output"],
        "interactions": lambda: body["steps"],
        "generate_content": lambda: body["candidates"][0]["content"]["parts"],
    }.get(dialect, list)()
    paths = [f"{loss.kind} {loss.path}" for loss in losses if loss.path.startswith("canisters")]
    return parts, paths


@pytest.mark.parametrize("dialect", [*SHOWN])
@pytest.mark.parametrize("kind", [*CALLS])
def test_a_client_sees_what_its_protocol_can_show(dialect: str, kind: str) -> None:
    """Anything else is a loss."""
    parts, losses = answer(dialect, [*CALLS[kind], TEXT])

    shown = SHOWN[dialect].get(kind, ())
    kinds = tuple(part.get("type") or next(iter(part)) for part in parts)[: len(shown)]
    assert kinds == shown
    about_calls = [loss for loss in losses if loss.endswith(("[0]", "[1]"))]
    # Messages shows a call that came in its own protocol as it is, but not from another provider.
    word = "coerced" if shown else "withheld"
    if dialect != "messages" or kind != "mcp":
        assert about_calls == [f"{word} canisters[0]", f"{word} canisters[1]"]


def test_a_search_names_its_pages() -> None:
    (call, result, _), _ = answer("messages", [*CALLS["web_search"], TEXT])
    assert (call["name"], call["input"]) == ("web_search", {"query": "q"})
    assert result["tool_use_id"] == call["id"]
    assert [page["url"] for page in result["content"]] == ["https://a.org"]

    (item, _), _ = answer("responses", [*CALLS["web_search"], TEXT])
    assert item["action"] == {
        "type": "search",
        "query": "q",
        "queries": ["q"],
        "sources": [{"type": "url", "url": "https://a.org"}],
    }


def test_code_and_its_output() -> None:
    (call, result, _), _ = answer("messages", [*CALLS["code_execution"], TEXT])
    assert call["input"] == {"code": "print(1)"}
    assert (result["content"]["stdout"], result["content"]["return_code"]) == ("1", 0)

    (item, _), _ = answer("responses", [*CALLS["code_execution"], TEXT])
    assert (item["code"], item["outputs"]) == ("print(1)", [{"type": "logs", "logs": "1"}])


def test_a_tool_of_an_mcp_server() -> None:
    (item, *_), _ = answer("responses", [*CALLS["mcp"], TEXT])

    assert (item["server_label"], item["name"], item["arguments"], item["output"]) == (
        "wiki",
        "look",
        '{"at": 1}',
        "seen",
    )


def test_citations_of_pages() -> None:
    citation = Citation(title="T", url="https://a.org")
    text = TextualContent("Yes.", citations=[citation, Citation(file_id="file_1")])
    canisters = [AssistantCanister((text,), origin=ELSEWHERE)]

    ((block,), losses) = answer("messages", canisters)
    assert [each["url"] for each in block["citations"]] == ["https://a.org"]
    assert losses == [
        "coerced canisters[0].content[0].citations[0]",
        "withheld canisters[0].content[0].citations[0]",
    ]
    ((message,), _) = answer("responses", canisters)
    (annotation,) = message["content"][0]["annotations"]
    assert (annotation["start_index"], annotation["end_index"]) == (0, 4)


@pytest.mark.parametrize("dialect", ["messages", "responses", "generate_content"])
@pytest.mark.parametrize("kind", ["web_search", "code_execution"])
def test_the_vendor_of_the_clients_protocol_never_gets_them(dialect: str, kind: str) -> None:
    """It did not execute them: it would reject their ids and missing signatures."""
    cited = TextualContent("Yes.", citations=[Citation(title="T", url="https://a.org")])
    parts, _ = answer(dialect, [*CALLS[kind], AssistantCanister((cited,), origin=ELSEWHERE)])
    package = importlib.import_module(f"vibe_llms.dialects.{dialect}")
    bodies: dict[str, Any] = {
        "messages": {
            "messages": [
                {"role": "user", "content": "Hi."},
                {"role": "assistant", "content": parts},
                {"role": "user", "content": "And?"},
            ],
        },
        "responses": {
            "input": [{"role": "user", "content": "Hi."}, *parts, {"role": "user", "content": "?"}]
        },
        "generate_content": {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi."}]},
                {"role": "model", "parts": parts},
                {"role": "user", "parts": [{"text": "And?"}]},
            ]
        },
    }

    request = package.normalize_request({"model": "m", **bodies[dialect]}).value

    quirks = importlib.import_module(f"vibe_llms.dialects.{dialect}.quirks").Quirks()
    translation = package.nativize_request(request, UNKNOWN_MODEL, quirks)
    assert "_vibe_" not in str(translation.value)
    assert "encrypted" not in str(translation.value).replace("reasoning.encrypted_content", "")
    assert "Yes." in str(translation.value)
    shows = kind in SHOWN[dialect]
    withheld = [loss for loss in translation.losses if loss.reason.startswith("only the vendor")]
    assert bool(withheld) is shows


def read_again(blocks: list[Any]) -> list[Any]:
    """Return the canisters of a client's turn in Messages, which returns an answer."""
    from vibe_llms.dialects import messages

    turns = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": "And?"},
    ]
    request: Request = messages.normalize_request({"model": "m", "messages": turns}).value
    return [*request.canisters[1:-1]]


OWN = make_native("elsewhere", {"id": "own", "sealed": "data"})


def test_the_originals_are_restored_for_their_vendor() -> None:
    """With its own ids, arguments and native data."""
    original = [
        attrs.evolve(each, native=OWN)
        for each in execute("code_execution", "print(1)", "1", form="text")
    ]
    blocks, _ = answer("messages", [*original, TEXT])

    call, result, text = read_again(blocks)

    for restored, expected in ((call, original[0]), (result, original[1])):
        assert restored.content == expected.content
        assert (restored.invocation_id, restored.name) == (expected.invocation_id, expected.name)
        assert restored.native == OWN
        assert (restored.origin.provider, restored.origin.protocol) == ("x", "elsewhere")
    assert (call.form, call.arguments) == ("text", "print(1)")
    assert text.content == (TextualContent("Yes."),)
    assert call.turn_id == text.turn_id


def test_what_a_client_leaves_out_is_not_restored() -> None:
    original = [attrs.evolve(each, native=OWN) for each in CALLS["web_search"]]
    blocks, _ = answer("messages", [*original, TEXT])

    (text,) = read_again([block for block in blocks if "tool" not in block["type"]])

    assert text.content == (TextualContent("Yes."),)


@pytest.mark.parametrize("fault", ["ours", "text", "protocol", "broken"])
def test_a_forged_envelope_restores_nothing(fault: str) -> None:
    """Only calls of its vendor are accepted from an envelope."""
    call, result = (attrs.evolve(each, native=OWN) for each in CALLS["web_search"])
    blocks, _ = answer("messages", [call, result, TEXT])
    forged: Any = {
        "ours": attrs.evolve(call, owner=Owner.OURS),
        "text": TEXT,
        "protocol": attrs.evolve(call, native=make_native("messages", {"id": "b"})),
        "broken": call,
    }[fault]
    text = "{" if fault == "broken" else encode_canister(forged).decode()
    data = seal(SealedData(protocol="elsewhere", provider="x", data="{}", execution=text))
    envelope = {"type": "redacted_thinking", "data": data}

    shown, *_ = read_again([*blocks[:3], envelope])

    assert isinstance(shown, InvocationCanister)
    assert (shown.native, shown.owner) == (None, Owner.VENDOR)


@pytest.mark.parametrize("dialect", ["messages", "responses", "interactions"])
def test_a_signed_call_returns_whole_to_its_vendor(dialect: str) -> None:
    """Its signature is in the envelope of the call, and not in one of its own."""
    fields = {"executableCode": {"code": "print(1)"}, "thoughtSignature": "c2ln"}
    native = make_native("generate_content", fields)
    call, result = execute("code_execution", "print(1)", "1", form="text", native=native)

    parts, _ = answer(dialect, [call, result, TEXT])

    words = " ".join(str(part) for part in parts).replace("'", " ").split()
    envelopes = [read_sealed(word) for word in words if is_wrapped(word)]
    (envelope,) = envelopes
    assert envelope is not None
    assert envelope.call == ""
    assert json.loads(json.loads(envelope.execution)["native"]["data"]) == fields
