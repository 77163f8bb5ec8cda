"""Streams for Bedrock's clients are read by botocore and by the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.eventstream
import botocore.loaders
import botocore.model
import botocore.parsers
import pytest

from support.vendors.streamed_answers import complete, get_response, read_pieces, write_stream
from vibe_llms.dialects import bedrock
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, Stage
from vibe_llms.messages.canisters import StopReason, Usage

EVENTS: list[StreamEvent] = [
    ResponseStartedEvent(response_id="r", model="m"),
    ContentStartedEvent(index=0, kind="reasoning"),
    ContentDeltaEvent(0, "Hm."),
    ContentFinishedEvent(index=0),
    ContentStartedEvent(index=1, kind="text"),
    ContentDeltaEvent(1, "It "),
    ContentDeltaEvent(1, "rains."),
    ContentFinishedEvent(index=1),
    ContentStartedEvent(index=2, kind="invocation", invocation_id="t1", name="f"),
    ContentDeltaEvent(2, '{"a":', "arguments"),
    ContentDeltaEvent(2, "1}", "arguments"),
    ContentFinishedEvent(index=2),
    UsageEvent(usage=Usage(input_tokens=3, output_tokens=5)),
    ResponseFinishedEvent(stop_reason=StopReason.INVOCATION),
]


def read_with_botocore(data: bytes) -> Iterator[Any]:
    """Yield the events that a client of botocore is given."""
    description = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    service = botocore.model.ServiceModel(description)
    shape = service.operation_model("ConverseStream").get_event_stream_output()
    parser = botocore.parsers.EventStreamJSONParser()
    buffer = botocore.eventstream.EventStreamBuffer()
    buffer.add_data(data)
    for message in buffer:
        yield parser.parse(message.to_response_dict(), shape)


def test_botocore_reads_a_stream() -> None:
    """Each of its events, in order."""
    data, _ = write_stream(bedrock, complete(EVENTS, None))

    events = list(read_with_botocore(data))

    names = [next(iter(event)) for event in events]
    assert names[0] == "messageStart"
    assert names[-2:] == ["messageStop", "metadata"]
    indexes = [
        event[name].get("contentBlockIndex") for name, event in zip(names, events, strict=True)
    ]
    assert [each for each in indexes if each is not None] == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert events[-2]["messageStop"]["stopReason"] == "tool_use"
    assert events[-1]["metadata"]["usage"]["totalTokens"] == 8
    assert events[-1]["metadata"]["metrics"]["latencyMs"] == 1000


def test_the_decoder_reads_a_stream() -> None:
    """As it was."""
    data, writer = write_stream(bedrock, complete(EVENTS, None))

    response = get_response(read_pieces(bedrock, [data]))

    assert response.text == "It rains."
    assert response.metadata.origin.stop_reason is StopReason.INVOCATION
    assert [loss for loss in writer.losses if not loss.is_routine] == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ProviderFault.RATE_LIMITED, "throttlingException"),
        (ProviderFault.INVALID_REQUEST, "validationException"),
        (ProviderFault.SERVER, "internalServerException"),
        (ProviderFault.OVERLOADED, "serviceUnavailableException"),
        (ProviderFault.PERMISSION, "AccessDeniedException"),  # a stream has no such exception
        (ProviderFault.TIMEOUT, "ModelTimeoutException"),
        (ProviderFault.QUOTA, "ServiceQuotaExceededException"),
    ],
)
def test_botocore_reads_an_error_in_a_stream(fault: ProviderFault, code: str) -> None:
    """With its type and its message, however long; the decoder finds the fault."""
    error = ProviderError(detail="No way é" * 5000, stage=Stage.DECODE, fault=fault)
    data = bedrock.StreamWriter({}, model="m").fail(error)

    (event,) = read_with_botocore(data)

    assert event["Error"]["Code"] == code
    assert "No way" in event["Error"]["Message"]
    with pytest.raises(ConverseError) as caught:
        read_pieces(bedrock, [data])
    assert caught.value.fault is fault  # type: ignore[attr-defined]


def test_a_note_is_added_to_the_last_message() -> None:
    """Botocore ignores it, and everything before it stays."""
    data, writer = write_stream(bedrock, complete(EVENTS, None))

    noted = writer.add_note(data, "x-vibe-losses", b'[{"a":1}]')

    assert b'"x_vibe_losses":[{"a":1}]' in noted
    assert list(read_with_botocore(noted)) == list(read_with_botocore(data))


def test_a_sign_of_life_is_an_event_that_clients_skip() -> None:
    """Between two events, without a change of the answer."""
    data, writer = write_stream(bedrock, complete(EVENTS, None))

    first, *_ = read_with_botocore(writer.keep_alive + data)

    assert first == {}
    both = [get_response(read_pieces(bedrock, [each])) for each in (writer.keep_alive + data, data)]
    assert both[0].text == both[1].text
