"""Events have the vendor's form, and its official library reads them."""

from __future__ import annotations

import functools
import json
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import PARTIES, Party
from strategies.messages import errors
from support.vendors.streamed_answers import answers, complete, get_response, split, write_stream
from vibe_llms.dialects import responses
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import Citation, Native, ReasoningContent
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "responses")

PAIRS = [(party, answer) for party in PARTIES for answer in (WORK, CLOSING)]
REQUEST = {"tools": [{"type": "function", "name": "add"}], "temperature": 0.5}


def read_answer(party: Party, body: Any) -> list[StreamEvent]:
    """Return the events of a complete answer."""
    decoder = party.dialect.Decoder(provider=party.name, model=party.model)
    return complete(decoder.decode_response(body), party.protocol)


def read_frames(data: bytes) -> list[Any]:
    """Return the data of the frames in some bytes; each has its type twice."""
    frames = SseFramer(Limits()).feed(data)
    sent = [json.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [each["type"] for each in sent]
    return sent


def produce_client(data: bytes) -> openai.OpenAI:
    """Return the official client of a server that answers with a stream in pieces."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=iter(split(data, 0)))

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="k", http_client=http, max_retries=0)


@pytest.mark.slow
@pytest.mark.parametrize(("party", "answer"), PAIRS)
def test_the_official_library_assembles_the_complete_answer(
    party: Party, answer: dict[str, Any]
) -> None:
    """With the id that the caller chose, and with the fields of the request."""
    events = read_answer(party, answer[party.name])
    data, _ = write_stream(responses, events, REQUEST, model="m", response_id="resp_9")

    with produce_client(data).responses.stream(model="m", input="?") as stream:
        seen = [event.type for event in stream]
        gathered = stream.get_final_response().to_dict()

    last = read_frames(data)[-1]
    assert mean(gathered) == mean(last["response"])
    assert (gathered["id"], gathered["model"]) == ("resp_9", "m")
    assert "response.output_item.done" in seen


@pytest.mark.slow
@given(answers(), st.integers(0, 9))
def test_events_are_numbered_and_name_their_items(events: list[StreamEvent], seed: int) -> None:
    """Every event about an item has its index and id; parts begin and end; texts are complete."""
    data, _ = write_stream(responses, events)
    frames = read_frames(data)

    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    items: dict[int, str] = {}
    grown: dict[tuple[Any, ...], str] = {}
    for frame in frames:
        place, kind = frame.get("output_index"), frame["type"]
        if kind == "response.output_item.added":
            assert place == len(items)
            items[place] = frame["item"]["id"]
        elif kind == "response.output_item.done":
            assert items[place] == frame["item"]["id"]
        elif place is not None:
            assert items[place] == frame["item_id"]
        key = (
            place,
            frame.get("content_index"),
            frame.get("summary_index"),
            kind.rpartition(".")[0],
        )
        if kind.endswith(".delta"):
            grown[key] = grown.get(key, "") + frame["delta"]
        elif key in grown:
            fields = ("text", "refusal", "arguments", "input")
            assert grown[key] == next(frame[name] for name in fields if name in frame)
    whole = frames[-1]["response"]["output"]
    assert [item["id"] for item in whole] == list(items.values())
    assert len(set(items.values())) == len(items)


def test_pieces_are_sent_at_once() -> None:
    """Each in its own event; at the end of the item, the text is sent again."""
    writer = responses.StreamWriter(REQUEST, model="gpt", response_id="resp_1")
    events = [
        ResponseStartedEvent(response_id="chatcmpl-1", model="other"),
        ContentStartedEvent(index=0, kind="reasoning"),
        ContentDeltaEvent(0, "Hm"),
        ContentStartedEvent(index=1, kind="text"),
        ContentDeltaEvent(1, "Hé"),
        ContentDeltaEvent(1, 'l"o'),
        ContentStartedEvent(index=2, kind="invocation", invocation_id="call_1", name="add"),
        ContentDeltaEvent(2, '{"a"', "arguments"),
    ]

    frames = [read_frames(writer.write(event)) for event in events]

    words = [[frame["type"].removeprefix("response.") for frame in each] for each in frames]
    assert words == [
        [],
        ["created", "in_progress"],
        ["output_item.added", "content_part.added", "reasoning_text.delta"],
        [],
        [
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
        ],
        ["output_text.delta"],
        ["output_text.done", "content_part.done", "output_item.done", "output_item.added"],
        ["function_call_arguments.delta"],
    ]
    created = frames[1][0]["response"]
    assert (created["id"], created["model"], created["status"]) == ("resp_1", "gpt", "in_progress")
    assert created["temperature"] == REQUEST["temperature"]
    message = frames[6][2]["item"]
    assert message["content"] == [{"type": "output_text", "text": 'Hél"o', "annotations": []}]
    call = frames[6][3]["item"]
    assert (call["call_id"], call["arguments"], call["status"]) == ("call_1", "", "in_progress")


def test_a_text_that_ends_early_keeps_its_citations() -> None:
    """Those without a span cite the whole text, and are written at its end."""
    writer = responses.StreamWriter(REQUEST, model="gpt", response_id="resp_1")
    events = [
        ResponseStartedEvent(response_id="resp_1", model="other"),
        ContentStartedEvent(index=0, kind="text"),
        ContentDeltaEvent(0, "Rain"),
        ContentCitedEvent(0, Citation(url="https://a.example")),
        ContentCitedEvent(0, Citation(url="https://b.example", start=1, end=2)),
        ContentStartedEvent(index=1, kind="invocation", invocation_id="call_1", name="add"),
    ]

    frames = read_frames(b"".join(map(writer.write, events)))

    (item,) = [each["item"] for each in frames if each["type"] == "response.output_item.done"]
    added = [each["annotation"] for each in frames if "annotation" in each]
    ranges = {each["url"][8]: (each["start_index"], each["end_index"]) for each in added}
    assert ranges == {"a": (0, 4), "b": (1, 2)}
    assert len(added) == 2
    assert sorted(map(repr, added)) == sorted(map(repr, item["content"][0]["annotations"]))


def test_summaries_of_the_vendor_stay_separate() -> None:
    """Each is a part with its own events, as clients show them."""
    own = Native(protocol="responses", data='{"id":"rs_1"}')
    thought = ReasoningContent(summary=("One.", "Two."), signature="c2VhbA==", native=own)
    events = complete(
        [
            ResponseStartedEvent(response_id="resp_1"),
            ContentStartedEvent(index=0, kind="reasoning", native=own),
            *(ContentDeltaEvent(0, text, "summary") for text in ("On", "e.", "\n\n", "Two.")),
            ContentFinishedEvent(index=0, item=thought),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED, native_stop_reason="completed"),
        ],
        "responses",
    )

    data, _ = write_stream(responses, events)

    frames = read_frames(data)
    ended = [each for each in frames if each["type"] == "response.reasoning_summary_text.done"]
    assert [(each["summary_index"], each["text"]) for each in ended] == [(0, "One."), (1, "Two.")]
    item = frames[-1]["response"]["output"][0]
    assert (item["id"], item["encrypted_content"]) == ("rs_1", "c2VhbA==")


def test_the_progress_of_the_vendors_own_tools_is_passed_on() -> None:
    """With the index and the id that their item has here."""
    item = {"type": "web_search_call", "id": "ws_1", "status": "in_progress", "action": {}}
    decoder = responses.Decoder(provider="openai", model="m")
    writer = responses.StreamWriter({}, model="gpt")
    sent = {"item_id": "ws_1", "output_index": 0, "sequence_number": 7}
    events = [
        *decoder.decode({"type": "response.created", "response": {"id": "resp_1"}}),
        *decoder.decode({"type": "response.output_item.added", "output_index": 0, "item": item}),
        *decoder.decode({"type": "response.web_search_call.searching", **sent}),
    ]
    assert isinstance(events[-1], NativeEvent)

    (frame,) = [read_frames(writer.write(event)) for event in events][-1]

    assert frame == {"type": "response.web_search_call.searching", **sent, "sequence_number": 3}


@given(errors)
def test_the_official_library_raises_an_error_in_the_middle(error: ConverseError) -> None:
    """Also for clients that wait for the last event."""
    writer = responses.StreamWriter({}, model="gpt")
    data = writer.write(ResponseStartedEvent()) + writer.fail(error)

    with (
        pytest.raises(openai.APIError) as caught,
        produce_client(data).responses.stream(model="m", input="?") as stream,
    ):
        list(stream)

    *_, sent, last = read_frames(data)
    assert caught.value.code == sent["error"]["code"]
    assert last["type"] == "response.failed"
    assert isinstance(last["response"]["error"]["code"], str)


def test_answers_of_other_vendors_have_a_creation_time() -> None:
    """Clients require a number there, also in a complete answer."""
    party = next(party for party in PARTIES if party.name == "anthropic")
    response = get_response(read_answer(party, WORK["anthropic"]))

    body = responses.nativize_response(response).value

    assert body["created_at"] == int(response.canisters[0].timestamp.timestamp())
