"""Images, speech and transcription by the transport ``sdk``: OpenAI's client, also for Azure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import produce_context
from vibe_llms.messages.contents import AudioContent, ImageContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import TranscriptionRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.openai_responses import produce_provider
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.speech import hide

TEXT = "The bridge is closed."


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


def produce(directory: Path, simulator: Simulator, *, is_azure: bool, **settings: Any) -> Any:
    """Makes a client with the transport ``sdk``."""
    if is_azure:
        settings |= {"azure_endpoint": simulator.url, "azure_api_version": "2026-01-01"}
    else:
        settings["base_url"] = f"{simulator.url}/v1"
    context = produce_context(
        "openai_responses", directory, transport="sdk", api_key="canary", **settings
    )
    return produce_provider(context).produce_client()


@pytest.mark.parametrize("is_azure", [False, True])
async def test_official_clients_send_forms_and_stream_audio(
    is_azure: bool, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(tmp_path, simulator, is_azure=is_azure)
    try:
        illustrator = await client.access("gpt-image-2", Genus.ILLUSTRATOR)
        picture = ImageContent(data=produce_png(3, 4))
        drawn = await illustrator.call(IllustrationRequest(prompt="A house"))
        edited = await illustrator.call(IllustrationRequest(prompt="Red", images=picture))
        speaker = await client.access("gpt-4o-mini-tts", Genus.SPEAKER)
        async with speaker.stream(SpeechRequest(text=TEXT)) as stream:
            audio = b"".join([piece async for piece in stream])
        transcriber = await client.access("gpt-4o-transcribe", Genus.TRANSCRIBER)
        request = TranscriptionRequest(audio=AudioContent(data=hide(TEXT, "mp3")))
        async with transcriber.stream(request) as words:
            text = "".join([word async for word in words]).strip()
    finally:
        await client.close()

    assert len(drawn) == len(edited) == 1
    assert audio.endswith(TEXT.encode())
    assert text == TEXT
    base = "/openai/deployments/{}" if is_azure else "/v1"
    paths = ("images/generations", "images/edits", "audio/speech", "audio/transcriptions")
    models = ("gpt-image-2", "gpt-image-2", "gpt-4o-mini-tts", "gpt-4o-transcribe")
    assert [each.path for each in simulator.requests] == [
        f"{base.format(model)}/{path}" for model, path in zip(models, paths, strict=True)
    ]
