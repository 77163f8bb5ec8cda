"""A written stream is read like the complete answer, in any pieces and by any reader."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import attrs
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from fidelity.conversations import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import BY_NAME
from strategies.streams import PROTOCOL as ANOTHER
from strategies.streams import events as drawn_events
from support.vendors.messages_exchanges import NO_RECORDINGS, RECORDINGS
from support.vendors.sdk_generation import DATA, NAMES, OBJECTS, generate
from support.vendors.streamed_answers import (
    complete,
    get_response,
    read_pieces,
    split,
    survey_recorded,
)
from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.chat_completions import (
    PROTOCOL,
    Decoder,
    StreamWriter,
    nativize_response,
    normalize_request,
)
from vibe_llms.dialects.extras import make_native
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import NativeContent
from vibe_llms.messages.requests import Response

STREAM_REQUEST = {"stream": True, "stream_options": {"include_usage": True}}
needs_recordings = pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)


def mean(response: Response) -> Any:
    """Return the meaning of a response, without its id, and with adjacent texts joined."""
    body = distil(PROTOCOL, nativize_response(response).value)
    body.pop("created", None)
    if response.metadata.origin.protocol != PROTOCOL or body["id"].startswith("chatcmpl-"):
        body.pop("id")  # which was made up
    for choice in body["choices"]:
        choice.pop("delta", None)  # in which some repeat what the message says
        message = choice.get("message", {})
        if "content" in message:
            message["content"] = join_texts(message["content"])
    return body


def join_texts(parts: list[Any]) -> list[Any]:
    """Join adjacent parts that have only text."""
    joined: list[Any] = []
    for is_text, group in itertools.groupby(parts, lambda part: part.keys() == {"type", "text"}):
        same = list(group)
        text = "".join(part.get("text", "") for part in same)
        joined += [{"type": "text", "text": text}] if is_text else same
    return joined


def count_kinds(response: Response) -> Counter[str]:
    """Count the contents of the canisters, except texts, between which a stream may be cut."""
    contents = [content for canister in response.canisters for content in canister.content]
    kinds = [content.type for content in contents if content.type != "text"]
    return Counter([*kinds, *(one.role for one in response.canisters if one.role != "assistant")])


def write(events: Sequence[StreamEvent]) -> tuple[bytes, StreamWriter]:
    """Write all events of a response."""
    writer = StreamWriter(STREAM_REQUEST, model=get_response(events).metadata.origin.model)
    return b"".join(map(writer.write, events)), writer


def decode_whole(dialect: ModuleType, body: Any) -> list[StreamEvent]:
    """Return the events of a complete answer."""
    decoder = dialect.Decoder(provider="vendor", model="asked")
    return complete(decoder.decode_response(json.dumps(body).encode()), dialect.PROTOCOL)


def read(pieces: Iterable[bytes]) -> Response:
    """Read a stream."""
    return get_response(read_pieces(chat_completions, pieces))


def read_whole(response: Response) -> Response:
    """Read the complete body that a response is written as."""
    return get_response(decode_whole(chat_completions, nativize_response(response).value))


def check(events: Sequence[StreamEvent], seed: int = 0) -> None:
    """Compare the reading of a stream with that of the complete answer."""
    body, writer = write(events)
    response = get_response(events)

    again = read(split(body, seed))

    whole = read_whole(response)
    assert mean(again) == mean(whole)
    assert count_kinds(again) == count_kinds(whole)
    assert again.metadata.usage == whole.metadata.usage
    assert again.metadata.origin.stop_reason is whole.metadata.origin.stop_reason
    assert tuple(writer.losses) == nativize_response(response).losses


@pytest.mark.slow
@needs_recordings
def test_recorded_answers_of_all_vendors_are_streamed() -> None:
    """A stream, cut anywhere, is read like the complete answer; nothing more is lost."""
    for seed, (_, events) in enumerate(survey_recorded()):
        check(events, seed)


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("answers", [WORK, CLOSING], ids=["work", "closing"])
def test_all_contents_of_a_vendor_are_streamed(name: str, answers: dict[str, Any]) -> None:
    """Citations, images, audio, calls of all kinds, and native data."""
    party = BY_NAME[name]
    check(decode_whole(party.dialect, answers[name]))


def number_choices(body: dict[str, Any]) -> dict[str, Any]:
    """Number the choices of an answer in their order, as the vendor does."""
    choices = [{**choice, "index": place} for place, choice in enumerate(body["choices"])]
    return {**body, "choices": choices}


@given(
    generate(
        ChatCompletion,
        {
            "ChatCompletion.model": st.just("m"),
            "arguments": OBJECTS.map(json.dumps),
            "data": DATA,
            "name": NAMES,
        },
    ).map(number_choices)
)
def test_all_types_of_openai_are_streamed(body: dict[str, Any]) -> None:
    """Other choices, calls of both kinds, log probabilities, moderation."""
    try:
        events = decode_whole(chat_completions, body)
    except ConverseError:
        return  # it says nothing

    check(events)


@given(drawn_events(), st.integers(0, 99))
def test_any_events_are_streamed(events: list[StreamEvent], seed: int) -> None:
    """In any order, as far as a complete answer can represent them."""
    check(complete(events, ANOTHER), seed)


@given(drawn_events(), st.data())
def test_an_interrupted_stream_can_be_read_up_to_its_end(
    events: list[StreamEvent], data: st.DataObject
) -> None:
    """Each event writes complete frames."""
    fed = complete(events, ANOTHER)
    writer = StreamWriter(STREAM_REQUEST, model="m")
    body = b"".join(map(writer.write, fed[: data.draw(st.integers(0, len(fed) - 1))]))

    decoder = Decoder(provider="vendor")
    for block in body.split(b"\n\n")[:-1]:
        decoder.decode(block.removeprefix(b"data: "))

    assert body.endswith(b"\n\n") or not body


def read_as_sdk(body: bytes) -> Any:
    """Return the message that the streaming helper of the official library assembles."""

    def answer_request(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    http = httpx2.Client(transport=httpx2.MockTransport(answer_request))
    client = openai.OpenAI(
        api_key="k", base_url="http://vendor.test/v1", http_client=http, max_retries=0
    )
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        for _ in stream:
            pass
        return json.loads(stream.current_completion_snapshot.model_dump_json())


def simplify(message: Any, *names: str) -> Any:
    """Return the fields of a message that are not empty."""
    calls = [
        {name: call.get(name) for name in ("id", "type", "function")}
        for call in message.get("tool_calls") or ()
        if call["type"] == "function"
    ]
    for call in calls:
        call["function"] = {name: call["function"][name] for name in ("name", "arguments")}
    return {name: message[name] for name in names if message.get(name)} | {"tool_calls": calls}


@pytest.mark.slow
@needs_recordings
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_the_official_library_reads_a_stream() -> None:
    """Its helper assembles the same message, finish reason and usage."""
    names = ("content", "refusal", "reasoning_content", "reasoning", "annotations", "audio")
    for place, events in survey_recorded():
        whole: Any = nativize_response(get_response(events)).value
        (expected, *_) = whole["choices"]
        if isinstance(expected["message"].get("content"), list):
            continue  # it knows no parts in an answer

        theirs = read_as_sdk(write(events)[0])

        (choice, *_) = theirs["choices"]
        message = simplify(choice["message"], *names)
        assert message == simplify(expected["message"], *names), place
        assert choice["finish_reason"] == expected["finish_reason"]
        usage = theirs["usage"] or {}
        assert usage.get("total_tokens") == (whole.get("usage") or {}).get("total_tokens")
        assert theirs["model"] == whole["model"]


def list_events(*texts: str, native: Any = None) -> list[StreamEvent]:
    """Return the events of an answer of one text."""
    return complete(
        [
            ResponseStartedEvent(response_id="r-1", model="m"),
            ContentStartedEvent(index=0, kind="text"),
            *(ContentDeltaEvent(0, text) for text in texts),
            ContentFinishedEvent(index=0),
            ResponseFinishedEvent(
                stop_reason=StopReason.ANSWERED, native_stop_reason="stop", native=native
            ),
        ],
        PROTOCOL,
    )


def test_a_stream_has_openais_form() -> None:
    """The role first, a separate ending, the same fields everywhere, and the end mark last."""
    writer = StreamWriter({"stream": True}, model="alias")

    frames = [writer.write(event) for event in list_events("It ", "rains.")]
    *chunks, done = b"".join(frames).split(b"\n\n")[:-1]

    assert done == b"data: [DONE]"
    decoded = [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]
    assert [chunk["choices"][0]["delta"] for chunk in decoded] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "It "},
        {"content": "rains."},
        {},
    ]
    endings = [chunk["choices"][0]["finish_reason"] for chunk in decoded]
    assert endings == [None, None, None, "stop"]
    heads = [
        {name: chunk[name] for name in ("id", "created", "model", "object")} for chunk in decoded
    ]
    assert heads == [heads[0]] * 4
    assert heads[0] == {**heads[0], "id": "r-1", "model": "alias"}
    assert all("usage" not in chunk for chunk in decoded)
    assert [bool(frame) for frame in frames] == [False, True, True, True, False, True]


def test_a_response_may_have_our_own_id() -> None:
    """It is stored under this id, whatever the vendor's id is."""
    writer = StreamWriter({}, model="m", response_id="chatcmpl-ours")

    body = b"".join(map(writer.write, list_events("Hi")))

    ids = {json.loads(block[6:])["id"] for block in body.split(b"\n\n")[:-2]}
    assert ids == {"chatcmpl-ours"}


def test_usage_is_sent_if_the_client_requests_it() -> None:
    """In its own chunk after the ending; all chunks before have null."""
    events = decode_whole(chat_completions, WORK["openai"])

    chunks = [
        json.loads(block.removeprefix(b"data: "))
        for block in write(events)[0].split(b"\n\n")
        if block.startswith(b"data: {")
    ]

    *others, last = chunks
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 30
    assert all(chunk["usage"] is None for chunk in others)


def test_fields_that_each_chunk_repeats_are_repeated() -> None:
    """As soon as they are known; later fields are in the ending."""
    early = make_native(PROTOCOL, {"created": 7, "system_fingerprint": "fp"})
    late = make_native(PROTOCOL, {"created": 7, "system_fingerprint": "fp", "kept": [1]})
    events = list_events("Hi", native=late)
    events[0] = attrs.evolve(events[0], native=early)  # type: ignore[call-arg]

    body, _ = write(events)

    chunks = [json.loads(block[6:]) for block in body.split(b"\n\n")[:-2]]
    assert {(chunk["created"], chunk["system_fingerprint"]) for chunk in chunks} == {(7, "fp")}
    assert [chunk.get("kept") for chunk in chunks] == [None, None, [1]]


@pytest.mark.parametrize("fault", ProviderFault)
def test_an_error_in_the_middle_ends_the_stream(fault: ProviderFault) -> None:
    """The official library raises it, our client reads its fault, and no end mark follows."""
    error = ProviderError(fault=fault, detail="No more.", vendor_type="novel")
    events = [*list_events("It ")[:3], ResponseFailedEvent(error=error)]
    writer = StreamWriter(STREAM_REQUEST, model="m")

    body = b"".join(map(writer.write, events))

    assert b"[DONE]" not in body
    with pytest.raises(openai.APIError, match="No more"):
        read_as_sdk(body)
    with pytest.raises(ConverseError) as caught:
        read([body])
    assert isinstance(caught.value, ProviderError)
    assert caught.value.fault is fault


def test_a_text_waits_for_an_unfinished_part_before_it() -> None:
    """The part is sent at its end, so that the order is kept."""
    part = {"type": "reference", "ids": [1]}
    item = NativeContent(kind="reference", native=make_native(PROTOCOL, part))
    events = complete(
        [
            ResponseStartedEvent(response_id="r-1", model="m"),
            ContentStartedEvent(index=0, kind="text"),
            ContentDeltaEvent(0, "It rains"),
            ContentStartedEvent(index=1, kind="native"),
            ContentStartedEvent(index=2, kind="text"),
            ContentDeltaEvent(2, "."),
            ContentFinishedEvent(index=0),
            ContentFinishedEvent(index=1, item=item),
            ContentFinishedEvent(index=2),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
        ],
        PROTOCOL,
    )

    check(events)
    again = read([write(events)[0]])

    assert [content.type for content in again.canisters[0].content] == ["text", "native", "text"]


SIGNED_DETAIL = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}


def test_reasoning_is_streamed_in_the_fields_of_its_vendor() -> None:
    """In details, with a signature in pieces, and in a field that repeats them."""
    deltas: list[dict[str, Any]] = [
        {"reasoning": "Two ", "reasoning_details": [{**SIGNED_DETAIL, "text": "Two "}]},
        {"reasoning": "places.", "reasoning_details": [{**SIGNED_DETAIL, "text": "places."}]},
        {"reasoning_details": [{**SIGNED_DETAIL, "signature": "RXF1"}]},
        {"reasoning_details": [{**SIGNED_DETAIL, "signature": "YWw="}]},
        {"content": "It rains."},
    ]
    chunks = [{"id": "r", "model": "m", "choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    events = read_pieces(chat_completions, lines)

    body, _ = write(events)

    check(events)
    written = [json.loads(block[6:]) for block in body.split(b"\n\n")[:-2]]
    assert [chunk["choices"][0]["delta"] for chunk in written[1:-1]] == deltas


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"a": 0, "b": 0}, "ab"),
        ({"a": 0, "b": 1}, "a\n\nb"),
        ({"a": 0, "": 1, "b": 1}, "a\n\nb"),
        ({"": 0, "b": 1}, "b"),
        ({"a": 0, "b": 1, "c": 1}, "a\n\nbc"),
    ],
)
def test_texts_are_separated_as_in_a_complete_answer(groups: dict[str, int], text: str) -> None:
    """By an empty line before another message."""
    contents: list[list[StreamEvent]] = [
        [
            ContentStartedEvent(index=index, kind="text", group=group),
            ContentDeltaEvent(index, message),
            ContentFinishedEvent(index=index),
        ]
        for index, (message, group) in enumerate(groups.items())
    ]
    ending = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
    events = complete([ResponseStartedEvent(), *itertools.chain(*contents), ending], ANOTHER)

    again = read([write(events)[0]])

    assert again.text == read_whole(get_response(events)).text == text


def test_a_difference_to_the_streamed_text_is_reported() -> None:
    """A different final copy comes too late: the streamed text cannot be changed."""
    events = list_events("It rains")
    changed = json.loads(json.dumps({"content": "It snows."}))
    response = get_response(events)
    canister = attrs.evolve(response.canisters[0], content=changed["content"])
    events[-1] = attrs.evolve(
        events[-1],  # type: ignore[call-arg]
        response=attrs.evolve(response, canisters=(canister,)),
    )

    body, writer = write(events)

    assert [str(loss.path) for loss in writer.losses] == ["message.content"]
    assert read([body]).text == "It rains"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"include_usage": False}, {"include_usage": True}),
        (
            {"include_obfuscation": False, "include_usage": True},
            {"include_obfuscation": False, "include_usage": True},
        ),
    ],
)
def test_stream_options_are_no_loss(options: Any, sent: Any) -> None:
    """Vendors are always asked for usage; the writer decides whether the client gets it."""
    native = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}

    request = normalize_request({**native, "stream_options": options}).value

    for party in BY_NAME.values():
        nativize = party.dialect.nativize_request
        written = nativize(request, party.attributes, party.quirks, streaming=True)
        assert not [loss for loss in written.losses if "stream" in str(loss)]
        if party.protocol == PROTOCOL:
            assert (written.value["stream"], written.value["stream_options"]) == (True, sent)
