"""Embeddings, rankings and moderation through the gateway, asked by official clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from google import genai

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.calls import draw

TEXTS = ["red house", "blue sky"]
OPENAI, GOOGLE = "openai_responses:text-embedding-3-small", "google:gemini-embedding-001"
OLLAMA, LOCAL = "ollama:embeddinggemma", "scripted:words"


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """A gateway before the simulator."""
    async with serve_gateway(produce_application(tmp_path, simulator.url), records) as running:
        yield running


def is_near(row: Any, numbers: list[float]) -> bool:
    """Returns whether a row has these numbers, as 32-bit floats."""
    return list(row) == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize("model", [OPENAI, GOOGLE, OLLAMA])
@pytest.mark.parametrize("form", ["float", "base64"])
async def test_openais_client_embeds_with_any_vendor(
    model: str, form: Any, address: str, records: list[CallRecord]
) -> None:
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client:
        answer = await client.embeddings.create(model=model, input=TEXTS, encoding_format=form)
        rows = [each.embedding for each in answer.data]
        if form == "base64":  # asked for, the library leaves it as it is
            raw = await client.embeddings.create(model=model, input=TEXTS)
            rows = [each.embedding for each in raw.data]

    assert all(is_near(row, draw(text)) for row, text in zip(rows, TEXTS, strict=True))
    record = records[0]
    assert record.way == ("passthrough" if model == OPENAI else "translate")
    assert (record.status, record.address) == (200, model)
    if model != GOOGLE:  # which does not report it
        assert record.usage is not None
        assert record.usage.input_tokens == 4
        assert answer.usage.prompt_tokens == 4


@pytest.mark.parametrize("model", [OPENAI, GOOGLE, OLLAMA])
async def test_geminis_client_embeds_with_any_vendor(
    model: str, address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    options = genai.types.HttpOptions(base_url=address, api_version="v1beta")
    client = genai.Client(api_key="k", http_options=options)
    config = genai.types.EmbedContentConfig(task_type="RETRIEVAL_QUERY", output_dimensionality=4)

    # With this name, the library sends several texts as parts of one content.
    texts = TEXTS[:1] if model == GOOGLE else TEXTS
    # The asynchronous client warns of its own use of aiohttp.
    answer = await asyncio.to_thread(
        client.models.embed_content, model=model, contents=list(texts), config=config
    )

    rows = [each.values for each in answer.embeddings or ()]
    assert all(is_near(row, draw(text, 4)) for row, text in zip(rows, texts, strict=True))
    told = [loss.path for loss in records[0].losses]
    if model == GOOGLE:
        assert told == []
        assert simulator.requests[0].body["requests"][0]["taskType"] == "RETRIEVAL_QUERY"
    else:
        assert told == ["purpose"]


@pytest.mark.parametrize(
    ("model", "way"), [(OLLAMA, "passthrough"), (OPENAI, "translate"), (LOCAL, "translate")]
)
async def test_ollamas_path_embeds(
    model: str, way: str, address: str, records: list[CallRecord]
) -> None:
    body = {"model": model, "input": TEXTS, "dimensions": 4}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/api/embed", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == 200, answer
    assert [len(row) for row in answer["embeddings"]] == [4, 4]
    assert answer["prompt_eval_count"] == 4
    [record] = records
    assert record.way == way
    assert record.usage is not None
    assert record.usage.input_tokens == 4


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
async def test_an_embedder_ranks_and_the_loss_is_in_a_header(
    path: str, address: str, records: list[CallRecord]
) -> None:
    body = {
        "model": LOCAL,
        "query": "red house",
        "documents": ["blue sky", {"text": "the red house"}],
        "top_n": 1,
        "return_documents": True,
    }
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{address}{path}", json=body) as response:
            answer = await response.json()
        strict = {"x-vibe-strict": "true"}
        async with session.post(f"{address}{path}", json=body, headers=strict) as refused:
            told = await refused.json()

    [best] = answer["results"]
    assert (best["index"], best["document"]) == (1, {"text": "the red house"})
    assert "embedder" in response.headers["x-vibe-losses"]
    assert refused.status == 422
    assert "embedder" in told["error"]["message"]
    assert records[0].losses


async def test_a_text_is_moderated(address: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client:
        answer = await client.moderations.create(
            model="openai_responses:omni-moderation-latest", input=["hello", "I kill you"]
        )

    assert [each.flagged for each in answer.results] == [False, True]


async def test_many_texts_are_split_for_the_vendor(address: str, simulator: Simulator) -> None:
    texts = [f"text {number}" for number in range(250)]
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client:
        answer = await client.embeddings.create(model=GOOGLE, input=texts)

    assert sorted(len(each.body["requests"]) for each in simulator.requests) == [50, 100, 100]
    assert [each.index for each in answer.data] == list(range(250))
    assert is_near(answer.data[249].embedding, draw("text 249"))


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"model": OPENAI, "input": []}, 400, "input"),
        ({"model": GOOGLE, "input": []}, 400, "texts"),
        ({"model": GOOGLE, "input": [[1, 2]]}, 400, "input"),
        ({"model": GOOGLE, "input": "a", "encoding_format": "gif"}, 400, "encoding_format"),
        ({"model": GOOGLE, "input": "a", "dimensions": -1}, 400, "dimensions"),
        ({"model": "anthropic:claude", "input": "a"}, 404, "embedder"),
        ({"model": "openai_responses:does-not-exist", "input": "a"}, 404, "does-not-exist"),
        ({"model": "é", "input": "a"}, 404, "é"),
        ({"model": "nobody:e", "input": "a"}, 404, "nobody"),
        ({"input": "a"}, 400, "model"),
    ],
)
async def test_a_wrong_request_is_refused_in_the_words_of_openai(
    body: dict[str, Any], status: int, word: str, address: str
) -> None:
    """Without a name, the configured embedder is asked: here one that is not downloaded."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/embeddings", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == status, answer
    assert word in str(answer["error"])


@pytest.mark.parametrize(
    ("path", "fields", "lost"),
    [
        ("/v2/embed", {"texts": TEXTS, "input_type": "image", "max_tokens": 9}, 3),
        ("/v1/embed", {"texts": TEXTS, "truncate": "NONE"}, 0),
        ("/v1/embeddings", {"input": TEXTS, "unheard_of": 1}, 1),
        ("/api/embed", {"input": TEXTS, "options": {}, "truncate": False}, 1),
        ("/api/embeddings", {"prompt": "red house", "truncate": False}, 0),
        ("/v2/rerank", {"query": "red", "documents": TEXTS, "max_tokens_per_doc": 9}, 2),
    ],
)
async def test_fields_without_a_counterpart_are_losses(
    path: str, fields: dict[str, Any], lost: int, address: str, records: list[CallRecord]
) -> None:
    body = {"model": LOCAL, **fields}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{address}{path}", json=body) as response:
            answer = await response.json()
        strict = {"x-vibe-strict": "true"}
        async with session.post(f"{address}{path}", json=body, headers=strict) as refused:
            told = await refused.json()

    assert response.status == 200, answer
    assert len(records[0].losses) == lost
    assert refused.status == (422 if lost else 200)
    if path.startswith(("/v1/embed", "/v2")) and lost and path != "/v1/embeddings":
        assert told["message"] == told["error"]["message"]
