"""Written lines are read like the complete answer, and errors keep their faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import BY_NAME
from strategies.messages import errors
from strategies.ollama import native_responses
from strategies.streams import PROTOCOL as ANOTHER
from strategies.streams import events as drawn_events
from support.vendors.messages_exchanges import NO_RECORDINGS, RECORDINGS
from support.vendors.streamed_answers import (
    answers,
    complete,
    get_response,
    read_pieces,
    split,
    survey_recorded,
)
from vibe_llms.dialects import ollama_chat
from vibe_llms.dialects.client_answers import classify
from vibe_llms.dialects.ollama_chat import (
    PROTOCOL,
    StreamWriter,
    nativize_error,
    nativize_response,
    produce_error,
)
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import (
    ConverseError,
    CorruptionError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
    UnknownNameError,
)
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.requests import Response
from vibe_llms.wire.ndjson import NdjsonFramer


def mean(response: Response) -> Any:
    """Return the meaning of a response, without its time."""
    body = distil(PROTOCOL, nativize_response(response).value)
    return {name: value for name, value in body.items() if name != "created_at"}


def count_kinds(response: Response) -> Counter[str]:
    """Count the contents of the canisters."""
    contents = [content for canister in response.canisters for content in canister.content]
    kinds = [content.type for content in contents]
    return Counter([*kinds, *(one.role for one in response.canisters if one.role != "assistant")])


def write(events: Sequence[StreamEvent]) -> tuple[bytes, StreamWriter]:
    """Write all events of a response."""
    writer = StreamWriter({}, model=get_response(events).metadata.origin.model)
    return b"".join(map(writer.write, events)), writer


def decode_whole(dialect: ModuleType, body: Any) -> list[StreamEvent]:
    """Return the events of a complete answer."""
    decoder = dialect.Decoder(provider="vendor", model="asked")
    return complete(decoder.decode_response(json.dumps(body).encode()), dialect.PROTOCOL)


def read(pieces: Iterable[bytes]) -> Response:
    """Read a stream."""
    return get_response(read_pieces(ollama_chat, pieces, NdjsonFramer))


def check(events: Sequence[StreamEvent], seed: int = 0) -> None:
    """Compare the reading of a stream, cut anywhere, with that of the complete answer."""
    body, writer = write(events)
    native = nativize_response(get_response(events))

    again = read(split(body, seed))

    whole = get_response(decode_whole(ollama_chat, native.value))
    assert mean(again) == mean(whole)
    assert count_kinds(again) == count_kinds(whole)
    assert again.metadata.usage == whole.metadata.usage
    assert tuple(writer.losses) == native.losses


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)
def test_recorded_answers_of_all_vendors_are_streamed() -> None:
    """A stream is read like the complete answer; nothing more is lost."""
    for seed, (_, events) in enumerate(survey_recorded()):
        check(events, seed)


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("answers_of_vendors", [WORK, CLOSING], ids=["work", "closing"])
def test_all_contents_of_a_vendor_are_streamed(
    name: str, answers_of_vendors: dict[str, Any]
) -> None:
    """Images, calls, and native data."""
    check(decode_whole(BY_NAME[name].dialect, answers_of_vendors[name]))


@given(native_responses())
def test_any_answer_of_a_server_is_streamed(body: dict[str, Any]) -> None:
    """With native data, too."""
    try:
        events = decode_whole(ollama_chat, body)
    except ConverseError:
        return  # it says nothing

    check(events)


@given(drawn_events().map(lambda events: complete(events, ANOTHER)) | answers(), st.integers(0, 99))
def test_any_events_are_streamed(events: list[StreamEvent], seed: int) -> None:
    """In any order."""
    check(events, seed)


@pytest.mark.slow
@given(drawn_events(), st.data())
def test_an_interrupted_stream_can_be_read_up_to_its_end(
    events: list[StreamEvent], data: st.DataObject
) -> None:
    """Each event writes complete lines, and the result is not taken for complete."""
    fed = complete(events, ANOTHER)
    writer = StreamWriter({}, model="m")
    body = b"".join(map(writer.write, fed[: data.draw(st.integers(0, len(fed) - 1))]))

    assert body.endswith(b"\n") or not body
    with pytest.raises(StreamTruncatedError):
        read([body])


def test_a_stream_has_the_form_of_a_server() -> None:
    """Each line has a message; the last one has ``done``, the reason, and the counts."""
    events = complete(
        [
            ResponseStartedEvent(model="m"),
            ContentStartedEvent(index=0, kind="reasoning"),
            ContentDeltaEvent(0, "Rain."),
            ContentStartedEvent(index=1, kind="text"),
            ContentDeltaEvent(1, "It "),
            ContentDeltaEvent(1, "rains."),
            ContentStartedEvent(index=2, kind="invocation", invocation_id="c", name="warn"),
            ContentDeltaEvent(2, '{"who": ', "arguments"),
            ContentDeltaEvent(2, '"all"}', "arguments"),
            ContentFinishedEvent(index=0),
            ContentFinishedEvent(index=1),
            ContentFinishedEvent(index=2),
            ResponseFinishedEvent(stop_reason=StopReason.INVOCATION),
        ],
        ANOTHER,
    )

    body, writer = write(events)
    *lines, last = [json.loads(line) for line in body.splitlines()]

    message = {"role": "assistant", "content": ""}
    call = {"id": "c", "function": {"name": "warn", "arguments": {"who": "all"}}}
    assert [line["message"] for line in lines] == [
        {**message, "thinking": "Rain."},
        {**message, "content": "It "},
        {**message, "content": "rains."},
        {**message, "tool_calls": [call]},
    ]
    assert not any(line["done"] for line in lines)
    assert (last["done"], last["done_reason"], last["message"]) == (True, "stop", message)
    assert {line["model"] for line in lines} == {"m"}
    assert writer.content_type == "application/x-ndjson"


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ("text text", "01"),
        ("text refusal", "0\n\n1"),
        ("refusal text", "0\n\n1"),
        ("refusal refusal", "0\n\n1"),
        ("text reasoning text", "0\n\n2"),
        ("refusal text text", "0\n\n12"),
    ],
)
def test_texts_are_separated_as_in_a_complete_answer(kinds: str, text: str) -> None:
    """A refusal is sent as a separate text."""
    contents: list[StreamEvent] = []
    kind: Any
    for index, kind in enumerate(kinds.split()):
        contents.append(ContentStartedEvent(index=index, kind=kind))
        contents.append(ContentDeltaEvent(index, str(index)))
        contents.append(ContentFinishedEvent(index=index))
    ending = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
    events = complete([ResponseStartedEvent(), *contents, ending], ANOTHER)

    check(events)

    assert read([write(events)[0]]).text == text


def test_calls_keep_the_order_in_which_they_began() -> None:
    """Also if the second is complete before the first."""
    starts: list[StreamEvent] = [
        ContentStartedEvent(index=n, kind="invocation", invocation_id=f"c{n}", name="warn")
        for n in range(2)
    ]
    pieces = [ContentDeltaEvent(n, f'{{"n": {n}}}', "arguments") for n in range(2)]
    ends = [ContentFinishedEvent(index=1), ContentFinishedEvent(index=0)]
    ending = ResponseFinishedEvent(stop_reason=StopReason.INVOCATION)
    events = complete([ResponseStartedEvent(), *starts, *pieces, *ends, ending], ANOTHER)

    check(events)
    calls = [
        call
        for line in write(events)[0].splitlines()
        for call in json.loads(line)["message"].get("tool_calls", ())
    ]

    assert [call["id"] for call in calls] == ["c0", "c1"]


@given(errors)
def test_an_error_of_any_kind_is_read_as_the_same(error: ConverseError) -> None:
    """Its fault and its status, with a status and in the middle of a stream."""
    answer = nativize_error(error)

    again = produce_error(
        answer.body, provider="gateway", status=answer.status, headers=answer.headers
    )
    with pytest.raises(ConverseError) as caught:
        read([StreamWriter({}, model="m").write(ResponseFailedEvent(error=error))])

    assert classify(again)[0] is classify(error)[0] is classify(caught.value)[0]
    assert answer.status == classify(error)[1]
    assert answer.body.keys() == {"error"}


@given(
    fault=st.sampled_from(ProviderFault),
    status=st.none() | st.sampled_from([200, 400, 401, 403, 404, 429, 500, 502, 503, 529]),
    detail=st.sampled_from(
        ["", "model 'm' not found", "rate limit", "m does not support tools", "prompt too long"]
    ),
)
def test_a_vendors_own_error_keeps_its_fault(
    fault: ProviderFault, status: int | None, detail: str
) -> None:
    """Also if its sentence and its status contradict the fault."""
    error = ProviderError(fault=fault, status=status, detail=detail)

    answer = nativize_error(error)

    again = produce_error(answer.body, provider="gateway", status=answer.status)
    assert classify(again)[0] is fault


@pytest.mark.parametrize(
    ("sentence", "status"),
    [
        ("model 'm' not found", 404),
        ("server busy, please try again. maximum pending requests exceeded", 503),
        ("m does not support tools", 400),
        ("something new", 500),
    ],
)
def test_a_servers_sentence_is_repeated(sentence: str, status: int) -> None:
    """Unchanged."""
    error = produce_error({"error": sentence}, provider="ollama", status=status)

    assert nativize_error(error).body == {"error": sentence}


def test_an_unknown_model_is_reported_in_the_servers_words() -> None:
    """By which clients offer to download it."""
    answer = nativize_error(UnknownNameError(kind="model", name="qwen3"))

    assert (answer.status, answer.body) == (404, {"error": "model 'qwen3' not found"})


def test_internal_details_are_not_sent() -> None:
    """No local path."""
    error = CorruptionError(path="/etc/gateway/keys", detail="/etc/gateway/keys is damaged")

    assert "gateway" not in str(nativize_error(error).body)
