"""Rankers and moderators: many texts in parts, and an embedder in place of a ranker."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError, RequestError, TranslationLossError
from vibe_llms.instruments.moderators import Moderator, SyncModerator
from vibe_llms.instruments.rankers import Ranker, SyncRanker, compare
from vibe_llms.testing.simulator import Simulator


def point(simulator: Simulator) -> Application:
    """Makes an application whose services are the simulator."""
    settings: dict[str, Any] = {}
    for name in ("openai_responses", "siliconflow"):
        settings[f"providers.{name}.base_url"] = f"{simulator.url}/v1"
        settings[f"providers.{name}.api_key"] = "canary"
    return Application(load_configuration(command_line=settings))


async def test_many_texts_are_ranked_in_parts_and_joined() -> None:
    texts = [f"text {number}" for number in range(600)] + ["red sky"]
    async with Simulator() as simulator:
        async with Ranker("siliconflow:m", application=point(simulator)) as ranker:
            ranking = await ranker.rank("red sky 7", texts, max_results=3)
        sizes = sorted(len(request.body["documents"]) for request in simulator.requests)

    assert sizes == [89, 256, 256]
    assert [(each.index, each.text) for each in ranking] == [
        (600, "red sky"),
        (7, "text 7"),
        (0, "text 0"),
    ]
    assert ranking.usage is not None
    assert ranking.usage.total_input_tokens == 1202


def test_an_embedder_stands_in_for_a_ranker_and_that_is_told() -> None:
    texts = ["blue sea", "red house", "the red house"]
    with SyncRanker("scripted:words") as ranker:
        ranking = ranker.rank("red house", texts)

    assert ranking[0].text == "red house"
    assert ranking[0].score == pytest.approx(1.0)
    assert ranking[-1].text == "blue sea"
    assert [loss.path for loss in ranking.losses] == ["query"]
    assert ranking.usage is not None
    assert ranking.usage.input_tokens == 9
    with (
        SyncRanker("scripted:words", strict=True) as strict,
        pytest.raises(TranslationLossError, match="embedder"),
    ):
        strict.rank("red house", texts)


async def test_an_embedder_is_told_which_text_is_the_query() -> None:
    async with Simulator() as simulator:
        settings = {
            "providers.google.base_url": simulator.url,
            "providers.google.api_key": "canary",
        }
        application = Application(load_configuration(command_line=settings))
        async with Ranker("google:gemini-embedding-2", application=application) as ranker:
            await ranker.rank("red house", ["blue sea"])
        asked = [request.body["requests"][0] for request in simulator.requests]

    assert [each["taskType"] for each in asked] == ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"]


def test_the_similarity_of_vectors_does_not_depend_on_their_length() -> None:
    assert compare([1.0, 0.0], [5.0, 0.0]) == pytest.approx(1.0)
    assert compare([1.0, 0.0], [0.0, 2.0]) == 0.0
    assert compare([0.0, 0.0], [1.0, 2.0]) == 0.0


async def test_verdicts_of_many_texts_keep_their_order() -> None:
    texts = ["kill" if number % 10 == 3 else "hello" for number in range(70)]
    async with Simulator() as simulator:
        async with Moderator("openai:m", application=point(simulator)) as moderator:
            moderation = await moderator.moderate(texts)
        assert len(simulator.requests) == 3

    assert [verdict.is_harmful for verdict in moderation] == [text == "kill" for text in texts]


def test_a_moderator_needs_a_name() -> None:
    with SyncModerator() as moderator, pytest.raises(ConfigurationError, match="moderator"):
        moderator.moderate("hello")


@pytest.mark.parametrize(("query", "texts", "path"), [(" ", ["a"], "query"), ("a", [], "texts")])
async def test_a_wrong_request_names_its_place(query: str, texts: list[str], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        await Ranker("scripted:words").rank(query, texts)

    assert caught.value.path == path
