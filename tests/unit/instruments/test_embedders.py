"""Embedders: many texts in requests of the vendor's size, in order; and the synchronous face."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, UnknownNameError
from vibe_llms.instruments.embedders import Embedder, SyncEmbedder
from vibe_llms.instruments.genera import split_call
from vibe_llms.instruments.models import Model
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.calls import draw


def produce_application(**settings: Any) -> Application:
    """Makes an application with settings of its own."""
    return Application(load_configuration(command_line=settings))


def point(simulator: Simulator) -> Application:
    """Makes an application whose OpenAI is the simulator."""
    return produce_application(
        **{
            "providers.openai_responses.base_url": f"{simulator.url}/v1",
            "providers.openai_responses.api_key": "canary",
        }
    )


async def test_many_texts_are_split_and_come_back_in_order() -> None:
    texts = [f"text {number}" for number in range(5000)]
    async with Simulator() as simulator:
        async with Embedder("openai:m", application=point(simulator)) as embedder:
            vectors = await embedder.embed(texts)
        sizes = [len(request.body["input"]) for request in simulator.requests]

    assert sorted(sizes) == [904, 2048, 2048]
    assert len(vectors) == 5000
    for place in (0, 2047, 2048, 4999):
        assert list(vectors[place]) == pytest.approx(draw(texts[place]), abs=1e-6)
    assert vectors.usage is not None
    assert vectors.usage.input_tokens == 10_000


async def test_an_error_of_one_request_ends_the_others() -> None:
    """The vendor refuses an empty text; here the model's name fails for all."""
    async with (
        Simulator() as simulator,
        Embedder("openai:does-not-exist", application=point(simulator)) as embedder,
    ):
        with pytest.raises(ProviderError) as caught:
            await embedder.embed([f"text {number}" for number in range(5000)])

    assert caught.value.fault is ProviderFault.NOT_FOUND
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_requests_are_split_by_count_and_size() -> None:
    request = EmbeddingRequest(texts=["aa", "bb", "cc", "ddddd", "é"], dimensions=3)

    by_count = [part.texts for part in split_call(request, 2, 100)]
    by_size = [part.texts for part in split_call(request, 10, 4)]

    assert by_count == [("aa", "bb"), ("cc", "ddddd"), ("é",)]
    assert by_size == [("aa", "bb"), ("cc",), ("ddddd",), ("é",)]
    assert all(part.dimensions == 3 for part in split_call(request, 2, 100))
    assert list(split_call(request, 10, 100)) == [request]


def test_the_synchronous_face_does_the_same() -> None:
    with SyncEmbedder("scripted:words", dimensions=16) as embedder:
        vectors = embedder.embed(["red house", "house, red", "blue sky"])

    def multiply(first: int, second: int) -> float:
        return sum(a * b for a, b in zip(vectors[first], vectors[second], strict=True))

    assert vectors.width == 16
    assert multiply(0, 1) == pytest.approx(1.0)
    assert multiply(0, 2) < 0.9
    assert repr(embedder) == "SyncEmbedder('scripted:words')"


async def test_the_configured_embedder_is_the_default(tmp_path: Path) -> None:
    async with Embedder(application=produce_application(embedder="scripted:words")) as embedder:
        assert (await embedder.embed("hi")).origin.model == "words"


async def test_a_model_of_another_genus_is_refused() -> None:
    application = produce_application()
    with pytest.raises(UnknownNameError, match="embedder"):
        await Embedder("anthropic:claude", application=application).embed("hi")
    model = Model("openai:text-embedding-3-small", application=application)
    for _ in range(2):
        with pytest.raises(UnknownNameError, match="does not converse"):
            await model.ask("hi")
    with pytest.raises(ConverseError):
        await Embedder("scripted:echo", application=application).embed("hi")
