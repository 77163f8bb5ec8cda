"""Results as plain data, for programs; and questions, for which the clock stands still."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import (
    InvocationContext,
    call_execution,
    contexts,
    perform,
    produce_invoker,
)
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.questions import compose_form, compose_roots, compose_sampling

GRAMS = {
    "type": "object",
    "properties": {"grams": {"type": "integer"}},
    "required": ["grams"],
}


@attrs.frozen
class Weight:
    """What is weighed."""

    grams: int


async def bring(function: Any, **options: Any) -> Outcome:
    invoker = produce_invoker(function, description="Weighs.", **options)
    return await perform(invoker, {}, InvocationContext())


async def test_a_result_is_told_in_words_and_as_data() -> None:
    """Where a schema says what it looks like; else in words alone."""
    outcome = await bring(lambda: Weight(5), name="weigh", output_schema=GRAMS)
    assert (outcome.text, outcome.structured) == ('{"grams":5}', {"grams": 5})
    assert (await bring(lambda: Weight(5), name="weigh")).structured is None


@pytest.mark.parametrize("value", [{"gram": 5}, "heavy", None, Outcome(contents="5 grams")])
async def test_what_does_not_fit_its_own_schema_is_an_error(value: Any) -> None:
    """Programs rely on it."""
    outcome = await bring(lambda: value, name="weigh", output_schema=GRAMS)
    assert outcome.is_error
    assert "does not match its own schema:\n- result" in outcome.text


async def test_data_are_bounded_as_texts_are() -> None:
    """What says more than it may is left out, and that is said."""
    long = Outcome(contents="short", structured={"grams": "x" * 2_000}, meta={"a": 1})
    outcome = await bring(lambda: long, name="weigh", output_limit_characters=1_000)
    assert (outcome.structured, outcome.meta) == (None, {})
    assert "[structured content of" in outcome.text
    fine = await bring(lambda: long, name="weigh")
    assert (fine.structured, fine.meta) == (long.structured, {"a": 1})


class Client:
    """A program that has called: answers when it is let."""

    identity = "one"
    log_level = ""

    def __init__(self) -> None:
        self.hangs = False
        self.count = 0
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    def can_answer(self, question: Any) -> bool:
        return bool(question["method"] == "roots/list")

    async def ask(self, questions: Any) -> Any:
        self.asked.set()
        self.count += 1
        await self.answer.wait()
        return {name: {"roots": []} for name in questions}

    def report_progress(self, text: str, done: float | None, total: float | None) -> None: ...

    def log(self, level: str, data: Any, logger: str | None) -> None: ...


class Clock:
    """Stands where it is put; says when it was looked at for a third time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.advances = 0.0
        self.looks = 0
        self.was_looked_at = asyncio.Event()

    def monotonic(self) -> float:
        self.looks += 1
        self.now += self.advances
        if self.looks >= 3:
            self.was_looked_at.set()
        return self.now


async def test_the_clock_of_a_call_stands_still_while_somebody_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long a person takes; and what comes behind it is bounded as ever."""
    client, asking, waiting = Client(), Clock(), Clock()
    monkeypatch.setattr(contexts, "time", asking)
    monkeypatch.setattr(call_execution, "time", waiting)

    async def ask(context: InvocationContext) -> str:
        assert context.can_ask(compose_roots())
        assert not context.can_ask(compose_sampling("Why?", 1))
        said = await context.ask({"where": compose_roots()})
        said_later = await context.ask({"where": compose_roots()})
        assert said == said_later
        if client.hangs:
            await asyncio.Event().wait()
        return f"{said} after {context.asked_seconds:g} seconds"

    invoker = produce_invoker(ask, description="Asks.", time_limit_seconds=0.01)
    task = asyncio.ensure_future(perform(invoker, {}, InvocationContext(host=client)))
    await client.asked.wait()
    asking.now = waiting.now = 600.0
    async with asyncio.timeout(60):
        await waiting.was_looked_at.wait()  # its time has run out, and it was looked again
    assert not task.done()
    client.answer.set()
    assert (await task).text == "{'where': {'roots': []}} after 600 seconds"

    client.hangs = True
    waiting.advances = 0.01
    late = await perform(invoker, {}, InvocationContext(host=client))
    assert "exceeded its time limit of 0.01 seconds" in late.text


async def test_nobody_is_asked_where_nobody_has_called() -> None:
    """A model calls, and no program: whoever wants to ask is told so."""

    async def ask(context: InvocationContext) -> str:
        assert not context.can_ask(compose_form("Who?", GRAMS))
        with pytest.raises(RequestError, match="does not take questions"):
            await context.ask({"who": compose_form("Who?", GRAMS)})
        return "went on"

    assert (await bring(ask)).text == "went on"


def test_progress_in_numbers_is_words_for_who_takes_words() -> None:
    """As it always was for whoever listens."""
    heard: list[str] = []
    context = InvocationContext(listener=heard.append)
    context.progress("begun")
    context.progress("half", 1, 2)
    context.progress("", 2)
    assert heard == ["begun", "1 of 2: half", "2"]
