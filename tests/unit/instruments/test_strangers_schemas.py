"""Schemas of strangers in parsers: they are applied beside the event loop, and within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.runs.scripting import write_script
from vibe_llms import Model
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.exceptions import ParseError, RequestError
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.prompts import Prompt
from vibe_llms.invocables import InvocationContext, perform, validator_process

EXPLODING: dict[str, Any] = {
    "type": "object",
    "properties": {"bait": {"type": "string", "pattern": "^(a+)+$"}},
}
LIST: dict[str, Any] = {"type": "array", "items": EXPLODING}
TRAP = '{"bait": "' + "a" * 50 + '!"}'


def produce_model(directory: Path, text: str) -> Model:
    return Model(f"scripted:{write_script(directory, {'contents': [{'text': text}]})}")


@pytest.fixture(autouse=True)
def asked_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Tells for what the other process was waited for by a thread that runs an event loop."""
    asked, consult = [], validator_process.consult

    def watch(schema: Any, value: Any, name: str) -> Any:
        if asyncio._get_running_loop() is not None:
            asked.append(name)
        return consult(schema, value, name)

    monkeypatch.setattr(validator_process, "consult", watch)
    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 0.5)
    validator_process.dismiss()
    yield asked
    validator_process.dismiss()


@pytest.mark.slow
async def test_a_parsers_schema_does_not_hold_the_loop(
    asked_in_the_loop: list[str], tmp_path: Path
) -> None:
    """It is applied by another process, and its end is awaited."""
    async with produce_model(tmp_path, '{"bait": "aaa"}') as model:
        value = await model.parse("Hello", EXPLODING)

    assert value == {"bait": "aaa"}
    assert asked_in_the_loop == []


@pytest.mark.slow
async def test_a_parsers_schema_that_takes_for_ever_is_refused(
    asked_in_the_loop: list[str], tmp_path: Path
) -> None:
    """The error names the pattern."""
    async with produce_model(tmp_path, TRAP) as model:
        with pytest.raises(RequestError, match=r"takes more than 0\.5 sec"):
            await model.parse("Hello", EXPLODING)

    assert asked_in_the_loop == []


@pytest.mark.slow
async def test_much_data_does_not_hold_the_loop_either(asked_in_the_loop: list[str]) -> None:
    """What is wrong with it is found by the other process."""
    parser: Parser[Any] = Parser({"type": "array", "items": {"type": "integer"}}, attempts=1)
    text = json.dumps({"value": [*range(20_000), "x"]})

    with pytest.raises(ParseError, match="must be an integer"):
        await parser.read_without_blocking(text)

    assert asked_in_the_loop == []


@pytest.mark.slow
@pytest.mark.parametrize("by_items", [True, False])
async def test_a_followed_answers_schema_does_not_hold_the_loop(
    asked_in_the_loop: list[str], tmp_path: Path, by_items: bool
) -> None:
    """Neither item by item nor as a whole, by whichever way it is followed."""
    parser = Parser[Any](LIST)
    last = {"bait": "aa"} if by_items else [{"bait": "a"}, {"bait": "aa"}]

    async with produce_model(tmp_path, '{"value": [{"bait": "a"}, {"bait": "aa"}]}') as model:
        async with model.follow("Hello", parser) as following:
            seen = [each async for each in (following.items() if by_items else following)]
        async with model.stream("Hello") as stream:
            way = parser.follow_items if by_items else parser.follow
            again = [each async for each in way(stream)]

    assert seen[-1] == again[-1] == last
    assert asked_in_the_loop == []


async def test_an_answer_that_is_the_arguments_of_a_call_is_judged_once(
    asked_in_the_loop: list[str],
) -> None:
    """Whoever performs the call has applied the schema, beside the loop."""
    invoker = Parser[Any](EXPLODING, name="take").produce_invoker()

    outcome = await perform(invoker, {"bait": "aaa"}, InvocationContext())

    assert not outcome.is_error
    assert asked_in_the_loop == []


async def test_a_prompts_schema_does_not_hold_the_loop(
    asked_in_the_loop: list[str], tmp_path: Path
) -> None:
    """Neither a channel's nor a batch's."""
    prompt = Prompt("Say {{ bait }}.", schema=EXPLODING)
    items = []

    async with produce_model(tmp_path, "Yes.") as model:
        reply = await AsyncChannel(model, prompt=prompt).ask(bait="aa")
        async for item in BatchChannel(model, prompt=prompt).run([{"bait": "a"}]):
            items.append(item)

    assert (reply.text, items[0].value) == ("Yes.", "Yes.")
    assert asked_in_the_loop == []
