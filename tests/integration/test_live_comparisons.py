"""A stored run is asked anew, step by step: the first step that differs is named, within a cap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Final

import attrs
import pytest

from support.batches.vendor_batching import produce_application
from vibe_llms import Conversation, Engine
from vibe_llms.application import Application
from vibe_llms.conversations import MemoryStore
from vibe_llms.exceptions import LimitError, RequestError, StoreError
from vibe_llms.instruments.live_comparisons import ComparisonPreview, LiveComparison, LiveStep
from vibe_llms.instruments.models import Model
from vibe_llms.messages.canisters import SupervisorCanister
from vibe_llms.testing.simulator import (
    Invoke,
    Say,
    ScriptedAnswer,
    Search,
    SynchronousSimulator,
)

CAP: Final = Decimal(1)


@pytest.fixture(scope="module")
def simulator() -> Iterator[SynchronousSimulator]:
    """The vendor."""
    with SynchronousSimulator() as running:
        yield running


@attrs.define
class Place:
    """A run in which something was added, and what it was asked with."""

    application: Application
    store: MemoryStore
    identity: str
    added: list[int]
    asked: int

    async def compare(self, cap: Decimal = CAP, **settings: Any) -> list[LiveStep]:
        async with self.open(**settings) as comparison:
            await comparison.foresee()
            return [step async for step in comparison.perform(cap)]

    async def foresee(self) -> ComparisonPreview:
        async with self.open() as comparison:
            return await comparison.foresee()

    def open(self, **settings: Any) -> LiveComparison:
        tools = settings.pop("tools", [self.add])
        return LiveComparison(
            self.store,
            self.identity,
            tools,
            application=self.application,
            controls={"max_tokens": 100},
            **settings,
        )

    async def add(self, first: int, second: int) -> int:
        """Adds two numbers."""
        self.added.append(first + second)
        return first + second


def call(first: int, second: int) -> ScriptedAnswer:
    return ScriptedAnswer(parts=(Invoke("add", {"first": first, "second": second}),))


def tell(text: str) -> ScriptedAnswer:
    return ScriptedAnswer(parts=(Say(text),))


@asynccontextmanager
async def acted(simulator: SynchronousSimulator, **limits: int) -> AsyncIterator[Place]:
    """Lends a run of two turns."""
    simulator._state.turns.clear()
    application = produce_application("anthropic", simulator.url, **limits)
    place = Place(application, MemoryStore(), "", [], 0)
    conversation = Conversation()
    conversation.add_canisters([SupervisorCanister("Be brief.")])
    conversation.add_user_message("2 + 3?")
    simulator.enqueue(call(2, 3), tell("It is 5."))
    model = Model(application=application)
    await Engine(model, [place.add], store=place.store).answer(conversation)
    place.identity, place.asked = conversation.id, len(simulator.requests)
    assert place.added == [5]
    yield place
    await application.close()


async def test_a_model_that_does_the_same_does_not_differ(simulator: SynchronousSimulator) -> None:
    """Other words are none, unless they are to be; nothing is executed, and nothing is stored."""
    async with acted(simulator) as place:
        before = place.store.read(place.identity)
        simulator.enqueue(
            ScriptedAnswer(parts=(Invoke("add", {"second": 3, "first": 2.0}),)), tell("Five.")
        )
        steps = await place.compare()
        simulator.enqueue(call(2, 3), tell("Five."))
        worded = await place.compare(words=True)

        assert [step.difference for step in steps] == ["", ""]
        assert steps[0].then.calls == ('add({"first":2,"second":3})',)
        assert [step.difference for step in worded] == ["", "its answer differs"]
        assert (worded[1].then.text, worded[1].now.text) == ("It is 5.", "Five.")
        assert place.added == [5]
        assert place.store.read(place.identity) == before
        assert sum(step.cost for step in steps) > 0


async def test_the_first_step_that_calls_something_else_is_named(
    simulator: SynchronousSimulator,
) -> None:
    """Nobody is asked about those behind it; what was changed is what is sent."""
    async with acted(simulator) as place:
        simulator.enqueue(tell("It is 5."))
        (step,) = await place.compare(
            address="anthropic:claude-haiku-4-5", instructions="Calculate yourself."
        )

        assert step.difference == 'the model now calls nothing, not add({"first":2,"second":3})'
        (asked,) = simulator.requests[place.asked :]
        assert b"claude-haiku-4-5" in asked.data
        assert b"Calculate yourself." in asked.data
        assert b"Be brief." not in asked.data
        assert b'"add"' in asked.data


async def test_each_step_is_given_what_was_recorded(simulator: SynchronousSimulator) -> None:
    """And not what the model did in the step before."""
    async with acted(simulator) as place:
        simulator.enqueue(call(2, 3), call(5, 0))
        steps = await place.compare()

        assert [step.length for step in steps] == [2, 4]
        assert "the model now calls add" in steps[1].difference
        last = simulator.requests[-1].data
        assert last.count(b"tool_use_id") == 1


async def test_no_more_than_the_cap_is_spent(simulator: SynchronousSimulator) -> None:
    """What is asked next is put down with the most that it can cost, however often it is sent."""
    async with acted(simulator, attempts=1) as place:
        once = await place.foresee()
    async with acted(simulator, attempts=2) as place:
        simulator.enqueue(call(2, 3), tell("It is 5."))
        foresight = await place.foresee()
        assert foresight.steps == 2
        assert foresight.models == ("anthropic:claude-sonnet-4-5",)
        assert len(simulator.requests) == place.asked
        assert foresight.cost > once.cost * Decimal("1.9")

        with pytest.raises(LimitError, match="0 of 2 steps were asked again") as caught:
            await place.compare(cap=Decimal("0.000001"))

        assert caught.value.limit == "cap"
        assert len(simulator.requests) == place.asked
        steps = await place.compare(cap=foresight.cost)
        assert len(steps) == 2
        assert sum(step.cost for step in steps) < foresight.cost / 2


async def test_what_is_said_of_tools_counts_towards_the_cap(
    simulator: SynchronousSimulator,
) -> None:
    """It is sent with each request, and may be most of it."""

    async def subtract(first: int, second: int) -> int:
        return first - second

    subtract.__doc__ = "Subtracts. " * 10_000
    async with acted(simulator, attempts=1) as place:
        few = await place.foresee()
        async with place.open(tools=[place.add, subtract]) as comparison:
            many = await comparison.foresee()

    # Two steps, of no fewer than 20,000 tokens more each, at $3 for a million.
    assert many.cost - few.cost > Decimal("0.12")


async def test_what_cannot_be_compared_is_refused(simulator: SynchronousSimulator) -> None:
    """A model that is told of no tools cannot call what the run has called; nobody is asked."""
    async with acted(simulator) as place:
        with pytest.raises(RequestError, match="the comparison has none"):
            await place.compare(tools=[])
        conversation = Conversation()
        conversation.add_user_message("Hello.")
        conversation.save(place.store)
        place.identity = conversation.id
        with pytest.raises(StoreError, match="has no answers"):
            await place.compare()
        assert len(simulator.requests) == place.asked


async def test_what_the_vendor_executes_itself_is_said_before(
    simulator: SynchronousSimulator,
) -> None:
    """Nobody here can keep it from that; of a run without, nothing is said."""
    async with acted(simulator) as place:
        assert not (await place.foresee()).executed
        conversation = Conversation()
        conversation.add_user_message("What is new?")
        simulator.enqueue(ScriptedAnswer(parts=(Search("news", ()), Say("Nothing."))))
        model = Model(application=place.application)
        await Engine(model, [place.add], store=place.store).answer(conversation)
        place.identity = conversation.id
        assert (await place.foresee()).executed == ("web_search",)


async def test_a_run_that_paused_behind_what_the_vendor_executed_can_be_asked_anew(
    simulator: SynchronousSimulator,
) -> None:
    """The model goes on with its own turn, whatever that ends in."""
    async with acted(simulator) as place:
        conversation = Conversation()
        conversation.add_user_message("What is new?")
        paused = ScriptedAnswer(parts=(Search("news", ()),), stop="pause")
        simulator.enqueue(paused, tell("Nothing."))
        model = Model(application=place.application)
        await Engine(model, [place.add], store=place.store).answer(conversation)
        place.identity = conversation.id
        roles = [each.role for each in place.store.read(place.identity).canisters]
        assert roles == ["user", "invocation", "result", "assistant"]
        simulator.enqueue(paused, tell("Nothing."))

        assert [step.difference for step in await place.compare()] == ["", ""]
