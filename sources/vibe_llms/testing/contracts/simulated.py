"""The contract of providers that speak a protocol which the simulator knows: faults as well."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

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
from vibe_llms.messages.requests import Request
from vibe_llms.testing.contracts.conversing import expect_failure
from vibe_llms.testing.contracts.promises import promise
from vibe_llms.testing.contracts.provider import ProviderContract
from vibe_llms.testing.contracts.translating import LISTEN, LOOK, answer_calls
from vibe_llms.testing.contracts.worlds import CANARY, World
from vibe_llms.testing.simulator import SynchronousSimulator


class SimulatedContract(ProviderContract):
    """What a provider keeps whose vendor can be simulated, when the vendor does not keep its own.

    Attributes:
        path: Behind the simulator's address: the base URL of this vendor.
        simulate: The quirks of this vendor, by the simulator's names.
    """

    path: ClassVar[str] = ""
    simulate: ClassVar[str] = ""
    reasons: ClassVar[bool] = True
    """Whether the model thinks aloud when its user says `think`."""

    reports_overload_midstream: ClassVar[bool] = True
    """Whether the protocol has words for a fault in the midst of a stream."""

    simulator: SynchronousSimulator

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Starts a simulator, and configures the provider to ask there."""
        with SynchronousSimulator(self.simulate) as self.simulator:
            settings = {
                "base_url": self.simulator.url + self.path,
                "api_key": CANARY,
                "between_chunks_seconds": 0.5,
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
        """Lets faults hold for every request from now on."""
        self.simulator.switch(",".join(filter(None, (self.simulate, *faults))))

    @promise
    async def test_bytes_may_be_split_anywhere(self, world: World) -> None:
        """Line ends of every kind, comments, and one byte at a time change nothing."""
        plain = (await world.ask(self.ask_for_words())).text
        for fault in ("split_bytes=1", "crlf", "comments", "empty_choices"):
            self.switch(fault)
            assert (await world.ask(self.ask_for_words())).text == plain, fault

    @promise
    async def test_calls_are_told_apart_however_they_come(self, world: World) -> None:
        """Interleaved, without index, or at once: each invocation has its own arguments."""
        if not world.can("supports_invocations") or not self.invokes:
            return
        request = self.compose(canisters=[UserCanister(self.calling)], invocables=[LOOK, LISTEN])
        expected = await self._invoke(world, request)
        for fault in ("interleaved_calls", "missing_index", "whole_arguments", "missing_ids"):
            self.switch(fault)
            assert await self._invoke(world, request) == expected, fault

    @promise
    async def test_broken_arguments_are_kept_and_said(self, world: World) -> None:
        """What the model wrote is an invocation with a fault, or the vendor's own failure."""
        if not world.can("supports_invocations") or not self.invokes:
            return
        request = self.compose(canisters=[UserCanister(self.calling)], invocables=[LOOK, LISTEN])
        self.switch("broken_arguments")
        try:
            response = await world.ask(request)
        except ProviderError:
            return  # vendors which parse the arguments themselves
        calls = [c for c in response.canisters if isinstance(c, InvocationCanister)]
        assert all(call.fault for call in calls)

    @promise
    async def test_reasoning_goes_back_sealed(self, world: World) -> None:
        """What was thought before an invocation returns with its seal, and is accepted."""
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
        assert thoughts
        results = answer_calls(response.canisters)
        after = self.compose(
            canisters=[*response.conversation, *results], invocables=[LOOK, LISTEN]
        )
        answer = await world.ask(after)

        assert answer.text

    @promise
    async def test_a_stream_without_its_terminator_is_an_error(self, world: World) -> None:
        """Ended in good order or cut: what had come is kept."""
        for fault in ("no_terminator", "cut_at_chunk=3"):
            self.switch(fault)
            error = await expect_failure(world, self.ask_for_words())
            assert isinstance(error, StreamTruncatedError | TransportError), fault

    @promise
    async def test_a_stalled_stream_is_an_error(self, world: World) -> None:
        """Nothing waits for ever; the error names the wait and its setting."""
        self.switch("stall_at_chunk=2")
        error = await expect_failure(world, self.ask_for_words())

        assert isinstance(error, TransportError)
        assert "between_chunks_seconds" in str(error)

    @promise
    async def test_an_error_in_the_midst_of_a_stream_is_that_error(self, world: World) -> None:
        """Under status 200 the vendor's words count, not the status."""
        if not self.reports_overload_midstream:
            return
        self.switch("midstream_overloaded=4")
        error = await expect_failure(world, self.ask_for_words())

        assert isinstance(error, ProviderError)
        assert error.fault in (ProviderFault.OVERLOADED, ProviderFault.SERVER), error

    @promise
    async def test_garbage_is_an_error(self, world: World) -> None:
        """A line that is no JSON ends the answer; it is not skipped."""
        self.switch("garbage_line=2")
        error = await expect_failure(world, self.ask_for_words())

        assert error.stage in ("decode", "frame")

    @promise
    async def test_a_page_of_html_is_an_error(self, world: World) -> None:
        """Whatever its status."""
        self.switch("wrong_content_type")
        error = await expect_failure(world, self.ask_for_words())

        assert "text/html" in str(error)

    @promise
    async def test_a_busy_vendor_is_asked_again(self, world: World) -> None:
        """Once more after the time that it names, and the retry is an event."""
        for fault in ("rate_limit=1", "overloaded=1", "server_error=1"):
            self.switch(fault)
            async with world.model.stream(self.ask_for_words()) as stream:
                events = [event async for event in stream]
            retries = [event for event in events if isinstance(event, RetryEvent)]
            assert [retry.attempt for retry in retries] == [2], fault

    @promise
    async def test_attempts_are_bounded(self, world: World) -> None:
        """A vendor that stays busy is an error that says so."""
        self.switch("rate_limit=99")
        error = await expect_failure(world, self.ask_for_words())

        assert isinstance(error, ProviderError)
        assert error.fault is ProviderFault.RATE_LIMITED
        assert error.status == 429

    @promise
    async def test_too_much_input_is_one_error(self, world: World) -> None:
        """Whatever words the vendor has for it."""
        self.switch("context_overflow")
        long = self.compose(canisters=[UserCanister("The sea is wide and deep. " * 2000)])
        try:
            response = await world.ask(long)
        except ContextOverflowError:
            return
        assert response.losses, "The vendor cut the input, and nobody said so."

    @promise
    async def test_a_wrong_key_is_said(self, world: World) -> None:
        """As a matter of authentication; and the key is not shown."""
        key = "wrong-" + CANARY
        other = attrs.evolve(
            world, settings={**world.settings, "api_key": key}, directory=world.directory / "other"
        )
        async with other:
            said = ""
            try:
                await other.ask(self.ask_for_words())
            except ConverseError as error:
                said = f"{error} {error!r} {error.__cause__!r}"
            assert key not in said

    @promise
    async def test_leaving_a_stream_closes_its_connection(self, world: World) -> None:
        """The vendor sees at once that nobody listens."""
        self.switch("slow=200")
        async with world.model.stream(self.ask_for_words()) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    break
        origins = [getattr(canister, "origin", None) for canister in stream.canisters]
        assert {origin.stop_reason for origin in origins if origin} == {StopReason.INTERRUPTED}
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            if self.simulator.requests[-1].disconnected_at is not None:
                return
            await asyncio.sleep(0.01)
        pytest.fail("The connection stays open.")

    async def _invoke(self, world: World, request: Request) -> list[tuple[str, str]]:
        response = await world.ask(request)
        calls = [c for c in response.canisters if isinstance(c, InvocationCanister)]
        assert len({call.invocation_id for call in calls}) == len(calls)
        return [(call.name, call.arguments) for call in calls]
