"""A small whole answer goes the short way only where nothing is unusual, and loses no promise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.events.conversation import ConversationEvent, ConversationUpdatedEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import (
    ConverseError,
    LimitError,
    ProviderError,
    TranslationLossError,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers import simple_responses
from vibe_llms.providers.openai_conversations.client import OpenAIVendor
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.wire.memory import MemoryAnswer

REQUEST = Request(canisters=[UserCanister("hello")])
MESSAGE = {"role": "assistant", "content": "Hi", "refusal": None}
BODY = msgspec.json.encode(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }
)
HEADERS = {"Content-Type": "application/json", "x-request-id": "r-1"}
SIMPLE = MemoryAnswer(headers=HEADERS, chunks=[BODY])
CUT = MemoryAnswer(headers=HEADERS, chunks=[BODY[:30], BODY[30:]])
"""The same answer in pieces, which takes the long way."""


@attrs.define
class Shortcuts:
    """Counts who takes the short way."""

    taken: int = 0


@pytest.fixture
def shortcuts(monkeypatch: pytest.MonkeyPatch) -> Shortcuts:
    """Watches who takes the short way."""
    watched = Shortcuts()
    produce = simple_responses.SimpleResponseSource.produce_response

    def count(self: simple_responses.SimpleResponseSource, *given: Any) -> Response:
        watched.taken += 1
        return produce(self, *given)

    monkeypatch.setattr(simple_responses.SimpleResponseSource, "produce_response", count)
    return watched


async def access_model(
    directory: Path, *answers: MemoryAnswer | Exception, **settings: Any
) -> tuple[RemoteModel, Counterpart]:
    counterpart = Counterpart(list(answers))
    context = produce_context(
        "openai_conversations", directory, **{"api_key": "canary-key-1234", **settings}
    )
    provider = RemoteProvider(context, OpenAIVendor)
    provider.use_transport(counterpart.transport)
    return await provider.produce_client().access_model("m"), counterpart


def hear_all(heard: list[Any]) -> ConversationReactors:
    """Makes reactors that keep whatever they hear."""
    hear: Any = heard.append
    return ConversationReactors(
        **{field.name: hear for field in attrs.fields(ConversationReactors)}
    )


def describe(response: Response) -> object:
    """Returns what a response says that does not differ each time."""
    canisters = [
        attrs.evolve(each, id="i", turn_id="t", timestamp=REQUEST.canisters[0].timestamp)  # type: ignore[call-arg]
        for each in response.canisters
    ]
    metadata = attrs.evolve(response.metadata, duration_seconds=0.0, first_seconds=0.0)
    return response.request, canisters, metadata, response.losses


async def test_both_ways_make_the_same_response(tmp_path: Path, shortcuts: Shortcuts) -> None:
    """An answer in one piece takes the short way; the same in two pieces does not."""
    model, _ = await access_model(tmp_path, SIMPLE, CUT)

    short = await model.converse(REQUEST, stream=False)
    assert shortcuts.taken == 1
    long = await model.converse(REQUEST, stream=False)
    assert shortcuts.taken == 1

    assert short.text == long.text == "Hi"
    assert describe(short) == describe(long)
    assert short.metadata.request_id == "r-1"
    assert short.metadata.first_seconds is not None
    assert 0 < short.metadata.first_seconds <= short.metadata.duration_seconds
    assert short.canisters[0].id != short.canisters[0].turn_id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "failure",
    [
        answer_json(b'{"error":{"message":"busy"}}', 503),
        answer_json(b'{"error":{"message":"slow down"}}', 429, {"retry-after": "3"}),
        TransportError(detail="It broke."),
    ],
    ids=["server", "haste", "transport"],
)
async def test_what_fails_at_first_is_sent_again_by_the_one_policy(
    tmp_path: Path, shortcuts: Shortcuts, failure: MemoryAnswer | Exception
) -> None:
    """And is told as a retry; what comes then is read as ever."""
    heard: list[StreamEvent] = []

    def hear(event: ConversationUpdatedEvent) -> None:
        heard.append(event.event)

    model, counterpart = await access_model(tmp_path, failure, SIMPLE)
    reactors = ConversationReactors(updater=hear)

    response = await model.converse(REQUEST, reactors, stream=False)

    assert (response.text, response.metadata.attempts) == ("Hi", 2)
    assert len(counterpart.requests) == 2
    assert [event.type for event in heard][:2] == ["retry", "response.started"]


async def break_off() -> AsyncIterator[bytes]:
    """Begins an answer, and breaks."""
    yield BODY[:30]
    raise OSError("gone")


async def break_at_once() -> AsyncIterator[bytes]:
    """Breaks before anything has come of the body."""
    raise OSError("gone")
    yield b""


@pytest.mark.parametrize("chunks", [break_off, break_at_once])
async def test_a_connection_that_breaks_in_the_answer_is_tried_again(
    tmp_path: Path, chunks: Any
) -> None:
    """Wherever it breaks, for nothing of the answer had been read."""
    model, counterpart = await access_model(
        tmp_path, MemoryAnswer(headers=HEADERS, chunks=chunks()), SIMPLE
    )

    response = await model.converse(REQUEST, stream=False)

    assert (response.metadata.attempts, len(counterpart.requests)) == (2, 2)


async def test_an_error_that_is_not_tried_again_is_clean(tmp_path: Path) -> None:
    """A vendor that sends the key back does not get it into our error."""
    problem = b'{"error":{"message":"bad key canary-key-1234","code":"invalid_api_key"}}'
    model, counterpart = await access_model(tmp_path, answer_json(problem, 401))

    with pytest.raises(ProviderError) as caught:
        await model.converse(REQUEST, stream=False)

    assert "canary" not in str(caught.value)
    assert len(counterpart.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        answer_json(b"<html>", headers={"Content-Type": "text/html"}),
        answer_json(b""),
        answer_json(b"{"),
        answer_json(b'{"choices": []}'),
        answer_json(b'{"error": {"message": "no"}}'),
        answer_json(BODY.replace(b'"stop"', b"7")),
    ],
)
async def test_what_is_no_answer_is_the_error_that_it_is_in_pieces(
    tmp_path: Path, answer: MemoryAnswer
) -> None:
    """The long way finds the words for it."""
    pieces = [b"", *answer.chunks, b""]  # type: ignore[misc]
    errors = []
    for each in (answer, attrs.evolve(answer, chunks=pieces)):
        model, _ = await access_model(tmp_path, each, limits=Limits(attempts=1))
        with pytest.raises(ConverseError) as caught:
            await model.converse(REQUEST, stream=False)
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]


async def test_a_stream_that_nobody_asked_for_is_read_as_one(
    tmp_path: Path, shortcuts: Shortcuts
) -> None:
    """Also where all of it comes at once."""
    delta = {"role": "assistant", "content": "Hi"}
    chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    stream = b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"
    model, _ = await access_model(tmp_path, answer_json(stream))

    assert (await model.converse(REQUEST, stream=False)).text == "Hi"
    assert shortcuts.taken == 0


async def test_an_answer_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """The short way knows when it is too long for it."""
    model, _ = await access_model(tmp_path, SIMPLE, limits=Limits(content_characters=1))

    with pytest.raises(LimitError, match="content_characters"):
        await model.converse(REQUEST, stream=False)


async def test_tokens_that_are_paced_are_counted_by_the_long_way(
    tmp_path: Path, shortcuts: Shortcuts
) -> None:
    """Where the user bounds the tokens, what an answer used is settled."""
    model, _ = await access_model(tmp_path, SIMPLE, tokens_per_minute=1_000_000)

    await model.converse(REQUEST, stream=False)

    assert shortcuts.taken == 0


async def test_losses_are_told_or_refused(tmp_path: Path) -> None:
    """What the request lost is in the response, and refuses a strict one."""
    request = attrs.evolve(REQUEST, controls={"no_such": 1}, lenient=True)
    model, _ = await access_model(tmp_path, SIMPLE, CUT)

    short = await model.converse(request, stream=False)
    long = await model.converse(request, stream=False)

    assert short.losses == long.losses != ()
    with pytest.raises(TranslationLossError):
        await model.converse(attrs.evolve(request, strict=True), stream=False)


async def test_reactors_hear_the_same_both_ways(tmp_path: Path, shortcuts: Shortcuts) -> None:
    """The same events with the same facts in them, of which only the account may come sooner."""
    heard: list[list[ConversationEvent]] = []

    def hear(event: ConversationEvent) -> None:
        heard[-1].append(event)

    async def hear_late(event: ConversationEvent) -> None:
        await asyncio.sleep(0)
        heard[-1].append(event)

    model, _ = await access_model(tmp_path, SIMPLE, CUT, SIMPLE)
    responses = []
    for listener in (hear, hear, hear_late):
        heard.append([])
        reactors = ConversationReactors(
            **{field.name: listener for field in attrs.fields(ConversationReactors)}
        )
        responses.append(await model.converse(REQUEST, reactors, stream=False))

    assert shortcuts.taken == 2
    short, long, late = ([event.type for event in events] for events in heard)
    assert sorted(short) == sorted(long) == sorted(late)
    assert (short[0], *short[-2:]) == (long[0], *long[-2:])
    kinds = [
        [event.event.type for event in events if isinstance(event, ConversationUpdatedEvent)]
        for events in heard
    ]
    assert sorted(kinds[0]) == sorted(kinds[1]) == sorted(kinds[2])
    progress = [
        [(event.chunk, event.metadata) for event in events if event.type == "conversation.progress"]
        for events in heard
    ]
    assert progress[0] == progress[1] == progress[2] != []
    assert describe(responses[0]) == describe(responses[1])


async def test_reactors_hear_of_values_as_anybody_makes_them(
    tmp_path: Path, shortcuts: Shortcuts
) -> None:
    """What is made without being checked has all its fields, and what they are by default."""
    heard: list[Any] = []
    model, _ = await access_model(tmp_path, SIMPLE, CUT)
    await model.converse(REQUEST, hear_all(heard), stream=False)
    await model.converse(REQUEST, hear_all(heard), stream=False)

    assert shortcuts.taken == 1
    for value in [*heard, *(each.event for each in heard if hasattr(each, "event"))]:
        fields = [field for field in attrs.fields(type(value)) if field.init]
        given = {field.name: getattr(value, field.name) for field in fields}
        names = [field.name for field in attrs.fields(type(value))]
        assert list(msgspec.to_builtins(value)) == names
        assert type(value)(**given) == value
        assert getattr(value, "metadata", {}) is not None


@pytest.mark.parametrize("stream", [False, True])
async def test_reactors_hear_how_a_call_fails(tmp_path: Path, stream: bool) -> None:
    """They hear of its beginning once, of the error, and of the end, which is the last."""
    heard: list[Any] = []
    model, _ = await access_model(tmp_path, MemoryAnswer(status=401, chunks=[b"{}"]))

    with pytest.raises(ConverseError) as caught:
        await model.converse(REQUEST, hear_all(heard), stream=stream)

    assert [event.type.removeprefix("conversation.") for event in heard] == [
        "started",
        "failed",
        "ended",
    ]
    assert heard[1].error is caught.value
    assert heard[2].outcome == "failed"


async def test_reactors_hear_that_a_call_was_cancelled(tmp_path: Path) -> None:
    """While it waits for the answer: nothing more comes, and they are told so."""
    heard: list[Any] = []
    begun = asyncio.Event()

    async def stall() -> AsyncIterator[bytes]:
        begun.set()
        await asyncio.Event().wait()
        yield b""

    model, _ = await access_model(tmp_path, MemoryAnswer(headers=HEADERS, chunks=stall()))
    task = asyncio.ensure_future(model.converse(REQUEST, hear_all(heard), stream=False))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.type for event in heard] == ["conversation.started", "conversation.ended"]
    assert heard[-1].outcome == "interrupted"


async def test_a_reactor_that_turns_out_asynchronous_is_waited_for(tmp_path: Path) -> None:
    """Only the call shows it, in the middle of an answer that is told of in one go."""
    heard: list[str] = []

    async def hear(event: Any) -> None:
        await asyncio.sleep(0)
        heard.append(event.type)

    reactors = ConversationReactors(
        progress=lambda event: hear(event), deallocator=lambda event: hear(event)
    )
    model, _ = await access_model(tmp_path, SIMPLE)
    await model.converse(REQUEST, reactors, stream=False)

    assert heard == ["conversation.progress", "conversation.ended"]


async def test_a_stream_of_a_model_that_cannot_stream_has_the_events(tmp_path: Path) -> None:
    """Whoever follows an answer that came at once sees it from its beginning to its end."""
    model, _ = await access_model(tmp_path, SIMPLE)
    stream = model.answer(REQUEST, streaming=False)

    async with stream:
        kinds = [event.type async for event in stream]
        response = await stream.response()

    assert kinds[0] == "response.started"
    assert kinds[-1] == "response.finished"
    assert stream.canisters == response.canisters
    assert response.text == "Hi"


async def test_whoever_is_cancelled_leaves_no_connection(tmp_path: Path) -> None:
    """In the middle of waiting for the answer."""
    closed: list[str] = []
    begun = asyncio.Event()

    async def stall() -> AsyncIterator[bytes]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            closed.append("closed")

    model, _ = await access_model(tmp_path, MemoryAnswer(headers=HEADERS, chunks=stall()))
    task = asyncio.ensure_future(model.converse(REQUEST, stream=False))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["closed"]


@pytest.mark.parametrize("chunks", [[BODY], [BODY[:30], BODY[30:]]], ids=["short", "long"])
async def test_a_name_of_the_exchange_that_is_no_text_is_none(
    tmp_path: Path, chunks: list[bytes]
) -> None:
    """Headers may hold any bytes; what is kept of an answer can be written down."""
    headers = {**HEADERS, "x-request-id": "r-\udcff"}
    model, _ = await access_model(tmp_path, MemoryAnswer(headers=headers, chunks=chunks))

    response = await model.converse(REQUEST, stream=False)

    assert response.text == "Hi"
    assert response.metadata.request_id is None


CHUNKS = [
    b"data: " + msgspec.json.encode({"id": "c", "created": 1, "model": "m-1", **each}) + b"\n\n"
    for each in (
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
        {"choices": [{"index": 0, "delta": {"content": " there"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    )
]
STREAMED = {"Content-Type": "text/event-stream", "x-request-id": "r-1"}
STREAM = MemoryAnswer(headers=STREAMED, chunks=[b"".join([*CHUNKS, b"data: [DONE]\n\n"])])
PIECES = MemoryAnswer(headers=STREAMED, chunks=[*CHUNKS, b"data: [DONE]\n\n"])


async def test_a_stream_that_came_whole_makes_the_same_response(
    tmp_path: Path, shortcuts: Shortcuts
) -> None:
    """In one piece it takes the short way, in several it does not."""
    model, _ = await access_model(tmp_path, STREAM, PIECES)

    short = await model.converse(REQUEST)
    assert shortcuts.taken == 1
    long = await model.converse(REQUEST)
    assert shortcuts.taken == 1

    assert short.text == long.text == "Hi there"
    assert describe(short) == describe(long)
    assert short.metadata.request_id == "r-1"


async def test_who_follows_a_stream_that_came_whole_sees_each_piece(
    tmp_path: Path, shortcuts: Shortcuts
) -> None:
    """The same events as in several pieces, of which only the account may come sooner."""
    model, _ = await access_model(tmp_path, STREAM, PIECES)
    seen = []
    for _ in range(2):
        async with model.stream(REQUEST) as stream:
            seen.append(sorted(event.type for event in [each async for each in stream]))

    assert shortcuts.taken == 1
    assert seen[0] == seen[1]
    assert seen[0].count("content.delta") == 2


@pytest.mark.parametrize(
    "failure",
    [answer_json(b'{"error":{"message":"busy"}}', 503), TransportError(detail="It broke.")],
    ids=["server", "transport"],
)
async def test_a_stream_that_fails_at_first_is_sent_again(
    tmp_path: Path, failure: MemoryAnswer | Exception
) -> None:
    """And whoever follows it hears of that."""
    model, counterpart = await access_model(tmp_path, failure, STREAM)

    async with model.stream(REQUEST) as stream:
        kinds = [event.type async for event in stream]
        response = await stream.response()

    assert (response.text, response.metadata.attempts) == ("Hi there", 2)
    assert len(counterpart.requests) == 2
    assert kinds[:2] == ["retry", "response.started"]


async def test_a_stream_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    """Whichever it is, in the words of the long way."""
    for name, value in (("content_characters", 3), ("event_bytes", 20)):
        model, _ = await access_model(tmp_path, STREAM, limits=Limits(**{name: value}))
        with pytest.raises(LimitError, match=name):
            await model.converse(REQUEST)


async def test_closed_while_it_is_waited_for_a_stream_leaves_no_connection(tmp_path: Path) -> None:
    """By whoever has it, in another task; nobody hears of an error."""
    closed: list[str] = []
    begun = asyncio.Event()

    async def stall() -> AsyncIterator[bytes]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            closed.append("closed")

    model, _ = await access_model(tmp_path, MemoryAnswer(headers=STREAMED, chunks=stall()))
    async with model.stream(REQUEST) as stream:

        async def read() -> list[StreamEvent]:
            return [event async for event in stream]

        reading = asyncio.ensure_future(read())
        await begun.wait()
        await stream.close()
        assert await reading == []

    assert closed == ["closed"]


@pytest.mark.parametrize("place", ["allocator", "updater", "progress", "success"])
@pytest.mark.parametrize("answer", [SIMPLE, CUT], ids=["short", "long"])
async def test_the_last_is_told_to_whom_a_reactor_ends_the_program(
    tmp_path: Path, answer: MemoryAnswer, place: str
) -> None:
    """As by ``sys.exit``, in whichever reactor and on either way."""
    model, _ = await access_model(tmp_path, answer)
    ended: list[Any] = []

    class Exit(BaseException):
        pass

    def leave(event: object) -> None:
        raise Exit

    given: Any = {place: leave, "deallocator": ended.append}
    with pytest.raises(Exit):
        await model.converse(REQUEST, ConversationReactors(**given), stream=False)
    assert len(ended) == 1
