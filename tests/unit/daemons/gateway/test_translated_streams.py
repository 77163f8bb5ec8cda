"""How the answer of another protocol is written on while it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import read_client_request
from vibe_llms.daemons.gateway.faces import chat_completions
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.translating import translate
from vibe_llms.daemons.gateway.upstreams import Upstream, Upstreams
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.chat_completions.serving import streams
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.requests import Request
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import EventSource

BODY = json.dumps(
    {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
).encode()
BEGINNING: list[StreamEvent] = [
    ResponseStartedEvent(response_id="r", model="n"),
    ContentStartedEvent(index=0, kind="text"),
    ContentDeltaEvent(0, "one"),
    ContentDeltaEvent(0, " two"),
]
MIDDLE: list[StreamEvent] = [ContentDeltaEvent(0, " three"), ContentDeltaEvent(0, " four")]
END: list[StreamEvent] = [
    ContentFinishedEvent(index=0),
    ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
]


@attrs.define
class Source:
    """Gives what one read brings after the other."""

    batches: list[Sequence[StreamEvent]]

    async def receive(self) -> Sequence[StreamEvent] | None:
        return self.batches.pop(0) if self.batches else None

    async def close(self) -> None:
        return None


class Sourced(ModelBase[None]):
    """A model whose answer comes from a source."""

    protocol = "p"

    def __init__(self, *batches: Sequence[StreamEvent]) -> None:
        self._source = Source(list(batches))
        attributes = SimpleNamespace(
            access_capability=lambda _: None, control_defaults={}, controls=()
        )
        descriptor: Any = SimpleNamespace(provider="p", name="m", attributes=attributes)
        super().__init__(descriptor, tokenizer=None)  # type: ignore[arg-type]

    def nativize(self, request: Request, *, streaming: bool) -> Translation[None]:
        return Translation(None)

    async def send(self, native: None, request: Request, *, streaming: bool) -> EventSource:
        return self._source


class Foreign:
    """A model of somebody's who makes streams in another way: they can only be iterated."""

    def __init__(self, model: Sourced) -> None:
        self.descriptor, self._model = model.descriptor, model

    def stream(self, request: Request, reactors: Any = None) -> Any:
        stream = self._model.stream(request, reactors)

        class Theirs:
            canisters = ()

            async def __aenter__(self) -> Theirs:
                return self

            async def __aexit__(self, *error: object) -> None:
                await stream.close()

            def __aiter__(self) -> AsyncIterator[StreamEvent]:
                return aiter(stream)

        return Theirs()


async def answer(model: Any) -> tuple[list[bytes], CallRecord]:
    """Returns the pieces of the body that were written."""
    pieces: list[bytes] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [],
        "client": None,
    }
    call = HttpCall(scope, receive, send, request_id="req_1", limit=1_000_000)
    record = CallRecord(request_id="req_1", method="POST", path="/", started=0.0)
    face = chat_completions.FACE
    gateway = Gateway(Upstreams(Any), limits=Limits())  # type: ignore[arg-type]
    asked = GatewayCall(gateway=gateway, http=call, record=record, face=face)
    asked.request, asked.upstream = read_client_request(face, BODY), Upstream(model)
    await translate(asked)
    return pieces, record


def read_texts(data: bytes) -> list[Any]:
    """Returns the pieces of text in some frames; what is no text as it is."""
    told = []
    for frame in data.decode().split("\n\n")[:-1]:
        chunk = frame.removeprefix("data: ")
        if chunk == "[DONE]":
            told.append(chunk)
        elif "error" in (read := json.loads(chunk)):
            told.append("error")
        else:
            told.append(read["choices"][0]["delta"].get("content"))
    return told


async def test_what_came_together_is_written_together() -> None:
    """A write for each read: the last one with the end of the body."""
    pieces, record = await answer(Sourced(BEGINNING, MIDDLE, END))

    assert [read_texts(piece) for piece in pieces] == [
        ["", "one", " two"],
        [" three", " four"],
        [None, "[DONE]"],
    ]
    assert record.sent_bytes == sum(map(len, pieces))


async def test_an_answer_of_one_read_is_a_stream_all_the_same() -> None:
    """It is one write, and the end of the body another: so it has no length beforehand."""
    pieces, _ = await answer(Sourced([*BEGINNING, *MIDDLE, *END]))

    assert read_texts(pieces[0])[1:5] == ["one", " two", " three", " four"]
    assert pieces[1:] == [b""]


async def test_streams_of_others_are_written_event_by_event() -> None:
    """They say the same."""
    theirs, _ = await answer(Foreign(Sourced(BEGINNING, MIDDLE, END)))
    ours, _ = await answer(Sourced(BEGINNING, MIDDLE, END))

    assert read_texts(b"".join(theirs)) == read_texts(b"".join(ours))
    assert len(theirs) > len(ours)


@pytest.mark.parametrize("fails_at", [" two", " four", "[end]"])
async def test_what_stands_before_a_fault_goes_before_it(
    monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """Also where one read brought both, and where it is the end that cannot be written."""
    write = streams.StreamWriter.write

    def fail(self: streams.StreamWriter, event: StreamEvent) -> bytes:
        text = "[end]" if isinstance(event, ResponseFinishedEvent) else getattr(event, "text", "")
        if text == fails_at:
            raise ConverseError(detail="It cannot be written.")
        return write(self, event)

    monkeypatch.setattr(streams.StreamWriter, "write", fail)
    pieces, record = await answer(Sourced(BEGINNING, [*MIDDLE, *END]))

    texts = ["", "one", " two", " three", " four"]
    cut = texts.index(fails_at) if fails_at in texts else len(texts)
    assert read_texts(b"".join(pieces)) == [*texts[:cut], "error"]
    assert record.detail.startswith("It cannot be written.")
