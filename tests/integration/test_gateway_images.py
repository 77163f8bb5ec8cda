"""Images through the gateway, drawn and edited by official clients."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from google import genai

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

OPENAI, GOOGLE = "openai_responses:gpt-image-2", "google:gemini-3-pro-image-preview"
PICTURE = ("house.png", produce_png(5, 4), "image/png")


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


def produce_client(address: str) -> openai.AsyncOpenAI:
    """Makes the official client."""
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0)


def measure(image: openai.types.Image) -> tuple[int, int]:
    """Returns the size of a PNG in base64."""
    data = base64.b64decode(image.b64_json or "")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


async def test_openais_client_draws_with_openai(
    address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        answer = await client.images.generate(
            model=OPENAI, prompt="A house", n=2, size="32x48", quality="low", user="me"
        )

    assert [measure(image) for image in answer.data or ()] == [(32, 48)] * 2
    assert simulator.requests[0].body["model"] == "gpt-image-2"
    assert simulator.requests[0].body["user"] == "me"
    [record] = records
    assert (record.way, record.face, record.address) == ("passthrough", "images", OPENAI)
    assert record.usage is not None
    assert record.usage.output_tokens == 544


async def test_openais_client_draws_with_gemini(
    address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        answer = await client.images.generate(
            model=GOOGLE, prompt="draw a house", n=3, size="1024x1024", quality="high", user="me"
        )

    assert [measure(image) for image in answer.data or ()] == [(2, 3)] * 3
    assert len(simulator.requests) == 3  # one for each image
    [record] = records
    assert record.way == "translate"
    assert [loss.path for loss in record.losses] == ["user", "size", "quality"]
    assert answer.usage is not None
    assert record.usage is not None
    assert answer.usage.input_tokens == record.usage.total_input_tokens


@pytest.mark.parametrize("model", [OPENAI, GOOGLE])
async def test_openais_client_edits_files(
    model: str, address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        answer = await client.images.edit(
            model=model, prompt="draw it in red", image=[PICTURE, PICTURE], n=1, background="auto"
        )

    [sent] = simulator.requests
    if model == OPENAI:
        assert len(answer.data or ()) == 1
        assert sent.path == "/v1/images/edits"
        assert sent.body["model"] == "gpt-image-2"
        assert [each.data for each in sent.body["image"]] == [PICTURE[1]] * 2
        assert records[0].way == "passthrough"
    else:
        parts = sent.body["contents"][0]["parts"]
        assert [next(iter(part)) for part in parts] == ["inlineData", "inlineData", "text"]
        assert base64.b64decode(parts[0]["inlineData"]["data"]) == PICTURE[1]
        assert records[0].way == "translate"


@pytest.mark.parametrize(("model", "partial"), [(OPENAI, 2), (GOOGLE, 0)])
async def test_images_are_streamed(
    model: str, partial: int, address: str, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        stream = await client.images.generate(
            model=model, prompt="draw a house", stream=True, partial_images=2
        )
        events: list[Any] = [event async for event in stream]

    kinds = ["image_generation.partial_image"] * partial + ["image_generation.completed"]
    assert [event.type for event in events] == kinds
    assert base64.b64decode(events[-1].b64_json).startswith(b"\x89PNG")
    [record] = records
    assert record.streamed
    assert record.usage is not None
    assert not record.error


async def test_azures_client_names_the_deployment(address: str, simulator: Simulator) -> None:
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=address, api_key="x", api_version="2026-01-01", max_retries=0
    ) as client:
        drawn = await client.images.generate(model=OPENAI, prompt="A house")
    place = f"{address}/openai/deployments/{OPENAI}/images/edits"
    form = aiohttp.FormData({"prompt": "Red", "model": "other"})
    form.add_field("image", PICTURE[1], filename="a.png", content_type="image/png")
    async with aiohttp.ClientSession() as session, session.post(place, data=form) as response:
        assert response.status == 200, await response.text()

    assert len(drawn.data or ()) == 1
    assert [each.body["model"] for each in simulator.requests] == ["gpt-image-2"] * 2


async def test_geminis_client_gets_images_by_its_conversation(address: str) -> None:
    options = genai.types.HttpOptions(base_url=address, api_version="v1beta")
    client = genai.Client(api_key="k", http_options=options)
    config = genai.types.GenerateContentConfig(response_modalities=["TEXT", "IMAGE"])
    # The asynchronous client warns of its own use of aiohttp.
    answer = await asyncio.to_thread(
        client.models.generate_content, model=GOOGLE, contents="draw a house", config=config
    )

    images = [part.inline_data for part in answer.parts or () if part.inline_data]
    assert images[0].data is not None
    assert images[0].data.startswith(b"\x89PNG")


@pytest.mark.parametrize("model", [OPENAI, "openai_conversations:gpt-image-2", GOOGLE])
async def test_a_budget_counts_what_images_used(
    model: str, simulator: Simulator, tmp_path: Path
) -> None:
    account = Account()
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, authorizer=account) as address,
        produce_client(address) as client,
    ):
        await client.images.generate(model=model, prompt="draw a house")
        await client.images.edit(model=model, prompt="draw it red", image=PICTURE)
        async for _ in await client.images.generate(model=model, prompt="draw", stream=True):
            pass

    assert account.calls == ["settled"] * 3
    assert all(usage is not None and usage.total_input_tokens for usage, _ in account.used)
    assert "stream_options" not in simulator.requests[-1].body  # as for conversations
    first, second, _ = account.demands
    assert first.input_tokens < 100
    assert 6_000 <= second.input_tokens < 6_100  # the bound of an image


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"model": OPENAI}, 400, "prompt"),
        ({"model": GOOGLE}, 400, "prompt"),
        ({"model": GOOGLE, "prompt": "a", "n": "x"}, 400, "count"),
        ({"model": GOOGLE, "prompt": "a", "size": 3}, 400, "size"),
        ({"model": GOOGLE, "prompt": "a", "size": "big"}, 400, "size"),
        ({"model": "anthropic:claude", "prompt": "a"}, 404, "illustrator"),
        ({"model": "openai_responses:does-not-exist", "prompt": "a"}, 404, "does-not-exist"),
        ({"prompt": "a"}, 400, "model"),
    ],
)
async def test_a_wrong_request_is_refused_in_the_words_of_openai(
    body: dict[str, Any], status: int, word: str, address: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/images/generations", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == status, answer
    assert word in str(answer["error"])


@pytest.mark.parametrize(
    ("data", "content_type", "word"),
    [
        (b"--x\r\n", "multipart/form-data; boundary=x", "incomplete"),
        (b"--x--\r\n", "multipart/form-data", "boundary"),
        (b"--x\r\nA: b\r\n\r\nc\r\n--x--\r\n", "multipart/form-data; boundary=x", "name"),
        (b"{}", "application/json; charset=utf-8", "model"),
    ],
)
async def test_an_invalid_form_is_refused(
    data: bytes, content_type: str, word: str, address: str
) -> None:
    headers = {"content-type": content_type}
    place = f"{address}/v1/images/edits"
    async with (
        aiohttp.ClientSession() as session,
        session.post(place, data=data, headers=headers) as response,
    ):
        answer = await response.json()

    assert response.status == 400, answer
    assert word in str(answer["error"])


async def test_an_edit_without_a_file_is_refused(address: str) -> None:
    form = aiohttp.FormData({"model": GOOGLE, "prompt": "Red"}, default_to_multipart=True)
    place = f"{address}/v1/images/edits"
    async with aiohttp.ClientSession() as session, session.post(place, data=form) as response:
        answer = await response.json()

    assert response.status == 400
    assert answer["error"]["param"] == "image"


async def test_a_strict_client_hears_of_losses_as_an_error(address: str) -> None:
    async with produce_client(address) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.images.generate(
                model=GOOGLE,
                prompt="draw",
                quality="high",
                extra_headers={"x-vibe-strict": "true"},
            )

    assert caught.value.status_code == 422
    assert "quality" in caught.value.message


@pytest.mark.parametrize("count", ["129", "9" * 20])
async def test_the_number_of_images_is_limited_in_both_kinds_of_bodies(
    count: str, address: str, simulator: Simulator
) -> None:
    """One small request must not become thousands for the vendor."""
    form = aiohttp.FormData({"model": GOOGLE, "prompt": "Red", "n": count})
    form.add_field("image", PICTURE[1], filename="a.png", content_type="image/png")
    body = {"model": GOOGLE, "prompt": "draw", "n": int(count)}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{address}/v1/images/edits", data=form) as edited:
            pass
        async with session.post(f"{address}/v1/images/generations", json=body) as drawn:
            pass

    assert {edited.status, drawn.status} <= {400, 413}
    assert simulator.requests == []
