"""Embedders of vendors against the simulator: each form, limits, retries, errors and losses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    TranslationLossError,
    UnknownNameError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.cohere import produce_provider as produce_cohere
from vibe_llms.providers.google import produce_provider as produce_google
from vibe_llms.providers.ollama import produce_provider as produce_ollama
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_compatible.kinds import read_services
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.calls import draw

TEXTS = ("red house", "blue sky", "a third, longer text")
PROVIDERS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "openai_responses": (produce_openai, "/v1", {}),
    "ollama": (produce_ollama, "", {}),
    "google": (produce_google, "", {}),
    "vertex": (produce_google, "", {"project": "p", "cloud": "vertex"}),
    "mistral": (produce_compatible, "/v1", {}),
    "voyage": (produce_compatible, "/v1", {}),
    "cohere": (produce_cohere, "", {}),
    "tei": (produce_compatible, "", {}),
    "mine": (produce_compatible, "/v1", {}),
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


def produce(name: str, directory: Path, address: str, **limits: Any) -> Any:
    """Makes a client of a provider at an address."""
    factory, path, settings = PROVIDERS[name]
    context = produce_context(
        name,
        directory,
        limits=Limits(**limits) if limits else None,
        base_url=address + path,
        api_key="canary",
        **settings,
    )
    return factory(context).produce_client()


async def embed(client: Any, model: str, **fields: Any) -> Any:
    """Embeds texts with a model of the client."""
    embedder = await client.access(model, Genus.EMBEDDER)
    return await embedder.call(EmbeddingRequest(**{"texts": TEXTS, **fields}))


def is_near(row: Any, numbers: list[float]) -> bool:
    """Returns whether a row has these numbers, as 32-bit floats."""
    return list(row) == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "vertex"])
async def test_each_form_returns_the_vectors_in_order(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.url)
    try:
        vectors = await embed(client, "m")
    finally:
        await client.close()

    assert len(vectors) == 3
    assert all(is_near(row, draw(text)) for row, text in zip(vectors, TEXTS, strict=True))
    assert vectors.origin.provider == name
    if name != "google":  # which does not report it
        assert vectors.usage.input_tokens == 8


@pytest.mark.parametrize("model", ["gemini-embedding-2", "text-embedding-005"])
async def test_vertex_has_a_method_for_each_kind_of_model(
    model: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("vertex", tmp_path, simulator.url)
    try:
        embedder = await client.access(model, Genus.EMBEDDER)
        few = TEXTS[: embedder.max_inputs]
        request = EmbeddingRequest(texts=few, purpose="query", dimensions=4)
        vectors = await embedder.call(request)
    finally:
        await client.close()

    assert all(is_near(row, draw(text, 4)) for row, text in zip(vectors, few, strict=True))
    assert vectors.usage.input_tokens == sum(len(text.split()) for text in few)
    assert not vectors.losses


@pytest.mark.parametrize("name", ["openai_responses", "ollama", "google", "mine"])
async def test_the_length_of_vectors_can_be_chosen(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.url)
    try:
        vectors = await embed(client, "m", dimensions=4)
    finally:
        await client.close()

    assert vectors.width == 4
    assert is_near(vectors[1], draw(TEXTS[1], 4))


async def test_a_purpose_is_sent_or_told_as_a_loss(simulator: Simulator, tmp_path: Path) -> None:
    for name, is_sent in (("google", True), ("voyage", True), ("openai_responses", False)):
        client = produce(name, tmp_path, simulator.url)
        try:
            vectors = await embed(client, "m", purpose="passage")
            if not is_sent:
                with pytest.raises(TranslationLossError, match="purpose"):
                    await embed(client, "m", purpose="passage", strict=True)
        finally:
            await client.close()
        assert [loss.path for loss in vectors.losses] == ([] if is_sent else ["purpose"])
    sent = [request.body for request in simulator.requests]
    assert sent[0]["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert sent[1]["input_type"] == "document"
    assert sent[1]["truncation"] is False
    assert len(sent) == 3  # a strict request is not sent


async def test_base64_and_numbers_are_the_same(tmp_path: Path) -> None:
    rows = [{"index": 1, "embedding": [0.5, -1.0]}, {"index": 0, "embedding": "AACAPwAAAEA="}]
    counterpart = Counterpart([answer_json(json.dumps({"data": rows}).encode())])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    client = provider.produce_client()

    vectors = await embed(client, "m", texts=("first", "second"))

    assert [list(row) for row in vectors] == [[1.0, 2.0], [0.5, -1.0]]
    assert vectors.usage is None


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]},
        {"data": [{"embedding": []}, {"embedding": []}]},
        {"data": [{"embedding": "!!!"}, {"embedding": "AAAA"}]},
        {"data": [{"embedding": [None]}, {"embedding": [1.0]}]},
        {"error": "canary"},
        [],
    ],
)
async def test_an_invalid_answer_is_an_error(answer: Any, tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ConverseError) as caught:
        await embed(provider.produce_client(), "m", texts=("first", "second"))

    assert caught.value.stage is Stage.DECODE
    assert "/embeddings" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_busy_vendor_is_asked_again(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("rate_limit=2")
    client = produce("openai_responses", tmp_path, simulator.url)
    try:
        vectors = await embed(client, "m")
    finally:
        await client.close()

    assert len(vectors) == 3
    assert len(simulator.requests) == 3


async def test_an_unknown_model_is_an_error_of_the_vendor(
    simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("openai_responses", tmp_path, simulator.url)
    try:
        with pytest.raises(ProviderError) as caught:
            await embed(client, "does-not-exist")
    finally:
        await client.close()

    assert caught.value.fault is ProviderFault.NOT_FOUND
    assert len(simulator.requests) == 1


async def test_usage_counts_against_the_limit_of_tokens(
    simulator: Simulator, tmp_path: Path
) -> None:
    context = produce_context(
        "openai",
        tmp_path,
        base_url=f"{simulator.url}/v1",
        api_key="canary",
        tokens_per_minute=60,
    )
    client: Any = produce_openai(context).produce_client()
    try:
        await embed(client, "m")
        started = context.clock.read()
        await embed(client, "m")
    finally:
        await client.close()

    # Eight tokens were used, for each of which the limit grants a second.
    assert context.clock.read() - started == pytest.approx(8, abs=1)


async def test_a_provider_without_embedders_says_so(tmp_path: Path) -> None:
    context = produce_context("deepseek", tmp_path, api_key="canary")
    client: Any = produce_compatible(context).produce_client()

    with pytest.raises(UnknownNameError, match="embedder"):
        await client.access("m", Genus.EMBEDDER)
    with pytest.raises(UnknownNameError, match="no default embedder"):
        await client.access("", Genus.EMBEDDER)
    assert await client.access("m", Genus.CONVERSER)


async def test_a_provider_of_embedders_has_a_default_one(tmp_path: Path) -> None:
    context = produce_context("voyage", tmp_path, api_key="canary", model="voyage-3.5")
    client: Any = produce_compatible(context).produce_client()

    assert (await client.access("", Genus.EMBEDDER)).descriptor.name == "voyage-3.5"
    with pytest.raises(UnknownNameError, match="no default ranker"):
        await client.access("", Genus.RANKER)


async def test_the_simulator_answers_the_official_library(simulator: Simulator) -> None:
    async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="canary") as client:
        answer = await client.embeddings.create(model="m", input=list(TEXTS), dimensions=4)

    assert is_near(answer.data[2].embedding, draw(TEXTS[2], 4))
    assert answer.usage.prompt_tokens == 8


def test_services_with_embeddings_name_their_form() -> None:
    rows = {
        name: row.calls.embeddings for name, row in read_services().items() if row.calls.embeddings
    }

    assert {"jina", "mistral", "voyage", "openrouter", "nvidia"} <= set(rows)
    assert rows["voyage"].purposes["passage"] == "document"
    assert rows["mistral"].dimensions_field == "output_dimension"
