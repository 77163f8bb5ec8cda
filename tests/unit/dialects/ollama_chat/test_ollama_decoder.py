"""Ollama's answers as events: pieces, endings, errors, and invalid lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strategies.ollama import assemble
from vibe_llms.dialects.ollama_chat import Decoder, nativize_response, produce_error
from vibe_llms.events.stream import ContentDeltaEvent, LossEvent, NativeEvent
from vibe_llms.exceptions import (
    CapabilityError,
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

REQUEST = Request(canisters=(UserCanister("hi"),))
HEAD = {"model": "m", "created_at": "2025-08-20T09:45:30Z"}


def line(done: bool = False, **message: Any) -> dict[str, Any]:
    rest = message.pop("rest", {})
    return {
        **HEAD,
        "message": {"role": "assistant", "content": "", **message},
        "done": done,
        **rest,
    }


def decode(*lines: dict[str, Any] | bytes, as_bytes: bool = True) -> Response:
    decoder = Decoder(provider="ollama", model="m")
    events = []
    for each in lines:
        events += decoder.decode(
            each if isinstance(each, bytes) or not as_bytes else json.dumps(each).encode()
        )
    return assemble(events + decoder.finish(), REQUEST)


def test_the_fast_path_and_the_general_one_give_the_same_events() -> None:
    """A plain line gives the same events as bytes and as data."""
    lines = [line(thinking="Hm"), line(content="He"), line(content="llo"), line(done=True)]

    for as_bytes in (True, False):
        response = decode(*lines, as_bytes=as_bytes)
        assert response.text == "Hello"
        assert [content.type for content in response.canisters[0].content] == ["reasoning", "text"]


def test_invocations_are_complete_and_change_the_stop_reason() -> None:
    """The server sends ``stop`` even if it waits for a tool; the stop reason is then INVOCATION."""
    call = {"function": {"name": "add", "arguments": {"b": 1.0, "a": 2}, "index": 0}}
    response = decode(
        line(tool_calls=[call]),
        line(tool_calls=[{"id": "call_2", **call}]),
        line(done=True, rest={"done_reason": "stop"}),
    )

    first, second = response.canisters
    assert isinstance(first, InvocationCanister)
    assert isinstance(second, InvocationCanister)
    assert first.arguments == '{"b":1.0,"a":2}'
    assert second.invocation_id == "call_2"
    assert response.metadata.stop_reason is StopReason.INVOCATION
    assert [loss.kind for loss in response.losses] == [LossKind.SYNTHESIZED]
    back: Any = nativize_response(response).value
    assert back["message"]["tool_calls"] == [call, {"id": "call_2", **call}]
    assert back["done_reason"] == "stop"


def test_arguments_as_text_become_an_object_with_a_loss() -> None:
    """Some servers send the object as a text."""
    call = {"id": "c", "function": {"name": "add", "arguments": '{"a": 1}'}}
    response = decode(line(done=True, tool_calls=[call]))

    assert [(str(loss.kind), loss.path) for loss in response.losses] == [
        ("coerced", "message.tool_calls[0].function.arguments")
    ]
    back: Any = nativize_response(response).value
    assert back["message"]["tool_calls"][0]["function"]["arguments"] == {"a": 1}


def test_generated_ids_differ_between_turns() -> None:
    """The same call at another time has another id; the same response has the same id."""
    call = {"function": {"name": "add", "arguments": {}}}
    body = line(done=True, tool_calls=[call, call])
    later = {**body, "created_at": "2025-08-20T09:45:31Z"}

    ids = [
        item.invocation_id
        for each in (body, later)
        for item in decode(each).canisters
        if isinstance(item, InvocationCanister)
    ]

    assert len(set(ids)) == 4
    assert [getattr(item, "invocation_id", "") for item in decode(body).canisters] == ids[:2]


def test_unknown_counts_are_unknown_and_not_zero() -> None:
    """The server does not count a prompt that is in the cache."""
    usage = decode(line(done=True, rest={"eval_count": 0})).metadata.usage

    assert usage is not None
    assert usage.input_tokens is None
    assert usage.output_tokens == 0
    assert decode(line(done=True)).metadata.usage is None


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", StopReason.ANSWERED), ("length", StopReason.LIMIT), ("load", StopReason.UNKNOWN)],
)
def test_each_done_reason_has_a_stop_reason(reason: str, expected: StopReason) -> None:
    """The native reason is kept."""
    metadata = decode(line(done=True, rest={"done_reason": reason})).metadata

    assert metadata.stop_reason is expected
    assert metadata.origin.native_stop_reason == reason


def test_a_stream_without_its_last_line_is_truncated() -> None:
    """Without ``done`` it is not complete."""
    decoder = Decoder(provider="ollama")
    decoder.decode(json.dumps(line(content="All.")).encode())

    assert not decoder.is_complete
    with pytest.raises(StreamTruncatedError):
        decoder.finish()


def test_an_error_in_a_stream_is_an_error_despite_the_status() -> None:
    """A stream has begun with status 200."""
    decoder = Decoder(provider="ollama", model="m")
    decoder.decode(line(content="So"))

    with pytest.raises(ProviderError) as caught:
        decoder.decode(b'{"error":"llama runner process has terminated: exit status 2"}')
    assert caught.value.fault is ProviderFault.SERVER


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"7",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"message": 7, "done": false}',
        b'{"message": {"content": 7}, "done": false}',
        b'{"message": {"tool_calls": [{"id": "x"}]}, "done": false}',
        b'{"message": {"tool_calls": 7}, "done": false}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_invalid_lines_raise_our_error(data: bytes, begun: bool) -> None:
    """No other exception is raised, whatever a line contains."""
    decoder = Decoder(provider="ollama")
    if begun:
        decoder.decode(line(content="So"))

    with pytest.raises(ConverseError, match=r"^ollama sent"):
        decoder.decode(data)


def test_unknown_lines_and_fields_are_passed_through() -> None:
    """An unknown line is an event of its own; unknown fields are kept with the response."""
    decoder = Decoder(provider="ollama")
    events = decoder.decode(b'{"status":"loading","percent":5}')
    events += decoder.decode(line(content="Hi", rest={"logprobs": [{"token": "Hi"}]}))
    events += decoder.decode(line(done=True, rest={"logprobs": [{"token": ""}], "x_new": 1}))
    events += decoder.decode(b'{"status":"unloaded"}')

    assert [event.kind for event in events if isinstance(event, NativeEvent)] == ["status"] * 2
    native = assemble(events + decoder.finish(), REQUEST).metadata.native
    assert native is not None
    assert json.loads(native.data) == {
        "created_at": HEAD["created_at"],
        "logprobs": [{"token": "Hi"}, {"token": ""}],
        "x_new": 1,
    }


def test_empty_pieces_make_no_events() -> None:
    """As a server sends while it loads the model."""
    decoder = Decoder(provider="ollama")
    decoder.decode(line(content="a"))

    events = decoder.decode(json.dumps(line()).encode())

    assert [e for e in events if isinstance(e, ContentDeltaEvent | LossEvent)] == []
    decoder.decode(json.dumps(line(done=True)).encode())
    assert decoder.is_complete


def test_a_response_of_another_vendor_is_written_with_losses() -> None:
    """A gateway reports what this protocol does not have."""
    origin = Origin(
        provider="anthropic",
        model="claude",
        protocol="messages",
        stop_reason=StopReason.REFUSED,
        usage=Usage(input_tokens=1, cache_read_tokens=2, output_tokens=3, reasoning_tokens=4),
    )
    response = Response(
        request=REQUEST,
        canisters=(AssistantCanister("No.", origin=origin),),
        metadata=ResponseMetadata(origin=origin),
    )
    back = nativize_response(response)

    assert back.value["done_reason"] == "stop"
    assert (back.value["prompt_eval_count"], back.value["eval_count"]) == (3, 7)
    assert [loss.path for loss in back.losses] == [
        "metadata.origin.stop_reason",
        "usage.cache_read_tokens",
        "usage.reasoning_tokens",
    ]


@pytest.mark.parametrize(
    ("status", "message", "fault"),
    [
        (404, "model 'llama9' not found", ProviderFault.NOT_FOUND),
        (404, 'model "x" not found, try pulling it first', ProviderFault.NOT_FOUND),
        (401, "unauthorized", ProviderFault.AUTHENTICATION),
        (403, "no", ProviderFault.PERMISSION),
        (400, "invalid options: num_ctx", ProviderFault.INVALID_REQUEST),
        (429, "too many requests", ProviderFault.RATE_LIMITED),
        (429, "you have reached your hourly usage limit", ProviderFault.QUOTA),
        (503, "server busy, please try again", ProviderFault.OVERLOADED),
        (502, "upstream error", ProviderFault.SERVER),
        (500, "model requires more system memory (9 GiB)", ProviderFault.INVALID_REQUEST),
        (500, "timed out waiting for llama runner to start", ProviderFault.TIMEOUT),
        (500, "something new", ProviderFault.SERVER),
        (418, "something new", ProviderFault.INVALID_REQUEST),
    ],
)
def test_each_sentence_of_the_server_has_a_fault(
    status: int, message: str, fault: ProviderFault
) -> None:
    """By the table of sentences; the status decides about unknown ones."""
    error = produce_error(
        {"error": message},
        provider="ollama",
        model="llama9",
        status=status,
        headers={"Retry-After": "7"},
    )

    assert isinstance(error, ProviderError)
    assert error.fault is fault
    assert error.retry_after_seconds == 7
    assert message in str(error)


@pytest.mark.parametrize(
    "message",
    [
        "prompt too long; exceeded max context length by 17 tokens",
        "input length exceeds maximum context length",
        "the request exceeds the available context size",
        "exceed_context_size_error",
    ],
)
def test_an_overflow_is_recognized_by_its_message(message: str) -> None:
    """In any of the server's wordings."""
    error = produce_error({"error": message}, provider="ollama", status=400)

    assert isinstance(error, ContextOverflowError)


def test_an_unsupported_capability_is_named() -> None:
    """As if the capability had been known before the request."""
    body = {"error": "registry.ollama.ai/library/x:latest does not support tools"}
    error = produce_error(body, provider="ollama", model="x", status=400)

    assert isinstance(error, CapabilityError)
    assert error.capability == "supports_invocations"


@pytest.mark.parametrize("body", ["", "gateway", {}, {"error": {"message": "m"}}, None, [1]])
def test_any_body_becomes_one_of_our_errors(body: object) -> None:
    """A proxy may answer with anything."""
    assert isinstance(produce_error(body, provider="ollama", status=500), ProviderError)
