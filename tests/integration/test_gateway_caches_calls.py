"""The gateway's cache and shared requests for all genera: embeddings, rankings, media and so on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.accounts import Account
from support.gateways.gateway_files import GatewayAnswer, RoutedGateway
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.speech import hide

PROVIDERS = """
[providers.google]
base_url = "{first}"
api_key = "sk-google"
[providers.jina]
base_url = "{first}/v1"
api_key = "sk-jina"
[providers.elevenlabs]
base_url = "{first}"
api_key = "sk-elevenlabs"
"""


def make_form(**fields: Any) -> aiohttp.FormData:
    """Create a form, whose boundary is random."""
    form = aiohttp.FormData({name: value for name, value in fields.items() if name != "file"})
    name, data, media_type = fields["file"]
    field = "image" if media_type.startswith("image") else "file"
    form.add_field(field, data, filename=name, content_type=media_type)
    return form


AUDIO = ("talk.mp3", hide("The bridge.", "mp3"), "audio/mpeg")
CALLS: dict[str, tuple[str, str, Any, Any]] = {
    "embeddings, passed": (
        "first:text-embedding-3-small",
        "/v1/embeddings",
        {"input": "a text"},
        {"input": "another"},
    ),
    "embeddings, translated": (
        "google:gemini-embedding-001",
        "/v1/embeddings",
        {"input": "a text"},
        {"input": "a text", "encoding_format": "base64"},
    ),
    "Ollama's embeddings": (
        "ollama:embeddinggemma",
        "/api/embed",
        {"input": "a text"},
        {"input": "a text", "dimensions": 4},
    ),
    "rankings": (
        "jina:jina-reranker-v3",
        "/v1/rerank",
        {"query": "red", "documents": ["red", "blue"]},
        {"query": "red", "documents": ["red", "blue"], "top_n": 1},
    ),
    "moderation": (
        "first:omni-moderation-latest",
        "/v1/moderations",
        {"input": "hello"},
        {"input": "bye"},
    ),
    "images": (
        "first:gpt-image-2",
        "/v1/images/generations",
        {"prompt": "A house"},
        {"prompt": "A house", "size": "1024x1024"},
    ),
    "images, streamed": (
        "first:gpt-image-2",
        "/v1/images/generations",
        {"prompt": "A house", "stream": True},
        {"prompt": "A bridge", "stream": True},
    ),
    "edits": (
        "first:gpt-image-2",
        "/v1/images/edits",
        {"prompt": "A house", "file": ("a.png", produce_png(4, 4), "image/png")},
        {"prompt": "A house", "file": ("a.png", produce_png(5, 4), "image/png")},
    ),
    "speech, passed": (
        "first:gpt-4o-mini-tts",
        "/v1/audio/speech",
        {"input": "The bridge.", "voice": "alloy"},
        {"input": "The bridge.", "voice": "coral"},
    ),
    "speech, translated": (
        "elevenlabs:eleven_flash_v2_5",
        "/v1/audio/speech",
        {"input": "The bridge.", "voice": "alloy"},
        {"input": "The sea.", "voice": "alloy"},
    ),
    "speech as events": (
        "first:gpt-4o-mini-tts",
        "/v1/audio/speech",
        {"input": "The bridge.", "voice": "alloy", "stream_format": "sse"},
        {"input": "The bridge.", "voice": "alloy", "stream_format": "audio"},
    ),
    "transcription": (
        "first:gpt-4o-transcribe",
        "/v1/audio/transcriptions",
        {"file": AUDIO},
        {"file": AUDIO, "language": "en"},
    ),
}


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """Create a gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        providers = PROVIDERS.format(first=first.url)
        yield RoutedGateway(tmp_path, first, second, providers=providers)


async def ask(routed: RoutedGateway, path: str, fields: Any, **headers: str) -> GatewayAnswer:
    """Make a call with JSON, or with a form if it has a file."""
    url, fields = routed.address + path, {"model": "quick", **fields}
    body: dict[str, Any] = {"data": make_form(**fields)} if "file" in fields else {"json": fields}
    async with routed.session.post(url, **body, headers=headers) as answer:
        return GatewayAnswer(answer.status, answer.headers, await answer.read())


QUICK = ("embeddings, passed", "speech as events", "transcription")
"""Cases for the default test command."""


@pytest.mark.parametrize(
    ("model", "path", "fields", "other"),
    [
        pytest.param(*case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in CALLS.items()
    ],
)
async def test_an_equal_call_is_answered_from_the_cache(
    model: str, path: str, fields: Any, other: Any, routed: RoutedGateway
) -> None:
    table = f'[models.quick]\ntargets = ["{model}"]\ncache = {{ seconds = 600 }}\n'
    account = Account()
    async with routed.run(table, authorizer=account):
        first = await ask(routed, path, fields)
        second = await ask(routed, path, dict(reversed(fields.items())))
        third = await ask(routed, path, other)

    assert [each.status for each in (first, second, third)] == [200] * 3, first.body
    assert [each.headers["x-vibe-cache"] for each in (first, second, third)] == [
        "miss",
        "hit",
        "miss",
    ]
    assert first.body == second.body
    assert first.headers["content-type"] == second.headers["content-type"]
    assert len(routed.first.requests) == 2
    assert [each.cache for each in routed.records] == ["miss", "hit", "miss"]
    assert routed.records[1].usage is None
    assert account.calls == ["settled", "settled"]  # a cached answer costs nothing


async def test_equal_calls_at_once_are_sent_once(routed: RoutedGateway) -> None:
    table = '[models.quick]\ntargets = ["first:text-embedding-3-small"]\nsingle_flight = true\n'
    routed.first.switch("slow=100")
    async with routed.run(table):
        calls = (ask(routed, "/v1/embeddings", {"input": "a text"}) for _ in range(4))
        answers = await asyncio.gather(*calls)
        await ask(routed, "/v1/embeddings", {"input": "a text"})

    assert len({each.body for each in answers}) == 1
    assert sorted(each.headers["x-vibe-cache"] for each in answers) == ["hit"] * 3 + ["miss"]
    assert len(routed.first.requests) == 2  # the last one was not at the same time


@pytest.mark.slow
async def test_a_failed_call_is_not_cached(routed: RoutedGateway) -> None:
    table = (
        '[models.quick]\ntargets = ["first:text-embedding-3-small"]\ncache = { seconds = 600 }\n'
    )
    routed.first.switch("server_error=1")
    async with routed.run(table):
        failed = await ask(routed, "/v1/embeddings", {"input": "a text"})
        answered = await ask(routed, "/v1/embeddings", {"input": "a text"})

    assert (failed.status, answered.status) == (500, 200)
    assert answered.headers["x-vibe-cache"] == "miss"


@pytest.mark.slow
@pytest.mark.parametrize(("control", "told"), [("no-store", None), ("no-cache", "miss")])
async def test_a_client_may_refuse_the_cache(
    control: str, told: str | None, routed: RoutedGateway
) -> None:
    table = (
        '[models.quick]\ntargets = ["first:text-embedding-3-small"]\ncache = { seconds = 600 }\n'
    )
    async with routed.run(table):
        await ask(routed, "/v1/embeddings", {"input": "a text"})
        again = await ask(
            routed, "/v1/embeddings", {"input": "a text"}, **{"cache-control": control}
        )

    assert again.headers.get("x-vibe-cache") == told
    assert len(routed.first.requests) == 2


@pytest.mark.slow
async def test_the_interrupted_stream_of_a_call_is_not_cached(routed: RoutedGateway) -> None:
    table = '[models.quick]\ntargets = ["first:gpt-4o-mini-tts"]\ncache = { seconds = 600 }\n'
    body = {"input": "The bridge is closed.", "voice": "alloy", "stream_format": "sse"}
    async with routed.run(table):
        routed.first.switch("cut_at_chunk=1")
        with pytest.raises(aiohttp.ClientError):
            await ask(routed, "/v1/audio/speech", body)
        routed.first.switch("")
        again = await ask(routed, "/v1/audio/speech", body)

    assert again.headers["x-vibe-cache"] == "miss"
    assert b"speech.audio.done" in again.body
