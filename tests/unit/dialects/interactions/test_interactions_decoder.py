"""Answers by Interactions: streams and complete interactions, with what is odd about them."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.answers import CLOSING, WORK
from support.vendors.streamed_answers import complete, get_response
from vibe_llms.dialects.interactions import Decoder, produce_error
from vibe_llms.dialects.interactions.calling.usage import normalize_usage
from vibe_llms.events.stream import NativeEvent
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, StreamTruncatedError
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister, StopReason
from vibe_llms.messages.contents import NativeContent, ReasoningContent
from vibe_llms.messages.requests import Response

CREATED = {"event_type": "interaction.created", "interaction": {"id": "v1", "status": "queued"}}


def start(index: int, **step: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": step}


def add(index: int, **delta: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index}


def complete_with(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "event_type": "interaction.completed",
        "interaction": {"id": "v1", "model": "gemini", "status": status, **fields},
    }


def decode(*events: dict[str, Any]) -> Response:
    """Decode a stream."""
    decoder = Decoder(provider="google")
    decoded = [each for event in events for each in decoder.decode(event)]
    return get_response(complete([*decoded, *decoder.finish()], "interactions"))


def read(body: dict[str, Any]) -> Response:
    """Decode a complete interaction."""
    return get_response(complete(Decoder(provider="google").decode_response(body), "interactions"))


def test_a_streamed_step_grows_by_its_deltas() -> None:
    response = decode(
        CREATED,
        start(0, type="thought"),
        add(0, type="thought_summary", content={"type": "text", "text": "Hm"}),
        add(0, type="thought_summary", content={"type": "text", "text": "."}),
        add(0, type="thought_signature", signature="c2ln"),
        stop(0),
        start(1, type="model_output"),
        add(1, type="text", text="Köln"),
        add(1, type="text", text=" rains."),
        add(
            1,
            type="text_annotation_delta",
            annotations=[
                {"type": "url_citation", "url": "https://a.org", "start_index": 0, "end_index": 5}
            ],
        ),
        stop(1),
        start(2, type="function_call", id="c", name="weather", arguments={}),
        add(2, type="arguments_delta", arguments='{"city": '),
        add(2, type="arguments_delta", arguments='"Oslo"}'),
        stop(2),
        complete_with("requires_action", usage={"total_input_tokens": 3}),
        {"event_type": "done"},
    )
    thought, answer, call = response.canisters
    assert isinstance(thought.content[0], ReasoningContent)
    assert (thought.content[0].text, thought.content[0].signature) == ("Hm.", "c2ln")
    assert answer.text == "Köln rains."
    (citation,) = answer.content[0].citations  # type: ignore[union-attr]
    assert (citation.start, citation.end, citation.url) == (0, 4, "https://a.org")
    assert isinstance(call, InvocationCanister)
    assert call.arguments == '{"city":"Oslo"}'
    assert response.stop_reason is StopReason.INVOCATION
    assert response.metadata.origin.response_id == "v1"
    assert response.usage is not None
    assert response.usage.total_input_tokens == 3


def test_calls_of_the_vendor_and_unknown_steps_are_kept_whole() -> None:
    search = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}}
    found = {"type": "google_search_result", "call_id": "s", "result": [{"url": "https://a.org"}]}
    odd = {"type": "forecast", "days": 3}
    streamed = decode(
        CREATED,
        start(0, type="google_search_call", id="s", arguments={}),
        add(0, type="google_search_call", arguments={"queries": ["a"]}),
        stop(0),
        start(1, type="google_search_result", call_id="s", result=[]),
        add(1, type="google_search_result", result=[{"url": "https://a.org"}]),
        stop(1),
        start(2, **odd),
        stop(2),
        complete_with(),
    )
    whole = read({"id": "v1", "status": "completed", "steps": [search, found, odd]})
    for response in (streamed, whole):
        call, result, other = response.canisters
        assert isinstance(call, InvocationCanister)
        assert (call.owner, call.name, call.arguments) == (
            Owner.VENDOR,
            "web_search",
            '{"queries":["a"]}',
        )
        assert isinstance(result, ResultCanister)
        assert result.content[0].citations[0].url == "https://a.org"  # type: ignore[union-attr]
        assert isinstance(other.content[0], NativeContent)
        assert other.content[0].kind == "forecast"
    assert [each.native for each in streamed.canisters] == [each.native for each in whole.canisters]


def test_steps_of_the_request_are_not_answers() -> None:
    """The vendor repeats them if it is asked to include the input."""
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Hello"}]},
    ]
    assert read({"status": "completed", "steps": steps}).text == "Hello"


def test_an_end_may_have_all_steps() -> None:
    """As of an interaction that is read later."""
    steps = [{"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}]
    assert decode(CREATED, complete_with(steps=steps)).text == "Hello"
    streamed = (start(0, type="model_output"), add(0, type="text", text="Hello"), stop(0))
    assert decode(CREATED, *streamed, complete_with(steps=steps)).text == "Hello"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", StopReason.ANSWERED),
        ("incomplete", StopReason.LIMIT),
        ("budget_exceeded", StopReason.LIMIT),
        ("cancelled", StopReason.INTERRUPTED),
        ("requires_continuation", StopReason.PAUSED),
        ("a_new_one", StopReason.UNKNOWN),
    ],
)
def test_the_status_is_the_stop_reason(status: str, reason: StopReason) -> None:
    """Also if only a status update has told it when the stream ends."""
    text = (start(0, type="model_output"), add(0, type="text", text="Hi"), stop(0))
    update = {"event_type": "interaction.status_update", "interaction_id": "v1", "status": status}
    for end in (complete_with(status), update):
        response = decode(CREATED, *text, end)
        assert response.metadata.origin.stop_reason is reason
        assert response.metadata.origin.native_stop_reason == status


def test_a_stream_without_an_end_is_truncated() -> None:
    with pytest.raises(StreamTruncatedError):
        decode(CREATED, start(0, type="model_output"), add(0, type="text", text="Hi"))


def test_failures() -> None:
    failed = complete_with("failed", errors=[{"code": "unavailable", "message": "Try later."}])
    event = {"event_type": "error", "error": {"code": "resource_exhausted", "message": "Slow."}}
    for end, fault in (
        (failed, ProviderFault.OVERLOADED),
        (event, ProviderFault.RATE_LIMITED),
    ):
        with pytest.raises(ProviderError) as raised:
            decode(CREATED, end)
        assert raised.value.fault is fault
    step = {"type": "model_output", "error": {"code": 8, "message": "No quota."}}
    with pytest.raises(ProviderError, match="No quota"):
        read({"status": "failed", "steps": [step]})


def test_events_of_later_versions_are_passed_on() -> None:
    decoder = Decoder(provider="google")
    (event,) = decoder.decode({"event_type": "interaction.weather", "value": 1})
    assert isinstance(event, NativeEvent)
    assert event.kind == "interaction.weather"


@pytest.mark.parametrize(
    "event",
    [{"event_type": "step.start"}, {"event_type": "step.delta", "index": 0}, []],
    ids=repr,
)
def test_invalid_events_are_errors(event: Any) -> None:
    with pytest.raises(ConverseError):
        decode(CREATED, event)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("invalid_request", ProviderFault.INVALID_REQUEST),
        ("https://errors.example/not_found", ProviderFault.NOT_FOUND),
        (429, ProviderFault.RATE_LIMITED),
    ],
)
def test_codes_are_words_addresses_or_numbers(code: Any, fault: ProviderFault) -> None:
    error = produce_error({"error": {"code": code, "message": "No."}}, provider="google")
    assert isinstance(error, ProviderError)
    assert error.fault is fault


def test_usage_is_disjoint() -> None:
    usage = normalize_usage(
        {
            "total_input_tokens": 10,
            "total_cached_tokens": 4,
            "total_tool_use_tokens": 2,
            "total_output_tokens": 7,
            "total_thought_tokens": 40,
            "input_tokens_by_modality": [{"modality": "audio", "tokens": 3}],
            "output_tokens_by_modality": [{"modality": "audio", "tokens": 5}],
        }
    )
    assert (usage.input_tokens, usage.cache_read_tokens, usage.input_audio_tokens) == (5, 4, 3)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.output_audio_tokens) == (2, 40, 5)
    assert (usage.total_input_tokens, usage.total_output_tokens) == (12, 47)


@pytest.mark.parametrize("answer", [WORK, CLOSING], ids=["work", "closing"])
def test_an_answer_is_written_as_it_was_read(answer: dict[str, Any]) -> None:
    from vibe_llms.dialects.interactions import nativize_response

    body = answer["google_interactions"]
    translation = nativize_response(read(body))
    assert translation.value == body
    assert translation.losses == ()
