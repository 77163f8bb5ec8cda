"""The libraries of npm request images, speech, transcripts, vectors and completions."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.quality.node_programs import FOLDER_VARIABLE, NODE
from vibe_llms.testing.simulator import Say, Simulator
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.calls import draw
from vibe_llms.testing.simulator.speech import hide

pytestmark = pytest.mark.node

DRIVER = Path(__file__).parents[1] / "support" / "gateways" / "npm_media.mjs"
TEXT = "The bridge is closed."
SPEECH = base64.b64encode(hide(TEXT, "mp3")).decode()
PICTURE = base64.b64encode(produce_png(8, 8)).decode()
ALIASES = """
"text-embedding-3-small" = "openai_responses:text-embedding-3-small"
"gemini-embedding-001" = "google:gemini-embedding-001"
"gpt-3.5-turbo-instruct" = "openai_responses:gpt-3.5-turbo-instruct"
"claude" = "anthropic:claude-sonnet-5-5"
"gpt-image-1" = "openai_responses:gpt-image-1"
"squares" = "scripted:squares"
"gpt-4o-mini-tts" = "openai_responses:gpt-4o-mini-tts"
"aura" = "deepgram:aura-2-thalia-en"
"gpt-4o-transcribe" = "openai_responses:gpt-4o-transcribe"
"nova" = "deepgram:nova-3"
"""

Call = Callable[..., Awaitable[dict[str, Any]]]
each_client = pytest.mark.parametrize("client", ["openai", "ai"])


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendors."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def call(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Call]:
    """Calls the gateway with a library, and returns the line that the driver prints."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    deepgram = f'base_url = "{simulator.url}"\napi_key = "canary"'
    application = produce_application(
        tmp_path, simulator.url, aliases=ALIASES, **{"providers.deepgram": deepgram}
    )
    async with serve_gateway(application) as address:

        async def call(client: str, name: str, model: str, **job: Any) -> dict[str, Any]:
            job |= {"client": client, "call": name, "model": model, "address": address}
            process = await asyncio.create_subprocess_exec(
                *(str(folder / NODE), "--no-deprecation", str(DRIVER), str(folder)),
                json.dumps(job),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await process.communicate()
            result: dict[str, Any] = json.loads(output)
            return result

        yield call


@each_client
@pytest.mark.parametrize("model", ["gpt-image-1", "squares"])
async def test_images_are_drawn(call: Call, client: str, model: str) -> None:
    result = await call(client, "draw", model, text="A red house")
    images = [base64.b64decode(each) for each in result["files"]]
    assert len(images) == 2, result
    assert all(image.startswith(b"\x89PNG") for image in images)


@each_client
async def test_an_image_is_edited(call: Call, simulator: Simulator, client: str) -> None:
    result = await call(client, "edit", "gpt-image-1", text="Add a tree", file=PICTURE)
    assert len(result.get("files", ())) == 1, result
    assert simulator.requests[-1].path == "/v1/images/edits"


@each_client
@pytest.mark.parametrize("model", ["gpt-4o-mini-tts", "aura"])
async def test_a_text_is_spoken(call: Call, client: str, model: str) -> None:
    result = await call(client, "speak", model, text=TEXT)
    assert base64.b64decode(result["files"][0]).startswith(b"RIFF"), result


@each_client
@pytest.mark.parametrize("model", ["gpt-4o-transcribe", "nova"])
async def test_speech_is_transcribed(call: Call, client: str, model: str) -> None:
    assert await call(client, "transcribe", model, file=SPEECH) == {"text": TEXT}


@pytest.mark.parametrize("model", ["gpt-4o-transcribe", "nova"])
async def test_a_transcript_arrives_in_pieces(call: Call, model: str) -> None:
    result = await call("openai", "follow", model, file=SPEECH)
    assert result["text"].strip() == TEXT


@each_client
@pytest.mark.parametrize("model", ["text-embedding-3-small", "gemini-embedding-001"])
async def test_texts_are_embedded(call: Call, client: str, model: str) -> None:
    result = await call(client, "embed", model, text=TEXT)
    assert [
        row == pytest.approx(draw(text), abs=1e-6)
        for row, text in zip(result["rows"], [TEXT, "another"], strict=True)
    ] == [True, True]


@each_client
@pytest.mark.parametrize("name", ["complete", "followCompletion"])
@pytest.mark.parametrize("model", ["gpt-3.5-turbo-instruct", "claude"])
async def test_a_prompt_is_completed(
    call: Call, simulator: Simulator, client: str, name: str, model: str
) -> None:
    simulator.enqueue(Say("The North Sea."))
    result = await call(client, name, model, text="Name a sea")
    assert result.get("text"), result
    if model == "claude":
        assert result == {"text": "The North Sea."}
    else:
        assert result["text"].split()[0] == result["text"].split()[1]


@each_client
@pytest.mark.parametrize("name", ["complete", "draw", "embed", "speak"])
async def test_an_error_has_its_class(
    call: Call, simulator: Simulator, client: str, name: str
) -> None:
    simulator.switch("rate_limit")
    models = {
        "complete": "gpt-3.5-turbo-instruct",
        "draw": "gpt-image-1",
        "embed": "text-embedding-3-small",
        "speak": "gpt-4o-mini-tts",
    }
    model = models[name]
    error = (await call(client, name, model, text=TEXT))["error"]
    expected = "APICallError" if client == "ai" else "RateLimitError"
    assert (error["name"].lstrip("_"), error["status"]) == (expected, 429)
