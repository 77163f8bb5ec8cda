"""Speakers with a text that is still being written, against the simulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import produce_context
from vibe_llms.dialects.speeches.elevenlabs_live import ElevenLabsSpeechCodec
from vibe_llms.exceptions import (
    ProviderError,
    RequestError,
    TranslationLossError,
    TransportError,
)
from vibe_llms.foundation.wav import begin_wav, wrap_pcm
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech
from vibe_llms.models.genera import Genus
from vibe_llms.providers.deepgram import produce_provider as produce_deepgram
from vibe_llms.providers.elevenlabs import produce_provider as produce_elevenlabs
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.speech import hide

FACTORIES: dict[str, tuple[Any, str, str]] = {
    "deepgram": (produce_deepgram, "", "aura-2-thalia-en"),
    "elevenlabs": (produce_elevenlabs, "", "eleven_flash_v2_5"),
    "openai": (produce_openai, "/v1", "gpt-4o-mini-tts"),
}
LIVE = ["deepgram", "elevenlabs"]
PARTS = ("The bridge is clo", "sed today. ", "Turn", " around.")
TEXT = "".join(PARTS)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


@pytest.fixture(autouse=True)
def _close_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not wait for a vendor that does not answer a close."""
    monkeypatch.setattr("vibe_llms.wire.sockets._CLOSE_SECONDS", 0.05)


def produce(name: str, directory: Path, address: str) -> Any:
    """Makes a client of a service."""
    factory, path, _ = FACTORIES[name]
    context = produce_context(name, directory, base_url=address + path, api_key="canary-secret")
    return factory(context).produce_client()


async def write(*parts: str) -> AsyncIterator[str]:
    """Yields the parts of a text."""
    for part in parts:
        yield part


async def speak(
    client: Any, name: str, parts: AsyncIterator[str], **fields: Any
) -> tuple[list[bytes], Speech]:
    """Speaks a text to its end."""
    try:
        model = await client.access(FACTORIES[name][2], Genus.SPEAKER)
        async with (
            asyncio.timeout(60),
            model.stream_live(LiveSpeechRequest(**fields), parts) as stream,
        ):
            return [piece async for piece in stream], await stream.result()
    finally:
        await client.close()


@pytest.mark.parametrize("name", FACTORIES)
async def test_audio_arrives_while_the_text_is_written(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    is_heard = asyncio.Event()

    async def compose() -> AsyncIterator[str]:
        yield PARTS[0]
        yield PARTS[1]
        yield PARTS[2]  # OpenAI's sentence ends when the next one begins
        await is_heard.wait()
        yield PARTS[3]

    client = produce(name, tmp_path, simulator.url)
    model = await client.access(FACTORIES[name][2], Genus.SPEAKER)
    async with asyncio.timeout(60), model.stream_live(LiveSpeechRequest(), compose()) as stream:
        pieces = [await anext(stream)]
        assert b"closed today. " in pieces[0]
        is_heard.set()
        pieces += [piece async for piece in stream]
        speech = await stream.result()
    await client.close()

    heard = b"".join(pieces)
    if name == "deepgram":
        heard = heard.removeprefix(begin_wav(24_000))
        assert speech.data == wrap_pcm(TEXT.encode(), 24_000)
    assert speech.audio.transcript == TEXT
    if name == "openai":
        assert heard == hide("The bridge is closed today. ", "mp3") + hide("Turn around.", "mp3")
        assert speech.losses[0].path == "text"
    else:
        assert heard.decode().strip() == TEXT
        assert speech.losses == ()
        assert len(simulator.requests) == 1


@pytest.mark.parametrize(
    ("name", "file_format", "kind"),
    [
        ("deepgram", "pcm", "audio/pcm;rate=24000"),
        ("elevenlabs", "pcm", "audio/pcm;rate=24000"),
        ("elevenlabs", "wav", "audio/wav"),
        ("elevenlabs", None, "audio/mpeg"),
    ],
)
async def test_formats(
    name: str, file_format: str | None, kind: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.url)
    pieces, speech = await speak(client, name, write(*PARTS), file_format=file_format, speed=1.1)

    assert speech.audio.mime_type == kind
    assert speech.data.endswith(b"around." if name == "deepgram" else b"around. ")
    assert speech.data[44:] == b"".join(pieces)[44:]
    assert speech.losses == ()


async def test_other_formats_of_deepgram_are_spoken_by_sentences(
    simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("deepgram", tmp_path, simulator.url)
    pieces, speech = await speak(client, "deepgram", write(*PARTS), file_format="mp3")

    assert [request.method for request in simulator.requests] == ["POST", "POST"]
    assert "mp3" in speech.losses[0].reason
    assert b"".join(pieces) == speech.data
    with pytest.raises(TranslationLossError, match="text"):
        await speak(
            produce("deepgram", tmp_path, simulator.url),
            "deepgram",
            write("x"),
            file_format="mp3",
            strict=True,
        )


@pytest.mark.parametrize("file_format", ["wav", "flac"])
async def test_joined_files_have_one_header(
    file_format: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("openai", tmp_path, simulator.url)
    pieces, speech = await speak(client, "openai", write(*PARTS), file_format=file_format)

    assert speech.audio.mime_type == "audio/wav"
    assert speech.data == wrap_pcm(TEXT.encode(), 24_000)
    assert b"".join(pieces) == begin_wav(24_000) + TEXT.encode()
    lost = ["text", "file_format"] if file_format == "flac" else ["text"]
    assert [loss.path for loss in speech.losses] == lost


async def test_chunks_behind_the_samples_are_not_joined(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_title(text: str, audio_format: str) -> bytes:
        return hide(text, audio_format) + b"LIST\x04\x00\x00\x00INFO"

    monkeypatch.setattr("vibe_llms.testing.simulator.speech.hide", add_title)
    client = produce("openai", tmp_path, simulator.url)
    pieces, speech = await speak(client, "openai", write(*PARTS), file_format="wav")

    assert speech.data == wrap_pcm(TEXT.encode(), 24_000)
    assert b"".join(pieces) == begin_wav(24_000) + TEXT.encode()


async def test_words_reach_elevenlabs_whole(simulator: Simulator, tmp_path: Path) -> None:
    letters = write(*TEXT)
    client = produce("elevenlabs", tmp_path, simulator.url)
    _, speech = await speak(client, "elevenlabs", letters, voice="a b", language="en")

    assert speech.data.decode().strip() == TEXT
    (request,) = simulator.requests
    assert request.target.startswith("/v1/text-to-speech/a%20b/stream-input?")
    assert request.query["language_code"] == "en"


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        (("你好", "\uff0c世", "界。今天"), ["你好\uff0c ", "世界。 ", "今天 "]),
        (("「はい。」と", "言った"), ["「はい。」 ", "と言った "]),
        (("天" * 90, "Open", "气" * 20 + "A", "I"), ["天" * 90 + "Open" + "气" * 20 + " ", "AI "]),
        (("ก" * 101, "\u0e31", "ข"), ["ก" * 100 + " ", "ก\u0e31ข "]),
        (("-" * 101, "a"), ["-" * 101 + " ", "a "]),
        (("a\n", "\n b", "c, d"), ["a ", "bc, ", "d "]),
    ],
)
def test_texts_without_spaces_are_spoken_as_they_arrive(
    parts: tuple[str, ...], sent: list[str]
) -> None:
    unused: Any = None
    codec = ElevenLabsSpeechCodec(LiveSpeechRequest(), model=unused)
    messages = [*(each for part in parts for each in codec.write(part)), *codec.end()]

    assert [json.loads(message)["text"] for message in messages] == [*sent, ""]


@pytest.mark.parametrize("name", FACTORIES)
async def test_an_empty_text_is_refused(name: str, simulator: Simulator, tmp_path: Path) -> None:
    client = produce(name, tmp_path, simulator.url)
    with pytest.raises(RequestError, match="blank"):
        await speak(client, name, write(" ", ""))


@pytest.mark.parametrize("name", LIVE)
async def test_a_lost_connection_is_an_error(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch("cut_at_chunk=1")
    with pytest.raises(TransportError, match="broke off"):
        await speak(produce(name, tmp_path, simulator.url), name, write(*PARTS))


async def test_an_error_of_the_vendor_is_reported(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("midstream_overloaded=1")
    client = produce("elevenlabs", tmp_path, simulator.url)
    with pytest.raises(ProviderError, match="Overloaded"):
        await speak(client, "elevenlabs", write(*PARTS))


async def test_an_error_of_deepgram_is_a_close(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("midstream_overloaded=1")
    with pytest.raises(TransportError, match=r"1011: overloaded"):
        await speak(produce("deepgram", tmp_path, simulator.url), "deepgram", write(*PARTS))


async def test_losses(simulator: Simulator, tmp_path: Path) -> None:
    fields = {"voice": "x", "instructions": "sad", "language": "de"}
    for name, lost in (
        ("deepgram", ["voice", "instructions", "language"]),
        ("elevenlabs", ["instructions"]),
    ):
        client = produce(name, tmp_path, simulator.url)
        _, speech = await speak(client, name, write(*PARTS), **fields)
        assert [loss.path for loss in speech.losses] == lost
