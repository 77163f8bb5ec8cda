"""Transcribers of vendors against the simulator: forms, times, streams, losses, errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    TranslationLossError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart
from vibe_llms.models.genera import Genus
from vibe_llms.providers.deepgram import produce_provider as produce_deepgram
from vibe_llms.providers.elevenlabs import produce_provider as produce_elevenlabs
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.speech import hide

TEXT = "The bridge is closed."
AUDIO = AudioContent(data=hide(TEXT, "mp3"))
FACTORIES = {
    "openai": (produce_openai, "/v1", "gpt-4o-transcribe"),
    "mistral": (produce_compatible, "/v1", "voxtral-mini-latest"),
    "elevenlabs": (produce_elevenlabs, "", "scribe_v1"),
    "deepgram": (produce_deepgram, "", "nova-3"),
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


def produce(name: str, directory: Path, address: str, **limits: Any) -> Any:
    """Makes a client of a service."""
    factory, path, _ = FACTORIES.get(name, (produce_compatible, "/v1", ""))
    context = produce_context(
        name,
        directory,
        limits=Limits(**limits) if limits else None,
        base_url=address + path,
        api_key="canary",
    )
    return factory(context).produce_client()


async def transcribe(client: Any, model: str, **fields: Any) -> Transcript:
    """Transcribes audio with a model of the client, and closes it."""
    try:
        transcriber = await client.access(model, Genus.TRANSCRIBER)
        request = TranscriptionRequest(**{"audio": AUDIO, **fields})
        transcript: Transcript = await transcriber.call(request)
    finally:
        await client.close()
    return transcript


async def stream(client: Any, model: str, **fields: Any) -> tuple[list[str], Transcript]:
    """Streams a transcript with a model of the client, and closes it."""
    try:
        transcriber = await client.access(model, Genus.TRANSCRIBER)
        request = TranscriptionRequest(**{"audio": AUDIO, **fields})
        async with transcriber.stream(request) as running:
            pieces = [piece async for piece in running]
            return pieces, await running.result()
    finally:
        await client.close()


@pytest.mark.parametrize("name", list(FACTORIES))
async def test_each_vendor_returns_the_words(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    transcript = await transcribe(produce(name, tmp_path, simulator.url), FACTORIES[name][2])

    assert transcript.text == TEXT
    assert transcript.losses == ()
    assert transcript.origin.provider == name
    assert transcript.words == ()
    if name == "openai":
        assert transcript.usage is not None
        assert transcript.usage.input_audio_tokens == 30
    elif name != "mistral":
        assert transcript.seconds == 1.5


@pytest.mark.parametrize(
    ("name", "count"), [("openai", 4), ("mistral", 4), ("elevenlabs", 1), ("deepgram", 1)]
)
async def test_a_stream_yields_the_text_as_it_arrives(
    name: str, count: int, simulator: Simulator, tmp_path: Path
) -> None:
    pieces, transcript = await stream(produce(name, tmp_path, simulator.url), FACTORIES[name][2])

    assert len(pieces) == count
    assert "".join(pieces).strip() == transcript.text == TEXT
    if name == "mistral":
        assert transcript.usage is not None
        assert (transcript.usage.input_tokens, transcript.seconds) == (5, 2.0)


async def test_whisper_returns_times(simulator: Simulator, tmp_path: Path) -> None:
    segments = await transcribe(
        produce("openai", tmp_path, simulator.url),
        "whisper-1",
        timestamps="segment",
        language="en",
        prompt="bridges",
        temperature=0.2,
    )
    words = await transcribe(
        produce("openai", tmp_path, simulator.url), "whisper-1", timestamps="word"
    )

    assert segments.segments == (TranscriptPart(start=0.0, end=1.5, text=TEXT),)
    assert (segments.language, segments.seconds) == ("english", 1.5)
    assert [word.text for word in words.words] == TEXT.split()
    body = simulator.requests[0].body
    assert body["response_format"] == "verbose_json"
    assert body["timestamp_granularities"] == ["segment"]
    assert (body["language"], body["prompt"], body["temperature"]) == ("en", "bridges", "0.2")
    assert (body["file"].name, body["file"].media_type) == ("audio.mp3", "audio/mpeg")


async def test_models_without_times_tell_it(simulator: Simulator, tmp_path: Path) -> None:
    transcript = await transcribe(
        produce("openai", tmp_path, simulator.url), "gpt-4o-transcribe", timestamps="word"
    )

    assert [loss.path for loss in transcript.losses] == ["timestamps"]
    with pytest.raises(TranslationLossError, match="timestamps"):
        await transcribe(
            produce("openai", tmp_path, simulator.url),
            "gpt-4o-transcribe",
            timestamps="word",
            strict=True,
        )


async def test_whisper_has_no_stream_and_arrives_whole(
    simulator: Simulator, tmp_path: Path
) -> None:
    pieces, _ = await stream(produce("openai", tmp_path, simulator.url), "whisper-1")

    assert pieces == [TEXT]
    assert "stream" not in simulator.requests[0].body


async def test_words_are_translated(simulator: Simulator, tmp_path: Path) -> None:
    transcript = await transcribe(
        produce("openai", tmp_path, simulator.url), "whisper-1", translates=True, language="de"
    )

    assert transcript.text == f"In English: {TEXT}"
    assert simulator.requests[0].path == "/v1/audio/translations"
    assert [loss.path for loss in transcript.losses] == ["language"]


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("mistral", ["translates", "prompt"]),
        ("elevenlabs", ["prompt", "translates"]),
        ("deepgram", ["prompt", "translates"]),
    ],
)
async def test_what_a_vendor_lacks_is_a_loss(
    name: str, lost: list[str], simulator: Simulator, tmp_path: Path
) -> None:
    transcript = await transcribe(
        produce(name, tmp_path, simulator.url),
        FACTORIES[name][2],
        translates=True,
        prompt="bridges",
        language="en",
    )

    assert [loss.path for loss in transcript.losses] == lost


async def test_each_vendor_reports_times_in_its_way(simulator: Simulator, tmp_path: Path) -> None:
    mistral = await transcribe(
        produce("mistral", tmp_path, simulator.url), "voxtral", timestamps="segment"
    )
    eleven = await transcribe(
        produce("elevenlabs", tmp_path, simulator.url), "scribe_v1", timestamps="segment"
    )
    words = await transcribe(
        produce("deepgram", tmp_path, simulator.url), "nova-3", timestamps="word"
    )
    segments = await transcribe(
        produce("deepgram", tmp_path, simulator.url), "nova-3", timestamps="segment"
    )

    assert mistral.segments == (TranscriptPart(start=0.0, end=1.5, text=TEXT),)
    assert eleven.words[1] == TranscriptPart(start=1.0, end=1.5, text="bridge", speaker="speaker_0")
    assert [loss.path for loss in eleven.losses] == ["timestamps"]
    assert words.words[0].text == "The"
    assert segments.segments == (TranscriptPart(start=0.0, end=1.5, text=TEXT, speaker="0"),)
    assert segments.language == "en"


async def test_deepgram_gets_the_bytes_or_an_address(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("deepgram", tmp_path, simulator.url)
    await transcribe(client, "nova-3", language="de", options={"diarize": "true"})
    elsewhere = await transcribe(
        produce("deepgram", tmp_path, simulator.url),
        "nova-3",
        audio=AudioContent(url="https://example.org/a.mp3"),
    )

    first = simulator.requests[0]
    assert first.data == AUDIO.data
    assert first.headers["content-type"] == "audio/mpeg"
    assert first.query == {
        "model": "nova-3",
        "smart_format": "true",
        "language": "de",
        "diarize": "true",
    }
    assert elsewhere.text == "audio at https://example.org/a.mp3"


async def test_audio_elsewhere_cannot_be_uploaded(simulator: Simulator, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not a URL"):
        await transcribe(
            produce("openai", tmp_path, simulator.url),
            "whisper-1",
            audio=AudioContent(url="https://example.org/a.mp3"),
        )


async def test_a_retried_upload_is_the_same(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("openai", tmp_path, simulator.access_url("rate_limit=1"), attempts=2)
    pieces, _ = await stream(client, "gpt-4o-transcribe")

    assert len(pieces) == 4
    assert simulator.requests[0].data == simulator.requests[1].data


@pytest.mark.parametrize("name", ["openai", "mistral"])
async def test_a_stream_without_its_end_is_an_error(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.access_url("cut_at_chunk=2"), attempts=1)
    with pytest.raises(ConverseError):
        await stream(client, FACTORIES[name][2])


async def test_an_error_within_a_stream_is_told(tmp_path: Path) -> None:
    event = b'data: {"type": "error", "error": {"message": "Too loud."}}\n\n'
    counterpart = Counterpart([answer_json(event)])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ProviderError, match="Too loud"):
        await stream(provider.produce_client(), "gpt-4o-transcribe")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("openai", {}),
        ("openai", {"text": "a", "segments": [{"start": 0}]}),
        ("elevenlabs", {"words": []}),
        ("deepgram", {"results": {"channels": [{"alternatives": []}]}}),
    ],
)
async def test_an_invalid_answer_is_an_error(name: str, answer: Any, tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = FACTORIES[name][0](produce_context(name, tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ConverseError, match="invalid body"):
        await transcribe(provider.produce_client(), "m")


@pytest.mark.parametrize("name", list(FACTORIES))
async def test_an_unknown_model_is_not_found(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    with pytest.raises(ProviderError) as caught:
        await transcribe(produce(name, tmp_path, simulator.url), "does-not-exist")

    assert caught.value.fault is ProviderFault.NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "path"), [({"audio": b"x"}, "audio"), ({"timestamps": "letter"}, "timestamps")]
)
def test_a_wrong_request_names_its_place(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        TranscriptionRequest(**{"audio": AUDIO, **fields})

    assert caught.value.path == path


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # of the library
async def test_the_simulator_answers_the_official_library(simulator: Simulator) -> None:
    file = ("a.mp3", AUDIO.data or b"", "audio/mpeg")
    async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="canary") as client:
        whole = await client.audio.transcriptions.create(model="gpt-4o-transcribe", file=file)
        timed = await client.audio.transcriptions.create(
            model="whisper-1", file=file, response_format="verbose_json"
        )
        english = await client.audio.translations.create(model="whisper-1", file=file)
        events = await client.audio.transcriptions.create(
            model="gpt-4o-transcribe", file=file, stream=True
        )
        kinds = [event.type async for event in events]

    assert (whole.text, timed.duration) == (TEXT, 1.5)
    assert english.text.endswith(TEXT)
    assert kinds == ["transcript.text.delta"] * 4 + ["transcript.text.done"]
