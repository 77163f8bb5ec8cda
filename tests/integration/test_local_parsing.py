"""Real weights answer in the form of a class: held to it by a grammar, seen while it arrives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
import pytest

from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.parsers.dialogue import Dialogue
from vibe_llms.instruments.parsers.modes import Mode
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.parsers.partials import Partial
from vibe_llms.instruments.parsers.sessions import Following
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.local.client import LocalModel

pytestmark = pytest.mark.weights

CONTROLS: dict[str, Any] = {"seed": 7, "max_tokens": 60, "temperature": 0}


class Fruit(pydantic.BaseModel):
    """A fruit, as one sees it."""

    name: Annotated[str, pydantic.Field(max_length=16)]
    colour: Literal["red", "green", "yellow"]
    is_sweet: bool


@pytest.mark.slow
async def test_a_small_class_is_parsed_through_its_grammar(local_model: LocalModel) -> None:
    """Natively, at the first attempt, and each part of it was true."""
    parser = Parser(Fruit)
    request = Request(canisters=[UserCanister("Describe an apple.")], controls=CONTROLS)
    composed, choice = parser.compose(request, local_model.descriptor.attributes)
    following = Following(
        Dialogue(parser=parser, request=composed, choice=choice), local_model.stream
    )

    *partials, fruit = [each async for each in following]
    parsed = await following.parsed()

    assert choice.mode is Mode.NATIVE
    assert parsed.value is fruit
    assert isinstance(fruit, Fruit)
    assert len(parsed.attempts) == 1
    assert parsed.usage is not None
    assert len(partials) > 3
    assert all(isinstance(each, Partial) for each in partials)
    assert all(fruit.name.startswith(each.name) for each in partials if each.name)
    assert {each.colour for each in partials if each.colour} == {fruit.colour}


@pytest.mark.parametrize("mode", ["tool", pytest.param("native", marks=pytest.mark.slow)])
async def test_a_channel_gives_a_value_of_it(local_model: LocalModel, mode: Any) -> None:
    """By a schema, or as the arguments of a call that ends the run."""
    channel = AsyncChannel(local_model, parser=Parser(Fruit, mode=mode), controls=CONTROLS)

    reply = await channel.ask("Describe a lemon.")

    assert isinstance(reply.value, Fruit)
    assert len(channel.conversation) == (2 if mode == "native" else 3)
