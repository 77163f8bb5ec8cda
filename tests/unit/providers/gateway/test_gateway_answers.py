"""Whatever happens on the far side is told here as if it had happened here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.answers import answers, reduce_origin
from support.gateways.remote_gateways import RemoteGateway, open_remote_world
from vibe_llms.dialects import converse
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    StreamTruncatedError,
    TranslationLossError,
)
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import AssistantCanister, Origin, StopReason, Usage, UserCanister
from vibe_llms.messages.contents import Native, ReasoningContent
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.gateway.relaying import RelayedAssembler
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.streams import EventSource
from vibe_llms.wire.sse import SseFramer

HELLO = Request(canisters=[UserCanister("Hello there, far away.")])
BUSY = ProviderError(
    provider="vendor",
    fault=ProviderFault.RATE_LIMITED,
    status=429,
    detail="Too many.",
    retry_after_seconds=3.0,
    remedy="Wait a little.",
)
WORDS: tuple[StreamEvent, ...] = (
    ResponseStartedEvent(response_id="resp_1", model="model-2026", request_id="req_1"),
    ContentStartedEvent(index=0, kind="reasoning"),
    ContentDeltaEvent(0, "Hm."),
    ContentDeltaEvent(0, "sealed", "signature"),
    ContentFinishedEvent(index=0, group_native=Native(protocol="words", data='{"phase":"a"}')),
    ContentStartedEvent(index=1, kind="text", group=1),
    ContentDeltaEvent(1, "Yes, "),
    ContentDeltaEvent(1, "indeed."),
    NativeEvent(kind="ping", native=Native(protocol="words", data='{"n":1}')),
    ContentFinishedEvent(index=1),
    UsageEvent(usage=Usage(input_tokens=4, output_tokens=2, native='{"in":4}')),
    ResponseFinishedEvent(
        stop_reason=StopReason.STOP_SEQUENCE,
        native_stop_reason="stop",
        native=Native(protocol="words", data='{"fingerprint":"f"}'),
    ),
)


Telling = Sequence[StreamEvent | ConverseError | None]


class Told:
    """A source of events, an error among them where one is to be met, or a wait without end."""

    def __init__(self, events: Telling) -> None:
        self._events = list(events)
        self.closed = asyncio.Event()

    async def receive(self) -> Sequence[StreamEvent] | None:
        event = self._events.pop(0)
        if event is None:
            await asyncio.Event().wait()
        if isinstance(event, ConverseError):
            raise event
        return [event] if event is not None else None

    async def close(self) -> None:
        self.closed.set()


class PlayedModel(ModelBase[JsonObject]):
    """A model of the far side that tells what a test wants to hear, one telling after the other."""

    protocol = "words"

    def __init__(
        self,
        model: ConverserModel,
        tellings: Sequence[Sequence[StreamEvent | ConverseError | None]],
    ) -> None:
        super().__init__(model.descriptor, model.tokenizer)
        self._tellings = list(tellings)
        self.sources: list[Told] = []
        self.requests: list[Request] = []
        self.responses: list[Response] = []

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        return Translation({}, [Loss(kind=LossKind.DROPPED, path="schema", reason="so")])

    async def send(self, native: JsonObject, request: Request, *, streaming: bool) -> EventSource:
        self.requests.append(request)
        self.sources.append(Told(self._tellings.pop(0)))
        return self.sources[-1]


def play(*tellings: Telling) -> tuple[RemoteGateway, list[PlayedModel]]:
    """Makes a far side whose model tells this; and where that model will be found."""
    played: list[PlayedModel] = []

    def adapt(model: ConverserModel) -> ConverserModel:
        played.append(played[0] if played else PlayedModel(model, tellings))
        return played[0]

    return RemoteGateway({}, adapt=adapt), played


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_answer_is_the_far_sides_answer(tmp_path: Path, streaming: bool) -> None:
    """Contents, natives, origin, usage, losses, the vendor's name for the exchange: all of it."""
    far, _ = play(WORDS)
    async with open_remote_world(tmp_path, far) as world:
        response = await world.ask(HELLO, stream=streaming)

    origin = response.metadata.origin
    assert origin == Origin(
        provider="scripted",
        model="model-2026",
        protocol="words",
        response_id="resp_1",
        stop_reason=StopReason.STOP_SEQUENCE,
        native_stop_reason="stop",
        usage=Usage(input_tokens=4, output_tokens=2, native='{"in":4}'),
    )
    thought, said = response.canisters
    assert isinstance(thought, AssistantCanister)
    assert thought.content == (ReasoningContent(text="Hm.", signature="sealed"),)
    assert thought.native == Native(protocol="words", data='{"phase":"a"}')
    assert said.text == "Yes, indeed."
    assert {thought.origin, getattr(said, "origin", None)} == {origin}
    assert response.metadata.request_id == "req_1"
    assert response.metadata.native == Native(protocol="words", data='{"fingerprint":"f"}')
    assert [loss.path for loss in response.losses] == ["schema"]
    assert response.metadata.attempts == 1
    assert response.request == HELLO


async def test_each_event_is_told_as_it_happens(tmp_path: Path) -> None:
    """What is the vendor's own as well."""
    far, _ = play(WORDS)
    async with open_remote_world(tmp_path, far) as world, world.model.stream(HELLO) as stream:
        events = [event async for event in stream]

    assert [event.type for event in events[1:]] == [event.type for event in WORDS]
    assert isinstance(events[0], LossEvent)
    assert [event for event in events if isinstance(event, NativeEvent)] == [WORDS[8]]
    assert [(each.status, each.error) for each in far.records[-1:]] == [(200, "")]


@pytest.mark.slow
@given(response=answers, streaming=st.booleans())
def test_any_answer_is_put_together_as_it_was(response: Response, streaming: bool) -> None:
    """As the provider does it, which takes the origin from the far side."""
    body = msgspec.json.encode(converse.nativize_response(response).value)
    events = converse.Decoder(provider="remote", request=HELLO).decode_response(body)
    if streaming:
        last = attrs.evolve(events[-1], response=response)
        writer = converse.StreamWriter({})
        frames = SseFramer(Limits()).feed(b"".join(map(writer.write, [*events[:-1], last])))
        decoder = converse.Decoder(provider="remote", request=HELLO)
        events = [each for frame in frames for each in decoder.decode(frame.data, frame.event)]
        events += decoder.finish()
    assembler = RelayedAssembler("far:model", "remote")
    for event in events:
        assembler.feed(event)
    again = assembler.produce_response(HELLO, duration_seconds=1.0, first_seconds=None)

    origin = response.metadata.origin
    assert again.metadata.origin == origin
    assert reduce_origin(again.canisters, origin) == reduce_origin(response.canisters, origin)
    assert all(getattr(each, "origin", None) == origin for each in again.canisters)
    same = ("attempts", "request_id", "native", "summaries")
    for name in same:
        assert getattr(again.metadata, name) == getattr(response.metadata, name)


@pytest.mark.parametrize("streaming", [True, False])
async def test_what_may_be_asked_again_is_asked_again_here(tmp_path: Path, streaming: bool) -> None:
    """The far side does not: there is one policy, and each time is an event."""
    far, played = play([BUSY], WORDS)
    async with open_remote_world(tmp_path, far) as world:
        events, response = await follow(world.model, streaming)

    retries = [event for event in events if isinstance(event, RetryEvent)]
    assert len(played[0].requests) == 2
    assert response.metadata.attempts == 2
    if streaming:
        assert [(each.attempt, each.after_seconds) for each in retries] == [(2, 3.0)]
        assert type(retries[0].error) is ProviderError
        assert access_facts(retries[0].error) == access_facts(BUSY)


@pytest.mark.parametrize("streaming", [True, False])
async def test_attempts_here_and_there_add_up(tmp_path: Path, streaming: bool) -> None:
    """Where a route of the far side asks again, that is told, and not done here once more."""
    there = RetryEvent(attempt=2, after_seconds=1.0, error=BUSY)
    far, played = play([BUSY], [there, *WORDS], [there, BUSY])
    async with open_remote_world(tmp_path, far) as world:
        events, response = await follow(world.model, streaming)
        assert response.metadata.attempts == 3
        if streaming:
            attempts = [each.attempt for each in events if isinstance(each, RetryEvent)]
            assert attempts == [2, 3]
            with pytest.raises(ProviderError):
                await world.ask(HELLO)
            assert len(played[0].requests) == 3


@pytest.mark.parametrize(
    "error",
    [
        RequestError(path="canisters[0]", detail="It makes no sense.", remedy="Ask another way."),
        StreamTruncatedError(detail="Cut.", remedy="Ask again."),
        BUSY,
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("place", [0, 8])
async def test_an_error_is_the_one_that_was_met_there(
    tmp_path: Path, error: ConverseError, place: int
) -> None:
    """Before anything was said, or in the midst of it; what had arrived is kept."""
    telling = [*WORDS[:place], error]
    far, _ = play(*[telling] * 3)
    async with open_remote_world(tmp_path, far) as world:
        with pytest.raises(ConverseError) as caught:
            await world.ask(HELLO)

    assert type(caught.value) is type(error)
    assert access_facts(caught.value) == access_facts(error)
    arrived = [each.text for each in caught.value.arrived]
    assert arrived == (["", "Yes, indeed."] if place else [])
    assert caught.value.is_retryable == (error.is_retryable and (error is BUSY or not place))


@pytest.mark.slow
async def test_a_strict_request_is_refused_where_something_is_lost(tmp_path: Path) -> None:
    """Which is known there alone."""
    far, _ = play(WORDS)
    async with open_remote_world(tmp_path, far) as world:
        with pytest.raises(TranslationLossError, match="dropped schema"):
            await world.ask(attrs.evolve(HELLO, strict=True))


async def test_leaving_a_stream_stops_what_is_behind_the_far_side(tmp_path: Path) -> None:
    """And what had come is kept under the name of who had begun to answer."""
    far, played = play([*WORDS[:7], None])
    async with open_remote_world(tmp_path, far) as world:
        async with world.model.stream(HELLO) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent) and event.index == 1:
                    break
        await asyncio.wait_for(played[0].sources[0].closed.wait(), 60)

    assert far.records[-1].error == "client-gone"
    origin = getattr(stream.canisters[-1], "origin", None)
    assert origin == Origin(
        provider="scripted",
        model="model-2026",
        response_id="resp_1",
        stop_reason=StopReason.INTERRUPTED,
    )


async def test_a_far_side_may_ask_another(tmp_path: Path) -> None:
    """Through two of them, the origin is still the vendor's."""
    far, _ = play(WORDS)
    async with far.run():
        middle = RemoteGateway({"providers": {"remote": {"base_url": far.url}}})
        async with open_remote_world(tmp_path, middle, model="remote:scripted:echo") as world:
            response = await world.ask(HELLO)
            attributes = world.model.descriptor.attributes

    assert response.text == "Yes, indeed."
    assert response.metadata.origin.provider == "scripted"
    assert [loss.path for loss in response.losses] == ["schema"]
    assert attributes.access_value("title") == "Answers from a script"


async def follow(model: ConverserModel, streaming: bool) -> tuple[list[StreamEvent], Response]:
    """Asks, and returns what happened on the way, and the answer."""
    if not streaming:
        return [], await model.converse(HELLO, stream=False)
    async with model.stream(HELLO) as stream:
        return [event async for event in stream], await stream.response()
