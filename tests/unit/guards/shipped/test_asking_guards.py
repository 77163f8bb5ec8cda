"""Guards that ask a model ask once about each text, and let nothing pass without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.guards.guarding import activate, produce_application
from support.runs.scripting import produce_model
from vibe_llms import Model
from vibe_llms.exceptions import ConverseError, GuardError
from vibe_llms.guards.active import ActiveGuard
from vibe_llms.guards.shipped.judgment import JudgeGuard, JudgeSettings
from vibe_llms.guards.shipped.moderation import ModeratorGuard, ModeratorSettings
from vibe_llms.messages.canisters import Origin
from vibe_llms.messages.moderations import Moderation, ModerationRequest, ModerationVerdict
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plugins.specification.guards import Inspection

ORIGIN = Origin(provider="x", model="m")


class FakeModerator:
    """Finds violence in texts with a sword."""

    max_inputs = 2
    max_bytes = 400

    def __init__(self) -> None:
        self.calls: list[Sequence[str]] = []
        self.descriptor = ModelDescriptor(
            provider="x", name="m", attributes=produce_model({}).descriptor.attributes
        )

    async def call(self, request: ModerationRequest) -> Moderation:
        """Return the verdicts."""
        self.calls.append(request.texts)
        verdicts = [
            ModerationVerdict(categories=("violence",) if "sword" in text else (), scores={})
            for text in request.texts
        ]
        return Moderation(verdicts=tuple(verdicts), origin=ORIGIN)


def moderate(moderator: FakeModerator, **settings: Any) -> ActiveGuard:
    async def access(genus: str, address: str) -> FakeModerator:
        assert (genus, address) == ("moderator", "x:m")
        return moderator

    return activate(ModeratorGuard(ModeratorSettings(model="x:m", **settings), access))


def judge(*answers: str, **settings: Any) -> tuple[ActiveGuard, Any]:
    """Return a judge guard, and its model, which answers so."""
    model = produce_model(*({"contents": [{"text": text}]} for text in answers))
    asked: list[Any] = []
    converse = model.converse

    async def note(request: Any, *arguments: Any, **more: Any) -> Any:
        asked.append(request)
        return await converse(request, *arguments, **more)

    model.converse = note  # type: ignore[method-assign]

    async def access(genus: str, address: str) -> Any:
        return model

    guard = JudgeGuard(JudgeSettings(question="Is it about bread?", **settings), access)
    return activate(guard), asked


def show(*texts: str) -> Inspection:
    return Inspection(part="request", texts=texts)


async def test_a_moderator_refuses_by_category() -> None:
    guard = moderate(FakeModerator())

    with pytest.raises(GuardError, match="the moderator finds violence"):
        await guard.examine(show("fine", "a sword"))


async def test_other_categories_pass() -> None:
    assert not await moderate(FakeModerator(), categories=["hate"]).examine(show("a sword"))


async def test_with_an_unknown_category_nothing_passes() -> None:
    """It would never be found."""

    class Scoring(FakeModerator):
        async def call(self, request: ModerationRequest) -> Moderation:
            verdict = ModerationVerdict(categories=(), scores={"violence": 0.1, "hate": 0.0})
            return Moderation(verdicts=(verdict,) * len(request.texts), origin=ORIGIN)

    guard = moderate(Scoring(), categories=["hate", "violense"])

    with pytest.raises(ConverseError, match=r"'violense'.*Use violence, hate"):
        await guard.examine(show("fine"))


async def test_a_moderator_sees_each_text_once_and_within_its_bounds() -> None:
    """A long text is cut into parts, so that no part of it goes unseen."""
    moderator = FakeModerator()
    guard = moderate(moderator)

    await guard.examine(show("one", "two", "three", "one", "x" * 250))
    first = list(moderator.calls)
    await guard.examine(show("one", "two", "four"))

    assert max(map(len, first)) <= 2
    assert [text for call in first for text in call] == [
        *("one", "two", "three", "x" * 100, "x" * 50),
    ]
    assert [*moderator.calls[len(first) :]] == [("four",)]


async def test_a_judge_refuses_by_its_answer() -> None:
    guard, asked = judge('{"answer": "yes"}')

    with pytest.raises(GuardError, match="scripted:test answered its question with yes"):
        await guard.examine(show("I bake a ```loaf```."))

    prompt = asked[0].canisters[-1].text
    assert prompt == "Is it about bread?\n\n````\nI bake a ```loaf```.\n````"
    assert asked[0].schema["properties"]["answer"]["enum"] == ["yes", "no"]


async def test_a_judge_is_asked_once_about_each_text() -> None:
    guard, asked = judge('Well: {"answer": "No"}')

    await guard.examine(show("one", "two"))
    await guard.examine(show("one", "two", "three"))
    await guard.examine(show("two"))

    assert [request.canisters[-1].text.split("\n")[3:-1] for request in asked] == [
        ["one", "", "two"],
        ["three"],
    ]


async def test_the_refused_answer_may_be_no() -> None:
    guard, _ = judge('{"answer": "no"}', refuse_if="no")

    with pytest.raises(GuardError):
        await guard.examine(show("cars"))


@pytest.mark.parametrize("answer", ["yes, I think", '{"answer": "perhaps"}', '{"answer": 1}', "[]"])
async def test_without_an_answer_nothing_passes(answer: str) -> None:
    guard, _ = judge(answer)

    with pytest.raises(ConverseError, match="answers neither yes nor no"):
        await guard.examine(show("text"))


async def test_a_judge_of_the_configuration_is_not_guarded_itself(tmp_path: Path) -> None:
    """It is the same model, which would otherwise ask itself without end."""
    tables = '[guards.bread]\nkind = "judge"\nquestion = "Bread?"\nparts = ["request", "answer"]\n'
    application = produce_application(
        tmp_path,
        tables,
        {"match": "Bread\\?[^x]*loaf", "contents": [{"text": '{"answer": "yes"}'}]},
        {"match": "Bread\\?", "contents": [{"text": '{"answer": "no"}'}]},
        {"match": "sing", "contents": [{"text": "La."}]},
        {"match": "bake", "contents": [{"text": "Take a loaf."}]},
    )
    model = Model(application=application)

    assert (await model.ask("sing")).text == "La."
    with pytest.raises(GuardError, match="'bread' refused the request"):
        await model.ask("A loaf")
    with pytest.raises(GuardError, match="'bread' refused the answer"):
        await model.ask("bake")
