"""Everything in the installed SDK is mapped, or stays native for a reason in a table.

A new release of the SDK with a new kind of block, delta or event makes these tests fail until it is
in a table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.types import beta
from anthropic.types.beta import beta_tool_result_block_param, message_create_params
from typing_extensions import get_type_hints

from fidelity.meanings import distil
from support.vendors.anthropic_types import fabricate, spread, survey
from support.vendors.messages_exchanges import (
    KNOWN,
    assemble,
    read_stream,
    read_whole,
    write_whole,
)
from vibe_llms.dialects.messages import (
    Quirks,
    nativize_request,
    normalize_messages,
    normalize_request,
)
from vibe_llms.dialects.messages.calling.content_blocks import normalize_block, normalize_citation
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import (
    FileContent,
    ImageContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)

mean = functools.partial(distil, "messages")

MAPPED: Mapping[str, object] = {
    "advisor_tool_result": Owner.VENDOR,
    "bash_code_execution_tool_result": Owner.VENDOR,
    "code_execution_tool_result": Owner.VENDOR,
    "container_upload": FileContent,
    "document": FileContent,
    "image": ImageContent,
    "mcp_tool_result": Owner.VENDOR,
    "mcp_tool_use": Owner.VENDOR,
    "redacted_thinking": ReasoningContent,
    "server_tool_use": Owner.VENDOR,
    "text": TextualContent,
    "text_editor_code_execution_tool_result": Owner.VENDOR,
    "thinking": ReasoningContent,
    "tool_result": Owner.OURS,
    "tool_search_tool_result": Owner.VENDOR,
    "tool_use": Owner.OURS,
    "web_fetch_tool_result": Owner.VENDOR,
    "web_search_tool_result": Owner.VENDOR,
}
"""From the type of a block to what it becomes: a content, or whose invocation or result."""

NATIVE: Mapping[str, str] = {
    "browser_state": "what the vendor's browser shows; only its own tools read it",
    "compaction": "the vendor's summary, signed; nobody else can continue from it",
    "fallback": "where one of the vendor's models gave way to another",
    "mcp_tool_listing": "the tools of a server that the vendor calls; it wants them back unchanged",
    "search_result": "a source, not words of anybody; its text is shown",
    "tool_addition": "changes the vendor's set of tools in the middle of a conversation",
    "tool_reference": "names one of the tools that the vendor searches",
    "tool_removal": "changes the vendor's set of tools in the middle of a conversation",
}
"""Blocks without a common word, and why none is needed."""

MAY_NOT_STAY_NATIVE = ("text", "image", "document", "thinking", "tool_use", "tool_result")


def name(block: Any) -> str:
    """Name a parameter of a test."""
    return str(block.get("type") or block.get("name") or "custom")


REQUEST_BLOCKS = [
    block
    for block in survey(beta.BetaContentBlockParam)
    if block["type"] not in ("tool_use", "tool_result")
]
RESPONSE_BLOCKS = survey(beta.BetaContentBlock)
RESULT_CONTENTS = survey(beta_tool_result_block_param.Content)


def test_every_block_of_the_sdk_is_in_a_table() -> None:
    """In exactly one of them, and no block that must be mapped stays native."""
    unions = (beta.BetaContentBlockParam, beta.BetaContentBlock)
    known = {block["type"] for union in unions for block in survey(union)}
    known |= {block["type"] for block in RESULT_CONTENTS}
    assert known == MAPPED.keys() | NATIVE.keys()
    assert not MAPPED.keys() & NATIVE.keys()
    assert MAPPED.keys() >= set(MAY_NOT_STAY_NATIVE)


@pytest.mark.slow
@pytest.mark.parametrize("block", [*REQUEST_BLOCKS, *RESULT_CONTENTS], ids=name)
def test_a_block_of_a_request_has_the_class_in_the_table(block: dict[str, Any]) -> None:
    """A mapped block has its class, and any other is kept as native data."""
    messages = [{"role": "assistant", "content": [block]}]
    (canister,) = normalize_messages({"messages": messages}).value
    expected = MAPPED.get(block["type"], NativeContent)
    if isinstance(canister, InvocationCanister | ResultCanister):
        assert canister.owner is expected
    else:
        assert type(canister.content[0]) is expected


@pytest.mark.slow
@pytest.mark.parametrize("block", REQUEST_BLOCKS, ids=name)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_block_of_a_request_round_trips(block: dict[str, Any], role: str) -> None:
    """In a message of either role, unless that role cannot have it, which is reported."""
    messages = [{"role": role, "content": [{"type": "text", "text": "a"}, block]}]
    request = {"model": "model", "max_tokens": 9, "messages": messages}
    translation = nativize_request(normalize_request(request).value, KNOWN, Quirks())
    if translation.losses:
        (loss,) = translation.losses
        refused = {
            "assistant": {"document": "", "image": ""},
            "user": {"redacted_thinking": "", "thinking": "", "text": ".citations"},
        }
        assert loss.path == f"canisters[0].content[1]{refused[role][block['type']]}"
    else:
        assert mean(translation.value) == mean(request)


@pytest.mark.parametrize("content", RESULT_CONTENTS, ids=name)
def test_a_content_of_a_result_round_trips(content: dict[str, Any]) -> None:
    """Of any kind that a result may have."""
    call = {"type": "tool_use", "id": "a", "name": "b", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [content]}
    request = {
        "model": "model",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }
    translation = nativize_request(normalize_request(request).value, KNOWN, Quirks())
    assert not translation.losses
    assert mean(translation.value) == mean(request)


def frame(kind: str, **fields: Any) -> bytes:
    """Write an event of a stream."""
    import msgspec

    data = msgspec.json.encode({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Make a complete answer of blocks."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model",
        "content": list(blocks),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }


@pytest.mark.parametrize("block", RESPONSE_BLOCKS, ids=name)
def test_a_block_of_an_answer_round_trips_streamed_and_complete(block: dict[str, Any]) -> None:
    """Both give the same canisters, and these the same block."""
    message = answer(block)
    if block["type"] == "fallback":  # a whole answer names the model that gave it in the end
        message["model"] = block["to"]["model"]
    body, losses = write_whole(assemble(read_whole(message)))
    assert losses == ()
    assert mean(body) == mean(message)
    streamed = assemble(
        read_stream(
            [
                frame("message_start", message={**answer(), "stop_reason": None}),
                frame("content_block_start", index=0, content_block=block),
                frame("content_block_stop", index=0),
                frame("message_delta", delta={"stop_reason": "end_turn"}, usage=None),
                frame("message_stop"),
            ]
        )
    )
    assert write_whole(streamed) == (body, ())


def test_every_delta_and_event_of_the_sdk_is_known() -> None:
    """The decoder knows the type of each; other tests show how it decodes them."""
    deltas = {delta["type"] for delta in survey(beta.BetaRawContentBlockDelta)}
    assert deltas == {
        "citations_delta",
        "compaction_delta",
        "input_json_delta",
        "signature_delta",
        "text_delta",
        "thinking_delta",
    }
    events = {event["type"] for event in survey(beta.BetaRawMessageStreamEvent)}
    assert events == {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
    }


@pytest.mark.parametrize("native", survey(beta.BetaTextCitation), ids=name)
def test_every_citation_has_its_source(native: dict[str, Any]) -> None:
    """The cited text and its source in common fields; the rest is native."""
    citation = normalize_citation({**native, "source": "https://example.org", "title": "T"})
    assert citation.cited_text == native["cited_text"]
    assert citation.title == "T"
    assert citation.native is not None


@pytest.mark.parametrize("tool", survey(beta.BetaToolUnionParam), ids=name)
def test_every_tool_round_trips(tool: dict[str, Any]) -> None:
    """Ours by their schemas, the vendor's own unchanged."""
    messages = [{"role": "user", "content": "?"}]
    request = {"model": "model", "max_tokens": 9, "messages": messages, "tools": [tool]}
    normalized = normalize_request(request).value
    assert (normalized.invocables[0].schema is None) == ("input_schema" not in tool)
    translation = nativize_request(normalized, KNOWN, Quirks())
    assert not translation.losses
    assert mean(translation.value) == mean(request)


HINTS = get_type_hints(message_create_params.MessageCreateParamsBase)


@pytest.mark.parametrize("field", sorted(HINTS.keys() - {"messages", "model", "max_tokens"}))
def test_every_parameter_round_trips(field: str) -> None:
    """Each alternative of each parameter of a request, as a control, a schema or native data."""
    tools = [{"name": "QUJD", "description": "d", "input_schema": {"type": "object"}}]
    for value in map(fabricate, spread(HINTS[field])):
        if value == "2026-11-22T00:00:00Z":
            continue
        request = {
            "model": "model",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "?"}],
            "tools": tools,
            field: value,
        }
        translation = nativize_request(normalize_request(request).value, KNOWN, Quirks())
        assert not translation.losses
        assert mean(translation.value) == mean(request)


def test_content_that_is_not_in_the_sdk_is_kept() -> None:
    """The vendor may have new kinds of blocks before a new SDK is released."""
    block = {"type": "brand_new", "text": "hello", "more": [1, {"two": None}]}
    content = normalize_block(block)
    assert isinstance(content, NativeContent)
    body, losses = write_whole(assemble(read_whole(answer(block))))
    assert body["content"] == [block]
    assert losses == ()
