"""A response that nobody follows is what a stream would have made of it, and closes its source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.messages.canisters import AssistantCanister, StopReason, UserCanister
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.messages.views import text_of
from vibe_llms.providers.complete_responses import receive_complete
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import EventSource

REQUEST = Request(canisters=[UserCanister("hello")])
LOSS = Loss(kind=LossKind.DROPPED, path="controls", reason="It has none.")
BEGINNING: list[StreamEvent] = [
    ResponseStartedEvent(response_id="r", model="n", request_id="q"),
    ContentStartedEvent(index=0, kind="text"),
    ContentDeltaEvent(0, "Hi"),
]
END: list[StreamEvent] = [
    ContentFinishedEvent(index=0),
    ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
]
RETRY: list[StreamEvent] = [
    RetryEvent(attempt=2, after_seconds=0, error=ConverseError(detail="It broke."))
]


@attrs.define
class Source:
    """An event source whose life can be watched; it waits for ever when it has no more."""

    batches: list[Sequence[StreamEvent] | Exception | None]
    is_spent: bool = False
    closed: int = 0
    is_closing: bool = False
    door: asyncio.Event | None = None

    async def receive(self) -> Sequence[StreamEvent] | None:
        if not self.batches:
            await asyncio.Event().wait()
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def close(self) -> None:
        self.is_closing = True
        if self.door is not None:
            await self.door.wait()
        self.closed += 1


class Sourced(ModelBase[None]):
    """A model whose answer comes from a source, with a loss."""

    protocol = "p"

    def __init__(self, source: Source) -> None:
        self._source = source
        attributes = SimpleNamespace(access_capability=lambda _: None)
        descriptor: Any = SimpleNamespace(provider="p", name="m", attributes=attributes)
        super().__init__(descriptor, tokenizer=None)  # type: ignore[arg-type]

    def nativize(self, request: Request, *, streaming: bool) -> Translation[None]:
        return Translation(None, (LOSS,))

    async def send(self, native: None, request: Request, *, streaming: bool) -> EventSource:
        return self._source


async def receive(source: Source) -> Response:
    return await receive_complete(Sourced(source), REQUEST, streaming=True)


async def stream(source: Source) -> Response:
    return await Sourced(source).stream(REQUEST).response()


def forget_moments(response: Response) -> ResponseMetadata:
    return attrs.evolve(response.metadata, duration_seconds=0.0, first_seconds=None)


async def test_a_whole_response_says_what_a_streamed_one_says() -> None:
    """The same text, origin, attempts, losses and names; and the moments are there."""
    whole = await receive(Source([RETRY, BEGINNING, END]))
    streamed = await stream(Source([RETRY, BEGINNING, END]))
    assert whole.text == streamed.text == "Hi"
    assert whole.losses == streamed.losses == (LOSS,)
    assert forget_moments(whole) == forget_moments(streamed)
    assert whole.metadata.attempts == 2
    assert whole.metadata.first_seconds is not None
    assert 0 < whole.metadata.first_seconds <= whole.metadata.duration_seconds


@pytest.mark.parametrize(
    "ending",
    [ConverseError(detail="It broke."), ValueError("mistake"), None, END[:1] * 2, END + END],
    ids=["ours", "foreign", "truncated", "senseless", "goes on"],
)
async def test_an_error_is_that_of_a_stream_and_keeps_what_had_arrived(
    ending: Sequence[StreamEvent] | Exception | None,
) -> None:
    """Whatever ends it, both ways raise the same, with the same words in it."""
    errors = []
    for way in (receive, stream):
        source = Source([RETRY, BEGINNING, ending])
        with pytest.raises(ConverseError) as caught:
            await way(source)
        errors.append(caught.value)
        assert source.closed == 1
    whole, streamed = errors
    assert type(whole) is type(streamed)
    assert str(whole) == str(streamed)
    assert type(whole.__cause__) is type(streamed.__cause__)
    assert text_of(whole.arrived) == text_of(streamed.arrived) == "Hi"
    assert whole.sent == streamed.sent == 2
    (arrived,) = whole.arrived
    assert isinstance(arrived, AssistantCanister)
    assert arrived.origin == streamed.arrived[0].origin
    assert isinstance(whole, StreamTruncatedError) == (ending is None)


async def test_a_source_that_is_spent_is_not_closed() -> None:
    """There is nothing to be freed, and so nothing to wait for."""
    spent, other = Source([BEGINNING + END], is_spent=True), Source([BEGINNING + END])
    await receive(spent)
    await receive(other)
    assert (spent.closed, other.closed) == (0, 1)


async def test_whoever_is_cancelled_waits_until_the_source_is_closed() -> None:
    """Closed at once, and to the end, however often one is cancelled meanwhile."""
    source = Source([BEGINNING], door=asyncio.Event())
    task = asyncio.create_task(receive(source))
    await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert source.is_closing
        assert not task.done()
    assert source.door is not None
    source.door.set()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert source.closed == 1


@pytest.mark.parametrize("read", [receive, stream])
async def test_what_has_only_begun_is_no_answer(read: Callable[[Source], Any]) -> None:
    """A response in the background is not taken for an empty text: the error names its id."""
    begun = ResponseStartedEvent(response_id="resp_7", model="n")
    end = ResponseFinishedEvent(stop_reason=StopReason.INTERRUPTED, native_stop_reason="queued")

    with pytest.raises(ConverseError, match=r"p has not answered: state 'queued' of .*resp_7"):
        await read(Source([[begun, end]]))


async def test_what_had_come_before_a_break_is_an_answer() -> None:
    """It says that it was interrupted."""
    end = ResponseFinishedEvent(stop_reason=StopReason.INTERRUPTED)
    source = Source([[*BEGINNING, ContentFinishedEvent(index=0), end]])

    response = await receive(source)

    assert response.metadata.origin.stop_reason is StopReason.INTERRUPTED
    assert text_of(response.canisters[0]) == "Hi"
