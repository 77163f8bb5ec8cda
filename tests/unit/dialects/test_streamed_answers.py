"""A streamed answer equals the complete one, in every protocol."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.messages import errors
from support.vendors.messages_exchanges import NO_RECORDINGS, RECORDINGS
from support.vendors.streamed_answers import (
    answers,
    complete,
    get_response,
    read_pieces,
    split,
    survey_recorded,
    write_stream,
)
from vibe_llms.dialects import bedrock, generate_content, interactions, messages, responses
from vibe_llms.dialects.client_answers import classify
from vibe_llms.dialects.extras import without
from vibe_llms.dialects.responses.serving.responses import echo_request
from vibe_llms.dialects.signatures import is_wrapped, unwrap_signatures
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.messages.canisters import AssistantCanister, StopReason, Usage
from vibe_llms.messages.requests import Response

each_dialect = pytest.mark.parametrize(
    "dialect",
    [messages, generate_content, interactions, responses, bedrock],
    ids=lambda dialect: dialect.PROTOCOL,
)
sequential = pytest.mark.parametrize(
    "dialect",
    [messages, generate_content, interactions, bedrock],
    ids=lambda dialect: dialect.PROTOCOL,
)


def check(dialect: ModuleType, events: list[StreamEvent], seed: int) -> None:
    """Compare the reading of a written stream, cut anywhere, with that of the complete answer."""
    response = get_response(events)
    whole = dialect.nativize_response(response)
    data, writer = write_stream(dialect, events)
    losses = tuple(writer.losses)
    if dialect is bedrock:  # whose streams have no events for sound
        whole.value["output"]["message"]["content"][:] = [
            block for block in whole.value["output"]["message"]["content"] if "audio" not in block
        ]
        losses = tuple(each for each in losses if not each.reason.endswith("contain audio"))

    try:
        read_whole(dialect, whole.value)
    except ConverseError:  # such as an answer that has failed, or that holds nothing
        with pytest.raises(ConverseError):
            read_pieces(dialect, split(data, seed))
        return
    read = get_response(read_pieces(dialect, split(data, seed)))
    again = dialect.nativize_response(read)
    shown, signatures = separate_signatures(summarize(dialect, again.value, response))
    shown_whole, signatures_whole = separate_signatures(summarize(dialect, whole.value, response))

    if dialect is interactions:  # whose streams have no mark between two texts
        shown, shown_whole = join_texts(shown), join_texts(shown_whole)
    # Texts that a signature has parted count as one.
    assert distil(dialect.PROTOCOL, shown) == distil(dialect.PROTOCOL, shown_whole)
    assert sorted(signatures) == sorted(signatures_whole)
    whole_read = get_response(read_whole(dialect, whole.value))
    assert find_returned(dialect, read) == find_returned(dialect, whole_read)
    assert losses == whole.losses


def read_whole(dialect: ModuleType, body: Any) -> list[StreamEvent]:
    """Decode a complete answer."""
    decoder = dialect.Decoder(provider="vendor", model="asked")
    return complete(decoder.decode_response(body), dialect.PROTOCOL)


def summarize(dialect: ModuleType, body: Any, response: Response) -> Any:
    """Return the meaning of a body, without generated ids and fields of the request."""
    body = distil(dialect.PROTOCOL, body)
    origin = response.metadata.origin
    if dialect is responses and origin.protocol != dialect.PROTOCOL:
        body = without(body, "created_at", *echo_request({}))
        body["output"] = [without(item, "id") for item in body.get("output", ())]
    return body if origin.response_id else without(body, "id")


def separate_signatures(value: Any) -> tuple[Any, list[str]]:
    """Return a body without the signatures of other vendors, and these signatures.

    A complete answer has the signature of a thought with its text. A stream has already sent the
    text, so the signature follows in its own part.
    """
    if isinstance(value, dict):
        signatures = [each for each in value.values() if isinstance(each, str) and is_wrapped(each)]
        rest = {}
        for key, each in value.items():
            if each not in signatures:
                rest[key], inner = separate_signatures(each)
                signatures += inner
        return rest, signatures
    if not isinstance(value, list):
        return value, []
    parted = [(each, *separate_signatures(each)) for each in value]
    # What has only carried a signature shows nothing without it.
    kept = [rest for each, rest, _ in parted if rest == each or shows_anything(rest)]
    return kept, [signature for _, _, signatures in parted for signature in signatures]


def join_texts(body: dict[str, Any]) -> dict[str, Any]:
    """Return an interaction whose neighboring texts are joined, with the places of annotations.

    An annotation without a place is one of its whole text.
    """
    return {**body, "steps": [join_step(step) for step in body.get("steps", ())]}


def join_step(step: dict[str, Any]) -> dict[str, Any]:
    if step["type"] != "model_output":
        return step
    joined: list[dict[str, Any]] = []
    for content in step.get("content", ()):
        if content["type"] != "text":
            joined.append(content)
            continue
        if not joined or joined[-1]["type"] != "text":
            joined.append({"type": "text", "text": "", "annotations": []})
        text = content.get("text", "")
        start, size = (len(each.encode()) for each in (joined[-1]["text"], text))
        for each in content.get("annotations", ()):
            first, last = each.get("start_index", 0), each.get("end_index")
            first, last = (0, size) if last is None else (first, last)
            places = {"start_index": start + first, "end_index": start + last}
            joined[-1]["annotations"].append({**each, **places})
        joined[-1]["text"] += text
    return {**step, "content": joined}


def shows_anything(block: dict[str, Any]) -> bool:
    """Return whether a block has more than the mark of its kind."""
    match block:
        case {"reasoningContent": {"reasoningText": dict(reasoning)}}:
            return bool(reasoning.get("text"))
    return bool(block.keys() - {"type", "thought", "reasoningContent"})


def find_returned(dialect: ModuleType, response: Response) -> list[tuple[str, ...]]:
    """Return the native data that a vendor gets back from an answer that a client has kept, in any
    order.
    """
    return sorted(
        (repr(content), repr(content.native), repr(canister.origin and canister.origin.provider))
        for canister in unwrap_signatures(response.canisters)
        if isinstance(canister, AssistantCanister)
        for content in canister.content
        if content.native is not None and content.native.protocol != dialect.PROTOCOL
    )


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)
@each_dialect
def test_recorded_answers_of_all_vendors_are_streamed(
    dialect: ModuleType,
) -> None:
    """From any vendor, in any pieces."""
    recorded = list(survey_recorded())
    for seed, (_, events) in enumerate(recorded):
        check(dialect, events, seed)
    assert recorded


@pytest.mark.slow
@each_dialect
@given(answers(), st.integers(0, 99))
def test_any_answer_is_streamed(dialect: ModuleType, events: list[StreamEvent], seed: int) -> None:
    """With any contents, ending in any order."""
    check(dialect, events, seed)


@each_dialect
@given(answers(), st.integers(0, 99))
def test_an_interrupted_stream_can_be_read_up_to_its_end(
    dialect: ModuleType, events: list[StreamEvent], seed: int
) -> None:
    """All of it is valid, and it does not look complete."""
    data, _ = write_stream(dialect, events[: seed % len(events)])

    with pytest.raises(StreamTruncatedError):
        read_pieces(dialect, split(data, seed))


@each_dialect
@given(errors)
def test_an_error_in_a_stream_keeps_its_fault(dialect: ModuleType, error: ConverseError) -> None:
    """It is the last event."""
    writer = dialect.StreamWriter({}, model="claude")
    data = writer.write(ResponseStartedEvent()) + writer.fail(error)

    with pytest.raises(ConverseError) as caught:
        read_pieces(dialect, [data])

    assert classify(caught.value)[0] is classify(error)[0]


@each_dialect
def test_a_call_is_not_ended_before_its_arguments_are_complete(dialect: ModuleType) -> None:
    """Pieces of another call wait for it."""
    starts = [
        ContentStartedEvent(index=place, kind="invocation", invocation_id=f"c{place}", name="add")
        for place in range(2)
    ]
    pieces = [(0, '{"a":'), (1, '{"b":'), (0, "1}"), (1, "2}")]
    deltas = [ContentDeltaEvent(place, text, "arguments") for place, text in pieces]
    ends = [ContentFinishedEvent(index=place) for place in range(2)]
    last = ResponseFinishedEvent(stop_reason=StopReason.INVOCATION)

    check(dialect, complete([ResponseStartedEvent(), *starts, *deltas, *ends, last], None), 0)


@each_dialect
def test_a_call_is_ended_once_its_arguments_are_complete(dialect: ModuleType) -> None:
    """The next one does not wait for the event that ends it, which many vendors send last."""
    writer = dialect.StreamWriter({}, model="m")
    start = {"kind": "invocation", "name": "add"}
    for event in (
        ResponseStartedEvent(),
        ContentStartedEvent(index=0, invocation_id="c0", **start),
        *(ContentDeltaEvent(0, text, "arguments") for text in ('{"a"', ":", "1}")),
    ):
        writer.write(event)

    written = writer.write(ContentStartedEvent(index=1, invocation_id="c1", **start))

    assert b"add" in written


@sequential
def test_a_text_that_continues_after_another_content_is_divided(
    dialect: ModuleType,
) -> None:
    """With a loss; the reader gets everything in the order in which it arrived."""
    deltas = [(0, "It "), (1, "Hm"), (0, "rains.")]
    events = complete(
        [
            ResponseStartedEvent(response_id="m"),
            UsageEvent(usage=Usage(input_tokens=1, output_tokens=1)),
            ContentStartedEvent(index=0, kind="text"),
            ContentStartedEvent(index=1, kind="reasoning"),
            *(ContentDeltaEvent(place, text) for place, text in deltas),
            *(ContentFinishedEvent(index=place) for place in range(2)),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
        ],
        None,
    )

    _, left = write_stream(dialect, events[:-3])
    data, writer = write_stream(dialect, events)

    assert left.losses == writer.losses
    canisters = get_response(read_pieces(dialect, [data])).canisters
    contents = [content for canister in canisters for content in canister.content]
    assert [getattr(each, "text", "") for each in contents] == ["It ", "Hm", "rains."]
    assert [loss.path for loss in writer.losses] == ["contents[0]"]


@each_dialect
def test_an_answer_without_contents_is_valid_in_every_protocol(dialect: ModuleType) -> None:
    """No client takes it for a lost answer, complete or streamed."""
    fields = {"id": "m", "model": "claude", "content": [], "stop_reason": "end_turn", "usage": {}}
    body = {**fields, "type": "message", "role": "assistant"}
    events = complete(messages.Decoder(provider="vendor").decode_response(body), messages.PROTOCOL)
    whole = dialect.nativize_response(get_response(events)).value

    read = read_whole(dialect, whole), read_pieces(dialect, [write_stream(dialect, events)[0]])

    assert [get_response(each).metadata.origin.stop_reason for each in read] == [
        StopReason.ANSWERED,
        StopReason.ANSWERED,
    ]
    check(dialect, events, 0)
