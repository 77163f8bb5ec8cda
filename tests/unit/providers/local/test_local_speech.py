"""The speaker and the transcriber on this machine, with the real library and weights."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.vendors.embedded import lend_folder
from support.vendors.remoting import produce_context
from vibe_llms.exceptions import (
    DependencyError,
    RequestError,
    TranslationLossError,
    TrustError,
    UnknownNameError,
)
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import LiveTranscriptionRequest, TranscriptionRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.local import produce_provider, weights
from vibe_llms.providers.local.pins import ESPEAK_PINS, WHISPER
from vibe_llms.providers.local.speaking import EspeakLibrary
from vibe_llms.providers.local.transcribing import WhisperLibrary

TEXT = "Good morning. The bridge is closed today, so please take the ferry."


def produce(directory: Path) -> Any:
    """Makes a client of the provider ``local``."""
    return produce_provider(produce_context("local", directory)).produce_client()


async def access_speaker(directory: Path) -> Any:
    """Returns the speaker, whose library is lent to the directory, and its client."""
    lend_folder(weights.choose_pin(ESPEAK_PINS, "speaker"), directory / "data")
    client = produce(directory)
    return client, await client.access("", Genus.SPEAKER)


@pytest.mark.parametrize(
    ("genus", "name"), [(Genus.SPEAKER, "espeak"), (Genus.TRANSCRIBER, "whisper-tiny")]
)
async def test_without_consent_nothing_is_downloaded(
    genus: Genus, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "find_installed", lambda pin: None)

    with pytest.raises(TrustError, match=f"local:{name}"):
        await produce(tmp_path).access("", genus)
    with pytest.raises(UnknownNameError, match=name):
        await produce(tmp_path).access("other", genus)
    assert not (tmp_path / "data").exists()


async def test_a_genus_without_an_embedded_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="illustrator"):
        await produce(tmp_path).access("", Genus.ILLUSTRATOR)


async def test_an_unknown_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights.platform, "machine", lambda: "abacus")
    monkeypatch.setattr(weights, "find_installed", lambda pin: None)

    with pytest.raises(DependencyError, match="abacus"):
        await produce(tmp_path).access("", Genus.SPEAKER)


def test_a_broken_library_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="data are missing"):
        EspeakLibrary(tmp_path / "libespeak-ng.so")


@pytest.mark.slow
@pytest.mark.weights
async def test_a_text_is_spoken(tmp_path: Path) -> None:
    client, speaker = await access_speaker(tmp_path)
    try:
        speech = await speaker.call(SpeechRequest(text=TEXT))
        fast = await speaker.call(SpeechRequest(text=TEXT, speed=2))
        raw = await speaker.call(SpeechRequest(text=TEXT, file_format="pcm"))
        german = await speaker.call(SpeechRequest(text=TEXT, language="de", voice="f3"))
        async with speaker.stream(SpeechRequest(text=TEXT)) as stream:
            pieces = [piece async for piece in stream]
        both = await asyncio.gather(*(speaker.call(SpeechRequest(text=TEXT)) for _ in range(2)))
    finally:
        await client.close()

    assert speech.audio.mime_type == "audio/wav"
    rate = struct.unpack("<I", speech.data[24:28])[0]
    assert 3 < (len(speech.data) - 44) / 2 / rate < 6
    assert len(fast.data) < 0.7 * len(speech.data)
    # The pauses and the noise within differ each time.
    assert len(raw.data) == pytest.approx(len(speech.data), rel=0.02)
    assert german.data != speech.data
    assert len(pieces) > 10
    assert len(b"".join(pieces)) == pytest.approx(len(speech.data), rel=0.02)
    assert all(len(each.data) == pytest.approx(len(speech.data), rel=0.02) for each in both)


@pytest.mark.slow
@pytest.mark.weights
async def test_what_the_speaker_cannot_do_is_told(tmp_path: Path) -> None:
    client, speaker = await access_speaker(tmp_path)
    try:
        speech = await speaker.call(
            SpeechRequest(text=TEXT, file_format="mp3", instructions="Whisper.")
        )
        with pytest.raises(TranslationLossError):
            await speaker.call(SpeechRequest(text=TEXT, instructions="Whisper.", strict=True))
        with pytest.raises(RequestError, match="Unknown voice 'zz'") as caught:
            await speaker.call(SpeechRequest(text=TEXT, voice="zz"))
        async with speaker.stream(SpeechRequest(text=TEXT * 50)) as stream:
            async for _ in stream:
                break  # the library stops soon after
        again = await speaker.call(SpeechRequest(text="Hello."))
    finally:
        await client.close()

    assert [loss.path for loss in speech.losses] == ["instructions", "file_format"]
    assert caught.value.path == "voice"
    assert again.data


@pytest.mark.transcription
async def test_what_is_spoken_is_transcribed(tmp_path: Path) -> None:
    lend_folder(WHISPER, tmp_path / "data")
    client, speaker = await access_speaker(tmp_path)
    try:
        audio = (await speaker.call(SpeechRequest(text=TEXT))).audio
        transcriber = await client.access("", Genus.TRANSCRIBER)
        segments = await transcriber.call(
            TranscriptionRequest(audio=audio, timestamps="segment", prompt="A ferry.")
        )
        words = await transcriber.call(TranscriptionRequest(audio=audio, timestamps="word"))
        async with transcriber.stream(TranscriptionRequest(audio=audio)) as stream:
            text = "".join([piece async for piece in stream])
        lost = await transcriber.call(
            TranscriptionRequest(audio=audio, language="de", translates=True)
        )
        with pytest.raises(RequestError, match="cannot be decoded"):
            await transcriber.call(TranscriptionRequest(audio=AudioContent(data=b"noise" * 99)))
    finally:
        await client.close()

    for word in ("bridge", "closed", "ferry"):
        assert word in segments.text
    assert text == words.text == lost.text
    assert segments.segments[0].start == 0.0
    assert words.words[0].text == "Good"
    assert segments.seconds == pytest.approx(3.9, abs=1)
    assert [loss.path for loss in lost.losses] == ["translates", "language"]


@pytest.mark.transcription
async def test_what_is_spoken_is_transcribed_while_it_is_recorded(tmp_path: Path) -> None:
    lend_folder(WHISPER, tmp_path / "data")
    client, speaker = await access_speaker(tmp_path)
    heard = asyncio.Event()
    texts = ("The bridge is closed today.", "Please take the ferry.")
    try:
        speeches = [
            await speaker.call(SpeechRequest(text=text, file_format="pcm")) for text in texts
        ]
        rate = int(speeches[0].audio.mime_type.rpartition("=")[2])

        async def record() -> AsyncIterator[bytes]:
            yield speeches[0].data + bytes(2 * rate)
            await heard.wait()
            yield speeches[1].data

        transcriber = await client.access("", Genus.TRANSCRIBER)
        request = LiveTranscriptionRequest(
            mime_type="audio/pcm", sample_rate=rate, timestamps="word"
        )
        async with transcriber.stream_live(request, record()) as stream:
            first = await anext(stream)
            heard.set()
            transcript = await stream.result()
    finally:
        await client.close()

    assert "bridge is closed" in first
    assert "ferry" in transcript.text[len(first) :]
    ferry = next(word for word in transcript.words if "ferry" in word.text)
    assert ferry.start > len(speeches[0].data) / 2 / rate + 0.5


def test_without_its_package_the_transcriber_tells_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)

    with pytest.raises(DependencyError, match="faster-whisper"):
        WhisperLibrary(tmp_path / "model.bin")
