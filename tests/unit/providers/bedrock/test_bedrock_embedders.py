"""Embedders of Bedrock: Titan and Cohere by InvokeModel, with keys, signatures and losses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import produce_context
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConverseError, ProviderError, UnknownNameError
from vibe_llms.instruments.embedders import Embedder
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.genera import Genus
from vibe_llms.providers.bedrock import produce_provider
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.amazon_signatures import SECRETS
from vibe_llms.testing.simulator.calls import draw

TITAN, COHERE = "amazon.titan-embed-text-v2:0", "cohere.embed-multilingual-v3"


@pytest.fixture(autouse=True)
def forget_amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes away the settings of Amazon's tools."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


async def embed(
    simulator: Simulator, directory: Path, model: str, request: EmbeddingRequest, **settings: Any
) -> Vectors:
    """Embeds texts."""
    settings = {"base_url": simulator.url, "region": "eu-central-1", **settings}
    client = produce_provider(produce_context("bedrock", directory, **settings)).produce_client()
    try:
        embedder: Any = await client.access(model, Genus.EMBEDDER)
        vectors: Vectors = await embedder.call(request)
    finally:
        await client.close()
    return vectors


async def test_titan_takes_one_text_and_counts_its_tokens(
    simulator: Simulator, tmp_path: Path
) -> None:
    request = EmbeddingRequest(texts="red house", dimensions=4, purpose="query")
    vectors = await embed(simulator, tmp_path, TITAN, request, api_key="canary")

    assert list(vectors[0]) == pytest.approx(draw("red house", 4), abs=1e-6)
    assert vectors.usage is not None
    assert vectors.usage.input_tokens == 2
    assert [loss.path for loss in vectors.losses] == ["purpose"]
    (sent,) = simulator.requests
    assert sent.target == "/model/amazon.titan-embed-text-v2%3A0/invoke"
    assert sent.body == {"inputText": "red house", "dimensions": 4}


async def test_the_first_titan_has_one_length(simulator: Simulator, tmp_path: Path) -> None:
    request = EmbeddingRequest(texts="red house", dimensions=4)
    model = "amazon.titan-embed-text-v1"
    vectors = await embed(simulator, tmp_path, model, request, api_key="canary")

    assert [loss.path for loss in vectors.losses] == ["dimensions"]
    assert simulator.requests[0].body == {"inputText": "red house"}


@pytest.mark.parametrize(
    ("model", "width", "lost"),
    [(COHERE, 8, ["dimensions"]), ("us.cohere.embed-v4:0", 4, [])],
)
async def test_cohere_takes_many_texts(
    simulator: Simulator, tmp_path: Path, model: str, width: int, lost: list[str]
) -> None:
    texts = ("red house", "blue sky")
    request = EmbeddingRequest(texts=texts, dimensions=4, purpose="query")
    vectors = await embed(simulator, tmp_path, model, request, api_key="canary")

    for row, text in zip(vectors, texts, strict=True):
        assert list(row) == pytest.approx(draw(text, width), abs=1e-6)
    assert [loss.path for loss in vectors.losses] == lost
    assert simulator.requests[0].body["input_type"] == "search_query"
    assert vectors.usage is not None
    assert vectors.usage.input_tokens == 4


@pytest.mark.parametrize("model", [TITAN, COHERE])
async def test_calls_are_signed(
    simulator: Simulator, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator computes the signature again, with botocore."""
    key, secret = next(iter(SECRETS.items()))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    request = EmbeddingRequest(texts="red house", purpose="query")
    await embed(simulator, tmp_path, model, request)
    assert simulator.requests[0].headers["authorization"].startswith("AWS4-HMAC-SHA256")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ProviderError, match="signature"):
        await embed(simulator, tmp_path, model, request)


async def test_many_texts_of_titan_are_many_requests(simulator: Simulator, tmp_path: Path) -> None:
    table = {"base_url": simulator.url, "region": "eu-central-1", "api_key": "canary"}
    application = Application(
        load_configuration(
            environment={"HOME": str(tmp_path)}, command_line={"providers": {"bedrock": table}}
        )
    )
    texts = [f"sea {number}" for number in range(5)]
    async with application, Embedder(f"bedrock:{TITAN}", application=application) as embedder:
        vectors = await embedder.embed(texts)

    assert [list(row) for row in vectors] == [
        pytest.approx(draw(text, 8), abs=1e-6) for text in texts
    ]
    assert vectors.usage is not None
    assert vectors.usage.input_tokens == 10
    assert len(simulator.requests) == 5


async def test_errors_are_bedrocks(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("rate_limit=9")
    with pytest.raises(ConverseError, match="too many requests"):
        await embed(simulator, tmp_path, TITAN, EmbeddingRequest(texts="x"), api_key="canary")


async def test_other_models_embed_nothing(simulator: Simulator, tmp_path: Path) -> None:
    request = EmbeddingRequest(texts="x")
    with pytest.raises(UnknownNameError, match="embedder"):
        await embed(simulator, tmp_path, "amazon.nova-pro-v1:0", request, api_key="canary")
