"""Promises about answers: their events, their end, and that a stream equals what comes whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.messages.canisters import AnyCanister, StopReason, UserCanister
from vibe_llms.messages.contents import NativeContent, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.synchrony import PortalStream
from vibe_llms.testing.contracts.promises import ComposingPromises, promise
from vibe_llms.testing.contracts.worlds import World


class ConversingPromises(ComposingPromises):
    """What holds of every answer."""

    greeting = "Say something about the sea, in a few words."
    """What is asked where any answer will do."""

    is_repeatable = True
    """Whether the same request is answered in the same words."""

    def ask_for_words(self) -> Request:
        """Returns a request that any model can answer."""
        return self.compose(canisters=[UserCanister(self.greeting)])

    @promise
    async def test_it_answers(self, world: World) -> None:
        """An answer has text, and says from which provider and model it is, and why it ended."""
        response = await world.ask(self.ask_for_words())

        origin = response.metadata.origin
        assert response.text.strip()
        assert origin.provider == world.name
        assert origin.model
        assert origin.protocol
        assert origin.stop_reason in (StopReason.ANSWERED, StopReason.LIMIT)
        assert all(getattr(c, "origin", None) == origin for c in response.canisters)

    @promise
    async def test_a_stream_equals_what_comes_whole(self, world: World) -> None:
        """The same canisters either way, but for ids, times and what the vendor names anew."""
        streamed = await world.ask(self.ask_for_words())
        whole = await world.ask(self.ask_for_words(), stream=False)

        assert [type(c) for c in streamed.canisters] == [type(c) for c in whole.canisters]
        if self.is_repeatable:
            assert streamed.metadata.stop_reason is whole.metadata.stop_reason
            assert reduce_canisters(streamed.canisters) == reduce_canisters(whole.canisters)

    @promise
    async def test_events_come_in_order(self, world: World) -> None:
        """A content begins, goes on and ends once; the finished response is the last event."""
        request = self.ask_for_words()
        async with world.model.stream(request) as stream:
            events = [event async for event in stream]
            response = await stream.response()

        check_order(events)
        last = events[-1]
        assert isinstance(last, ResponseFinishedEvent)
        assert last.response == response
        assert response.conversation[0] == request.canisters[0]

    @promise
    async def test_reactors_hear_of_all_of_it(self, world: World) -> None:
        """From the beginning to the end, whichever way the answer is asked for."""
        for streaming in (True, False):
            heard: list[ConversationEvent] = []
            reactors = ConversationReactors(
                allocator=heard.append,
                progress=heard.append,
                updater=heard.append,
                success=heard.append,
                failure=heard.append,
                deallocator=heard.append,
            )
            await world.model.converse(self.ask_for_words(), reactors, stream=streaming)
            words = [event.type for event in heard]
            assert words[0] == "conversation.started"
            assert words[-2:] == ["conversation.completed", "conversation.ended"]
            assert "conversation.progress" in words

    @promise
    async def test_leaving_a_stream_keeps_what_had_come(self, world: World) -> None:
        """An answer that is left is marked interrupted, and the next one is not harmed.

        One that had come to its end in the same read is complete.
        """
        async with world.model.stream(self.ask_for_words()) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    break
        kept = stream.canisters

        assert kept
        reason = kept[-1].origin.stop_reason  # type: ignore[union-attr]
        assert reason in (StopReason.INTERRUPTED, StopReason.ANSWERED)
        assert (await world.ask(self.ask_for_words())).text

    @promise
    async def test_cancelling_passes_through(self, world: World) -> None:
        """A task that is cancelled while it waits for an answer ends as cancelled."""
        task = asyncio.ensure_future(world.ask(self.ask_for_words()))
        await asyncio.sleep(0)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    @promise
    async def test_many_at_once_are_told_apart(self, world: World) -> None:
        """Answers do not mix, whoever else is asking."""
        asked = [
            self.compose(canisters=[UserCanister(f"{self.greeting} Number {number}.")])
            for number in range(4)
        ]
        responses = await asyncio.gather(*(world.ask(request) for request in asked))

        assert [response.request for response in responses] == asked
        turns = {response.canisters[0].turn_id for response in responses}  # type: ignore[union-attr]
        assert len(turns) == len(asked)

    @promise
    async def test_what_it_does_not_know_is_refused_before_it_is_sent(self, world: World) -> None:
        """A control that the model does not have is an error that names it."""
        request = attrs.evolve(self.ask_for_words(), controls={"no_such_control": 1})

        with pytest.raises(RequestError, match="no_such_control"):
            world.model.check(request)
        with pytest.raises(RequestError, match="no_such_control"):
            await world.ask(request)

    @promise
    async def test_tokens_are_counted_or_estimated(self, world: World) -> None:
        """A count says how far off it may be; more text is not fewer tokens."""
        tokenizer, model = world.model.tokenizer, world.model.descriptor
        short = await tokenizer.count_text("sea", model)
        long = await tokenizer.count_text("The sea is wide and deep and blue. " * 20, model)
        whole = await tokenizer.count_request(self.ask_for_words(), model)

        assert 0 <= short.tokens <= long.tokens + long.error_tokens
        assert whole.tokens + whole.error_tokens > 0
        assert min(short.error_tokens, long.error_tokens, whole.error_tokens) >= 0

    @promise
    async def test_models_can_be_listed(self, world: World) -> None:
        """What is listed is described under the provider's name."""
        for descriptor in await world.client.survey_models():
            assert descriptor.provider == world.name
            assert descriptor.name

    @promise
    async def test_closing_twice_does_no_harm(self, world: World) -> None:
        """A client may be closed by whoever is not sure."""
        await world.ask(self.ask_for_words())
        await world.client.close()
        await world.client.close()


def check_order(events: Sequence[StreamEvent]) -> None:
    """Holds events against what consumers rely on."""
    begun: set[int] = set()
    ended: set[int] = set()
    for event in events:
        if isinstance(event, ContentStartedEvent):
            assert event.index not in begun, "A content begins twice."
            begun.add(event.index)
        elif isinstance(event, ContentDeltaEvent):
            assert event.index in begun - ended, "A content goes on that has not begun, or ended."
        elif isinstance(event, ContentFinishedEvent):
            assert event.index in begun - ended, "A content ends that has not begun, or ended."
            assert event.item is not None
            ended.add(event.index)
    assert begun == ended, "A content has begun and not ended."
    closing = [event for event in events if event.type in ("response.finished", "response.failed")]
    assert closing == [events[-1]], "A response ends once, and last."


def reduce_canisters(canisters: Sequence[AnyCanister]) -> list[Any]:
    """Returns what canisters say, without what is new in every answer."""
    reduced = []
    numbers: dict[str, int] = {}
    for canister in canisters:
        fields = attrs.asdict(canister, recurse=False)
        for name in ("id", "timestamp", "turn_id", "origin", "native"):
            fields.pop(name, None)
        if "invocation_id" in fields:
            fields["invocation_id"] = numbers.setdefault(fields["invocation_id"], len(numbers))
        fields["content"] = [
            content.type  # a seal is new each time
            if isinstance(content, NativeContent | ReasoningContent)
            else attrs.evolve(content, native=None)
            for content in canister.content
            # A vendor's seal may come on an empty text of its own in a stream.
            if not (isinstance(content, TextualContent) and not content.text)
        ]
        reduced.append(fields)
    return reduced


def stream_synchronously(world: World, request: Request) -> Response:
    """Asks through the portal, as a script without asynchronous code does."""
    with PortalStream(world.model.stream(request)) as stream:
        for _ in stream:
            pass
        return stream.response()


async def expect_failure(world: World, request: Request, *, stream: bool = True) -> ConverseError:
    """Asks, and returns the error that this must end in."""
    with pytest.raises(ConverseError) as caught:
        await world.ask(request, stream=stream)
    return caught.value
