"""Chunks have the vendor's form, and its official library reads them."""

from __future__ import annotations

import functools
import json
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai.errors import APIError
from google.genai.types import GenerateContentResponse, HttpOptions
from hypothesis import given

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import PARTIES, Party
from strategies.messages import errors
from support.vendors.streamed_answers import complete, get_response, split, write_stream
from vibe_llms.dialects import generate_content
from vibe_llms.dialects.client_answers import classify
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentStartedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError

mean = functools.partial(distil, "generate_content")

PAIRS = [(party, answer) for party in PARTIES for answer in (WORK, CLOSING)]


def read_answer(party: Party, body: Any) -> list[StreamEvent]:
    """Return the events of a complete answer."""
    decoder = party.dialect.Decoder(provider=party.name, model=party.model)
    return complete(decoder.decode_response(body), party.protocol)


def stream_with_sdk(data: bytes) -> list[GenerateContentResponse]:
    """Return the chunks that the official library reads from a stream in pieces."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=iter(split(data, 0)))

    vendor = httpx2.MockTransport(answer)
    http = httpx2.Client(transport=vendor)
    # Given both, it makes none of its own, which would read all authorities first.
    both = HttpOptions(httpx_client=http, httpx_async_client=httpx2.AsyncClient(transport=vendor))
    client = genai.Client(api_key="k", http_options=both)
    return list(client.models.generate_content_stream(model="m", contents="?"))


def join(chunks: list[GenerateContentResponse]) -> dict[str, Any]:
    """Return the contents of all chunks."""
    whole: dict[str, Any] = {}
    parts: list[Any] = []
    for chunk in chunks:
        fields = chunk.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"sdk_http_response"}
        )
        found = fields["candidates"][0]["content"].pop("parts", [])
        # Seals go apart: a stream has that of a thought behind its text.
        for part in found:
            if is_wrapped(part.get("thoughtSignature")):
                del part["thoughtSignature"]
        silent = ({"text": ""}, {"text": "", "thought": True})
        parts += [part for part in found if part not in silent]
        whole |= fields
    whole["candidates"][0]["content"]["parts"] = parts
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(("party", "answer"), PAIRS)
def test_the_official_library_reads_everything(party: Party, answer: dict[str, Any]) -> None:
    """All kinds of parts that it has, the finish reason, and the usage."""
    events = read_answer(party, answer[party.name])
    response = get_response(events)
    whole = generate_content.nativize_response(response).value
    # Bedrock does not name the model. The gateway does, from the request.
    data, _ = write_stream(generate_content, events, model=response.metadata.origin.model)

    # The library leaves out parts that it does not know, and checks what is whole more strictly.
    parts = whole["candidates"][0]["content"]["parts"]
    parts[:] = [part for part in parts if "novelty" not in part]
    chunks = stream_with_sdk(data)

    assert mean(join(chunks)) == mean(join([GenerateContentResponse.model_validate(whole)]))


@pytest.mark.parametrize(("party", "answer"), PAIRS)
def test_a_client_that_does_not_request_events_gets_one_array(
    party: Party, answer: dict[str, Any]
) -> None:
    """Of the same chunks, which are written as they arrive."""
    events = read_answer(party, answer[party.name])

    data, writer = write_stream(generate_content, events, array=True)
    others, _ = write_stream(generate_content, events)

    frames = [frame.removeprefix(b"data: ") for frame in others.split(b"\r\n\r\n") if frame]
    assert json.loads(data) == [json.loads(frame) for frame in frames]
    assert writer.content_type == "application/json"


def test_pieces_are_sent_at_once() -> None:
    """Each in its own chunk, in the vendor's form."""
    writer = generate_content.StreamWriter({}, model="gemini", response_id="r")
    events = [
        ResponseStartedEvent(response_id="chatcmpl-1", model="gpt"),
        ContentStartedEvent(index=0, kind="reasoning"),
        ContentDeltaEvent(0, "Hm"),
        ContentDeltaEvent(0, "m"),
        ContentStartedEvent(index=1, kind="text"),
        ContentDeltaEvent(1, 'l"o'),
    ]

    written = [writer.write(event) for event in events]

    named = b'"role":"model"},"index":0}],"modelVersion":"gemini","responseId":"r"}\r\n\r\n'
    begin = b'data: {"candidates":[{"content":{"parts":[{"text":'
    assert written == [
        b"",
        b"",
        begin + b'"Hm","thought":true}],' + named,
        begin + b'"m","thought":true}],' + named,
        b"",
        begin + b'"l\\"o"}],' + named,
    ]


@pytest.mark.slow
@given(errors)
def test_the_official_library_raises_an_error_in_the_middle(error: ConverseError) -> None:
    """With its status."""
    writer = generate_content.StreamWriter({}, model="gemini")

    with pytest.raises(APIError) as caught:
        stream_with_sdk(writer.fail(error))

    assert caught.value.code == classify(error)[1]
