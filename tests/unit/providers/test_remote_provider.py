"""What every provider shares that is reached over the network, tried without one."""

from __future__ import annotations

import asyncio
import math
import os
import traceback
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import attrs
import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, answer_stream, produce_context
from vibe_llms.dialects.ollama_chat import Decoder as OllamaDecoder
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    StreamTruncatedError,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.credentials import acquire_key
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, TokenCount
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.settings import read_settings
from vibe_llms.providers.sources import WireSource
from vibe_llms.providers.vendors import Vendor
from vibe_llms.wire.exchanges import Exchange, Timeouts, WireRequest
from vibe_llms.wire.memory import MemoryAnswer
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

REQUEST = Request(canisters=[UserCanister("hello")])
LIMITS = Limits(attempts=1)


class Words:
    """Decodes frames that are words; ``!`` ends the response, ``?`` is an error."""

    def __init__(self) -> None:
        self._begun = self._ended = False

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        if data == b"?":
            raise ProviderError(detail="bad", fault=ProviderFault.OVERLOADED)
        events: list[StreamEvent] = []
        if not self._begun:
            self._begun = True
            events = [ResponseStartedEvent(), ContentStartedEvent(index=0, kind="text")]
        if data == b"!":
            self._ended = True
            return events
        return [*events, ContentDeltaEvent(0, data.decode())]

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        words = [self.decode(word.encode()) for word in msgspec.json.decode(body)]
        return [*(event for events in words for event in events), *self.finish()]

    def finish(self) -> list[StreamEvent]:
        if not self._ended:
            raise StreamTruncatedError(detail="cut")
        finished = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
        return [ContentFinishedEvent(index=0), finished]


class Counter:
    """Counts nothing."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        return TokenCount(tokens=0)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        return TokenCount(tokens=0)


class Parrot(Vendor):
    """A vendor of the simplest kind."""

    dialect = SimpleNamespace(PROTOCOL="parrot")  # type: ignore[assignment]
    base_url = "https://parrot.example/v1"
    key_variables = ("PARROT_KEY",)

    def produce_processors(self, client: RemoteClient) -> Processors:
        part: Any = None
        return Processors(controls=part, messages=part, invocations=part, tokenizer=Counter())

    def nativize(
        self, request: Request, model: ModelDescriptor, processors: Processors, *, streaming: bool
    ) -> Translation[JsonObject]:
        return Translation({"model": model.name, "stream": streaming})

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        return "/talk"

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        return {} if key is None else {"x-key": key}

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> Words:
        return Words()

    def produce_error(
        self, body: JsonObject | str, model: str, *, status: int, headers: Mapping[str, str]
    ) -> ConverseError:
        return ProviderError(detail=str(body), status=status, fault=ProviderFault.SERVER)


async def access_parrot(
    directory: Path, *answers: MemoryAnswer | Exception, limits: Limits = LIMITS, **settings: Any
) -> tuple[RemoteModel, Counterpart]:
    """Returns a model of the vendor, and what plays it."""
    counterpart = Counterpart(list(answers))
    settings.setdefault("api_key", "canary-key")
    context = produce_context("parrot", directory, limits=limits, **settings)
    provider = RemoteProvider(context, Parrot)
    provider.use_transport(counterpart.transport)
    return await provider.produce_client().access_model("grey"), counterpart


async def test_a_stream_and_a_whole_answer_are_the_same_response(tmp_path: Path) -> None:
    """Frames or one body: the canisters agree, and the request said which was wanted."""
    model, counterpart = await access_parrot(
        tmp_path,
        answer_stream([b"data: hel", b"lo\n\ndata: you\n\n", b"data: !\n\n"]),
        answer_json(b'["hello", "you", "!"]'),
    )

    streamed = await model.converse(REQUEST)
    whole = await model.converse(REQUEST, stream=False)

    assert streamed.text == whole.text == "helloyou"
    bodies = [msgspec.json.decode(request.body) for request in counterpart.requests]
    assert [body["stream"] for body in bodies] == [True, False]
    assert counterpart.requests[0].url == "https://parrot.example/v1/talk"


async def test_an_answer_in_one_piece_to_a_streamed_request_is_taken(tmp_path: Path) -> None:
    """Some servers do not stream what they were asked to stream."""
    model, _ = await access_parrot(tmp_path, answer_json(b'["hello", "!"]'))

    assert (await model.converse(REQUEST)).text == "hello"


async def test_the_vendors_name_of_the_exchange_is_kept(tmp_path: Path) -> None:
    """For its support."""
    answer = answer_stream([b"data: hi\n\ndata: !\n\n"], **{"X-Request-Id": "r-1"})
    model, _ = await access_parrot(tmp_path, answer)

    assert (await model.converse(REQUEST)).metadata.request_id == "r-1"


async def test_what_came_before_an_error_is_delivered_first(tmp_path: Path) -> None:
    """Words and an error in one packet: the words count, and the error carries them."""
    model, _ = await access_parrot(tmp_path, answer_stream([b"data: hi\n\ndata: ?\n\n"]))

    with pytest.raises(ProviderError) as caught:
        await model.converse(REQUEST)

    assert [canister.content[0].text for canister in caught.value.arrived] == ["hi"]


async def test_a_stream_without_its_terminator_is_an_error(tmp_path: Path) -> None:
    """Whatever had come, and however politely the connection was closed."""
    model, _ = await access_parrot(tmp_path, answer_stream([b"data: hi\n\n"]))

    with pytest.raises(StreamTruncatedError):
        await model.converse(REQUEST)


async def test_the_status_of_an_error_is_the_vendors_error(tmp_path: Path) -> None:
    """The vendor's table reads the body, as data or as text."""
    model, _ = await access_parrot(
        tmp_path, answer_json(b'{"error": "busy"}', 503), MemoryAnswer(status=500, chunks=[b"oops"])
    )

    with pytest.raises(ProviderError, match="busy"):
        await model.converse(REQUEST)
    with pytest.raises(ProviderError, match="oops"):
        await model.converse(REQUEST)


async def test_a_login_page_is_no_answer(tmp_path: Path) -> None:
    """HTML with a good status says so, and begins to show."""
    page = MemoryAnswer(headers={"Content-Type": "text/html"}, chunks=[b"<html>Sign in"])
    model, _ = await access_parrot(tmp_path, page)

    with pytest.raises(ConverseError, match=r"text/html.*Sign in"):
        await model.converse(REQUEST)


async def test_a_failed_attempt_is_repeated_and_counted(tmp_path: Path) -> None:
    """The response says how often it was asked for."""
    model, counterpart = await access_parrot(
        tmp_path,
        OSError("refused"),
        answer_stream([b"data: hi\n\ndata: !\n\n"]),
        limits=Limits(attempts=2),
    )

    response = await model.converse(REQUEST)

    assert response.metadata.attempts == 2
    assert len(counterpart.requests) == 2


async def test_the_wire_repeats_nothing(tmp_path: Path) -> None:
    """With one attempt allowed there is one request."""
    model, counterpart = await access_parrot(tmp_path, OSError("refused"))

    with pytest.raises(TransportError):
        await model.converse(REQUEST)

    assert len(counterpart.requests) == 1


async def test_a_request_that_json_cannot_say_is_refused(tmp_path: Path) -> None:
    """Half a surrogate pair is found before anything is sent."""
    model, counterpart = await access_parrot(tmp_path)
    halved = attrs.evolve(model.descriptor, name="\ud800")
    broken = RemoteModel(halved, model._client)

    with pytest.raises(RequestError, match="surrogate"):
        await broken.converse(REQUEST)

    assert counterpart.requests == []


async def test_a_key_is_sent_and_never_shown(tmp_path: Path) -> None:
    """It is in the header as a secret, and in no representation of anything."""
    model, counterpart = await access_parrot(
        tmp_path, answer_json(b"{}", 500), headers={"x-more": "canary-more"}
    )

    with pytest.raises(ProviderError) as caught:
        await model.converse(REQUEST)

    sent = counterpart.requests[0].headers
    assert isinstance(sent["x-key"], Secret)
    assert sent["x-key"].reveal() == "canary-key"
    shown = [sent, counterpart.requests[0], caught.value, model._client.vendor.settings]
    assert "canary" not in " ".join(f"{thing!r} {thing}" for thing in shown)


async def test_without_a_transport_of_ones_own_a_key_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable to set, before anything is sent."""
    monkeypatch.delenv("PARROT_KEY", raising=False)
    context = produce_context("parrot", tmp_path)
    client = RemoteProvider(context, Parrot).produce_client()
    model = await client.access_model("grey")

    with pytest.raises(ConfigurationError, match="PARROT_KEY"):
        await model.converse(REQUEST)
    await client.close()


async def test_side_calls_answer_in_json(tmp_path: Path) -> None:
    """Counting and listing go the same way, with the same errors."""
    model, counterpart = await access_parrot(
        tmp_path, answer_json(b'{"count": 3}'), answer_json(b"<count>", 200)
    )
    client = model._client

    assert await client.request_json("POST", "/count", {"text": "hi"}) == {"count": 3}
    with pytest.raises(ConverseError, match="invalid JSON"):
        await client.request_json("GET", "/models")
    assert counterpart.requests[1].body == b""


def test_settings_are_checked_all_at_once(tmp_path: Path) -> None:
    """Each mistake is named, and none of the values."""
    context = produce_context(
        "parrot", tmp_path, base_url="ftp://canary", total_seconds=0, colour="canary", headers=3
    )

    with pytest.raises(ConfigurationError) as caught:
        read_settings(context, "https://parrot.example")

    assert len(caught.value.findings) == 4
    assert "canary" not in str(caught.value)


def test_no_answer_is_waited_for_for_ever_unless_that_is_asked_for(tmp_path: Path) -> None:
    """Signs of life alone end after two hours; ``inf`` is for who really wants to wait."""
    usual = read_settings(produce_context("parrot", tmp_path), "https://parrot.example")
    patient = read_settings(
        produce_context("parrot", tmp_path, total_seconds=math.inf), "https://parrot.example"
    )

    assert usual.timeouts.total_seconds == 7_200
    assert patient.timeouts.total_seconds is None
    assert not TransportTimeoutError(phase="total").is_retryable
    assert TransportTimeoutError(phase="connect").is_retryable
    with pytest.raises(ConfigurationError, match="inf"):
        read_settings(produce_context("parrot", tmp_path, total_seconds=math.nan), "https://p")


def test_settings_become_what_the_wire_takes(tmp_path: Path) -> None:
    """Seconds, addresses and headers, with defaults for the rest."""
    context = produce_context(
        "parrot",
        tmp_path,
        base_url="http://127.0.0.1:1/",
        between_chunks_seconds=3,
        headers={"x": "y"},
        client_key="~/k.pem",
    )

    settings = read_settings(context, "https://parrot.example")

    assert settings.base_url == "http://127.0.0.1:1"
    assert settings.timeouts == Timeouts(between_chunks_seconds=3)
    assert settings.headers["x"].reveal() == "y"
    assert settings.access_path("client_key") == Path("~/k.pem").expanduser()
    assert settings.access_path("proxy") is None


def test_a_key_is_found_where_it_is_nearest(tmp_path: Path) -> None:
    """In the settings, then in a file, then in a variable."""
    file = tmp_path / "key"
    file.write_text(" from-file\n")

    with mock.patch.dict(os.environ, {"PARROT_KEY": "from-variable", "MINE": "from-mine"}):
        found = [
            acquire_key("parrot", settings, ("PARROT_KEY",))
            for settings in (
                {"api_key": "direct", "api_key_file": str(file)},
                {"api_key_file": str(file)},
                {"api_key_variable": "MINE"},
                {},
            )
        ]
        none = acquire_key("parrot", {}, ())

    revealed = [key.reveal() for key in found if key is not None]
    assert revealed == ["direct", "from-file", "from-mine", "from-variable"]
    assert none is None


@pytest.mark.parametrize("text", ["a b", "schlüssel", "a\nb", "\x00"])
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    """A header could not carry it; the error names the place alone."""
    with pytest.raises(ConfigurationError) as caught:
        acquire_key("parrot", {"api_key": text}, ())

    assert "providers.parrot.api_key" in str(caught.value)
    assert text not in str(caught.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what the system says of it."""
    with pytest.raises(ConfigurationError, match="No such file"):
        acquire_key("parrot", {"api_key_file": str(tmp_path / "none")}, ())


async def show_failure(model: RemoteModel) -> str:
    """Returns all that a report of a crash could show of a failure."""
    with pytest.raises(ConverseError, match="You sent") as caught:
        await model.converse(REQUEST)
    lines = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    return "".join(lines.format())


async def test_a_server_that_says_what_it_was_sent_tells_nobody_else(tmp_path: Path) -> None:
    """Whatever comes back of a key in an error is struck out, in a stream as well."""
    echo = b'{"error": "You sent:\\n x-key: canary-key, x-more: canary-more"}'
    page = MemoryAnswer(headers={"Content-Type": "text/html"}, chunks=[b"<p>", echo])
    model, _ = await access_parrot(
        tmp_path, answer_json(echo, 400), page, headers={"x-more": "canary-more"}
    )

    for _attempt in range(2):
        shown = await show_failure(model)
        assert "********" in shown
        assert "canary" not in shown


class Curt(Words):
    """Knows the end of a response when it sees it."""

    @property
    def is_complete(self) -> bool:
        return self._ended


@attrs.define
class Tried:
    """One try of a request, of which nothing needs to be cleaned."""

    counterpart: Counterpart
    decoder: Any
    framer: Any

    async def open_exchange(self) -> Exchange:
        request = WireRequest(url="https://parrot.example/v1")
        return await self.counterpart.transport.send(request)

    def produce_decoder(self) -> Any:
        return self.decoder

    def produce_framer(self) -> Any:
        return self.framer

    def clean(self, error: ConverseError) -> ConverseError:
        return error

    def scrub(self, event: NativeEvent) -> NativeEvent:
        return event


async def read_source(decoder: Words, chunks: AsyncIterable[bytes]) -> list[str]:
    """Returns the texts of a stream, which is closed then."""
    answer = MemoryAnswer(headers={"Content-Type": "text/event-stream"}, chunks=chunks)
    counterpart = Counterpart([answer])

    attempt = Tried(counterpart, decoder, SseFramer(LIMITS))
    source = WireSource(attempt, "text/event-stream")
    texts = []
    while (events := await source.receive()) is not None:
        texts += [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    await source.close()
    return texts


async def test_nobody_waits_behind_the_end_of_a_response() -> None:
    """A stream that stalls there is over, and is closed; what else it says is not read."""
    is_closed = asyncio.Event()

    async def stall() -> AsyncIterator[bytes]:
        try:
            yield b"data: hi\n\ndata: !\n\ndata: ?\n\n"
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    texts = await read_source(Curt(), stall())

    assert texts == ["hi"]
    assert is_closed.is_set()


async def test_the_end_of_a_stream_is_read_so_that_its_connection_stays() -> None:
    """Where it comes at once."""
    pieces = []

    async def end() -> AsyncIterator[bytes]:
        for piece in (b"data: hi\n\ndata: !\n\n", b": bye\n\n"):
            yield piece
            pieces.append(piece)

    texts = await read_source(Curt(), end())

    assert texts == ["hi"]
    assert len(pieces) == 2


class Mistaken(Words):
    """Puts into our values what they do not take, as where a vendor sends a number for a name."""

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        UserCanister(7)  # type: ignore[arg-type]
        return []


async def test_a_vendor_that_sends_the_wrong_kind_is_to_blame() -> None:
    """Not whoever asked: a request that makes no sense would be an error of theirs."""
    with pytest.raises(ConverseError, match="Invalid answer") as caught:
        await read_source(Mistaken(), _say(b"data: hi\n\n"))

    assert type(caught.value) is ConverseError
    assert caught.value.stage == "decode"


@pytest.mark.parametrize(
    ("last", "kind"),
    [(b'{"model":"m","crea', StreamTruncatedError), (b'{"error":"no"}', ProviderError)],
)
async def test_a_line_that_the_end_cuts_is_a_truncated_stream(
    last: bytes, kind: type[ConverseError]
) -> None:
    """However politely the connection ends there; an error that is whole stays what it is."""
    line = b'{"model":"m","created_at":"now","message":{"content":"hi"},"done":false}\n'

    answer = MemoryAnswer(chunks=_say(line, last), headers={"Content-Type": "application/x-ndjson"})
    counterpart = Counterpart([answer])
    attempt = Tried(counterpart, OllamaDecoder(provider="ollama"), NdjsonFramer(LIMITS))
    source = WireSource(attempt, "application/x-ndjson")
    await source.receive()
    with pytest.raises(ConverseError) as raised:
        await source.receive()

    assert type(raised.value) is kind


async def _say(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_what_identifies_us_in_an_address_is_struck_out(tmp_path: Path) -> None:
    """A token in the place of the user, and a password in either way of writing it."""
    for base_url, told in (
        ("https://token-canary@parrot.example", "token-canary"),
        ("https://me:pass%40canary@parrot.example", "pass@canary pass%40canary"),
    ):
        answer = answer_json(msgspec.json.encode({"said": told}), status=500)
        model, _ = await access_parrot(tmp_path, answer, base_url=base_url)
        with pytest.raises(ProviderError) as caught:
            await model.converse(REQUEST)
        assert "canary" not in str(caught.value)
