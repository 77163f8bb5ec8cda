"""Contract of providers whose protocol the simulator implements, including its faults."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import attrs

from vibe_llms.events.stream import ContentDeltaEvent, RetryEvent
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
    TransportError,
)
from vibe_llms.messages.canisters import InvocationCanister, StopReason, UserCanister
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.testing.contracts.conversing import expect_failure
from vibe_llms.testing.contracts.oddities import ODDITIES, ExpectedOutcome, RequestKind
from vibe_llms.testing.contracts.promises import BrokenPromise, describe, promise, require
from vibe_llms.testing.contracts.provider import ProviderContract
from vibe_llms.testing.contracts.translating import LISTEN, LOOK, answer_calls
from vibe_llms.testing.contracts.worlds import CANARY, World
from vibe_llms.testing.simulator import SynchronousSimulator


class SimulatedContract(ProviderContract):
    """Contract of a provider whose vendor can be simulated, including faulty vendors.

    Attributes:
        path: Path of this vendor's base URL on the simulator.
        simulate: The quirks of this vendor, by the simulator's names.
    """

    path: ClassVar[str] = ""
    simulate: ClassVar[str] = ""
    reasons: ClassVar[bool] = True
    """True if the model reasons when its user says `think`."""

    reports_overload_midstream: ClassVar[bool] = True
    """True if the protocol can report a fault during a stream."""

    simulator: SynchronousSimulator

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Start a simulator, and configure the provider for it."""
        with SynchronousSimulator(self.simulate) as self.simulator:
            settings = {
                "base_url": self.simulator.url + self.path,
                "api_key": CANARY,
                "between_chunks_seconds": 5,
                "first_byte_seconds": 5,
                **self.settings,
            }
            yield World(
                module=self.module,
                name=self.name,
                model_name=self.model,
                settings=settings,
                directory=directory / "world",
            )

    def switch(self, *faults: str) -> None:
        """Set the faults for every following request."""
        self.simulator.switch(",".join(filter(None, (self.simulate, *faults))))

    @promise
    async def test_a_stream_is_read_whatever_is_odd_about_it(self, world: World) -> None:
        """Under each fault and quirk that the protocol can have, the result is as expected."""
        await self._try_oddities(world, stream=True)

    @promise
    async def test_what_comes_whole_is_read_whatever_is_odd_about_it(self, world: World) -> None:
        """Answers in one piece pass the same checks."""
        await self._try_oddities(world, stream=False)

    @promise
    async def test_reasoning_goes_back_signed(self, world: World) -> None:
        """Reasoning before an invocation is sent back with its signature, and is accepted."""
        if not (self.reasons and self.invokes and world.can("supports_invocations")):
            return
        words = UserCanister(f"First think. {self.calling}")
        response = await world.ask(self.compose(canisters=[words], invocables=[LOOK, LISTEN]))
        thoughts = [
            content
            for canister in response.canisters
            for content in canister.content
            if isinstance(content, ReasoningContent)
        ]
        require(
            thoughts,
            "The answer has no reasoning.",
            "Read the vendor's reasoning; or set reasons = False.",
        )
        results = answer_calls(response.canisters)
        after = self.compose(
            canisters=[*response.conversation, *results], invocables=[LOOK, LISTEN]
        )
        answer = await world.ask(after)

        require(
            answer.text,
            "The model does not answer after the results of its calls.",
            "Send its reasoning back to it, with its signature.",
        )

    @promise
    async def test_a_stream_without_its_terminator_is_an_error(self, world: World) -> None:
        """The end of a stream is an error if it is closed early or cut."""
        for fault in ("no_terminator", "cut_at_chunk=3"):
            self.switch(fault)
            error = await expect_failure(world, self.ask_for_words())
            _require_kind(error, fault, StreamTruncatedError, TransportError)

    @promise
    async def test_a_stalled_stream_is_an_error(self, world: World) -> None:
        """No wait is endless; the error names the timeout and its setting."""
        settings = {**world.settings, "between_chunks_seconds": 0.5}
        async with attrs.evolve(world, settings=settings) as impatient_world:
            self.switch("stall_at_chunk=2")
            error = await expect_failure(impatient_world, self.ask_for_words())

        _require_kind(error, "stall_at_chunk=2", TransportError)
        require(
            "between_chunks_seconds" in str(error),
            f"The error does not name the setting that bounds the wait: {error}.",
            "Let RemoteModel wait for the answer.",
        )

    @promise
    async def test_an_error_in_the_midst_of_a_stream_is_that_error(self, world: World) -> None:
        """An error of the vendor in a stream is raised, although the status is 200."""
        if not self.reports_overload_midstream:
            return
        self.switch("midstream_overloaded=4")
        error = await expect_failure(world, self.ask_for_words())

        _require_fault(error, ProviderFault.OVERLOADED, ProviderFault.SERVER)

    @promise
    async def test_garbage_is_an_error(self, world: World) -> None:
        """A line that is not JSON ends the answer; it is not skipped."""
        self.switch("garbage_line=2")
        error = await expect_failure(world, self.ask_for_words())

        require(
            error.stage in ("decode", "frame"),
            f"The invalid line is an error of the stage {error.stage!r}: {error}.",
            "Raise the error of a frame when the frame is decoded.",
        )

    @promise
    async def test_a_page_of_html_is_an_error(self, world: World) -> None:
        """An answer of HTML is an error, even with the status 200."""
        self.switch("wrong_content_type")
        error = await expect_failure(world, self.ask_for_words())

        require(
            "text/html" in str(error),
            f"The error does not name the content type text/html: {error}.",
            "Call ensure_content_type on each response.",
        )

    @promise
    async def test_a_busy_vendor_is_asked_again(self, world: World) -> None:
        """A request is retried once after the delay that the vendor names; an event reports it."""
        for fault in ("rate_limit=1", "overloaded=1", "server_error=1"):
            self.switch(fault)
            async with world.model.stream(self.ask_for_words()) as stream:
                events = [event async for event in stream]
            retries = [event for event in events if isinstance(event, RetryEvent)]
            attempts = [retry.attempt for retry in retries]
            require(
                attempts == [2],
                f"With {fault}, the attempts after the first are {attempts}, not [2].",
                "Leave retries to RemoteModel, and map the vendor's errors to faults.",
            )

    @promise
    async def test_attempts_are_bounded(self, world: World) -> None:
        """If a vendor stays busy, the error says so."""
        self.switch("rate_limit=99")
        error = await expect_failure(world, self.ask_for_words())

        _require_fault(error, ProviderFault.RATE_LIMITED)
        require(
            getattr(error, "status", None) == 429,
            f"The error does not have the status 429: {error!r}.",
            "Keep the status of the answer in the ProviderError.",
        )

    @promise
    async def test_too_much_input_is_one_error(self, world: World) -> None:
        """A prompt that is too long raises ContextOverflowError, whatever the vendor's words."""
        self.switch("context_overflow")
        long = self.compose(canisters=[UserCanister("The sea is wide and deep. " * 2000)])
        try:
            response = await world.ask(long)
        except ContextOverflowError:
            return
        require(
            response.losses,
            "The vendor truncated the input, but no loss reports it.",
            "Raise ContextOverflowError, or report the loss.",
        )

    @promise
    async def test_a_wrong_key_is_said(self, world: World) -> None:
        """The error about a wrong key does not show the key."""
        key = "wrong-" + CANARY
        other = attrs.evolve(
            world, settings={**world.settings, "api_key": key}, directory=world.directory / "other"
        )
        async with other:
            shown = ""
            try:
                await other.ask(self.ask_for_words())
            except ConverseError as error:
                shown = f"{error} {error!r} {error.__cause__!r}"
            require(
                key not in shown,
                "The error about a wrong key shows the key.",
                "Redact the vendor's text before you put it into an error.",
            )

    @promise
    async def test_leaving_a_stream_closes_its_connection(self, world: World) -> None:
        """The vendor sees immediately that the client has disconnected."""
        self.switch("slow=200")
        async with world.model.stream(self.ask_for_words()) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    break
        origins = [canister.origin for canister in stream.canisters]
        reasons = {str(origin.stop_reason) for origin in origins if origin}
        require(
            reasons == {StopReason.INTERRUPTED},
            f"The received part of a cancelled stream is marked {sorted(reasons)}.",
            "Let close() of the source stop immediately, without another event.",
        )
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            if self.simulator.requests[-1].disconnected_at is not None:
                return
            await asyncio.sleep(0.01)
        raise BrokenPromise(
            "Two seconds after a stream was left, its connection is still open. Close the exchange "
            "in close() of the source."
        )

    async def _try_oddities(self, world: World, *, stream: bool) -> None:
        requests = self._compose_requests(world)
        plain_answers = {}
        for kind, request in requests.items():
            plain_answers[kind] = await world.ask(request, stream=stream)
        protocol = plain_answers["words"].metadata.origin.protocol
        problems = []
        for name, oddity in ODDITIES.items():
            if oddity.request in requests and oddity.applies_to(protocol):
                expected = oddity.streamed if stream else oddity.whole
                self.switch()  # some providers ask their vendor when a model is accessed
                async with _shorten_timeouts(world, name) as odd_world:
                    self.switch(name)
                    answer = await _ask(odd_world, requests[oddity.request], stream=stream)
                difference = _describe_difference(expected, answer, plain_answers[oddity.request])
                if difference:
                    problems.append(f"With {name}: {difference}.")
        require(
            not problems,
            "\n".join(problems),
            "The simulator's reference explains each fault and quirk.",
        )

    def _compose_requests(self, world: World) -> dict[RequestKind, Request]:
        requests: dict[RequestKind, Request] = {"words": self.ask_for_words()}
        if self.reasons:
            thinking = UserCanister(f"First think. {self.greeting}")
            requests["thoughts"] = self.compose(canisters=[thinking])
        if self.invokes and world.can("supports_invocations"):
            calling = [UserCanister(self.calling)]
            requests["calls"] = self.compose(canisters=calling, invocables=[LOOK, LISTEN])
        return requests


@contextlib.asynccontextmanager
async def _shorten_timeouts(world: World, oddity: str) -> AsyncIterator[World]:
    """Yield the world; with short timeouts if all attempts will reach them."""
    if oddity != "stall_at_chunk":
        yield world
        return
    limits = {"between_chunks_seconds": 0.5, "first_byte_seconds": 0.5}
    async with attrs.evolve(world, settings={**world.settings, **limits}) as impatient_world:
        yield impatient_world


def _require_kind(error: ConverseError, fault: str, *kinds: type[ConverseError]) -> None:
    names = " or ".join(kind.__name__ for kind in kinds)
    require(
        isinstance(error, kinds),
        f"With {fault}, the error is {describe(error)}.",
        f"Raise {names}.",
    )


def _require_fault(error: ConverseError, *faults: ProviderFault) -> None:
    fault = getattr(error, "fault", None)
    require(
        isinstance(error, ProviderError) and fault in faults,
        f"The error is {describe(error)}, with the fault {fault}.",
        f"Map the vendor's error to {' or '.join(faults)}.",
    )


async def _ask(world: World, request: Request, *, stream: bool) -> Response | ConverseError:
    """Return the response, or the error that was raised instead."""
    try:
        return await world.ask(request, stream=stream)
    except ConverseError as error:
        return error


def _describe_difference(
    expected: ExpectedOutcome, answer: Response | ConverseError, plain: Response
) -> str:
    """Describe the difference between an answer and the expected result; empty if there is none.

    Args:
        expected: The expected result.
        answer: The answer, or the error.
        plain: The answer without the oddity.
    """
    if isinstance(answer, ConverseError):
        is_expected = expected is ExpectedOutcome.FAILED or (
            expected is ExpectedOutcome.FAULTY and isinstance(answer, ProviderError)
        )
        return "" if is_expected else f"it fails, {answer!r}"
    calls = [c for c in answer.canisters if isinstance(c, InvocationCanister)]
    plain_calls = [c for c in plain.canisters if isinstance(c, InvocationCanister)]
    facts: list[Any] = [(call.name, call.parse_arguments()) for call in calls if not call.fault]
    plain_facts: list[Any] = [(call.name, call.parse_arguments()) for call in plain_calls]
    match expected:
        case ExpectedOutcome.FAILED:
            return "there is no error"
        case ExpectedOutcome.FAULTY:
            return "" if all(call.fault for call in calls) else "an invocation has no fault"
        case ExpectedOutcome.OTHER:
            return "" if answer.canisters else "the answer is empty"
        case ExpectedOutcome.BARE:
            plain_facts = [(name, {}) for name, _ in plain_facts]
        case ExpectedOutcome.SAME:
            facts += [(answer.text, answer.metadata.stop_reason)]
            plain_facts += [(plain.text, plain.metadata.stop_reason)]
    if not all(call.invocation_id for call in calls):
        return "an invocation has no id"
    return "" if facts == plain_facts else f"the answer has {facts}, not {plain_facts}"
