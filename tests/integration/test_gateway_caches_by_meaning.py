"""A gateway whose cache also answers questions that are similar, and tells it."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateway_files import RoutedGateway
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.testing.simulator import Say, Simulator

CACHED = """
[models.quick]
targets = ["first:gpt-5.5"]
cache = {{ seconds = 600, similarity = {} }}
"""
CACHE, SIMILARITY = "x-vibe-cache", "x-vibe-cache-similarity"
QUESTION = "how deep is the cold north sea"
SIMILAR = "how deep is the north sea"


def compose(*texts: str, **fields: Any) -> dict[str, Any]:
    """Composes a request of alternating turns."""
    roles = ("user", "assistant")
    turns = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    return {"messages": turns, **fields}


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet, whose embedder counts words."""
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second)
        configure(routed, "scripted:words")
        yield routed


def configure(routed: RoutedGateway, embedder: str) -> None:
    """Configures the gateway's embedder, before all tables of the file."""
    folder = routed.file.parent
    file = folder / "vibe.toml"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("embedder")]
    file.write_text("\n".join([f'embedder = "{embedder}"', *lines]))
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(file)}
    routed.application = Application(
        load_configuration(environment=environment, working_directory=folder)
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_similar_question_gets_the_answer_and_is_told(
    routed: RoutedGateway, stream: bool
) -> None:
    async with routed.run(CACHED.format(0.8)):
        routed.first.enqueue(Say("95 meters."))
        first = await routed.ask(stream=stream, **compose(QUESTION))
        second = await routed.ask(stream=stream, **compose(SIMILAR))
        equal = await routed.ask(stream=stream, **compose(QUESTION))
    assert [each.headers[CACHE] for each in (first, second, equal)] == ["miss", "similar", "hit"]
    assert 0.8 <= float(second.headers[SIMILARITY]) < 1
    assert SIMILARITY not in equal.headers
    assert first.body == second.body
    assert [each.cache for each in routed.records] == ["miss", "similar", "hit"]
    assert len(routed.first.requests) == 1


@pytest.mark.parametrize(
    "other",
    [
        compose("what do hares eat"),
        compose(SIMILAR, temperature=0.5),
        compose("Hello", "Hi", SIMILAR),
        compose(SIMILAR, max_completion_tokens=7),
    ],
)
async def test_anything_else_must_be_equal(routed: RoutedGateway, other: dict[str, Any]) -> None:
    async with routed.run(CACHED.format(0.8)):
        await routed.ask(**compose(QUESTION))
        assert (await routed.ask(**other)).headers[CACHE] == "miss"
    assert len(routed.first.requests) == 2


async def test_the_threshold_counts(routed: RoutedGateway) -> None:
    async with routed.run(CACHED.format(0.999)):
        await routed.ask(**compose(QUESTION))
        assert (await routed.ask(**compose(SIMILAR))).headers[CACHE] == "miss"


async def test_a_client_that_wants_a_new_answer_gets_one(routed: RoutedGateway) -> None:
    async with routed.run(CACHED.format(0.8)):
        await routed.ask(**compose(QUESTION))
        headers = {"cache-control": "no-cache"}
        answer = await routed.ask(headers=headers, **compose(SIMILAR))
        assert answer.headers[CACHE] == "miss"
    assert len(routed.first.requests) == 2


async def test_without_an_embedder_the_answer_comes_from_the_model(
    routed: RoutedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    configure(routed, "scripted:gone")
    async with routed.run(CACHED.format(0.8)):
        await routed.ask(**compose(QUESTION))
        assert (await routed.ask(**compose(SIMILAR))).status == 200
    assert "cannot compare questions" in caplog.text


@pytest.mark.parametrize("similarity", ["0", "1.5", '"high"', "-1"])
async def test_a_similarity_outside_of_its_range_is_named(
    routed: RoutedGateway, similarity: str
) -> None:
    with pytest.raises(ConfigurationError, match="similarity"):
        async with routed.run(CACHED.format(similarity)):
            pass


async def test_the_oldest_question_is_dropped() -> None:
    questions = SimilarQuestions(0.9, 2)
    for number in range(3):
        await questions.add("scope", _point(number), f"key {number}")

    assert len(questions) == 2
    assert await questions.find("scope", _point(0)) is None
    assert await questions.find("scope", _point(2)) == ("key 2", pytest.approx(1.0))
    assert await questions.find("other", _point(2)) is None


def _point(number: int) -> bytes:
    return array("f", [float(number == place) for place in range(4)]).tobytes()


async def test_texts_that_differ_only_far_behind_are_not_compared(routed: RoutedGateway) -> None:
    text = f"{QUESTION} " * 50
    async with routed.run(CACHED.format(0.8)):
        answers = [await routed.ask(**compose(f"{text}{end}")) for end in ("one", "two")]
    assert [each.headers[CACHE] for each in answers] == ["miss", "miss"]


async def test_vectors_of_another_width_replace_the_questions() -> None:
    questions = SimilarQuestions(0.5, 10)
    short, long = (array("f", [1.0, *[0.0] * number]).tobytes() for number in (1, 2))
    await questions.add("scope", short, "a")
    assert await questions.find("scope", long) is None
    await questions.add("scope", long, "b")
    assert await questions.find("scope", short) is None
    assert await questions.find("scope", long) == ("b", 1.0)
    assert len(questions) == 1


async def test_a_vector_without_a_direction_is_similar_to_nothing() -> None:
    questions = SimilarQuestions(0.5, 10)
    nothing = bytes(8)
    await questions.add("scope", nothing, "a")
    assert await questions.find("scope", nothing) is None
    await questions.add("scope", array("f", [1.0, 0.0]).tobytes(), "b")
    assert await questions.find("scope", nothing) is None


async def test_a_search_among_many_questions_does_not_hold_the_loop() -> None:
    """Other requests continue while the vectors are compared."""
    questions = SimilarQuestions(0.5, 10_000)
    generator = random.Random(7)
    vectors = [
        array("f", [generator.gauss(0, 1) for _ in range(64)]).tobytes() for _ in range(3_000)
    ]
    for number, vector in enumerate(vectors):
        await questions.add("scope", vector, f"key {number}")

    search = asyncio.create_task(questions.find("scope", vectors[1_234]))
    turns = 0
    while not search.done():
        turns += 1
        await asyncio.sleep(0)
    assert await search == ("key 1234", pytest.approx(1.0))
    assert turns > 3  # without a thread, the search ends in the first

    cancelled = asyncio.create_task(questions.find("scope", vectors[0]))
    await asyncio.sleep(0)
    cancelled.cancel()
    await questions.drop("key 0")
    found = await questions.find("scope", vectors[0])
    assert found is None or found[0] != "key 0"
