"""Speakers of vendors against the simulator: formats, streams, losses, errors, retries."""

from __future__ import annotations

import base64
import json
import struct
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
    UnknownNameError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.speeches import Speech, SpeechRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.deepgram import produce_provider as produce_deepgram
from vibe_llms.providers.elevenlabs import produce_provider as produce_elevenlabs
from vibe_llms.providers.google import produce_provider as produce_google
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator

TEXT = "The bridge is closed."
FACTORIES = {
    "openai": (produce_openai, "/v1", "gpt-4o-mini-tts"),
    "google": (produce_google, "", "gemini-3.8-flash-tts"),
    "elevenlabs": (produce_elevenlabs, "", "eleven_multilingual_v2"),
    "deepgram": (produce_deepgram, "", "aura-2-thalia-en"),
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


async def speak(client: Any, model: str, **fields: Any) -> Speech:
    """Speaks a text with a model of the client, and closes it."""
    try:
        speaker = await client.access(model, Genus.SPEAKER)
        speech: Speech = await speaker.call(SpeechRequest(**{"text": TEXT, **fields}))
    finally:
        await client.close()
    return speech


async def stream(client: Any, model: str, **fields: Any) -> tuple[list[bytes], Speech]:
    """Streams a text with a model of the client, and closes it."""
    try:
        speaker = await client.access(model, Genus.SPEAKER)
        async with speaker.stream(SpeechRequest(**{"text": TEXT, **fields})) as running:
            pieces = [piece async for piece in running]
            return pieces, await running.result()
    finally:
        await client.close()


def read_wav(data: bytes) -> tuple[int, int]:
    """Returns the rate and the size of the samples that the header of a WAV file tells."""
    assert (data[:4], data[8:16], data[36:40]) == (b"RIFF", b"WAVEfmt ", b"data")
    rate, size = struct.unpack("<I", data[24:28])[0], struct.unpack("<I", data[40:44])[0]
    return rate, size


@pytest.mark.parametrize("name", ["openai", "elevenlabs", "deepgram"])
@pytest.mark.parametrize(
    ("form", "kind", "magic"),
    [("mp3", "audio/mpeg", b"ID3"), ("opus", "audio/ogg", b"OggS"), ("wav", "audio/wav", b"RIFF")],
)
async def test_each_vendor_speaks_in_the_wanted_format(
    name: str, form: str, kind: str, magic: bytes, simulator: Simulator, tmp_path: Path
) -> None:
    model = FACTORIES[name][2]
    speech = await speak(produce(name, tmp_path, simulator.url), model, file_format=form)

    assert speech.audio.mime_type == kind
    assert speech.data.startswith(magic)
    assert speech.data.endswith(TEXT.encode())
    assert (speech.audio.transcript, speech.losses) == (TEXT, ())
    assert (speech.origin.provider, speech.origin.model) == (name, model)


@pytest.mark.parametrize("name", list(FACTORIES))
@pytest.mark.parametrize("form", [None, "wav", "pcm"])
async def test_a_stream_has_the_same_audio(
    name: str, form: str | None, simulator: Simulator, tmp_path: Path
) -> None:
    model = FACTORIES[name][2]
    whole = await speak(produce(name, tmp_path, simulator.url), model, file_format=form)
    pieces, speech = await stream(produce(name, tmp_path, simulator.url), model, file_format=form)

    assert speech.data == whole.data
    assert speech.audio.mime_type == whole.audio.mime_type
    joined = b"".join(pieces)
    assert joined[44:] == speech.data[44:]
    if joined[:4] == b"RIFF" and name in ("google", "elevenlabs"):
        # A stream does not know its size before the end.
        assert read_wav(joined)[1] == 0xFFFF_FFFF
        assert read_wav(speech.data)[1] == len(speech.data) - 44


async def test_openai_gets_all_fields(simulator: Simulator, tmp_path: Path) -> None:
    await speak(
        produce("openai", tmp_path, simulator.url),
        "gpt-4o-mini-tts",
        voice="coral",
        speed=1.5,
        instructions="Whisper.",
        options={"extra": 1},
    )

    assert simulator.requests[0].body == {
        "model": "gpt-4o-mini-tts",
        "input": TEXT,
        "voice": "coral",
        "response_format": "mp3",
        "speed": 1.5,
        "instructions": "Whisper.",
        "extra": 1,
    }


async def test_gemini_gets_instructions_before_the_text(
    simulator: Simulator, tmp_path: Path
) -> None:
    speech = await speak(
        produce("google", tmp_path, simulator.url),
        "gemini-3.8-flash-tts",
        voice="Puck",
        language="de",
        speed=2,
        instructions="Say it sadly",
        file_format="mp3",
    )

    body = simulator.requests[0].body
    assert body["contents"][0]["parts"] == [{"text": f"Say it sadly:\n{TEXT}"}]
    assert body["generationConfig"]["speechConfig"] == {
        "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Puck"}},
        "languageCode": "de",
    }
    assert [loss.path for loss in speech.losses] == ["instructions", "speed", "file_format"]
    assert speech.usage is not None
    assert speech.usage.input_tokens


async def test_samples_of_gemini_keep_their_rate(tmp_path: Path) -> None:
    inline = {
        "mimeType": "audio/L16;codec=pcm;rate=16000",
        "data": base64.b64encode(b"ab").decode(),
    }
    answer = {"candidates": [{"content": {"parts": [{"inlineData": inline}]}}]}
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())] * 2)
    provider: Any = produce_google(produce_context("google", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    wav = await speak(provider.produce_client(), "gemini-tts")
    raw = await speak(provider.produce_client(), "gemini-tts", file_format="pcm")

    assert read_wav(wav.data) == (16_000, 2)
    assert (raw.data, raw.audio.mime_type) == (b"ab", "audio/pcm;rate=16000")


async def test_elevenlabs_gets_voice_and_format_in_the_path(
    simulator: Simulator, tmp_path: Path
) -> None:
    pieces, speech = await stream(
        produce("elevenlabs", tmp_path, simulator.url),
        "eleven_flash_v2_5",
        voice="a b",
        language="de",
        speed=1.1,
        instructions="Whisper.",
        file_format="flac",
    )

    [sent] = simulator.requests
    assert sent.path == "/v1/text-to-speech/a b/stream"
    assert sent.query == {"output_format": "mp3_44100_128"}
    assert sent.headers["xi-api-key"] == "canary"
    assert sent.body["voice_settings"] == {"speed": 1.1}
    assert sent.body["language_code"] == "de"
    assert [loss.path for loss in speech.losses] == ["file_format", "instructions"]
    assert pieces


async def test_deepgram_gets_all_but_the_text_in_the_query(
    simulator: Simulator, tmp_path: Path
) -> None:
    speech = await speak(
        produce("deepgram", tmp_path, simulator.url),
        "aura-2-thalia-en",
        file_format="wav",
        voice="thalia",
        options={"tag": "x"},
    )

    [sent] = simulator.requests
    assert sent.body == {"text": TEXT}
    assert sent.query == {
        "model": "aura-2-thalia-en",
        "encoding": "linear16",
        "container": "wav",
        "sample_rate": "24000",
        "tag": "x",
    }
    assert sent.headers["authorization"] == "Token canary"
    assert [loss.path for loss in speech.losses] == ["voice"]


async def test_a_service_with_other_formats_tells_what_it_sends(
    simulator: Simulator, tmp_path: Path
) -> None:
    speech = await speak(
        produce("groq", tmp_path, simulator.url), "orpheus", voice="troy", file_format="aac"
    )

    assert speech.audio.mime_type == "audio/wav"
    assert [loss.path for loss in speech.losses] == ["file_format"]
    with pytest.raises(RequestError, match="name of a voice"):
        await speak(produce("groq", tmp_path, simulator.url), "orpheus")
    with pytest.raises(TranslationLossError, match="file_format"):
        await speak(
            produce("groq", tmp_path, simulator.url),
            "orpheus",
            voice="troy",
            file_format="aac",
            strict=True,
        )


async def test_a_strict_stream_with_losses_is_not_sent(
    simulator: Simulator, tmp_path: Path
) -> None:
    with pytest.raises(TranslationLossError, match="instructions"):
        await stream(
            produce("elevenlabs", tmp_path, simulator.url), "m", instructions="x", strict=True
        )

    assert simulator.requests == []


@pytest.mark.parametrize("name", list(FACTORIES))
async def test_a_stream_is_begun_again_before_its_first_piece(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.access_url("overloaded=1"), attempts=2)
    pieces, _ = await stream(client, FACTORIES[name][2])

    assert pieces
    assert len(simulator.requests) == 2


@pytest.mark.parametrize("name", list(FACTORIES))
async def test_a_stream_that_breaks_off_is_an_error(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.access_url("cut_at_chunk=1"), attempts=1)
    with pytest.raises(ConverseError):
        await stream(client, FACTORIES[name][2], text=TEXT * 4)


@pytest.mark.parametrize("name", ["elevenlabs", "deepgram"])
@pytest.mark.parametrize(
    ("model", "fault", "word"),
    [
        ("does-not-exist", ProviderFault.NOT_FOUND, "does-not-exist"),
        ("m", ProviderFault.AUTHENTICATION, "Invalid API key"),
    ],
)
async def test_errors_are_read_from_the_vendors_words(
    name: str, model: str, fault: ProviderFault, word: str, simulator: Simulator, tmp_path: Path
) -> None:
    factory = FACTORIES[name][0]
    key = "wrong" if model == "m" else "canary"
    context = produce_context(name, tmp_path, base_url=simulator.url, api_key=key)
    with pytest.raises(ProviderError, match=word) as caught:
        await speak(factory(context).produce_client(), model)

    assert caught.value.fault is fault
    assert caught.value.provider == name


async def test_an_invalid_field_is_told_in_elevenlabs_words(
    simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("elevenlabs", tmp_path, simulator.url)
    with pytest.raises(ProviderError, match="text is required") as caught:
        await speak(client, "m", options={"text": ""})

    assert caught.value.fault is ProviderFault.INVALID_REQUEST


@pytest.mark.parametrize("name", ["elevenlabs", "deepgram"])
async def test_a_vendor_of_speech_does_not_converse(name: str, tmp_path: Path) -> None:
    client = produce(name, tmp_path, "http://127.0.0.1:9")
    with pytest.raises(UnknownNameError, match="embedder"):
        await client.access("m", Genus.EMBEDDER)
    model = await client.access_model("m")
    with pytest.raises(UnknownNameError, match="converser"):
        model.compose_path(streaming=False)


@pytest.mark.parametrize(
    ("fields", "path"),
    [({"text": " "}, "text"), ({"speed": 0}, "speed"), ({"speed": "2"}, "speed")],
)
def test_a_wrong_request_names_its_place(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        SpeechRequest(**{"text": "a", **fields})

    assert caught.value.path == path


async def test_an_empty_answer_is_an_error(tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(b"")])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ConverseError, match="no audio"):
        await speak(provider.produce_client(), "tts-1")


async def test_the_simulator_answers_the_official_library(simulator: Simulator) -> None:
    async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="canary") as client:
        answer = await client.audio.speech.create(
            model="gpt-4o-mini-tts", input=TEXT, voice="alloy", response_format="wav"
        )

    assert answer.content.endswith(TEXT.encode())
