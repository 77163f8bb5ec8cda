"""Streams of every form give the response that they describe."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.dialects.responses import PROTOCOL, Decoder
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    LossEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
)
from vibe_llms.messages.contents import AudioContent, ImageContent, ReasoningContent
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

TEXTS = st.text(max_size=30)
WORDS = st.text(alphabet="abcdefgh_", min_size=1, max_size=8)
PARTS = st.one_of(
    st.builds(lambda text: {"type": "output_text", "text": text, "annotations": []}, TEXTS),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXTS),
    st.builds(lambda word: {"type": f"new_{word}", "data": word}, WORDS),
)


def describe(kind: str, **fields: Any) -> Any:
    """Return a strategy for items of a type."""
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


ITEMS = st.one_of(
    describe(
        "message",
        role=st.just("assistant"),
        status=st.just("completed"),
        content=st.lists(PARTS, min_size=1, max_size=3),
    ),
    describe(
        "reasoning",
        summary=st.lists(
            st.builds(lambda t: {"type": "summary_text", "text": t}, TEXTS), max_size=3
        ),
        content=st.lists(
            st.builds(lambda t: {"type": "reasoning_text", "text": t}, TEXTS), max_size=2
        ),
        encrypted_content=st.one_of(st.none(), WORDS),
    ),
    describe("function_call", call_id=st.uuids().map(str), name=WORDS, arguments=TEXTS),
    describe("custom_tool_call", call_id=st.uuids().map(str), name=WORDS, input=TEXTS),
    describe("code_interpreter_call", code=TEXTS, container_id=WORDS, status=st.just("completed")),
    describe("mcp_call", name=WORDS, server_label=WORDS, arguments=TEXTS, output=TEXTS),
    describe("web_search_call", action=st.just({"type": "search", "query": "q"})),
    describe("compaction", encrypted_content=WORDS),
    describe("brand_new_call", data=WORDS),
    describe("brand_new", data=WORDS),
)


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    """Draw complete responses, each item with an id."""
    items = draw(st.lists(ITEMS, min_size=1, max_size=5))
    output = [{**item, "id": f"item_{number}"} for number, item in enumerate(items)]
    usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
    return {
        "id": "resp_1", "object": "response", "model": "model", "status": "completed",
        "output": output, "usage": usage,
    }  # fmt: skip


@attrs.frozen(kw_only=True)
class Habits:
    """How a vendor streams.

    Attributes:
        places: Whether it says of which item an event is.
        changes_ids: Whether an item has another id in each event.
        parts: Whether parts are announced.
        done: Whether items are repeated when they are complete.
        whole: Whether the last event holds all of the response.
        size: Of a delta, in characters; 0 where there are none.
    """

    places: bool = True
    changes_ids: bool = False
    parts: bool = True
    done: bool = True
    whole: bool = True
    size: int = 3


def stream(response: dict[str, Any], habits: Habits) -> Iterator[dict[str, Any]]:
    """Yield the events in which a vendor of such habits would send a response."""
    begun = {**response, "output": [], "status": "in_progress"}
    yield {"type": "response.created", "response": begun}
    for place, item in enumerate(response["output"]):
        for number, event in enumerate(stream_item(item, habits)):
            if habits.places:
                event["output_index"] = place
            if habits.changes_ids and "item_id" in event:
                event["item_id"] = f"other_{number}"
            yield event
    final = response if habits.whole else {k: v for k, v in response.items() if k != "output"}
    yield {"type": "response.completed", "response": final}


def stream_item(item: dict[str, Any], habits: Habits) -> Iterator[dict[str, Any]]:
    """Yield the events of one item."""
    empty = {"content": [], "summary": [], "arguments": "", "input": "", "code": None}
    begun = {**item, **{name: empty[name] for name in empty if name in item}}
    begun.pop("encrypted_content", None)
    yield {"type": "response.output_item.added", "item": begun}
    for name, field, index, text in list_texts(item):
        base = {"item_id": item["id"], **index}
        if name == "output_text" and habits.parts:
            part = {"type": "output_text", "text": ""}
            yield {"type": "response.content_part.added", "part": part, **base}
        for start in range(0, len(text), habits.size or 1) if habits.size else ():
            delta = text[start : start + habits.size]
            yield {"type": f"response.{name}.delta", "delta": delta, **base}
        yield {"type": f"response.{name}.done", field: text, **base}
    parts = item.get("content") or ()
    comes_whole = "output" in item or len(list(list_texts(item))) < len(parts)
    if habits.done or comes_whole:  # what has no deltas is told before the next item begins
        yield {"type": "response.output_item.done", "item": item}


def list_texts(item: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, int], str]]:
    """Yield the streamed texts of an item: the event, its field, the indices, and the text."""
    for number, part in enumerate(item.get("content") or ()):
        index = {"content_index": number}
        if part["type"] == "output_text":
            yield "output_text", "text", index, part["text"]
        elif part["type"] == "refusal":
            yield "refusal", "refusal", index, part["refusal"]
        elif part["type"] == "reasoning_text":
            yield "reasoning_text", "text", index, part["text"]
    for number, part in enumerate(item.get("summary") or ()):
        yield "reasoning_summary_text", "text", {"summary_index": number}, part["text"]
    for kind, name, field in (
        ("function_call", "function_call_arguments", "arguments"),
        ("custom_tool_call", "custom_tool_call_input", "input"),
        ("mcp_call", "mcp_call_arguments", "arguments"),
        ("code_interpreter_call", "code_interpreter_call_code", "code"),
    ):
        if item["type"] == kind:
            yield name, field, {}, item[field]


def read(events: list[StreamEvent]) -> list[AnyCanister]:
    """Return the canisters of events, without generated values that differ each time."""
    assembler = Assembler(provider="p", model="m", protocol=PROTOCOL)
    for event in events:
        assembler.feed(event)
    made_up: dict[str, Any] = {"id": "", "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    return [
        attrs.evolve(canister, turn_id="", **made_up)
        for canister in assembler.produce_canisters()
        if isinstance(canister, AssistantCanister | InvocationCanister | ResultCanister)
    ]


def decode(events: Iterator[dict[str, Any]]) -> list[StreamEvent]:
    """Return the response for events."""
    decoder = Decoder(provider="p")
    received = [event for each in events for event in decoder.decode(msgspec.json.encode(each))]
    return received + decoder.finish()


HABITS = st.builds(
    Habits,
    places=st.booleans(),
    parts=st.booleans(),
    done=st.booleans(),
    size=st.integers(0, 4),
)


@pytest.mark.slow
@given(responses(), HABITS)
def test_a_stream_equals_the_complete_response(response: dict[str, Any], habits: Habits) -> None:
    """However a vendor streams.

    If it does not report the part of a delta, and sends empty parts, a delta may be taken for
    another part's: the final copy corrects that, with a loss.
    """
    streamed = decode(stream(response, habits))
    whole = Decoder(provider="p").decode_response(response)
    assert read(streamed) == read(whole)
    received = [event for event in streamed if isinstance(event, LossEvent)]
    assert not (received and habits.places)


@given(responses(), st.booleans())
def test_ids_may_change_during_a_stream(response: dict[str, Any], whole: bool) -> None:
    """Items are identified by their index; the final copy has the authoritative id."""
    streamed = decode(stream(response, Habits(changes_ids=True, whole=whole)))
    assert read(streamed) == read(Decoder(provider="p").decode_response(response))


@given(responses(), st.lists(st.integers(1, 40), min_size=1))
def test_bytes_may_be_cut_anywhere(response: dict[str, Any], sizes: list[int]) -> None:
    """The same bytes in other chunks are the same stream."""
    body = b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for event in stream(response, Habits())
    )
    decoder, framer, position, number = Decoder(provider="p"), SseFramer(Limits()), 0, 0
    events: list[StreamEvent] = []
    while position < len(body):
        size = sizes[number % len(sizes)]
        for frame in framer.feed(body[position : position + size]):
            events += decoder.decode(frame.data, frame.event)
        position, number = position + size, number + 1
    events += decoder.finish()
    assert read(events) == read(Decoder(provider="p").decode_response(response))


@given(responses(), st.integers(0, 200))
def test_a_truncated_stream_is_an_error(response: dict[str, Any], count: int) -> None:
    """Wherever it was cut, without its last event it is not complete."""
    events = list(stream(response, Habits()))[:-1][:count]
    with pytest.raises(StreamTruncatedError):
        decode(iter(events))


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS,
                    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner)))  # fmt: skip
def test_invalid_events_raise_our_errors(value: Any) -> None:
    """Any other data are passed through as an event."""
    for event in (value, {"type": value}, {"type": "response.output_item.done", "item": value},
                  {"type": "response.completed", "response": value}):  # fmt: skip
        try:
            Decoder(provider="p").decode(msgspec.json.encode(event))
        except ConverseError:
            continue


def begin(*events: dict[str, Any]) -> Decoder:
    """Return a decoder that has read some events."""
    decoder = Decoder(provider="p")
    for event in events:
        decoder.decode(event)
    return decoder


MESSAGE = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "message", "id": "m", "role": "assistant", "content": []},
}


def test_the_fast_path_and_the_general_one_give_the_same_events() -> None:
    """A chunk with unusual fields, or of a part that was not announced, is read, too."""
    part = {"type": "response.content_part.added", "output_index": 0, "content_index": 0,
            "part": {"type": "output_text", "text": ""}}  # fmt: skip
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
             "delta": "Hi"}  # fmt: skip
    for decoder in (begin(MESSAGE, part), begin(MESSAGE), begin()):
        for unusual in ({}, {"brand_new": 1}, {"logprobs": [{"token": "Hi"}]}):
            data = msgspec.json.encode({**delta, **unusual})
            for word in ("", "response.output_text.delta"):
                events = decoder.decode(data, word)
                assert events[-1] == ContentDeltaEvent(0, "Hi")


@pytest.mark.parametrize("texts", [["Hello"], ["Hello", ""]])
def test_a_final_copy_that_differs_is_used_and_reported(texts: list[str]) -> None:
    """The streamed text was not final, also with other parts beside it."""
    decoder = begin(MESSAGE)
    decoder.decode({"type": "response.output_text.delta", "output_index": 0, "delta": "Helo"})
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": parts}  # fmt: skip
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    events = decoder.decode(done)
    assert len([event for event in events if isinstance(event, LossEvent)]) == 1
    finished = [event for event in events if isinstance(event, ContentFinishedEvent)]
    assert [getattr(event.item, "text", "") for event in finished] == texts


@examples(200)
@given(texts=st.lists(st.sampled_from(["", "a", "bc", "def"]), min_size=1, max_size=4))
def test_empty_parts_in_the_final_copy_are_no_difference(texts: list[str]) -> None:
    """They shift the parts after them, but nothing is lost."""
    decoder = begin(MESSAGE)
    for index, text in enumerate(texts):
        if text:
            decoder.decode({"type": "response.output_text.delta", "output_index": 0,
                            "content_index": index, "delta": text})  # fmt: skip
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {"type": "message", "id": "m", "role": "assistant", "content": parts}

    events = decoder.decode({"type": "response.output_item.done", "output_index": 0, "item": item})

    assert not [event for event in events if isinstance(event, LossEvent)]
    finished = [event.item for event in events if isinstance(event, ContentFinishedEvent)]
    assert [getattr(content, "text", "") for content in finished if content] == texts


def test_progress_events_have_the_index_of_their_call() -> None:
    """The progress of a hosted tool is passed through."""
    call = {"type": "web_search_call", "id": "ws", "status": "in_progress", "action": {}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": call}
    decoder = begin(MESSAGE | {"output_index": 3}, added)
    for kind in ("response.web_search_call.searching", "response.brand_new"):
        (event,) = decoder.decode({"type": kind, "output_index": 0, "item_id": "ws"})
        assert isinstance(event, NativeEvent)
        assert (event.kind, event.index) == (kind, 0)
    assert decoder.decode({"type": "keepalive", "sequence_number": 3}) == []
    assert decoder.decode(b"[DONE]") == []


def test_a_citation_is_reported_at_once() -> None:
    """With its span of the text, and the native annotation."""
    annotation = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 2,
        "url": "u",
        "title": "t",
    }
    (_, event) = begin(MESSAGE).decode(
        {"type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0,
         "annotation": annotation}
    )  # fmt: skip
    assert isinstance(event, ContentCitedEvent)
    cited = event.citation
    assert (cited.start, cited.end, cited.url, cited.title) == (0, 2, "u", "t")
    assert cited.native is not None
    assert msgspec.json.decode(cited.native.data) == annotation


def test_audio_has_its_transcript() -> None:
    """Audio is not among the items; it is a content of its own."""
    data = base64.b64encode(b"sound").decode()
    decoder = begin(
        {"type": "response.audio.delta", "delta": data},
        {"type": "response.audio.transcript.delta", "delta": "Hel"},
        {"type": "response.audio.transcript.delta", "delta": "lo"},
        {"type": "response.audio.done"},
    )
    final = {"id": "r", "status": "completed", "output": []}
    started, finished = decoder.decode({"type": "response.completed", "response": final})
    assert isinstance(started, ResponseStartedEvent)
    assert isinstance(finished, ContentFinishedEvent)
    assert isinstance(finished.item, AudioContent)
    assert (finished.item.data, finished.item.transcript) == (b"sound", "Hello")


def end(status: str = "completed", *items: dict[str, Any], **fields: Any) -> StopReason:
    """Return the stop reason of a response of these items."""
    body = {"id": "r", "status": status, "output": list(items), **fields}
    assembler = Assembler(provider="p", model="m")
    for event in Decoder(provider="p").decode_response(body):
        assembler.feed(event)
    return assembler.origin.stop_reason


TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
REFUSAL = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "n"}]}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
SHELL = {"type": "shell_call", "call_id": "s", "action": {"commands": []}}
HOSTED = {**SHELL, "environment": {"type": "container_reference", "container_id": "c"}}


def test_the_stop_reason_is_derived() -> None:
    """The vendor only reports completion; calls that wait for us determine the rest."""
    assert end("completed", TEXT) is StopReason.ANSWERED
    assert end("completed", REFUSAL) is StopReason.REFUSED
    assert end("completed", TEXT, CALL) is StopReason.INVOCATION
    assert end("completed", SHELL) is StopReason.INVOCATION
    assert end("completed", HOSTED) is StopReason.ANSWERED
    answered = {"type": "function_call_output", "call_id": "c", "output": "1"}
    assert end("completed", CALL, answered, TEXT) is StopReason.ANSWERED
    approval = {"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}",
                "server_label": "s"}  # fmt: skip
    assert end("completed", approval) is StopReason.INVOCATION
    for reason, expected in (
        ("max_output_tokens", StopReason.LIMIT),
        ("content_filter", StopReason.FILTERED),
        ("steered", StopReason.INTERRUPTED),
        ("brand_new", StopReason.UNKNOWN),
    ):
        assert end("incomplete", TEXT, incomplete_details={"reason": reason}) is expected
    assert end("cancelled", TEXT) is StopReason.INTERRUPTED


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_background_response_is_interrupted(status: str) -> None:
    """A response that has only begun is not empty; its id is there for later requests."""
    body = {"id": "r", "status": status, "output": []}
    *_, finished = Decoder(provider="p").decode_response(body)
    assert isinstance(finished, ResponseFinishedEvent)
    assert finished.stop_reason is StopReason.INTERRUPTED
    assert finished.native_stop_reason == status


def test_a_hosted_call_is_read_with_its_result() -> None:
    """Call and result are in one item; both belong to the vendor."""
    item = {"type": "code_interpreter_call", "id": "ci", "code": "1+1", "container_id": "c",
            "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "https://a/b"}],
            "status": "completed"}  # fmt: skip
    body = {"id": "r", "status": "completed", "output": [item]}
    invocation, result = read(Decoder(provider="p").decode_response(body))
    assert isinstance(invocation, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert (invocation.form, invocation.arguments) == ("text", "1+1")
    assert invocation.owner is result.owner is Owner.VENDOR
    assert isinstance(result.content[1], ImageContent)


def test_several_summaries_stay_separate() -> None:
    """In the stream they are separated by an empty line; the content has a list."""
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    item = {"type": "reasoning", "id": "rs", "summary": parts, "encrypted_content": "signature"}
    body = {"id": "r", "object": "response", "status": "completed", "output": [item]}
    events = decode(stream(body, Habits()))
    received = [
        e.text for e in events if isinstance(e, ContentDeltaEvent) and e.channel == "summary"
    ]
    assert "".join(received) == "One.\n\nTwo."
    (canister,) = read(events)
    (content,) = canister.content
    assert isinstance(content, ReasoningContent)
    assert (content.summary, content.signature) == (("One.", "Two."), "signature")
