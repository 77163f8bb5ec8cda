"""Streams of Messages become events, whatever they contain."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.vendors.messages_exchanges import assemble, read_stream, read_whole, write_whole
from vibe_llms.dialects.messages import Decoder
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentStartedEvent,
    NativeEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, StreamTruncatedError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
)
from vibe_llms.messages.contents import Citation, NativeContent, ReasoningContent, TextualContent

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 4},
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def begin(block: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def go_on(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def end(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", **fields: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    return [{"type": "message_delta", "delta": {**delta, **fields}, "usage": usage}, STOP]


def decode(*events: dict[str, Any]) -> list[StreamEvent]:
    """Decode a stream of events, each from the bytes of its JSON."""
    decoder = Decoder(provider="anthropic")
    decoded = []
    for event in events:
        decoded += decoder.decode(msgspec.json.encode(event), str(event.get("type", "")))
    return [*decoded, *decoder.finish()]


def respond(*blocks: dict[str, Any], reason: str = "end_turn") -> Any:
    """Return the response of a stream with some events of blocks."""
    return assemble(decode(START, *blocks, *finish(reason)))


def test_thinking_text_and_calls_keep_their_order() -> None:
    """The contents keep their order, and the signature its content."""
    response = respond(
        begin({"type": "thinking", "thinking": "", "signature": ""}),
        go_on("thinking_delta", thinking="I th"),
        go_on("thinking_delta", thinking="ink"),
        go_on("signature_delta", signature="no"),
        go_on("signature_delta", signature="signature"),
        end(),
        begin({"type": "redacted_thinking", "data": "dark"}, 1),
        end(1),
        begin({"type": "text", "text": ""}, 2),
        go_on("text_delta", 2, text="Hel"),
        go_on("text_delta", 2, text="lo"),
        end(2),
        begin({"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"x": 1}}, 3),
        go_on("input_json_delta", 3, partial_json='{"a": '),
        go_on("input_json_delta", 3, partial_json="1}"),
        end(3),
        begin({"type": "tool_use", "id": "b", "name": "g", "input": {}}, 4),
        go_on("input_json_delta", 4, partial_json=""),
        end(4),
        reason="tool_use",
    )
    answer, first, second = response.canisters
    thought, dark, text = answer.content
    assert (thought.text, thought.signature) == ("I think", "signature")
    assert (dark.text, dark.signature) == ("", "dark")
    assert isinstance(dark, ReasoningContent)
    assert text == TextualContent("Hello")
    assert (first.arguments, first.native is None) == ('{"a": 1}', False)
    assert (second.arguments, second.native) == ("{}", None)
    assert response.metadata.stop_reason is StopReason.INVOCATION


def test_usage_is_cumulative_and_keeps_counts_that_are_not_repeated() -> None:
    """The buckets do not overlap: the cache for an hour is counted separately."""
    delta, stop = finish()
    delta["usage"]["cache_read_input_tokens"] = None
    events = decode(START, delta, stop)
    usages = [event.usage for event in events if isinstance(event, UsageEvent)]
    last = usages[-1]
    assert (last.input_tokens, last.cache_read_tokens) == (10, 3)
    assert (last.cache_write_tokens, last.cache_write_long_tokens) == (1, 4)
    assert (last.output_tokens, last.reasoning_tokens) == (5, 4)
    assert last.total_input_tokens == 18


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("pause_turn", StopReason.PAUSED),
        ("compaction", StopReason.PAUSED),
        ("refusal", StopReason.REFUSED),
        ("model_context_window_exceeded", StopReason.OVERFLOW),
        ("max_tokens", StopReason.LIMIT),
        ("brand_new", StopReason.UNKNOWN),
    ],
)
def test_every_native_stop_reason_has_a_common_one(word: str, reason: StopReason) -> None:
    """The native reason is kept."""
    response = assemble(decode(START, *finish(word, stop_details={"type": word})))
    assert response.metadata.stop_reason is reason
    body, losses = write_whole(response)
    assert (body["stop_reason"], body["stop_details"], losses) == (word, {"type": word}, ())


def test_calls_of_the_vendor_are_readable_and_kept() -> None:
    """A search and its results, owned by the vendor."""
    found = {"type": "web_search_result", "title": "T", "url": "u", "encrypted_content": "E"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]}
    response = respond(
        begin({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        go_on("input_json_delta", partial_json='{"query": "q"}'),
        end(),
        begin(result, 1),
        end(1),
    )
    call, came = response.canisters
    assert isinstance(call, InvocationCanister)
    assert (call.owner, call.name, call.arguments) == (
        Owner.VENDOR,
        "web_search",
        '{"query": "q"}',
    )
    assert isinstance(came, ResultCanister)
    source = TextualContent("T\nu", citations=[Citation(title="T", url="u")])
    assert (came.name, came.content) == ("web_search", (source,))
    body, losses = write_whole(response)
    assert losses == ()
    assert body["content"][0]["input"] == {"query": "q"}
    assert body["content"][1] == result


def test_citations_are_put_on_their_text() -> None:
    """The offsets are those of the document, so the citation has no span of the text."""
    place = {
        "type": "char_location",
        "cited_text": "c",
        "document_index": 0,
        "document_title": "D",
        "start_char_index": 3,
        "end_char_index": 4,
    }
    response = respond(
        begin({"type": "text", "text": "", "citations": []}),
        go_on("citations_delta", citation=place),
        go_on("text_delta", text="said"),
        end(),
    )
    (citation,) = response.canisters[0].content[0].citations
    assert (citation.cited_text, citation.title, citation.start) == ("c", "D", None)
    body, _ = write_whole(response)
    assert body["content"] == [{"type": "text", "text": "said", "citations": [place]}]


def test_a_compaction_is_replaced_by_its_deltas() -> None:
    """It has no common field, and its summary can be read."""
    response = respond(
        begin({"type": "compaction", "content": None}),
        go_on("compaction_delta", content="short", encrypted_content="E"),
        go_on("compaction_delta", content="shorter", encrypted_content="F"),
        end(),
    )
    (content,) = response.canisters[0].content
    assert isinstance(content, NativeContent)
    assert content.text == "shorter"
    body, _ = write_whole(response)
    block = {"type": "compaction", "content": "shorter", "encrypted_content": "F"}
    assert body["content"] == [block]


def test_unknown_data_are_passed_through() -> None:
    """Unknown events, unknown deltas, and unknown fields of known deltas."""
    events = decode(
        START,
        {"type": "ping"},
        {"type": "weather", "is": "fine"},
        begin({"type": "text", "text": ""}),
        go_on("mood_delta", mood="good"),
        end(),
        begin({"type": "thinking", "thinking": ""}, 1),
        go_on("thinking_delta", 1, thinking="a", estimated_tokens=5),
        end(1),
        *finish(),
    )
    natives = [event for event in events if isinstance(event, NativeEvent)]
    assert [event.kind for event in natives] == ["weather", "mood_delta", "thinking_delta"]
    assert [event.index for event in natives] == [None, 0, 1]
    assert "estimated_tokens" in natives[2].native.data
    assert ContentDeltaEvent(1, "a") in events


def test_an_unknown_block_collects_its_deltas() -> None:
    """It is kept as native data."""
    response = respond(
        begin({"type": "connector_text", "text": ""}),
        go_on("text_delta", text="a"),
        go_on("text_delta", text="b"),
        go_on("signature_delta", signature="s"),
        end(),
    )
    body, _ = write_whole(response)
    assert body["content"] == [{"type": "connector_text", "text": "ab", "signature": "s"}]


def test_another_model_may_continue() -> None:
    """After a fallback, the origin has the model that took over."""
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {}}
    response = respond(begin(block), end(), begin({"type": "text", "text": "x"}, 1), end(1))
    assert response.metadata.origin.model == "b"


def test_invalid_arguments_are_kept() -> None:
    """The invocation has the fault, and a client still gets an object."""
    response = respond(
        begin({"type": "tool_use", "id": "a", "name": "f", "input": {}}),
        go_on("input_json_delta", partial_json='{"a": oops'),
        end(),
    )
    (call,) = response.canisters
    assert call.arguments == '{"a": oops'
    assert call.fault is not None
    body, losses = write_whole(response)
    assert body["content"][0]["input"] == {"INVALID_JSON": '{"a": oops'}
    assert [loss.path for loss in losses] == ["canisters[0].arguments"]


def test_an_error_in_a_stream_is_classified_by_its_type() -> None:
    """The status of the stream is 200."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ProviderError) as caught:
        decode(START, error)
    assert caught.value.fault is ProviderFault.OVERLOADED
    with pytest.raises(ProviderError):
        read_whole(error)


def test_the_last_event_completes_the_stream() -> None:
    """Not the event with the stop reason."""
    decoder = Decoder(provider="p")
    states = []
    for event in (START, *finish()):
        decoder.decode(msgspec.json.encode(event), event["type"])
        states.append(decoder.is_complete)
    assert states == [False, False, True]


def test_a_stream_without_its_last_event_is_truncated() -> None:
    """Even after the stop reason."""
    with pytest.raises(StreamTruncatedError):
        decode(START, begin({"type": "text", "text": "a"}), end(), finish()[0])
    with pytest.raises(StreamTruncatedError):
        decode()


def test_a_repeated_end_is_harmless() -> None:
    """Some gateways end a block twice; the second end is passed through."""
    events = decode(START, begin({"type": "text", "text": "a"}), end(), end(), *finish())
    assert [event.kind for event in events if isinstance(event, NativeEvent)] == [
        "content_block_stop"
    ]


@pytest.mark.parametrize(
    "event",
    [
        go_on("text_delta", 7, text="a"),
        {"type": "content_block_start", "index": 0},
        {"type": "message_start", "message": []},
        begin({"type": "tool_use"}),
        [],
    ],
)
def test_invalid_events_raise_our_errors(event: Any) -> None:
    """No other exception is raised."""
    with pytest.raises(ConverseError):
        Decoder(provider="p").decode(msgspec.json.encode(event))


@given(st.binary(max_size=40), st.sampled_from(["", "content_block_delta", "message_start"]))
def test_any_bytes_become_events_or_our_errors(data: bytes, event: str) -> None:
    """Whatever a vendor sends."""
    with contextlib.suppress(ConverseError):
        Decoder(provider="p").decode(data, event)


def test_missing_fields_of_a_local_server_are_accepted() -> None:
    """llama.cpp sends no signature, no usage at the start, and sometimes no name of the event."""
    decoder = Decoder(provider="llama")
    events = []
    for event in (
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        begin({"type": "thinking", "thinking": ""}),
        go_on("thinking_delta", thinking="hm"),
        go_on("signature_delta", signature=""),
        end(),
        begin({"type": "text", "text": ""}, 1),
        go_on("text_delta", 1, text="yes"),
        end(1),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        STOP,
    ):
        events += decoder.decode(msgspec.json.encode(event))
    response = assemble([*events, *decoder.finish()])
    thought, text = response.canisters[0].content
    assert (thought.text, thought.signature, text.text) == ("hm", None, "yes")
    assert response.metadata.usage is None


def test_the_events_of_one_text_contain_it_once() -> None:
    """A content begins once, and its deltas are its text."""
    blocks = [begin({"type": "text", "text": "a"}), go_on("text_delta", text="b"), end()]
    events = decode(START, *blocks, *finish())
    assert sum(isinstance(event, ContentStartedEvent) for event in events) == 1
    deltas = [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    assert deltas == ["a", "b"]


BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": st.text(max_size=9), "signature": st.just("s")}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_use"),
            "id": st.uuids().map(str),
            "name": st.just("f"),
            "input": st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
        }
    ),
    st.fixed_dictionaries({"type": st.just("novelty"), "text": st.text(max_size=3)}),
)


@given(st.lists(BLOCKS, max_size=4), st.integers(1, 40), st.integers(1, 5))
def test_a_stream_equals_the_complete_response_however_it_is_split(
    blocks: list[dict[str, Any]], size: int, length: int
) -> None:
    """Deltas of any length, bytes in pieces of any size."""
    message = {**START["message"], "content": blocks, "stop_reason": "end_turn"}  # type: ignore[dict-item]
    whole, losses = write_whole(assemble(read_whole(message)))
    assert losses == ()
    events: list[dict[str, Any]] = [START]
    for index, block in enumerate(blocks):
        events += stream_block(block, index, length)
    events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP]
    data = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
        for event in events
    )
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert write_whole(assemble(read_stream(pieces))) == (whole, ())


def stream_block(block: dict[str, Any], index: int, length: int) -> list[dict[str, Any]]:
    """Return the events of a block, its text in pieces of some length."""
    match block:
        case {"type": "text", "text": str(text)}:
            pieces, kind, name = text, "text_delta", "text"
        case {"type": "thinking", "thinking": str(text)}:
            pieces, kind, name = text, "thinking_delta", "thinking"
        case {"type": "tool_use", "input": dict(value)}:
            pieces = msgspec.json.encode(value).decode()
            kind, name = "input_json_delta", "partial_json"
        case _:
            return [begin(block, index), end(index)]
    empty: Any = {} if kind == "input_json_delta" else ""
    start = {**block, ("input" if kind == "input_json_delta" else name): empty}
    deltas = [
        go_on(kind, index, **{name: pieces[place : place + length]})
        for place in range(0, len(pieces), length)
    ]
    if "signature" in start:
        start["signature"] = ""
        deltas.append(go_on("signature_delta", index, signature="s"))
    return [begin(start, index), *deltas, end(index)]


def test_an_answer_may_have_no_blocks() -> None:
    """A model may have nothing to add."""
    response = assemble(decode(START, *finish()))
    assert response.canisters == ()
    assert not any(isinstance(canister, AssistantCanister) for canister in response.canisters)
