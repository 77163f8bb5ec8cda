"""Embeddings, rankings and chat through the gateway, with the official libraries of
Cohere, Mistral and Ollama.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.gateways.key_holders import ManualClocks, create_key, open_authorizer
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Invoke, Say, Simulator
from vibe_llms.testing.simulator.calls import draw

cohere = pytest.importorskip("cohere")
httpx = pytest.importorskip("httpx")
ollama = pytest.importorskip("ollama")
Mistral = pytest.importorskip("mistralai.client").Mistral
SDKError = pytest.importorskip("mistralai.client.errors").SDKError

pytestmark = [
    pytest.mark.clients,
    # Of Cohere's library itself.
    pytest.mark.filterwarnings("ignore:Accessing the 'model_fields' attribute"),
    pytest.mark.filterwarnings("ignore:The `parse_obj` method is deprecated"),
]

TEXTS = ["red house", "blue sky"]
EMBEDDERS = (
    "openai_responses:text-embedding-3-small",
    "google:gemini-embedding-001",
    "ollama:embeddinggemma",
    "scripted:words",
)
COHERE_REQUEST: dict[str, Any] = {
    "model": "scripted:words",
    "texts": TEXTS,
    "input_type": "search_query",
    "embedding_types": ["float"],
}
CONVERSERS = ("anthropic:claude-sonnet-5-5", "openai_responses:gpt-5.5", "ollama:llama3.2")


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Start the simulator behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """Collect the records of requests."""
    return []


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """Serve a gateway before the simulator."""
    table = f'base_url = "{simulator.url}/v1"\napi_key = "canary"'
    cohere_table = f'base_url = "{simulator.url}"\napi_key = "canary"'
    tables = {
        "providers.jina": table,
        "providers.mistral": table,
        "providers.cohere": cohere_table,
    }
    application = produce_application(tmp_path, simulator.url, **tables)
    async with serve_gateway(application, records) as running:
        yield running


@pytest.fixture
async def guarded(simulator: Simulator, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """Serve a gateway that asks for keys; yield its address, and a key for one request a minute."""
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    key = create_key(tmp_path / "keys", requests_per_minute=1)
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application, authorizer=authorizer) as running:
        yield running, key


@asynccontextmanager
async def open_cohere(
    address: str, key: str = "k", *, kind: Any = cohere.AsyncClientV2
) -> AsyncIterator[Any]:
    """Open a client of Cohere's library, which does not retry."""
    async with httpx.AsyncClient() as connections:
        yield kind(key, base_url=address, httpx_client=connections, max_retries=0)


@asynccontextmanager
async def open_ollama(address: str, key: str = "k") -> AsyncIterator[ollama.AsyncClient]:
    """Open a client of Ollama's library."""
    client = ollama.AsyncClient(host=address, headers={"authorization": f"Bearer {key}"})
    async with client._client:
        yield client


def is_near(row: Any, numbers: list[float]) -> bool:
    """Return whether a row has these numbers, as 32-bit floats."""
    return list(row) == pytest.approx(numbers, abs=1e-6)


# Cohere


@pytest.mark.parametrize("model", EMBEDDERS)
async def test_coheres_client_embeds_with_any_vendor(
    model: str, address: str, records: list[CallRecord]
) -> None:
    async with open_cohere(address) as client:
        answer = await client.embed(
            model=model,
            texts=TEXTS,
            input_type="search_query",
            embedding_types=["float", "base64"],
            output_dimension=4,
        )

    rows, encoded = answer.embeddings.float_ or [], answer.embeddings.base64 or []
    assert [len(row) for row in rows] == [4, 4]
    if model != "scripted:words":
        assert all(is_near(row, draw(text, 4)) for row, text in zip(rows, TEXTS, strict=True))
    decoded = struct.unpack("<4f", base64.b64decode(encoded[1]))
    assert is_near(decoded, rows[1])
    assert answer.texts == TEXTS
    assert answer.id
    if model != "google:gemini-embedding-001":  # whose usage is not reported
        assert answer.meta is not None
        assert answer.meta.billed_units is not None
        assert answer.meta.billed_units.input_tokens == 4
    await wait_until(lambda: records)  # the client is in another thread
    assert records[0].way == "translate"
    told = [] if model.startswith("google") else ["purpose"]
    assert [loss.path for loss in records[0].losses if not loss.is_routine] == told


async def test_coheres_client_reaches_cohere_itself(
    address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    async with open_cohere(address) as client:
        answer = await client.embed(
            model="cohere:embed-v4.0",
            texts=TEXTS,
            input_type="search_query",
            embedding_types=["float"],
        )
        ranking = await client.rerank(
            model="cohere:rerank-v3.5", query="red house", documents=TEXTS, top_n=1
        )

    rows = answer.embeddings.float_ or []
    assert all(is_near(row, draw(text)) for row, text in zip(rows, TEXTS, strict=True))
    assert [each.index for each in ranking.results] == [0]
    assert [each.path for each in simulator.requests] == ["/v2/embed", "/v2/rerank"]
    await wait_until(lambda: len(records) == 2)  # the client is in another thread
    assert [each.way for each in records] == ["passthrough", "passthrough"]
    assert records[0].usage is not None
    assert records[0].usage.input_tokens == 4


async def test_coheres_first_client_embeds(address: str) -> None:
    async with open_cohere(address, kind=cohere.AsyncClient) as client:
        answer = await client.embed(model="scripted:words", texts=TEXTS)
        typed = await client.embed(model="scripted:words", texts=TEXTS, embedding_types=["float"])

    assert answer.response_type == "embeddings_floats"
    assert len(answer.embeddings) == 2
    assert typed.embeddings.float_ == answer.embeddings


async def test_coheres_client_embeds_parts_of_texts(address: str) -> None:
    parts = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    async with open_cohere(address) as client:
        answer = await client.embed(
            model="openai_responses:text-embedding-3-small",
            inputs=parts,
            input_type="search_document",
            embedding_types=["float"],
        )

    rows = answer.embeddings.float_ or []
    assert all(is_near(row, draw(text)) for row, text in zip(rows, TEXTS, strict=True))


@pytest.mark.parametrize("model", ["jina:jina-reranker-v3", "scripted:words"])
async def test_coheres_clients_rank(model: str, address: str, records: list[CallRecord]) -> None:
    documents = ["blue sky", "the red house", "a red sea"]
    request = {"model": model, "query": "red house", "documents": documents}
    async with open_cohere(address) as client:
        second = await client.rerank(**request, top_n=2, max_tokens_per_doc=100)
    async with open_cohere(address, kind=cohere.AsyncClient) as client:
        first = await client.rerank(**request, return_documents=True)

    assert [each.index for each in second.results][:1] == [1]
    assert second.results[0].relevance_score >= second.results[1].relevance_score
    assert first.results[0].index == 1
    way = "passthrough" if model.startswith("jina") else "translate"
    await wait_until(lambda: records)  # the client is in another thread
    assert records[0].way == way
    if way == "translate":
        assert first.results[0].document.text == "the red house"
        assert second.id
        assert "max_tokens_per_doc" in {loss.path for loss in records[0].losses}


@pytest.mark.parametrize(
    ("fields", "error", "word"),
    [
        ({"model": "nobody:e"}, cohere.NotFoundError, "nobody"),
        ({"model": "anthropic:claude"}, cohere.NotFoundError, "embedder"),
        ({"texts": []}, cohere.BadRequestError, "texts"),
        ({"embedding_types": ["int8"]}, cohere.BadRequestError, "int8"),
        ({"images": ["data:image/png;base64,AAAA"]}, cohere.BadRequestError, "Images"),
    ],
)
async def test_coheres_client_reads_errors(
    fields: dict[str, Any], error: type[Exception], word: str, address: str
) -> None:
    async with open_cohere(address) as client:
        with pytest.raises(error) as caught:
            await client.embed(**{**COHERE_REQUEST, **fields})

    problem: Any = caught.value
    assert word in problem.body["message"]


async def test_coheres_client_is_refused_losses_and_limits(
    guarded: tuple[str, str], address: str
) -> None:
    options = {"additional_headers": {"x-vibe-strict": "true"}}
    async with open_cohere(address) as client:
        with pytest.raises(cohere.UnprocessableEntityError):
            await client.embed(**COHERE_REQUEST, request_options=options)
    place, key = guarded
    async with open_cohere(place, "vk-nobody") as client:
        with pytest.raises(cohere.UnauthorizedError):
            await client.embed(**COHERE_REQUEST)
    async with open_cohere(place, key) as client:
        await client.embed(**COHERE_REQUEST)
        with pytest.raises(cohere.TooManyRequestsError) as caught:
            await client.embed(**COHERE_REQUEST)

    assert int((caught.value.headers or {})["retry-after"]) > 0


# Mistral


@pytest.mark.parametrize("model", EMBEDDERS[1:])  # the library requires an id, OpenAI sends none
async def test_mistrals_client_embeds_with_models_of_other_protocols(
    model: str, address: str
) -> None:
    async with Mistral(api_key="k", server_url=address) as client:
        answer = await client.embeddings.create_async(model=model, inputs=TEXTS, output_dimension=4)

    assert [len(each.embedding or ()) for each in answer.data] == [4, 4]
    assert [each.index for each in answer.data] == [0, 1]


@pytest.mark.parametrize("model", CONVERSERS)
async def test_mistrals_client_converses_with_any_vendor(
    model: str, address: str, simulator: Simulator
) -> None:
    question: Any = [{"role": "user", "content": "Name a sea."}]
    function = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
    tools: Any = [{"type": "function", "function": function}]
    for answer in (Say("The North Sea."), Say("The North Sea."), Invoke("clock", {})):
        simulator.enqueue(answer)
    async with Mistral(api_key="k", server_url=address) as client:
        whole = await client.chat.complete_async(model=model, messages=question)
        stream = await client.chat.stream_async(model=model, messages=question)
        pieces = [event.data.choices[0].delta.content or "" async for event in stream]
        called = await client.chat.complete_async(model=model, messages=question, tools=tools)

    assert whole.choices[0].message.content == "The North Sea."
    assert "".join(map(str, pieces)) == "The North Sea."
    calls = called.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls] == ["clock"]
    assert whole.usage.completion_tokens


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["mistral:codestral-latest", *CONVERSERS])
async def test_mistrals_client_fills_the_middle_with_any_vendor(
    model: str, stream: bool, address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    simulator.enqueue(Say("between"))
    fields: dict[str, Any] = {
        "model": model,
        "prompt": "def add(a, b):",
        "suffix": "return a + b",
        "max_tokens": 30,
        "random_seed": 3,
    }
    async with Mistral(api_key="k", server_url=address) as client:
        if stream:
            events = await client.fim.stream_async(**fields)
            pieces = [event.data.choices[0].delta.content or "" async for event in events]
            text = "".join(map(str, pieces))
        else:
            answer = await client.fim.complete_async(**fields)
            text = str(answer.choices[0].message.content)
            assert answer.usage.completion_tokens

    await wait_until(lambda: records)  # the client is in another thread
    [record] = records
    assert (record.face, record.status) == ("fim_completions", 200)
    if model.startswith("mistral"):
        assert text == " return return"
        assert record.way == "passthrough"
        assert simulator.requests[0].path == "/v1/fim/completions"
    else:
        assert text == "between"
        assert {"prompt", "suffix"} <= {loss.path for loss in record.losses}
        assert "return a + b" in str(simulator.requests[-1].body)
    assert record.usage is not None


async def test_mistrals_client_reads_errors(guarded: tuple[str, str], address: str) -> None:
    async with Mistral(api_key="k", server_url=address) as client:
        with pytest.raises(SDKError) as unknown:
            await client.embeddings.create_async(model="nobody:e", inputs=TEXTS)
    place, key = guarded
    async with Mistral(api_key=key, server_url=place) as client:
        await client.embeddings.create_async(model="scripted:words", inputs=TEXTS)
        with pytest.raises(SDKError) as limited:
            await client.embeddings.create_async(model="scripted:words", inputs=TEXTS)

    assert (unknown.value.status_code, limited.value.status_code) == (404, 429)
    assert "nobody" in unknown.value.body


# Ollama


@pytest.mark.parametrize("model", EMBEDDERS)
async def test_ollamas_client_embeds_with_any_vendor(
    model: str, address: str, records: list[CallRecord]
) -> None:
    async with open_ollama(address) as client:
        answer = await client.embed(model=model, input=TEXTS, dimensions=4)
        older = await client.embeddings(model=model, prompt=TEXTS[0], keep_alive=10)

    assert [len(row) for row in answer.embeddings] == [4, 4]
    assert older.embedding
    await wait_until(lambda: records)  # the client is in another thread
    assert records[0].way == ("passthrough" if model.startswith("ollama") else "translate")


@pytest.mark.parametrize("model", CONVERSERS)
async def test_ollamas_client_converses_with_any_vendor(
    model: str, address: str, simulator: Simulator
) -> None:
    question = [{"role": "user", "content": "Name a sea."}]
    for _ in range(3):
        simulator.enqueue(Say("The North Sea."))
    async with open_ollama(address) as client:
        whole = await client.chat(model=model, messages=question)
        pieces = [
            part.message.content or ""
            async for part in await client.chat(model=model, messages=question, stream=True)
        ]
        if not model.startswith("ollama"):  # the simulated server has no such path
            generated = await client.generate(model=model, prompt="Name a sea.")
            assert generated.response == "The North Sea."

    assert whole.message.content == "The North Sea."
    assert "".join(pieces) == "The North Sea."
    assert whole.done
    assert whole.eval_count


async def test_ollamas_client_reads_errors(guarded: tuple[str, str], address: str) -> None:
    async with open_ollama(address) as client:
        with pytest.raises(ollama.ResponseError) as unknown:
            await client.embed(model="nobody:e", input=TEXTS)
        with pytest.raises(ollama.ResponseError) as invalid:
            await client.embed(model="scripted:words", input=TEXTS, dimensions=-1)
    place, key = guarded
    async with open_ollama(place, key) as client:
        await client.embed(model="scripted:words", input=TEXTS)
        with pytest.raises(ollama.ResponseError) as limited:
            await client.embed(model="scripted:words", input=TEXTS)

    statuses = [each.value.status_code for each in (unknown, invalid, limited)]
    assert statuses == [404, 400, 429]
    assert "nobody" in unknown.value.error
