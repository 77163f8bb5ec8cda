"""A stream always has an ending, and always closes its source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.scripting import produce_model
from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.reactors import ConversationReactors, join_reactors
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    StreamTruncatedError,
    TranslationLossError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import AssistantCanister, StopReason, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import EventSource, ResponseStream
from vibe_llms.providers.synchrony import SyncStream

REQUEST = Request(canisters=[UserCanister("hello")], conversation_id="c")


class RecordingReactors:
    """Keeps the events that it hears, by their words."""

    def __init__(self) -> None:
        self.events: list[ConversationEvent] = []
        listen = self.events.append
        self.reactors = ConversationReactors(
            allocator=listen,
            progress=listen,
            updater=listen,
            success=listen,
            failure=listen,
            deallocator=listen,
        )

    @property
    def words(self) -> list[str]:
        return [event.type.removeprefix("conversation.") for event in self.events]


class Source:
    """An event source whose life can be watched."""

    def __init__(self, *batches: Sequence[StreamEvent] | BaseException) -> None:
        self.batches = list(batches)
        self.closed = 0

    async def receive(self) -> Sequence[StreamEvent] | None:
        if not self.batches:
            await asyncio.Event().wait()
        batch = self.batches.pop(0)
        if isinstance(batch, BaseException):
            raise batch
        return batch or None

    async def close(self) -> None:
        self.closed += 1


def produce_stream(
    source: Source, reactors: ConversationReactors | None = None, losses: Sequence[Loss] = ()
) -> ResponseStream:
    return ResponseStream(
        request=REQUEST,
        assembler=Assembler(provider="p", model="m"),
        open_source=produce_opener(source, losses),
        reactors=reactors,
    )


def produce_opener(
    source: Source, losses: Sequence[Loss] = ()
) -> Callable[[], Awaitable[Translation[EventSource]]]:
    async def open_source() -> Translation[EventSource]:
        return Translation(source, tuple(losses))

    return open_source


async def collect(stream: ResponseStream, events: list[StreamEvent]) -> None:
    """Collects events also where an error ends them."""
    async for event in stream:
        events.append(event)


BEGINNING: list[StreamEvent] = [
    ContentStartedEvent(index=0, kind="text"),
    ContentDeltaEvent(0, "half an ans"),
]


@given(
    text=st.text(max_size=60),
    reasoning=st.text(max_size=30),
    size=st.integers(0, 7),
    arguments=st.text(max_size=20),
)
@examples(30)
async def test_stream_equals_non_stream(
    text: str, reasoning: str, size: int, arguments: str
) -> None:
    """The same exchange gives the same contents either way, however it is cut."""
    model = produce_model(
        {
            "contents": [
                {"reasoning": reasoning},
                {"text": text},
                {"invocation": {"name": "n", "arguments": arguments}},
            ],
            "chunk_characters": size,
            "usage": {"output_tokens": 3},
        }
    )

    streamed = await model.converse(REQUEST)
    whole = await model.converse(REQUEST, stream=False)

    assert [c.content for c in streamed.canisters] == [c.content for c in whole.canisters]
    assert [c.role for c in streamed.canisters] == [c.role for c in whole.canisters]
    assert streamed.metadata.origin == whole.metadata.origin
    assert streamed.canisters[-1].arguments == arguments  # type: ignore[union-attr]


async def test_reactors_hear_of_a_whole_answer_in_order() -> None:
    """Started first, then what arrives, then completed, and ended last."""
    recording = RecordingReactors()

    response = await produce_model({"contents": [{"text": "abcdefgh"}]}).converse(
        REQUEST, recording.reactors
    )

    words = recording.words
    assert words[0] == "started"
    assert words[-2:] == ["completed", "ended"]
    assert words.count("progress") == 2
    chunks = [getattr(event, "chunk", "") for event in recording.events]
    assert "".join(chunks) == response.text == "abcdefgh"
    assert {event.conversation_id for event in recording.events} == {"c"}


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("cut", StreamTruncatedError),
        ("overloaded", ProviderError),
        ("garbage", ConverseError),
    ],
)
async def test_a_failure_is_the_last_event_and_then_an_error(
    kind: str, error: type[ConverseError]
) -> None:
    """A consumer sees an ending with what had arrived; one that goes on meets the error."""
    recording = RecordingReactors()
    model = produce_model(
        {"contents": [{"text": "0123456789"}], "fault": {"at_chunk": 1, "kind": kind}}
    )
    events: list[StreamEvent] = []

    stream = model.stream(REQUEST, recording.reactors)
    with pytest.raises(error):
        await collect(stream, events)

    last = events[-1]
    assert isinstance(last, ResponseFailedEvent)
    assert text_of(last.canisters) == "01234"
    assert recording.words[-2:] == ["failed", "ended"]
    with pytest.raises(error):
        await stream.response()


async def test_leaving_a_stream_closes_its_source_and_keeps_what_came() -> None:
    """What had arrived is marked as interrupted."""
    recording = RecordingReactors()
    source = Source(BEGINNING)

    async with produce_stream(source, recording.reactors) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break

    assert source.closed == 1
    (canister,) = stream.canisters
    assert isinstance(canister, AssistantCanister)
    assert text_of(canister) == "half an ans"
    assert canister.origin is not None
    assert canister.origin.stop_reason is StopReason.INTERRUPTED
    assert recording.words[-1] == "ended"
    assert recording.events[-1].outcome == "interrupted"  # type: ignore[union-attr]
    with pytest.raises(ConverseError, match="closed before"):
        await stream.response()


async def test_cancelling_a_task_closes_the_source_and_ends_the_conversation() -> None:
    """Cancellation passes through; the deallocator still comes, last."""
    recording = RecordingReactors()
    source = Source(BEGINNING)
    stream = produce_stream(source, recording.reactors)
    task = asyncio.create_task(stream.response())
    await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert source.closed == 1
    assert recording.words[-1] == "ended"
    assert text_of(stream.canisters) == "half an ans"


async def test_a_bug_in_a_provider_is_a_failure_like_any_other() -> None:
    """The error names the bug and keeps it as its cause; what had arrived is on it."""
    recording = RecordingReactors()
    source = Source(BEGINNING, ZeroDivisionError("some bug"))

    with pytest.raises(ConverseError, match="ZeroDivisionError: some bug") as caught:
        await produce_stream(source, recording.reactors).response()

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert text_of(caught.value.arrived) == "half an ans"
    assert source.closed == 1
    assert recording.words[-2:] == ["failed", "ended"]
    assert recording.events[-1].outcome == "failed"  # type: ignore[union-attr]


async def test_an_answer_counts_for_more_than_how_its_door_shut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A source that cannot be closed is logged, and the answer is given."""

    class Stuck(Source):
        async def close(self) -> None:
            raise OSError("stuck")

    finish = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)

    response = await produce_stream(Stuck([finish])).response()
    with pytest.raises(StreamTruncatedError):
        await produce_stream(Stuck([])).response()

    assert response.metadata.stop_reason is StopReason.ANSWERED
    assert caplog.text.count("could not be closed") == 2


async def test_closing_from_another_task_ends_a_reader_that_waits() -> None:
    """The reader is not cancelled: its iteration ends, and reactors hear nothing afterwards."""
    recording = RecordingReactors()
    source = Source(BEGINNING)
    stream = produce_stream(source, recording.reactors)

    async def read() -> list[StreamEvent]:
        return [event async for event in stream]

    reader = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    await stream.close()
    ended, _ = await asyncio.wait({reader}, timeout=60)

    assert ended == {reader}
    assert reader.result() == BEGINNING
    assert source.closed == 1
    assert recording.words[-1] == "ended"
    assert reader.cancelling() == 0
    with pytest.raises(ConverseError, match="closed before") as caught:
        await stream.response()
    assert text_of(caught.value.arrived) == "half an ans"


async def test_a_source_that_opens_after_the_stream_was_closed_is_closed() -> None:
    """Nothing leaks, however late the other side answers."""
    source = Source(BEGINNING)
    gate = asyncio.Event()

    async def open_source() -> Translation[EventSource]:
        with contextlib.suppress(asyncio.CancelledError):  # as code that cleans up may do
            await gate.wait()
        return Translation(source)

    stream = ResponseStream(
        request=REQUEST, assembler=Assembler(provider="p", model="m"), open_source=open_source
    )
    reader = asyncio.create_task(collect(stream, []))
    await asyncio.sleep(0.01)
    await stream.close()
    await asyncio.wait_for(reader, 60)

    assert source.closed == 1


async def test_who_is_cancelled_while_leaving_still_waits_for_the_clean_up() -> None:
    """Impatience leaves no socket open behind it."""

    class Slow(Source):
        async def close(self) -> None:
            await asyncio.sleep(0.02)
            await super().close()

    source = Slow(BEGINNING)

    async def look_in() -> None:
        async with produce_stream(source) as stream:
            await anext(aiter(stream))

    task = asyncio.create_task(look_in())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert source.closed == 1


async def test_an_answer_that_is_complete_is_completed_whatever_comes_then() -> None:
    """Reactors do not hear of a success that was interrupted."""
    recording = RecordingReactors()
    release = asyncio.Event()

    async def listen(event: ConversationEvent) -> None:
        await release.wait()

    finish = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
    begin = [ContentStartedEvent(index=index, kind="text") for index in range(4)]
    end = [ContentFinishedEvent(index=index) for index in range(4)]
    reactors = join_reactors(recording.reactors, ConversationReactors(updater=listen))
    stream = ResponseStream(
        request=REQUEST,
        assembler=Assembler(provider="p", model="m"),
        open_source=produce_opener(Source([*begin, *end, finish])),
        reactors=reactors,
        limits=Limits(reactor_queue_events=2),
    )
    task = asyncio.create_task(stream.response())
    await asyncio.sleep(0.01)
    release.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert recording.words[-2:] == ["completed", "ended"]
    assert recording.events[-1].outcome == "completed"  # type: ignore[union-attr]


async def test_everybody_who_closes_waits_until_the_source_is_closed() -> None:
    """A second closer does not return while the socket is still open."""

    class Slow(Source):
        async def close(self) -> None:
            await asyncio.sleep(0.01)
            await super().close()

    source = Slow(BEGINNING)
    stream = produce_stream(source)
    await anext(aiter(stream))

    async def close() -> int:
        await stream.close()
        return source.closed

    assert await asyncio.gather(close(), close()) == [1, 1]


async def test_a_reactor_may_close_its_own_stream() -> None:
    """An asynchronous reactor that has heard enough does not wait for itself."""
    ended: list[str] = []
    source = Source(BEGINNING)

    async def enough(event: ConversationEvent) -> None:
        await stream.close()

    stream = produce_stream(
        source,
        ConversationReactors(
            progress=enough, deallocator=lambda event: ended.append(event.outcome)
        ),
    )
    await asyncio.wait_for(collect(stream, []), 60)
    await stream.close()

    assert ended == ["interrupted"]
    assert source.closed == 1


async def test_a_time_limit_does_not_leave_a_cancellation_behind() -> None:
    """Asking a stream again whose reader was cancelled does not cancel the asker."""
    stream = produce_stream(Source(BEGINNING))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream.response(), 0.01)
    with pytest.raises(ConverseError, match="closed before"):
        await stream.response()


async def test_signatures_are_no_progress() -> None:
    """Who prints what arrives does not print what is signed."""
    recording = RecordingReactors()
    source = Source(
        [
            ContentStartedEvent(index=0, kind="reasoning"),
            ContentDeltaEvent(0, "think"),
            ContentDeltaEvent(0, "c2VhbA==", "signature"),
        ],
        [],
    )

    with pytest.raises(StreamTruncatedError):
        await produce_stream(source, recording.reactors).response()

    assert [e.chunk for e in recording.events if e.type == "conversation.progress"] == ["think"]
    assert text_of(recording.events[-1].canisters) == ""  # type: ignore[union-attr]
    assert len(recording.events[-1].canisters) == 1  # type: ignore[union-attr]


async def test_attempts_are_counted() -> None:
    """A retry is an event, and the response tells how often was tried."""
    retry = RetryEvent(attempt=2, after_seconds=0.1, error=ConverseError(detail="busy"))
    finish = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)

    response = await produce_stream(Source([retry], [finish])).response()

    assert response.metadata.attempts == 2


async def test_closing_twice_or_before_the_start_does_no_harm() -> None:
    """Nothing is sent for a stream that is never used."""
    source = Source()
    stream = produce_stream(source)

    await stream.close()
    await stream.close()

    assert source.closed == 0
    assert [event async for event in stream] == []


async def test_losses_of_the_translation_are_events_and_in_the_response() -> None:
    """Nothing is lost without being said, twice."""
    loss = Loss(kind=LossKind.DROPPED, path="canisters[0]", reason="why")
    finish = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
    stream = produce_stream(Source([finish]), losses=[loss])

    events = [event async for event in stream]

    assert events[0] == LossEvent(loss=loss)
    assert (await stream.response()).losses == (loss,)


async def test_strict_makes_a_loss_an_error_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error tells what would be lost."""
    model = produce_model({"contents": [{"text": "hi"}]})
    loss = Loss(kind=LossKind.DROPPED, path="canisters[0]", reason="why not")
    monkeypatch.setattr(model, "nativize", lambda request, streaming: Translation({}, [loss]))
    strict = Request(canisters=[UserCanister("hi")], strict=True)

    with pytest.raises(TranslationLossError, match="why not"):
        await model.converse(strict)
    assert (await model.converse(REQUEST)).losses == (loss,)


async def test_a_slow_reactor_slows_the_stream_instead_of_filling_memory() -> None:
    """The stream waits while as many events as fit are waiting for an asynchronous reactor."""
    release = asyncio.Event()
    limit = Limits().reactor_queue_events

    async def listen(event: ConversationEvent) -> None:
        await release.wait()

    contents = [[ContentStartedEvent(index=index, kind="text")] for index in range(3 * limit)]
    source = Source(*contents)
    stream = produce_stream(source, ConversationReactors(updater=listen))
    task = asyncio.create_task(stream.response())
    await asyncio.sleep(0.05)

    consumed = len(contents) - len(source.batches)
    assert limit <= consumed <= limit + 2
    release.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_synchronous_stream_agrees_with_the_asynchronous_one() -> None:
    """It is the same stream, behind the portal."""
    model = produce_model({"contents": [{"reasoning": "mm"}, {"text": "hello there"}]})

    with SyncStream(model.stream(REQUEST)) as stream:
        words = [event.type for event in stream]
        response = stream.response()

    async def converse() -> list[str]:
        return [event.type async for event in model.stream(REQUEST)]

    assert words == asyncio.run(converse())
    assert response.text == "hello there"


_PARTS = st.lists(
    st.one_of(
        st.builds(lambda text: {"text": text}, st.text(max_size=12)),
        st.builds(lambda text: {"reasoning": text}, st.text(min_size=1, max_size=6)),
        st.just({"refusal": "no"}),
        st.just({"invocation": {"name": "n", "arguments": "{}"}}),
    ),
    min_size=1,
    max_size=6,
)


@given(contents=_PARTS, size=st.integers(0, 5), streaming=st.booleans())
@examples(60)
async def test_the_words_of_a_stream_are_the_text_of_its_response(
    contents: list[dict[str, object]], size: int, streaming: bool
) -> None:
    """Reasoning, refusals and calls are left out, and part the texts around them as in it."""
    model = produce_model({"contents": contents, "chunk_characters": size})
    stream = model.answer(REQUEST, streaming=streaming)

    words = [piece async for piece in stream.text]
    response = await stream.response()

    assert "".join(words) == response.text
    assert all(words)


async def test_a_text_without_pieces_is_said_by_the_words() -> None:
    """A vendor may send the whole of it at its end."""
    whole = TextualContent("All at once.")
    source = Source(
        [
            ContentStartedEvent(index=0, kind="text"),
            ContentFinishedEvent(index=0, item=whole),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
        ]
    )

    assert [piece async for piece in produce_stream(source).text] == ["All at once."]


async def test_the_words_of_a_stream_that_breaks_off_end_in_its_error() -> None:
    """What had arrived was said."""
    words: list[str] = []

    async def read() -> None:
        async for piece in produce_stream(Source(BEGINNING, [])).text:
            words.append(piece)

    with pytest.raises(StreamTruncatedError):
        await read()

    assert words == ["half an ans"]


async def test_each_piece_says_of_what_kind_its_content_is() -> None:
    """Whoever looks at pieces alone tells words from reasoning and arguments; reactors, too."""
    model = produce_model(
        {
            "contents": [
                {"reasoning": "hm"},
                {"text": "hi"},
                {"invocation": {"name": "n", "arguments": "{}"}},
            ]
        }
    )
    recording = RecordingReactors()

    async with model.stream(REQUEST, recording.reactors) as stream:
        pieces = [each async for each in stream if isinstance(each, ContentDeltaEvent)]
    heard = [each for each in recording.events if each.type == "conversation.progress"]

    expected = [("reasoning", "hm"), ("text", "hi"), ("invocation", "{}")]
    assert [(piece.kind, piece.text) for piece in pieces] == expected
    assert [(event.kind, event.chunk) for event in heard] == expected


def test_a_synchronous_stream_says_its_words_alone() -> None:
    """The same words, in a plain loop."""
    model = produce_model({"contents": [{"reasoning": "mm"}, {"text": "hello there"}]})

    with SyncStream(model.stream(REQUEST)) as stream:
        words = list(stream.text)

    assert words == ["hello", " ther", "e"]


def test_a_synchronous_stream_can_be_left_midway() -> None:
    """What had arrived is there."""
    model = produce_model({"contents": [{"text": "hello there"}], "delay_seconds": 0.001})

    with SyncStream(model.stream(REQUEST)) as stream:
        for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break

    assert text_of(stream.canisters) == "hello"
