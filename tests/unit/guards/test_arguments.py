"""The arguments of a tool are examined before it is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.guards.guarding import CARD, WordSpy, activate, produce_application
from vibe_llms import Engine, Model, invocable
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.guards.arguments import ArgumentGuard, find_argument_guard
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import ResultCanister

SECRETS = '[guards.privacy]\nkind = "secrets"\n'


def call(arguments: str) -> dict[str, Any]:
    invocation = {"id": "1", "name": "pay", "arguments": arguments}
    return {"match": "card", "contents": [{"invocation": invocation}]}


async def perform_with(guard: ArgumentGuard | None, **arguments: Any) -> tuple[Outcome, list[Any]]:
    """Execute a tool of a registry."""
    received: list[Any] = []

    @invocable
    def plant(tree: str, number: int = 0) -> str:
        """Plant a tree."""
        received.append((tree, number))
        return "Planted."

    async with Registry(gather_ensembles([plant]), guard=guard) as registry:
        outcome = await perform(registry.access("plant"), arguments, InvocationContext())
    return outcome, received


def read(outcome: Outcome) -> str:
    return "".join(getattr(each, "text", "") for each in outcome.contents)


async def test_changed_arguments_are_executed_and_the_model_is_told() -> None:
    spy = WordSpy()

    outcome, received = await perform_with(find_argument_guard([activate(spy)]), tree="a walnut")

    assert received == [("a [nut]", 0)]
    told = "[executed with other arguments: the guard 'spy' replaced a nut by [nut]]"
    assert read(outcome) == f"{told}\nPlanted."
    assert [(each.part, each.tool) for each in spy.seen] == [("arguments", "plant")]


async def test_refused_arguments_are_an_error_of_the_call() -> None:
    """The model can continue."""
    guard = find_argument_guard([activate(WordSpy(refuses=True))])

    outcome, received = await perform_with(guard, tree="a walnut")

    assert (received, outcome.is_error) == ([], True)
    assert read(outcome) == "The guard 'spy' refused the arguments of plant: it has a nut."


async def test_changed_arguments_must_match_the_schema() -> None:
    """A mark is not passed to a function whose schema does not allow it."""
    received: list[Any] = []
    schema: JsonObject = {
        "type": "object",
        "properties": {"tree": {"type": "string", "pattern": "^[a-z ]*$"}},
    }
    invoker = Invoker(
        name="plant",
        description="Plant a tree.",
        schema=schema,
        function=lambda arguments, context: received.append(arguments),
        guard=find_argument_guard([activate(WordSpy())]),
    )

    outcome = await perform(invoker, {"tree": "a walnut"}, InvocationContext())

    assert (received, outcome.is_error) == ([], True)
    assert "plant" in read(outcome)


async def test_without_a_finding_the_arguments_are_those_of_the_model() -> None:
    outcome, received = await perform_with(find_argument_guard([activate(WordSpy())]), tree="fig")

    assert received == [("fig", 0)]
    assert read(outcome) == "Planted."


@pytest.mark.parametrize("parts", [(), ("request", "answer")])
async def test_no_guard_of_arguments_is_none(parts: tuple[str, ...]) -> None:
    guards = [activate(WordSpy(), *parts)] if parts else []

    assert find_argument_guard(guards) is None


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("part", ["answer", "arguments"])
async def test_a_run_never_executes_with_a_secret(
    part: str, is_connected: bool, tmp_path: Path
) -> None:
    """The answer with the call is examined, and the call itself, also alone.

    Tools that a program has connected itself are no exception.
    """
    tables = f'{SECRETS}parts = ["{part}"]'
    arguments = f'{{"number": "{CARD}"}}'
    paid = {"contents": [{"text": "Paid."}]}
    application = produce_application(tmp_path, tables, call(arguments), paid)
    received: list[str] = []

    @invocable
    def pay(number: str) -> str:
        """Pay with a card."""
        received.append(number)
        return "ok"

    async with Registry(gather_ensembles([pay])) as registry:
        tools: Any = registry if is_connected else [pay]
        engine = Engine(Model(application=application), tools=tools, rounds=1)
        outcome = await engine.answer("My card")

    assert received[0] == "[card number removed]"
    results = [each for each in outcome.canisters if isinstance(each, ResultCanister)]
    assert results[0].text.endswith("ok")


async def test_a_refused_call_is_explained_to_the_model(tmp_path: Path) -> None:
    tables = f'{SECRETS}action = "refuse"\nparts = ["arguments"]'
    application = produce_application(tmp_path, tables, call(f'{{"number": "{CARD}"}}'))

    @invocable
    def pay(number: str) -> str:
        """Pay with a card."""
        raise AssertionError

    outcome = await Engine(Model(application=application), tools=[pay], rounds=1).answer("My card")

    results = [each for each in outcome.canisters if isinstance(each, ResultCanister)]
    assert results[0].is_error
    assert results[0].text == (
        "The guard 'privacy' refused the arguments of pay: it has a card number."
    )
