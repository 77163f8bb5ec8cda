"""Rankers and moderators of vendors against the simulator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import ConverseError, Stage, UnknownNameError
from vibe_llms.messages.moderations import ModerationRequest
from vibe_llms.messages.rankings import RankingRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.cohere import produce_provider as produce_cohere
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator

TEXTS = ("blue sky", "a red house", "the red sky")


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


def produce(name: str, directory: Path, address: str) -> Any:
    """Makes a client of a service."""
    base_url = address if name in ("cohere", "tei") else f"{address}/v1"
    context = produce_context(name, directory, base_url=base_url, api_key="canary")
    factories = {"cohere": produce_cohere, "openai": produce_openai}
    return factories.get(name, produce_compatible)(context).produce_client()


@pytest.mark.parametrize("name", ["jina", "voyage", "cohere", "llamacpp", "siliconflow", "mine"])
async def test_texts_come_back_by_relevance(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.url)
    try:
        ranker = await client.access("m", Genus.RANKER)
        ranking = await ranker.call(RankingRequest(query="red sky", texts=TEXTS, max_results=2))
    finally:
        await client.close()

    assert [(each.index, each.text) for each in ranking] == [(2, TEXTS[2]), (0, TEXTS[0])]
    assert ranking[0].score == 1.0
    assert ranking.usage.total_input_tokens == 8
    assert simulator.requests[0].body["top_k" if name == "voyage" else "top_n"] == 2


async def test_a_server_that_returns_all_texts_is_cut(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("tei", tmp_path, simulator.url)
    try:
        ranker = await client.access("any", Genus.RANKER)
        ranking = await ranker.call(RankingRequest(query="red sky", texts=TEXTS, max_results=2))
    finally:
        await client.close()

    assert [(each.index, each.score) for each in ranking] == [(2, 1.0), (0, 0.5)]
    assert simulator.requests[0].body == {
        "model": "any",
        "query": "red sky",
        "texts": list(TEXTS),
    }


@pytest.mark.parametrize(
    "answer",
    [
        {"results": [{"index": 7, "relevance_score": 1.0}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 0.5}]},
        {"results": [{"index": -1, "relevance_score": 1.0}]},
        {"results": [{"index": 0, "relevance_score": None}]},
        {},
    ],
)
async def test_an_invalid_ranking_is_an_error(answer: Any, tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = produce_compatible(produce_context("jina", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    ranker = await provider.produce_client().access("m", Genus.RANKER)

    with pytest.raises(ConverseError) as caught:
        await ranker.call(RankingRequest(query="red", texts=TEXTS))

    assert caught.value.stage is Stage.DECODE


@pytest.mark.parametrize("name", ["openai", "mistral"])
async def test_each_text_gets_its_verdict(name: str, simulator: Simulator, tmp_path: Path) -> None:
    client = produce(name, tmp_path, simulator.url)
    try:
        moderator = await client.access("m", Genus.MODERATOR)
        moderation = await moderator.call(ModerationRequest(texts=["hello", "I kill you"]))
    finally:
        await client.close()

    assert [verdict.categories for verdict in moderation] == [(), ("violence",)]
    assert moderation.is_harmful
    assert not moderation[0].is_harmful
    assert moderation[1].scores["violence"] == 0.97
    assert "illicit" not in moderation[1].scores  # null: it does not apply


async def test_a_missing_verdict_is_an_error(tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(b'{"results": []}')])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    moderator = await provider.produce_client().access("m", Genus.MODERATOR)

    with pytest.raises(ConverseError, match="0 verdicts for 1 texts"):
        await moderator.call(ModerationRequest(texts="hello"))


async def test_a_service_without_the_genus_says_so(tmp_path: Path) -> None:
    client: Any = produce_compatible(
        produce_context("deepseek", tmp_path, api_key="canary")
    ).produce_client()

    for genus in (Genus.RANKER, Genus.MODERATOR):
        with pytest.raises(UnknownNameError, match=str(genus)):
            await client.access("m", genus)


async def test_the_simulator_answers_the_official_library(simulator: Simulator) -> None:
    async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="canary") as client:
        answer = await client.moderations.create(model="m", input=["hello", "I kill you"])

    assert [result.flagged for result in answer.results] == [False, True]
