"""Errors and limits of the calls of all genera, as the official libraries read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from google import genai
from google.genai.errors import ClientError, ServerError

from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.key_holders import ManualClocks, create_key, open_authorizer
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.speech import hide

pytestmark = [
    pytest.mark.slow,
    # Of OpenAI's library, whose translations are deprecated.
    pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning"),
]

AUDIO = ("talk.mp3", hide("The bridge.", "mp3"), "audio/mpeg")
PICTURE = ("a.png", produce_png(4, 4), "image/png")
SERVICE = "openai_responses"
Call = Callable[..., Any]
CALLS: dict[str, tuple[str, str, Call]] = {
    "completions": (
        f"{SERVICE}:gpt-3.5-turbo-instruct",
        "anthropic:claude-sonnet-5-5",
        lambda client, **fields: client.completions.create(**{"prompt": "A sea?", **fields}),
    ),
    "embeddings": (
        f"{SERVICE}:text-embedding-3-small",
        "google:gemini-embedding-001",
        lambda client, **fields: client.embeddings.create(**{"input": "A sea", **fields}),
    ),
    "moderations": (
        f"{SERVICE}:omni-moderation-latest",
        "",
        lambda client, **fields: client.moderations.create(**{"input": "A sea", **fields}),
    ),
    "images": (
        f"{SERVICE}:gpt-image-2",
        "google:gemini-3-pro-image-preview",
        lambda client, **fields: client.images.generate(**{"prompt": "A sea", **fields}),
    ),
    "edits": (
        f"{SERVICE}:gpt-image-2",
        "google:gemini-3-pro-image-preview",
        lambda client, **fields: client.images.edit(
            **{"prompt": "A sea", "image": PICTURE, **fields}
        ),
    ),
    "speech": (
        f"{SERVICE}:gpt-4o-mini-tts",
        "google:gemini-3.8-flash-tts",
        lambda client, **fields: client.audio.speech.create(
            **{"input": "A sea", "voice": "alloy", **fields}
        ),
    ),
    "transcriptions": (
        f"{SERVICE}:gpt-4o-transcribe",
        "",
        lambda client, **fields: client.audio.transcriptions.create(**{"file": AUDIO, **fields}),
    ),
    "translations": (
        f"{SERVICE}:whisper-1",
        "",
        lambda client, **fields: client.audio.translations.create(**{"file": AUDIO, **fields}),
    ),
}
"""By name: a model whose vendor has the protocol, one of another protocol, and the call."""

each_call = pytest.mark.parametrize(("passed", "translated", "call"), CALLS.values(), ids=CALLS)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Start the simulator behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def client(simulator: Simulator, tmp_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    """Open the official client of a gateway."""
    async with (
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as opened,
    ):
        yield opened


@each_call
async def test_unknown_models_and_vendors_are_not_found(
    passed: str, translated: str, call: Call, client: openai.AsyncOpenAI
) -> None:
    for model in ("nobody:m", "no-such-alias"):
        with pytest.raises(openai.NotFoundError) as caught:
            await call(client, model=model)
        assert model in str(caught.value)
        assert caught.value.code == "model_not_found"


@each_call
async def test_the_limit_of_a_vendor_reaches_the_client(
    passed: str, translated: str, call: Call, client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    for model in filter(None, (passed, translated)):
        simulator.switch("rate_limit=9")
        with pytest.raises(openai.RateLimitError) as caught:
            await call(client, model=model)
        assert float(caught.value.response.headers["retry-after"]) > 0
    simulator.switch("")
    await call(client, model=passed)


@each_call
async def test_an_error_of_a_vendor_reaches_the_client(
    passed: str, translated: str, call: Call, client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    simulator.switch("server_error=9")
    for model in filter(None, (passed, translated)):
        with pytest.raises(openai.InternalServerError) as caught:
            await call(client, model=model)
        assert caught.value.response.headers["x-vibe-stage"] == "provider"


@each_call
async def test_an_unreachable_vendor_is_an_error(
    passed: str, translated: str, call: Call, tmp_path: Path
) -> None:
    application = produce_application(tmp_path, "http://127.0.0.1:9")
    async with (
        serve_gateway(application) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        for model in filter(None, (passed, translated)):
            with pytest.raises(openai.InternalServerError) as caught:
                await call(client, model=model)
            assert caught.value.status_code == 502


@each_call
async def test_keys_and_their_limits_hold(
    passed: str, translated: str, call: Call, simulator: Simulator, tmp_path: Path
) -> None:
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    key = create_key(tmp_path / "keys", requests_per_minute=1)
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application, authorizer=authorizer) as address:

        async def ask(api_key: str) -> Any:
            async with openai.AsyncOpenAI(
                base_url=f"{address}/v1", api_key=api_key, max_retries=0
            ) as client:
                return await call(client, model=passed)

        with pytest.raises(openai.AuthenticationError):
            await ask("vk-nobody")
        await ask(key)
        with pytest.raises(openai.RateLimitError):
            await ask(key)

    assert len(simulator.requests) == 1


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("completions", {"suffix": "."}),
        ("embeddings", {"extra_body": {"unheard_of": 1}}),
        ("images", {"extra_body": {"unheard_of": 1}}),
        ("speech", {"extra_body": {"unheard_of": 1}}),
    ],
)
async def test_a_strict_client_is_refused_losses(
    name: str, fields: dict[str, Any], client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    _, translated, call = CALLS[name]
    headers = {"x-vibe-strict": "true"}
    with pytest.raises(openai.UnprocessableEntityError):
        await call(client, model=translated, extra_headers=headers, **fields)

    assert simulator.requests == []


async def test_googles_client_reads_errors_and_limits(simulator: Simulator, tmp_path: Path) -> None:
    async with serve_gateway(produce_application(tmp_path, simulator.url)) as address:
        options = genai.types.HttpOptions(base_url=address, api_version="v1beta")
        client = genai.Client(api_key="k", http_options=options)

        async def embed(model: str) -> Any:
            # The asynchronous client warns of its own use of aiohttp.
            return await asyncio.to_thread(
                client.models.embed_content, model=model, contents=["A sea", "A lake"]
            )

        with pytest.raises(ClientError) as unknown:
            await embed("nobody:m")
        simulator.switch("rate_limit=1")
        with pytest.raises(ClientError) as limited:
            await embed(f"{SERVICE}:text-embedding-3-small")
        await embed(f"{SERVICE}:text-embedding-3-small")
        simulator.switch("server_error=9")
        with pytest.raises(ServerError):
            await embed(f"{SERVICE}:text-embedding-3-small")

    assert (unknown.value.code, unknown.value.status) == (404, "NOT_FOUND")
    assert (limited.value.code, limited.value.status) == (429, "RESOURCE_EXHAUSTED")


async def test_a_part_of_a_split_request_is_not_retried(
    client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    """The client receives the error of the part, and may repeat the whole request."""
    simulator.switch("overloaded=1")
    texts = [f"text {number}" for number in range(250)]

    with pytest.raises(openai.InternalServerError):
        await client.embeddings.create(model="google:gemini-embedding-001", input=texts)

    sent = [len(request.body["requests"]) for request in simulator.requests]
    assert sum(sent) <= 250  # a cancelled part may not have arrived
    again = await client.embeddings.create(model="google:gemini-embedding-001", input=texts)
    assert len(again.data) == 250
