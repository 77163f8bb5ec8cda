"""Answers in all forms that hosts use, complete and streamed: both give the same canisters, and
round-trip.
"""

from __future__ import annotations

import base64
import functools
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from vibe_llms.dialects.chat_completions import Decoder, nativize_response
from vibe_llms.events.stream import NativeEvent, StreamEvent
from vibe_llms.exceptions import ProviderError, StreamTruncatedError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import AudioContent, Citation, ImageContent, TextualContent
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "chat_completions")

Json = dict[str, Any]
words = st.text(min_size=1, max_size=6)


def respond(events: list[StreamEvent]) -> Response:
    """Make a response of events."""
    assembler = Assembler(provider="vendor", model="model", protocol="chat_completions")
    for event in events:
        assembler.feed(event)
    return Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def read_whole(body: Json) -> Response:
    """Read a complete response."""
    return respond(Decoder(provider="vendor").decode_response(json.dumps(body).encode()))


def read_stream(chunks: list[Json | bytes]) -> Response:
    """Read a stream to its end."""
    decoder = Decoder(provider="vendor")
    data = [chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode() for chunk in chunks]
    events = [event for each in data for event in decoder.decode(each)]
    return respond([*events, *decoder.finish()])


def delta(finish: str | None = None, **fields: Any) -> Json:
    """Make a chunk."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "c", "created": 1, "model": "m", "choices": [choice]}


details = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("reasoning.text"), "text": words, "signature": words}
        ),
        st.fixed_dictionaries({"type": st.just("reasoning.summary"), "summary": words}),
        st.fixed_dictionaries({"type": st.just("reasoning.encrypted"), "data": words}),
    ),
    min_size=1,
    max_size=3,
).map(lambda items: [{**item, "index": index} for index, item in enumerate(items)])
calls = st.lists(
    st.one_of(
        words.map(lambda w: {"type": "function", "function": {"name": w, "arguments": "{}"}}),
        words.map(lambda w: {"type": "custom", "custom": {"name": w, "input": w}}),
    ),
    min_size=1,
    max_size=3,
).map(lambda items: [{"id": f"id-{index}", **item} for index, item in enumerate(items)])
source = st.fixed_dictionaries(
    {
        "start_index": st.integers(0, 5),
        "end_index": st.integers(0, 5),
        "title": words,
        "url": words,
    }
)
cited = st.lists(
    source.map(lambda one: {"type": "url_citation", "url_citation": one}), min_size=1, max_size=2
)
sounds = st.fixed_dictionaries(
    {
        "id": words,
        "data": st.binary(min_size=1).map(lambda data: base64.b64encode(data).decode()),
        "transcript": words,
        "expires_at": st.integers(1, 9),
    }
)
parts = st.lists(
    st.one_of(
        words.map(lambda text: {"type": "text", "text": text}),
        words.map(lambda text: {"type": "thinking", "thinking": [{"type": "text", "text": text}]}),
        words.map(lambda text: {"type": "reference", "reference_ids": [text]}),
    ),
    min_size=1,
    max_size=3,
)
messages: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | words | parts},
    optional={
        "refusal": words,
        "reasoning": words,
        "reasoning_content": words,
        "reasoning_details": details,
        "tool_calls": calls,
        "annotations": cited,
        "audio": sounds,
        "function_call": words.map(lambda name: {"name": name, "arguments": "{}"}),
        "extra_content": st.dictionaries(words, words, min_size=1, max_size=2),
    },
)


@given(messages)
def test_every_answer_round_trips(message: Json) -> None:
    """With any combination of fields; every loss is reported."""
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    response = read_whole(body)
    written = nativize_response(response)

    assert mean(written.value) == mean(body)
    assert written.losses == response.losses == ()


def test_audio_is_joined_from_its_pieces() -> None:
    """Each piece is complete Base64; the id and the expiry arrive separately, and the format is not
    named.
    """
    first, second = (base64.b64encode(piece).decode() for piece in (b"RIFF", b"1234WAVE"))
    response = read_stream(
        [
            delta(audio={"id": "audio-1", "transcript": "He"}),
            delta(audio={"data": first, "transcript": "y."}),
            delta(audio={"data": second}),
            delta("stop", audio={"expires_at": 7}),
        ]
    )

    (sound,) = response.canisters[0].content
    assert isinstance(sound, AudioContent)
    assert (sound.data, sound.file_id) == (b"RIFF1234WAVE", "audio-1")
    assert (sound.transcript, sound.mime_type) == ("Hey.", "audio/wav")


def test_invalid_audio_data_round_trip() -> None:
    """Recordings may have a placeholder instead of the data."""
    audio = {"id": "a", "data": "<audio left out>", "transcript": "Hey.", "expires_at": 7}
    message = {"role": "assistant", "content": None, "audio": audio}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    written = nativize_response(read_whole({"id": "c", "model": "m", "choices": [choice]})).value

    assert json.loads(json.dumps(written))["choices"] == [choice]


def test_a_generated_image_becomes_an_image_content() -> None:
    """OpenRouter sends images beside the text."""
    url = "data:image/png;base64," + base64.b64encode(b"pixel").decode()
    image = {"type": "image_url", "image_url": {"url": url}, "index": 0}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "See.", "images": [image]},
                "finish_reason": "stop",
            }
        ],
    }
    response = read_whole(body)

    picture = response.canisters[0].content[1]
    assert isinstance(picture, ImageContent)
    assert picture.data == b"pixel"
    assert mean(nativize_response(response).value) == mean(body)


def test_two_calls_with_one_index_and_no_ids_stay_separate() -> None:
    """A repeated name after complete arguments begins another call."""
    pieces = [
        [{"index": 0, "function": {"name": name, "arguments": '{"a":1}'}}] for name in ("f", "g")
    ]
    response = read_stream([*(delta(tool_calls=piece) for piece in pieces), delta("tool_calls")])

    made = [one for one in response.canisters if isinstance(one, InvocationCanister)]
    assert [(one.name, one.arguments) for one in made] == [("f", '{"a":1}'), ("g", '{"a":1}')]
    assert len({one.invocation_id for one in made}) == 2


@pytest.mark.parametrize("end", [[b"[DONE]"], [b" [DONE] "]])
def test_a_stream_may_end_with_only_the_end_mark(end: list[Json | bytes]) -> None:
    """Its stop reason is then unknown."""
    response = read_stream([delta(content="x"), *end])

    assert response.text == "x"
    assert response.metadata.stop_reason is StopReason.UNKNOWN


def test_an_end_mark_without_an_answer_is_an_error() -> None:
    """Nothing was received, so the response is not complete."""
    with pytest.raises(StreamTruncatedError):
        read_stream([b"[DONE]"])


def test_an_error_within_a_choice_is_an_error_of_the_vendor() -> None:
    """OpenRouter reports errors in the middle of a stream like this."""
    chunk = delta("error", content="")
    chunk["choices"][0]["error"] = {"code": 502, "message": "gone"}
    with pytest.raises(ProviderError, match="gone"):
        read_stream([delta(content="x"), chunk])


def test_an_unknown_chunk_is_passed_through() -> None:
    """It is not an error, and not a part of the answer."""
    decoder = Decoder(provider="vendor")
    decoder.decode(delta(content="x"))
    (event,) = decoder.decode(b'{"object": "chat.heartbeat", "at": 1}')

    assert isinstance(event, NativeEvent)
    assert event.kind == "chat.heartbeat"
    assert json.loads(event.native.data) == {"object": "chat.heartbeat", "at": 1}


def test_an_empty_answer_at_the_limit_is_an_overflow() -> None:
    """Some servers return an empty answer if the input fills the context window."""
    usage = {"prompt_tokens": 4096, "completion_tokens": 0, "total_tokens": 4096}
    silent = read_stream([delta("length", content=""), {"choices": [], "usage": usage}])
    short = read_stream([delta("length", content="x"), {"choices": [], "usage": usage}])

    assert silent.metadata.stop_reason is StopReason.OVERFLOW
    assert short.metadata.stop_reason is StopReason.LIMIT


def test_reasoning_tokens_may_be_counted_separately() -> None:
    """At xAI the total shows this; the buckets never overlap."""
    account = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 35,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    response = read_stream([delta("stop", content="x"), {"choices": [], "usage": account}])

    usage = response.metadata.usage
    assert usage is not None
    assert (usage.output_tokens, usage.reasoning_tokens) == (5, 20)


def test_an_annotation_has_the_span_in_the_text_of_the_message() -> None:
    """One without a span gets the span of its text; the message has all texts joined."""
    origin = Origin(provider="claude", model="m", protocol="messages")
    cited = Citation(url="https://a", title="A")
    contents = [
        TextualContent("Before. "),
        TextualContent("Cited.", citations=[cited]),
        TextualContent(" And so on.", citations=[attrs.evolve(cited, start=1, end=4)]),
    ]
    response = Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=[AssistantCanister(contents, origin=origin)],
        metadata=ResponseMetadata(origin=origin),
    )
    body: Any = nativize_response(response).value
    message = body["choices"][0]["message"]
    spans = [
        message["content"][each["url_citation"]["start_index"] : each["url_citation"]["end_index"]]
        for each in message["annotations"]
    ]
    assert spans == ["Cited.", "And"]
