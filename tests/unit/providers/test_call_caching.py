"""Cached vectors and verdicts: one entry for each text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest

from vibe_llms.dialects.embeddings.results import produce_vectors
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.moderations import Moderation, ModerationRequest, ModerationVerdict
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.call_caching import CachedModel, CallCache

LOSS = Loss(kind=LossKind.DROPPED, path="purpose", reason="unknown")


def describe(name: str = "words") -> ModelDescriptor:
    """Return the descriptor of a model."""
    attributes = Catalogue(providers=("scripted",)).access_integrator("scripted").integrate(name)
    return ModelDescriptor(provider="scripted", name=name, attributes=attributes)


@attrs.define
class Counter:
    """A model whose vectors are lengths of texts, and whose verdicts are about long ones."""

    descriptor: ModelDescriptor = attrs.field(factory=describe)
    max_inputs: int = 100
    max_bytes: int = 1_000_000
    reports: bool = True
    width: int = 2
    calls: list[Sequence[str]] = attrs.field(factory=list)

    async def call(self, request: Any) -> Any:
        self.calls.append(request.texts)
        await asyncio.sleep(0)
        count = len(request.texts)
        usage = Usage(input_tokens=10 * count, output_tokens=0) if self.reports else None
        if isinstance(request, EmbeddingRequest):
            rows = [[float(len(text))] * self.width for text in request.texts]
            return produce_vectors(rows, request, self.descriptor, "p", usage, losses=[LOSS])
        verdicts = [
            ModerationVerdict(categories=("long",) if len(text) > 3 else (), scores={"long": 0.5})
            for text in request.texts
        ]
        origin = Origin(provider="scripted", model="words", usage=usage)
        return Moderation(verdicts=tuple(verdicts), origin=origin)


def embed(*texts: str, **fields: Any) -> EmbeddingRequest:
    """Return a request for vectors."""
    return EmbeddingRequest(texts=texts, **fields)


async def test_only_new_texts_are_sent_and_the_order_is_kept() -> None:
    counter = Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), CallCache())
    first = await model.call(embed("a", "bbb"))
    second = await model.call(embed("bbb", "cc", "a", "cc"))
    third = await model.call(embed("cc", "a"))

    assert counter.calls == [("a", "bbb"), ("cc",)]
    assert [row[0] for row in first] == [1.0, 3.0]
    assert [row[0] for row in second] == [3.0, 2.0, 1.0, 2.0]
    assert [row[0] for row in third] == [2.0, 1.0]
    assert [each.usage.input_tokens for each in (first, second, third)] == [20, 10, 0]
    assert [each.losses for each in (first, second, third)] == [(LOSS,)] * 3


async def test_verdicts_are_cached_for_each_text() -> None:
    counter = Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), CallCache())
    await model.call(ModerationRequest(texts=("a", "long one")))
    again = await model.call(ModerationRequest(texts=("long one", "b")))

    assert counter.calls == [("a", "long one"), ("b",)]
    assert [each.is_harmful for each in again] == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        embed("a", dimensions=2),
        embed("a", purpose="query"),
        embed("a", strict=True),
        ModerationRequest(texts=("a",)),
    ],
)
async def test_other_parameters_are_other_entries(other: Any) -> None:
    counter = Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), CallCache())
    await model.call(embed("a"))
    await model.call(other)

    assert len(counter.calls) == 2


async def test_models_share_a_cache_without_sharing_results() -> None:
    cache, first, second = CallCache(), Counter(), Counter(descriptor=describe("others"))
    for counter in (first, second, first):
        await CachedModel(cast(Any, counter), cache).call(embed("a"))

    assert (len(first.calls), len(second.calls), len(cache)) == (1, 1, 2)


async def test_vectors_of_another_length_replace_the_cached_ones() -> None:
    cache, counter = CallCache(), Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), cache)
    await model.call(embed("a"))
    counter.width = 3  # the vendor has changed the model
    vectors = await model.call(embed("a", "b"))
    again = await model.call(embed("b", "a"))

    assert [list(row) for row in vectors] == [[1.0] * 3, [1.0] * 3]
    assert counter.calls == [("a",), ("b",), ("a", "b")]
    assert (again.width, again.usage.input_tokens) == (3, 0)


async def test_an_unknown_usage_stays_unknown() -> None:
    model: CachedModel[Any, Any] = CachedModel(cast(Any, Counter(reports=False)), CallCache())
    await model.call(embed("a"))

    assert (await model.call(embed("a", "b"))).usage is None


async def test_equal_calls_at_once_are_sent_once() -> None:
    counter = Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), CallCache())
    results = await asyncio.gather(*(model.call(embed("a", "b")) for _ in range(3)))

    assert len(counter.calls) == 1
    assert [each.usage.input_tokens for each in results] == [20, 0, 0]


async def test_a_cancelled_caller_leaves_the_others_their_result() -> None:
    counter = Counter()
    model: CachedModel[Any, Any] = CachedModel(cast(Any, counter), CallCache())
    tasks = [asyncio.create_task(model.call(embed("a"))) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()  # the one whose call the others wait for

    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert [len(cast(Any, each)) for each in results[1:]] == [1, 1]
