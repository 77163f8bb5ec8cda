"""Promises about answers: events, end, and equal results with and without streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs

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
from vibe_llms.messages.contents import CacheHint, NativeContent, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.synchrony import SyncStream
from vibe_llms.testing.contracts.promises import (
    BrokenPromise,
    ComposingPromises,
    expect,
    promise,
    require,
)
from vibe_llms.testing.contracts.worlds import World


class ConversingPromises(ComposingPromises):
    """Promises of every answer."""

    greeting = "Say something about the sea, in a few words."
    """Request for tests in which any answer will do."""

    is_repeatable = True
    """True if the same request gets the same answer."""

    answers_as = ""
    """Provider name in the origin of answers, if the provider passes on answers of another."""

    def ask_for_words(self) -> Request:
        """Return a request that any model can answer."""
        return self.compose(canisters=[UserCanister(self.greeting)])

    @promise
    async def test_it_answers(self, world: World) -> None:
        """An answer has text, its provider and model, and a reason for its end."""
        response = await world.ask(self.ask_for_words())

        origin = response.metadata.origin
        require(
            response.text.strip(),
            "The answer has no text.",
            "Send ContentStartedEvent(index=0, kind='text') and the words in ContentDeltaEvents.",
        )
        has_provider = origin.provider == (self.answers_as or world.name)
        for field, is_right in (("provider", has_provider), ("model", origin.model)):
            require(
                is_right,
                f"The answer's {field} is {getattr(origin, field)!r}.",
                "Give the ModelDescriptor the provider's configured name, context.name, and the "
                "name of the model.",
            )
        require(
            origin.protocol, "The answer names no protocol.", "Give the model class a 'protocol'."
        )
        require(
            origin.stop_reason in (StopReason.ANSWERED, StopReason.LIMIT),
            f"The answer ended as {str(origin.stop_reason)!r}.",
            "Set ResponseFinishedEvent.stop_reason to the reason why it ended.",
        )
        require(
            all(c.origin == origin for c in response.canisters),
            "The canisters of one answer have different origins.",
            "Send events only, and let the assembler make the canisters.",
        )

    @promise
    async def test_a_stream_equals_what_comes_whole(self, world: World) -> None:
        """Both give the same canisters, except for ids, times and names by the vendor."""
        streamed = await world.ask(self.ask_for_words())
        whole = await world.ask(self.ask_for_words(), stream=False)

        streamed_rows = reduce_canisters(streamed.canisters)
        whole_rows = reduce_canisters(whole.canisters)
        if not self.is_repeatable:
            streamed_rows = [{"role": row["role"]} for row in streamed_rows]
            whole_rows = [{"role": row["role"]} for row in whole_rows]
        require(
            streamed_rows == whole_rows,
            f"With streaming the answer is {streamed_rows}, and without it {whole_rows}.",
            "Make the same events from both; or set is_repeatable = False if the model's words "
            "differ each time.",
        )
        require(
            not self.is_repeatable or streamed.metadata.stop_reason is whole.metadata.stop_reason,
            f"With streaming the answer ends as {str(streamed.metadata.stop_reason)!r}, and "
            f"without it as {str(whole.metadata.stop_reason)!r}.",
            "Read the reason from both in the same way.",
        )

    @promise
    async def test_events_come_in_order(self, world: World) -> None:
        """A content starts, continues and ends once; the finished response is the last event."""
        request = self.ask_for_words()
        async with world.model.stream(request) as stream:
            events = [event async for event in stream]
            response = await stream.response()

        check_order(events)
        last = events[-1]
        require(
            isinstance(last, ResponseFinishedEvent) and last.response == response,
            f"The last event is {last.type!r}, or has another response than the stream.",
            "End with one ResponseFinishedEvent.",
        )
        require(
            response.conversation[0] == request.canisters[0],
            "The conversation of the response does not begin with the request.",
            "Do not change the request: translate a copy.",
        )

    @promise
    async def test_the_words_of_a_stream_are_the_text_of_its_response(self, world: World) -> None:
        """``stream.text`` contains only the answer, without reasoning and calls."""
        async with world.model.stream(self.ask_for_words()) as stream:
            words = "".join([piece async for piece in stream.text])
            response = await stream.response()

        require(
            words == response.text,
            f"stream.text has {words!r}, and the response {response.text!r}.",
            "Derive the model from ModelBase; a stream of your own has "
            "vibe_llms.providers.answer_texts.iterate_text(self) as its text.",
        )

    @promise
    async def test_reactors_hear_of_all_of_it(self, world: World) -> None:
        """Reactors receive the events of an answer, with and without streaming."""
        for streaming in (True, False):
            events: list[ConversationEvent] = []
            reactors = ConversationReactors(
                allocator=events.append,
                progress=events.append,
                updater=events.append,
                success=events.append,
                failure=events.append,
                deallocator=events.append,
            )
            await world.model.converse(self.ask_for_words(), reactors, stream=streaming)
            types = [event.type for event in events]
            mode = "with" if streaming else "without"
            require(
                types[:1] == ["conversation.started"]
                and types[-2:] == ["conversation.completed", "conversation.ended"]
                and "conversation.progress" in types,
                f"Reactors of an answer {mode} streaming receive {types}.",
                "Derive the model from ModelBase, which calls them; send each piece as an event.",
            )

    @promise
    async def test_leaving_a_stream_keeps_what_had_come(self, world: World) -> None:
        """A cancelled stream is marked interrupted, and the next one works.

        If the end arrived in the same read, the answer is complete.
        """
        async with world.model.stream(self.ask_for_words()) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    break
        received = stream.canisters

        require(
            received,
            "A stream that was left after its first words has no canisters.",
            "Send ContentStartedEvent before the first ContentDeltaEvent.",
        )
        reason = received[-1].origin.stop_reason  # type: ignore[union-attr]
        require(
            reason in (StopReason.INTERRUPTED, StopReason.ANSWERED),
            f"The received part of the answer is marked {str(reason)!r}.",
            "Let close() of the source stop immediately, without another event.",
        )
        require(
            (await world.ask(self.ask_for_words())).text,
            "After a cancelled stream, the next answer has no text.",
            "Keep no state of one answer in the client or the model.",
        )

    @promise
    async def test_cancelling_passes_through(self, world: World) -> None:
        """A task that is cancelled while it waits for an answer ends as cancelled."""
        task = asyncio.ensure_future(world.ask(self.ask_for_words()))
        await asyncio.sleep(0)  # let the task start before it is cancelled
        task.cancel()

        with expect(
            asyncio.CancelledError,
            "A cancelled task continues.",
            "Catch CancelledError only to clean up, and raise it again.",
        ):
            await task

    @promise
    async def test_many_at_once_are_told_apart(self, world: World) -> None:
        """Concurrent answers are not mixed up."""
        requests = [
            self.compose(canisters=[UserCanister(f"{self.greeting} Number {number}.")])
            for number in range(4)
        ]
        responses = await asyncio.gather(*(world.ask(request) for request in requests))

        turns = {response.canisters[0].turn_id for response in responses}
        require(
            [response.request for response in responses] == requests
            and len(turns) == len(requests),
            "Answers to concurrent requests are mixed up.",
            "Keep the state of an answer in its source, not in the client or the model.",
        )

    @promise
    async def test_what_it_does_not_know_is_refused_before_it_is_sent(self, world: World) -> None:
        """An unknown control is an error that names it."""
        request = attrs.evolve(self.ask_for_words(), controls={"no_such_control": 1})

        problem = "The unknown control 'no_such_control' is accepted."
        remedy = "In nativize, begin with check_controls(request.controls, attributes.controls)."
        with expect(RequestError, problem, remedy, naming="no_such_control"):
            world.model.check(request)
        with expect(RequestError, problem, remedy, naming="no_such_control"):
            await world.ask(request)

    @promise
    async def test_tokens_are_counted_or_estimated(self, world: World) -> None:
        """A count states its possible error; more text does not have fewer tokens."""
        tokenizer, model = world.model.tokenizer, world.model.descriptor
        short = await tokenizer.count_text("sea", model)
        long = await tokenizer.count_text("The sea is wide and deep and blue. " * 20, model)
        whole = await tokenizer.count_request(self.ask_for_words(), model)

        counts = f"A word has {short}, a long text {long}, a request {whole}."
        remedy = "Return TokenCount(tokens=…, error_tokens=…); error_tokens is its possible error."
        require(0 <= short.tokens <= long.tokens + long.error_tokens, counts, remedy)
        require(whole.tokens + whole.error_tokens > 0, counts, remedy)
        errors = (short.error_tokens, long.error_tokens, whole.error_tokens)
        require(min(errors) >= 0, counts, remedy)

    @promise
    async def test_models_can_be_listed(self, world: World) -> None:
        """Listed models are described under the provider's name."""
        for descriptor in await world.client.survey_models():
            require(
                descriptor.provider == world.name and descriptor.name,
                f"A model is listed as {descriptor.name!r} of {descriptor.provider!r}.",
                "Name each model, and let its provider be the configured name, context.name.",
            )

    @promise
    async def test_closing_twice_does_no_harm(self, world: World) -> None:
        """Closing a client twice has no effect."""
        await world.ask(self.ask_for_words())
        await world.client.close()
        await world.client.close()


def check_order(events: Sequence[StreamEvent]) -> None:
    """Check events against the order that consumers rely on."""
    started: set[int] = set()
    ended: set[int] = set()
    remedy = (
        "Each content has one start, deltas and one end. ResponseFinishedEvent is the last event."
    )
    for event in events:
        if isinstance(event, ContentStartedEvent):
            require(event.index not in started, f"Content {event.index} starts twice.", remedy)
            started.add(event.index)
        elif isinstance(event, (ContentDeltaEvent, ContentFinishedEvent)):
            require(
                event.index in started - ended,
                f"Content {event.index} continues or ends, but is not open.",
                remedy,
            )
            if isinstance(event, ContentFinishedEvent):
                require(
                    event.item is not None, f"Content {event.index} ends without a value.", remedy
                )
                ended.add(event.index)
    require(started == ended, f"Contents {sorted(started - ended)} start and do not end.", remedy)
    endings = [event for event in events if event.type in ("response.finished", "response.failed")]
    require(endings == [events[-1]], "The last event is not the only end of the response.", remedy)


def reduce_canisters(canisters: Sequence[AnyCanister]) -> list[Any]:
    """Return canisters without the values that are new in every answer."""
    reduced = []
    numbers: dict[str, int] = {}
    for canister in canisters:
        fields = attrs.asdict(canister, recurse=False)
        for name in ("id", "timestamp", "turn_id", "origin", "native"):
            fields.pop(name, None)
        if "invocation_id" in fields:
            # Ids are new each time, so number them in order of appearance.
            fields["invocation_id"] = numbers.setdefault(fields["invocation_id"], len(numbers))
        fields["content"] = [
            content.type  # a signature is new each time
            if isinstance(content, (NativeContent, ReasoningContent, CacheHint))
            else attrs.evolve(content, native=None)
            for content in canister.content
            # Some vendors send a signature in a stream with an empty text.
            if not (isinstance(content, TextualContent) and not content.text)
        ]
        reduced.append(fields)
    return reduced


def stream_synchronously(world: World, request: Request) -> Response:
    """Ask through the portal, as a script without asynchronous code does."""
    with SyncStream(world.model.stream(request)) as stream:
        for _ in stream:
            pass
        return stream.response()


async def expect_failure(world: World, request: Request, *, stream: bool = True) -> ConverseError:
    """Ask, and return the expected error."""
    try:
        response = await world.ask(request, stream=stream)
    except ConverseError as error:
        return error
    raise BrokenPromise(
        f"The answer is {response.text[:60]!r}, although the vendor has failed. "
        "Raise the error instead of returning a partial answer."
    )
