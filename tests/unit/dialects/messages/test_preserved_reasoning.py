"""Reasoning that a model accepts only behind what preceded it when it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.vendors.messages_exchanges import assemble
from vibe_llms.dialects.messages import Decoder, Quirks, nativize_request
from vibe_llms.messages.canisters import AssistantCanister, Origin, UserCanister
from vibe_llms.messages.contents import Native, ReasoningContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossGrade
from vibe_llms.messages.requests import Request
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.catalogue import Catalogue

DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BETA = "thinking-binding-controls-2026-08-01"
THOUGHT = ReasoningContent(text="hm", signature="S", native=Native(protocol="messages", data="{}"))
TRANSFORMATIONS = [
    {
        "type": "thinking_dropped",
        "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch",
    },
    {
        "type": "thinking_mismatch_allowed",
        "path": "messages.3.content.0",
        "reason": "prefix_binding_mismatch",
    },
    {"type": "later", "path": "messages.5.content.0"},
]


def access_attributes(model: str) -> ModelAttributes:
    """Return what is known about one of Anthropic's models."""
    return Catalogue().access_attributes(ModelAddress.parse(f"anthropic:{model}"))


def write(model: str, *contents: Any, **fields: Any) -> dict[str, Any]:
    """Return the request that continues an answer with some contents."""
    origin = Origin(provider="anthropic", model=model, protocol="messages")
    answer = AssistantCanister(contents, origin=origin)
    request = Request(
        canisters=[UserCanister("?"), answer, UserCanister("And?")], model=model, **fields
    )
    return dict(nativize_request(request, access_attributes(model), Quirks()).value)


@pytest.mark.parametrize("model", ["claude-fable-5-1", "claude-fable-5-2"])
def test_reasoning_that_has_become_stale_is_dropped_by_the_vendor(model: str) -> None:
    """Otherwise an edited conversation is rejected."""
    body = write(model, THOUGHT, TextualContent("so"))

    assert body["thinking"] == DROP
    assert body["betas"] == [BETA]


def test_the_callers_own_parameters_stay() -> None:
    own = {"thinking": {"display": "summarized", "block_binding": {}}, "betas": ["a"]}
    native = Native(protocol="messages", data=json.dumps(own))
    body = write("claude-fable-5-2", THOUGHT, TextualContent("so"), native=native)

    assert body["thinking"] == {**DROP, "display": "summarized"}
    assert set(body["betas"]) == {"a", BETA}


@pytest.mark.parametrize(
    ("model", "contents"),
    [
        ("claude-fable-5-2", [TextualContent("so")]),
        ("claude-fable-5", [THOUGHT, TextualContent("so")]),
        ("claude-opus-5", [THOUGHT, TextualContent("so")]),
    ],
)
def test_other_requests_are_not_changed(model: str, contents: list[Any]) -> None:
    body = write(model, *contents)

    assert "thinking" not in body
    assert "betas" not in body


@pytest.mark.parametrize("model", ["claude-fable-5-2", "claude-mythos-5-1"])
def test_a_model_that_always_reasons_is_not_required_to_call(model: str) -> None:
    tool = InvocableDescription(name="f", description="d", schema={"type": "object"})
    request = Request(
        canisters=[UserCanister("?")], model=model, invocables=[tool], invocation_choice="required"
    )
    written = nativize_request(request, access_attributes(model), Quirks())

    assert written.value["tool_choice"] == {"type": "auto"}
    assert "invocation_choice" in [loss.path for loss in written.losses]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_what_the_vendor_drops_is_a_loss(streamed: bool, kind: str) -> None:
    """It is reported once; what the vendor only remarks is none."""
    texts = [{"type": "text", "text": "Hi"}]
    if kind == "thinking":  # not read by the quick decoder
        texts.insert(0, {"type": "thinking", "thinking": "hm", "signature": "S"})
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x",
               "usage": {"input_tokens": 1, "output_tokens": 1},
               "input_transformations": TRANSFORMATIONS}  # fmt: skip
    decoder = Decoder(provider="anthropic")
    if not streamed:
        body = {**message, "content": texts, "stop_reason": "end_turn"}
        response = assemble(decoder.decode_response(json.dumps(body).encode()))
    else:
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": []}}
        ]
        for index, block in enumerate(texts):
            empty = {**block, block["type"]: ""}
            delta = {"type": f"{block['type']}_delta", block["type"]: block[block["type"]]}
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        events += [
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 1},
                "input_transformations": TRANSFORMATIONS,
            },
            {"type": "message_stop"},
        ]
        decoded = [
            event
            for fields in events
            for event in decoder.decode(json.dumps(fields).encode(), str(fields["type"]))
        ]
        response = assemble([*decoded, *decoder.finish()])

    (loss,) = response.losses
    assert (loss.path, loss.grade) == ("messages[1].content[0]", LossGrade.MEANING)
    assert "something before it has changed" in loss.reason
    assert response.text == "Hi"


@pytest.mark.parametrize(("transformations", "is_quick"), [(TRANSFORMATIONS, False), ([], True)])
def test_the_quick_decoder_leaves_what_was_dropped_to_the_general_one(
    transformations: list[Any], is_quick: bool
) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x",
               "usage": usage, "input_transformations": transformations}  # fmt: skip
    text = {"type": "text", "text": "Hi"}
    whole = {**message, "content": [text], "stop_reason": "end_turn"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {**text, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)

    assert (Decoder.read_simple_response(json.dumps(whole).encode()) is not None) is is_quick
    assert (Decoder.read_simple_stream(stream.encode()) is not None) is is_quick
