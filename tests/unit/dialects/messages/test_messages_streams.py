"""What is written piece by piece is what would be written whole, for every reader."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import PARTIES, Party
from messages_exchanges import NO_RECORDINGS, RECORDINGS
from strategies.messages import errors
from streamed_answers import (
    answers,
    complete,
    get_response,
    read_pieces,
    split,
    survey_recorded,
    write_stream,
)
from vibe_llms.dialects import messages
from vibe_llms.dialects.answering import classify
from vibe_llms.dialects.extras import without
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.requests import Response
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "messages")

PAIRS = [(party, answer) for party in PARTIES for answer in (WORK, CLOSING)]


def check(events: list[StreamEvent], seed: int) -> None:
    """Reads what was written of events, cut anywhere: it says what the whole says."""
    response = get_response(events)
    whole = messages.nativize_response(response)
    data, writer = write_stream(messages, events)

    again = messages.nativize_response(get_response(read_pieces(messages, split(data, seed))))

    assert weigh(again.value, response) == weigh(whole.value, response)
    assert tuple(writer.losses) == whole.losses


def weigh(body: Any, response: Response) -> Any:
    """Returns what a body means, without an id that was made up."""
    body = mean(body)
    return body if response.metadata.origin.response_id else without(body, "id")


@pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)
def test_recorded_answers_of_all_vendors_are_streamed_as_they_are_written_whole() -> None:
    """Whoever said it, and in whatever pieces it came."""
    recorded = list(survey_recorded())
    for seed, (_, events) in enumerate(recorded):
        check(events, seed)
    assert recorded


@given(answers(), st.integers(0, 99))
def test_any_answer_is_streamed_as_it_is_written_whole(
    events: list[StreamEvent], seed: int
) -> None:
    """Whatever it holds, in whatever order its contents end."""
    check(events, seed)


def stream_with_sdk(data: bytes, chance: random.Random) -> anthropic.types.beta.BetaMessage:
    """Returns what the official library makes of a stream that comes in pieces."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        pieces = iter(split(data, chance.randrange(99)))
        return httpx2.Response(200, headers=headers, content=pieces)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    with client.beta.messages.stream(**asked) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize(("party", "answer"), PAIRS)
def test_the_official_library_gathers_the_whole(party: Party, answer: dict[str, Any]) -> None:
    """Of every kind of block that there is, and as much of the account as it takes in."""
    decoder = party.dialect.Decoder(provider=party.name, model=party.model)
    events = complete(decoder.decode_response(answer[party.name]), party.protocol)
    response = get_response(events)
    whole = messages.nativize_response(response).value
    data, _ = write_stream(messages, events)

    message = stream_with_sdk(data, random.Random(0)).to_dict()

    assert weigh(message, response) == weigh(whole, response)


def test_pieces_go_out_as_they_come() -> None:
    """Each in a frame of its own, of the vendor's form, before anything further is known."""
    writer = messages.StreamWriter({}, model="claude", response_id="msg_1")

    written = [
        writer.write(event)
        for event in (
            ResponseStartedEvent(response_id="chatcmpl-1", model="gpt"),
            ContentStartedEvent(index=0, kind="reasoning"),
            ContentDeltaEvent(0, "Hm"),
            ContentStartedEvent(index=1, kind="text"),
            ContentDeltaEvent(1, "Hé"),
            ContentDeltaEvent(1, 'l"o'),
            ContentStartedEvent(index=2, kind="invocation", invocation_id="call_1", name="add"),
            ContentDeltaEvent(2, '{"a"', "arguments"),
        )
    ]

    frames = [read_frames(each) for each in written]
    start = frames[1][0]["message"]
    assert (start["id"], start["model"], start["usage"]["output_tokens"]) == ("msg_1", "claude", 0)
    kinds = [[frame["type"].removeprefix("content_block_") for frame in each] for each in frames]
    assert kinds == [
        [],
        ["message_start"],
        ["start", "delta"],
        [],
        ["stop", "start", "delta"],
        ["delta"],
        ["stop", "start"],
        ["delta"],
    ]
    assert written[5] == (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":1,'
        b'"delta":{"type":"text_delta","text":"l\\"o"}}\n\n'
    )


def read_frames(data: bytes) -> list[Any]:
    """Returns the data of the frames in some bytes."""
    return [json.loads(frame.data) for frame in SseFramer(Limits()).feed(data)]


def test_a_call_is_not_left_before_its_arguments_are_whole() -> None:
    """What another call brings meanwhile waits, and comes in its place."""
    starts = [
        ContentStartedEvent(index=place, kind="invocation", invocation_id=f"c{place}", name="add")
        for place in range(2)
    ]
    pieces = [(0, '{"a":'), (1, '{"b":'), (0, "1}"), (1, "2}")]
    deltas = [ContentDeltaEvent(place, text, "arguments") for place, text in pieces]
    ends = [ContentFinishedEvent(index=place) for place in range(2)]
    last = ResponseFinishedEvent(stop_reason=StopReason.INVOCATION)

    check(complete([ResponseStartedEvent(), *starts, *deltas, *ends, last], None), 0)


def test_a_text_that_goes_on_behind_another_content_is_divided_and_told() -> None:
    """What has gone out is not taken back; the reader gets all, in the order in which it came."""
    deltas = [(0, "It "), (1, "Hm"), (0, "rains.")]
    events = complete(
        [
            ResponseStartedEvent(response_id="m"),
            ContentStartedEvent(index=0, kind="text"),
            ContentStartedEvent(index=1, kind="reasoning"),
            *(ContentDeltaEvent(place, text) for place, text in deltas),
            *(ContentFinishedEvent(index=place) for place in range(2)),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
        ],
        None,
    )

    data, writer = write_stream(messages, events)

    (canister,) = get_response(read_pieces(messages, [data])).canisters
    assert [getattr(each, "text", "") for each in canister.content] == ["It ", "Hm", "rains."]
    assert [loss.path for loss in writer.losses] == ["contents[0]"]


@given(answers(), st.integers(0, 99))
def test_a_stream_that_somebody_left_can_be_read_as_far_as_it_came(
    events: list[StreamEvent], seed: int
) -> None:
    """Nothing in it makes no sense, and nothing looks like its end."""
    data, _ = write_stream(messages, events[: seed % len(events)])

    with pytest.raises(StreamTruncatedError):
        read_pieces(messages, split(data, seed))


@given(errors)
def test_an_error_in_the_middle_is_read_as_what_it_is(error: ConverseError) -> None:
    """It is the last that is written, by our reader as by the official library."""
    writer = messages.StreamWriter({}, model="claude")
    data = writer.write(ResponseStartedEvent()) + writer.fail(error)

    with pytest.raises(ConverseError) as caught:
        read_pieces(messages, [data])
    with pytest.raises(anthropic.APIStatusError):
        stream_with_sdk(data, random.Random(0))

    assert classify(caught.value)[0] is classify(error)[0]
