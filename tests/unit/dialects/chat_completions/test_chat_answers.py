"""Answers of every kind that hosts give, whole and in pieces: both say the same, and come back."""

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
    """Makes a response of events."""
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
    """Reads a whole response."""
    return respond(Decoder(provider="vendor").decode_response(json.dumps(body).encode()))


def read_stream(chunks: list[Json | bytes]) -> Response:
    """Reads a stream to its end."""
    decoder = Decoder(provider="vendor")
    data = [chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode() for chunk in chunks]
    events = [event for each in data for event in decoder.decode(each)]
    return respond([*events, *decoder.finish()])


def delta(finish: str | None = None, **fields: Any) -> Json:
    """Makes a chunk."""
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
def test_every_answer_comes_back_as_it_was(message: Json) -> None:
    """Whatever is in it, in any combination; nothing is lost, and nothing is lost unsaid."""
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


def test_sound_comes_in_pieces() -> None:
    """Each is whole base 64; the name and the time come apart, and no word of its kind."""
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


def test_sound_that_is_no_sound_comes_back_all_the_same() -> None:
    """Somebody has put a word in its place, as recordings do."""
    audio = {"id": "a", "data": "<audio left out>", "transcript": "Hey.", "expires_at": 7}
    message = {"role": "assistant", "content": None, "audio": audio}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    written = nativize_response(read_whole({"id": "c", "model": "m", "choices": [choice]})).value

    assert json.loads(json.dumps(written))["choices"] == [choice]


def test_a_picture_that_a_model_made_is_one() -> None:
    """OpenRouter sends them beside the text."""
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


def test_two_calls_at_one_index_without_ids_stay_two() -> None:
    """A name again, after whole arguments, begins another."""
    pieces = [
        [{"index": 0, "function": {"name": name, "arguments": '{"a":1}'}}] for name in ("f", "g")
    ]
    response = read_stream([*(delta(tool_calls=piece) for piece in pieces), delta("tool_calls")])

    made = [one for one in response.canisters if isinstance(one, InvocationCanister)]
    assert [(one.name, one.arguments) for one in made] == [("f", '{"a":1}'), ("g", '{"a":1}')]
    assert len({one.invocation_id for one in made}) == 2


@pytest.mark.parametrize("end", [[b"[DONE]"], [b" [DONE] "]])
def test_a_stream_may_end_by_its_mark_alone(end: list[Json | bytes]) -> None:
    """Then nobody knows why it stopped."""
    response = read_stream([delta(content="x"), *end])

    assert response.text == "x"
    assert response.metadata.stop_reason is StopReason.UNKNOWN


def test_a_mark_without_an_answer_is_no_end() -> None:
    """Nothing has come, so nothing is complete."""
    with pytest.raises(StreamTruncatedError):
        read_stream([b"[DONE]"])


def test_an_error_within_a_choice_is_the_vendors() -> None:
    """As OpenRouter tells of one in the midst."""
    chunk = delta("error", content="")
    chunk["choices"][0]["error"] = {"code": 502, "message": "gone"}
    with pytest.raises(ProviderError, match="gone"):
        read_stream([delta(content="x"), chunk])


def test_an_unknown_chunk_passes_through() -> None:
    """It is no error, and no part of the answer."""
    decoder = Decoder(provider="vendor")
    decoder.decode(delta(content="x"))
    (event,) = decoder.decode(b'{"object": "chat.heartbeat", "at": 1}')

    assert isinstance(event, NativeEvent)
    assert event.kind == "chat.heartbeat"
    assert json.loads(event.native.data) == {"object": "chat.heartbeat", "at": 1}


def test_not_a_word_for_want_of_room_is_an_overflow() -> None:
    """Some servers cut the answer to nothing when the question fills the window."""
    usage = {"prompt_tokens": 4096, "completion_tokens": 0, "total_tokens": 4096}
    silent = read_stream([delta("length", content=""), {"choices": [], "usage": usage}])
    short = read_stream([delta("length", content="x"), {"choices": [], "usage": usage}])

    assert silent.metadata.stop_reason is StopReason.OVERFLOW
    assert short.metadata.stop_reason is StopReason.LIMIT


def test_reasoning_may_be_counted_beside_the_answer() -> None:
    """At xAI the total tells; everywhere the buckets do not overlap."""
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


def test_an_annotation_says_where_its_text_stands_in_the_message() -> None:
    """One without a span is of the whole text; the message has all texts in one."""
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
