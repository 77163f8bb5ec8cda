"""Unusual forms of the many hosts keep their meaning, and round-trip."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from fidelity.meanings import distil
from vibe_llms.dialects import generate_content as gemini
from vibe_llms.dialects.chat_completions import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "chat_completions")

ATTRIBUTES = ModelsIntegrator(provider="vendor").integrate("m")
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
URL = {"type": "url_citation"}


def compose(message: Any, **choice: Any) -> dict[str, Any]:
    """Make a complete response around a message."""
    first = {"index": 0, "message": message, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    head = {"id": "c", "object": "chat.completion", "created": 7, "model": "m"}
    return {**head, "choices": [first], "usage": usage}


def assemble(decoder: Decoder, chunks: list[Any] | None, body: Any = None) -> Response:
    """Read chunks, or a complete body, to the end."""
    assembler = Assembler(provider="vendor", model="asked", protocol=PROTOCOL)
    if chunks is None:
        events = decoder.decode_response(json.dumps(body).encode())
    else:
        events = [e for chunk in chunks for e in decoder.decode(json.dumps(chunk).encode())]
        events += decoder.finish()
    for event in events:
        assembler.feed(event)
    return Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def stream(*choices: dict[str, Any], **top: Any) -> Response:
    """Read a stream with one choice in each chunk."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", **top}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    chunks = [{**head, "choices": [{"index": 0, **choice}]} for choice in (*choices, end)]
    return assemble(Decoder(provider="vendor"), chunks)


MESSAGES: dict[str, Any] = {
    "no content": {"tool_calls": [CALL]},
    "nothing at all": {},
    "another role": {"role": "model", "content": "x"},
    "no role": {"role": None, "content": "x"},
    "call without a type": {"content": "", "tool_calls": [{**CALL, "type": None}]},
    "call with its place": {"content": "", "tool_calls": [{**CALL, "index": 0}]},
    "call of another type": {"content": None, "tool_calls": [{"id": "1", "type": "w", "w": {}}]},
    "two calls of one id": {"content": None, "tool_calls": [CALL, CALL]},
    "null in a call": {
        "content": None,
        "tool_calls": [{**CALL, "function": {"name": "f", "arguments": None, "strict": None}}],
    },
    "old call": {"content": None, "function_call": {"name": "f"}},
    "parsed document": {
        "content": "x",
        "annotations": [{"type": "file", "file": {"name": "n", "content": [{"type": "text"}]}}],
    },
    "places with a point": {
        "content": "xy",
        "annotations": [{**URL, "url_citation": {"start_index": 0.0, "end_index": 1.0}}],
    },
    "annotation as text": {"content": "x", "annotations": ["u"]},
    "pictures as text": {"content": "", "images": ["data:image/png;base64,AAAA"]},
    "picture with detail": {
        "content": "",
        "images": [{"type": "image_url", "image_url": {"url": "https://x", "detail": "auto"}}],
    },
    "reasoning as object": {"content": "x", "reasoning": {"text": "t"}},
    "thinking in pieces": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": t} for t in "ab"]},
            {"type": "text", "text": "c"},
        ]
    },
    "no parts": {"content": []},
    "sound without words": {"content": None, "audio": {"id": "a", "data": "UklG"}},
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_an_unusual_message_round_trips(message: Any) -> None:
    """Field by field, without a loss."""
    body = compose({"role": "assistant", **message})
    response = assemble(Decoder(provider="vendor"), None, body)
    written = nativize_response(response)

    assert mean(written.value) == mean(body)
    assert written.losses == response.losses == ()


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], 3])
def test_a_value_in_place_of_a_text_becomes_its_json(value: Any) -> None:
    """Cloudflare parses the JSON that its models write by a schema."""
    response = assemble(
        Decoder(provider="vendor"), None, compose({"role": "assistant", "content": value})
    )

    assert json.loads(response.text) == value
    assert [loss.kind for loss in response.losses] == [LossKind.COERCED]


@pytest.mark.parametrize("name", ["id", "object", "created", "model", "usage"])
@pytest.mark.parametrize("value", [None, "absent"])
def test_a_missing_field_of_a_response_changes_nothing_else(name: str, value: Any) -> None:
    """Fields that the protocol requires are inserted."""
    body = compose({"role": "assistant", "content": "x"})
    changed = {k: v for k, v in body.items() if k != name} | ({name: None} if value is None else {})

    written: Any = nativize_response(assemble(Decoder(provider="vendor"), None, changed)).value
    assert name == "usage" or written[name]
    assert mean({**written, name: body[name]}) == mean(body)


def test_choices_without_an_index_are_identified_by_their_order() -> None:
    """The first is the answer, the others are kept."""
    body = compose({"role": "assistant", "content": "a"})
    body["choices"] += [{"message": {"role": "assistant", "content": "b"}, "finish_reason": "stop"}]
    del body["choices"][0]["index"]
    response = assemble(Decoder(provider="vendor"), None, body)

    assert response.canisters[0].content[0].text == "a"  # type: ignore[union-attr]
    assert mean(nativize_response(response).value) == mean(body)


def test_pieces_of_a_call_may_each_have_an_id_of_their_own() -> None:
    """Without a name no call begins; the first id is used."""
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}}
    second = {"index": 0, "id": "b", "function": {"arguments": "1}"}}
    response = stream({"delta": {"tool_calls": [first]}}, {"delta": {"tool_calls": [second]}})

    (call,) = response.canisters
    assert isinstance(call, InvocationCanister)
    assert (call.invocation_id, call.arguments) == ("a", '{"x":1}')


def test_a_name_in_every_piece_begins_one_call() -> None:
    """Also if the last, empty piece repeats the name."""
    pieces = [
        {"index": 0, "function": {"name": "f", "arguments": text}} for text in ("{}", "")
    ]  # fmt: skip
    response = stream(*({"delta": {"tool_calls": [piece]}} for piece in pieces))

    assert [type(canister) for canister in response.canisters] == [InvocationCanister]


def test_usage_within_a_choice_is_read() -> None:
    """Moonshot sends it there; no loss reports another place."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    response = stream({"delta": {"content": "x"}, "usage": usage})

    assert response.metadata.origin.usage is not None
    assert response.metadata.origin.usage.input_tokens == 3
    written: Any = nativize_response(response).value
    assert written["usage"] == written["choices"][0]["usage"] == usage


def test_a_finish_reason_may_have_further_text() -> None:
    """Google's server of this protocol appends the blocked category."""
    body = compose({"role": "assistant"}, finish_reason="content_filter: PROHIBITED_CONTENT")
    response = assemble(Decoder(provider="vendor"), None, body)

    assert response.metadata.origin.stop_reason is StopReason.FILTERED


UNUSUAL_REQUESTS: dict[str, Any] = {
    "nothing said": {"messages": [{"role": "user"}]},
    "a role of a template": {"messages": [{"role": "ipython", "content": "x"}]},
    "sound of another format": {
        "messages": [
            {"role": "user", "content": [{"type": "input_audio", "input_audio": each}]}
            for each in ({"data": "AAAA", "format": "m4a"}, {"data": "AAAA"})
        ]
    },
    "moving pictures": {
        "messages": [
            {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://x"}}]}
        ]
    },
    "pictures of the model": {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": [{"type": "image_url", "image_url": {"url": "https://x"}}],
            },
            {"role": "user", "content": "y"},
        ]
    },
    "arguments as data": {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ]
    },
    "no functions": {"functions": []},
    "a schema that says nothing": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}},
        }
    },
    "no schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
    "a flat choice": {"tool_choice": {"type": "function", "name": "f"}},
    "a schema of no kind": {"tools": [{"type": "function", "function": {"name": "f",
                                                                        "parameters": True}}]},
    "a tool without a type": {"tools": [{"google_search": {}}]},
}  # fmt: skip


@pytest.mark.parametrize("fields", UNUSUAL_REQUESTS.values(), ids=UNUSUAL_REQUESTS)
def test_an_unusual_request_round_trips(fields: Any) -> None:
    """Field by field, without a loss."""
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], **fields}
    read = normalize_request(body)
    written = nativize_request(read.value, ATTRIBUTES, Quirks())

    assert mean(written.value) == mean(body)
    assert read.losses == written.losses == ()


def test_an_older_choice_with_newer_tools_is_sent_in_the_newer_field() -> None:
    """A client that mixes both forms means one choice."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    messages = [{"role": "user", "content": "q"}]
    read = normalize_request({"messages": messages, "tools": tools, "function_call": {"name": "f"}})

    written: Any = nativize_request(read.value, ATTRIBUTES, Quirks()).value
    assert written["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert "function_call" not in written


def test_the_form_of_a_call_is_no_loss_for_other_vendors() -> None:
    """A call without a type is sent to other vendors like any other."""
    message = {"role": "assistant", "tool_calls": [{"id": "c1", "function": CALL["function"]}]}
    response = assemble(Decoder(provider="vendor"), None, compose(message))
    canisters = [UserCanister("q"), *response.canisters, UserCanister("and?")]
    request = Request(canisters=canisters)
    written = nativize_request(request, ATTRIBUTES, Quirks(), provider="other")

    assert not any("native" in loss.path for loss in written.losses)
    assert not any(isinstance(canister, AssistantCanister) for canister in response.canisters)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"logprobs": False},
        {"response_format": {"type": "text"}},
        {"modalities": ["text"]},
    ],
)
def test_an_explicit_default_round_trips_and_is_no_loss_for_other_vendors(
    fields: dict[str, Any],
) -> None:
    """Many clients send each of them."""
    native = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}

    request = normalize_request(native).value

    assert nativize_request(request, ATTRIBUTES, Quirks()).value == native
    elsewhere = gemini.nativize_request(request, ATTRIBUTES, gemini.Quirks())
    assert elsewhere.losses == ()


def test_other_values_are_a_loss_for_other_vendors() -> None:
    """Such as a second choice, which no other protocol has."""
    native = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "n": 2}

    request = normalize_request(native).value

    (loss,) = gemini.nativize_request(request, ATTRIBUTES, gemini.Quirks()).losses
    assert "n: " in loss.reason
