"""A streamed answer equals the complete one, for every reader."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import PARTIES, Party
from strategies.messages import errors
from support.vendors.streamed_answers import (
    complete,
    get_response,
    split,
    write_stream,
)
from vibe_llms.dialects import messages
from vibe_llms.dialects.extras import without
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentStartedEvent,
    ResponseStartedEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.requests import Response
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "messages")

PAIRS = [(party, answer) for party in PARTIES for answer in (WORK, CLOSING)]


def summarize(body: Any, response: Response) -> Any:
    """Return the meaning of a body, without generated ids, and without wrapped signatures.

    Some vendors sign at the end, so that the wrapped signature follows the other contents in a
    stream.
    """
    body = mean(body)
    shown = [each for each in body["content"] if not is_wrapped(each.get("data"))]
    body = {**body, "content": [_unwrap(block) for block in shown]}
    return body if response.metadata.origin.response_id else without(body, "id")


def _unwrap(block: Any) -> Any:
    return without(block, "signature") if is_wrapped(block.get("signature")) else block


def stream_with_sdk(data: bytes, chance: random.Random) -> anthropic.types.beta.BetaMessage:
    """Return the message that the official library assembles from a stream in pieces."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        pieces = iter(split(data, chance.randrange(99)))
        return httpx2.Response(200, headers=headers, content=pieces)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    parameters: Any = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "?"}],
    }
    with client.beta.messages.stream(**parameters) as stream:
        return stream.get_final_message()


@pytest.mark.slow
@pytest.mark.parametrize(("party", "answer"), PAIRS)
def test_the_official_library_assembles_the_complete_answer(
    party: Party, answer: dict[str, Any]
) -> None:
    """All kinds of blocks, and the usage fields that it supports."""
    decoder = party.dialect.Decoder(provider=party.name, model=party.model)
    events = complete(decoder.decode_response(answer[party.name]), party.protocol)
    response = get_response(events)
    whole = messages.nativize_response(response).value
    # Bedrock does not name the model. The gateway does, from the request.
    data, writer = write_stream(messages, events, model=response.metadata.origin.model)
    # A text that has ended cannot receive citations, which is reported.
    if any(loss.reason == "it came after its text had ended" for loss in writer.losses):
        whole["content"] = [without(block, "citations") for block in whole["content"]]

    message = stream_with_sdk(data, random.Random(0)).to_dict()

    assert summarize(message, response) == summarize(whole, response)


def test_pieces_are_sent_at_once() -> None:
    """Each in its own frame, in the vendor's form, before the next one is known."""
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
    """Return the data of the frames in some bytes."""
    return [json.loads(frame.data) for frame in SseFramer(Limits()).feed(data)]


@given(errors)
def test_the_official_library_raises_an_error_in_the_middle(error: ConverseError) -> None:
    """With the vendor's type."""
    writer = messages.StreamWriter({}, model="claude")
    data = writer.write(ResponseStartedEvent()) + writer.fail(error)

    with pytest.raises(anthropic.APIStatusError) as caught:
        stream_with_sdk(data, random.Random(0))

    assert caught.value.type == read_frames(data)[-1]["error"]["type"]
