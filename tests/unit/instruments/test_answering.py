"""The one thing that instruments do: whatever answers can stand wherever something answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from support.runs.scripting import write_script
from vibe_llms import Application, Conversation, Engine, Model
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ParseError
from vibe_llms.instruments.answering import Answer, Answering
from vibe_llms.instruments.parsers.dialogue import Repair
from vibe_llms.instruments.parsers.modes import Mode, ModeChoice
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.views import text_of

KINDS = ("a model", "an engine")
ROME = '{"name": "Rome"}'
_numbers = itertools.count()


@attrs.frozen
class City:
    """A place."""

    name: str


def produce(kind: str, folder: Path, *texts: str, **more: object) -> Answering[Answer]:
    """Makes what gives these answers in turn."""
    application = Application(
        load_configuration(environment={"HOME": str(folder)}, working_directory=folder)
    )
    place = folder / str(next(_numbers))
    place.mkdir()
    usage = {"input_tokens": 10, "output_tokens": 5}
    responses = [{"contents": [{"text": text}], "usage": usage, **more} for text in texts]
    model = Model(f"scripted:{write_script(place, *responses)}", application=application)
    return model if kind == "a model" else Engine(model)


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_answers_says_the_same_of_its_answer(kind: str, tmp_path: Path) -> None:
    """What the conversation grows by, the answer in it, and what all of it used."""
    conversation = Conversation()
    conversation.add_user_message("Hi")

    outcome = await produce(kind, tmp_path, "Hello.").answer(conversation)

    assert (outcome.text, outcome.is_answered) == ("Hello.", True)
    assert text_of(outcome.answer) == text_of(outcome.canisters) == "Hello."
    assert outcome.usage == Usage(input_tokens=10, output_tokens=5)
    assert outcome.origin is not None
    assert outcome.origin.provider == "scripted"
    assert outcome.losses == ()
    assert len(conversation) == 1


@pytest.mark.parametrize("reason", ["limit", "overflow", "refused", "filtered"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_cut_off_or_refused_is_no_answer(
    kind: str, reason: str, tmp_path: Path
) -> None:
    """Nobody takes the half of an answer for one."""
    outcome = await produce(kind, tmp_path, "Hel", stop_reason=reason).answer("Hi")

    assert not outcome.is_answered
    assert text_of(outcome.canisters) == "Hel"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_is_mended_whoever_gives_it(kind: str, tmp_path: Path) -> None:
    """One wrapper: what does not fit is quoted with its faults, and the last word counts."""
    answering = produce(kind, tmp_path, "Rome, of course.", '{"name": 1}', ROME)
    repair = Repair[City, Answer](parser=Parser(City), choice=ModeChoice(Mode.PROMPT, "Told."))
    conversation = Conversation()
    heard: list[str] = []

    async def say(said: Sequence[AnyCanister]) -> Answer:
        heard.append(text_of(said))
        conversation.add_canisters(said)
        outcome = await answering.answer(conversation)
        conversation.add_canisters(outcome.canisters)
        return outcome

    asked = Conversation()
    value = await repair.answer(say, [asked.add_user_message("Where?")])

    assert value == City("Rome")
    assert len(repair.outcomes) == 3
    assert heard[0] == "Where?"
    assert "contains no JSON" in heard[1]
    assert "answer.name" in heard[2]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_cut_off_is_not_asked_for_again(kind: str, tmp_path: Path) -> None:
    """It would break off again, and cost as much."""
    answering = produce(kind, tmp_path, '{"name": "Ro', ROME, stop_reason="limit")
    repair = Repair[City, Answer](parser=Parser(City), choice=ModeChoice(Mode.PROMPT, "Told."))

    with pytest.raises(ParseError):
        await repair.answer(lambda _: answering.answer("Where?"))

    assert len(repair.outcomes) == 1
