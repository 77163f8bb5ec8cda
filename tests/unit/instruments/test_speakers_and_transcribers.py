"""Speakers and transcribers by their names: whole and streamed, from files and the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms import (
    AudioContent,
    Conversation,
    Speaker,
    SyncSpeaker,
    SyncTranscriber,
    Transcriber,
    UserCanister,
)
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import (
    ConverseError,
    RequestError,
    TranslationLossError,
)

TEXT = "The bridge is closed."


def test_what_is_spoken_is_transcribed() -> None:
    with SyncSpeaker("scripted:tones") as speaker, SyncTranscriber("scripted:notes") as listener:
        speech = speaker.speak(TEXT)
        transcript = listener.transcribe(speech.audio)

    assert transcript.text == TEXT
    assert speech.audio.mime_type == "audio/wav"
    assert speech.usage is not None
    assert speech.usage.input_tokens == 4


async def test_both_stream_and_return_the_whole() -> None:
    speaker = Speaker("scripted:tones", file_format="pcm")
    async with speaker, speaker.stream(TEXT) as stream:
        pieces = [piece async for piece in stream]
        speech = await stream.result()
    transcriber = Transcriber("scripted:notes", timestamps="word")
    async with transcriber, transcriber.stream(speech.audio) as texts:
        words = [word async for word in texts]
        transcript = await texts.result()

    assert len(pieces) == len(words) == len(transcript.words) == 4
    assert b"".join(pieces) == speech.data
    assert "".join(words) == transcript.text == TEXT


async def test_the_result_needs_no_iteration() -> None:
    async with Speaker("scripted:tones").stream(TEXT) as stream:
        speech = await stream.result()
        assert [piece async for piece in stream] == []

    assert speech.data


def _wrap(data: bytes) -> AudioContent:
    return AudioContent(data=data)


def test_the_synchronous_faces_stream_alike() -> None:
    with SyncSpeaker("scripted:tones") as speaker, speaker.stream(TEXT) as stream:
        data = b"".join(stream)
        whole = stream.result().data
    with SyncTranscriber("scripted:notes") as listener, listener.stream(_wrap(whole)) as texts:
        text = "".join(texts)

    assert data[44:] == whole[44:]
    assert text == TEXT


async def test_a_stream_that_is_left_early_has_no_result() -> None:
    async with Speaker("scripted:tones").stream(TEXT) as stream:
        async for _ in stream:
            break
    with pytest.raises(RuntimeError, match="closed"):
        await stream.result()


async def test_audio_comes_from_a_file_or_the_store(tmp_path: Path) -> None:
    application = Application(load_configuration(environment={"HOME": str(tmp_path)}))
    async with Speaker("scripted:tones", application=application) as speaker:
        audio = (await speaker.speak(TEXT)).audio
    path = tmp_path / "talk.wav"
    path.write_bytes(audio.data or b"")
    conversation = Conversation()
    conversation.add_canister(UserCanister([audio]))
    conversation.save(application.store)
    stored = AudioContent(content_id=audio.content_id)

    async with Transcriber("scripted:notes", application=application) as transcriber:
        texts = [(await transcriber.transcribe(each)).text for each in (path, str(path), stored)]

    assert texts == [TEXT] * 3


async def test_a_missing_file_is_named() -> None:
    with pytest.raises(RequestError, match="Cannot read /nowhere"):
        await Transcriber("scripted:notes").transcribe("/nowhere")


@pytest.mark.parametrize("settings", [{"voice": "x"}, {"speed": 2.0}, {"file_format": "mp3"}])
async def test_what_a_speaker_cannot_do_is_a_loss(settings: dict[str, object]) -> None:
    speech = await Speaker("scripted:tones", **settings).speak(TEXT)
    assert [loss.path for loss in speech.losses] == list(settings)

    with pytest.raises(TranslationLossError):
        await Speaker("scripted:tones", strict=True, **settings).speak(TEXT)


async def test_the_defaults_are_the_embedded_models(tmp_path: Path) -> None:
    application = Application(load_configuration(environment={"HOME": str(tmp_path)}))
    for genus, name in (("speaker", "local:espeak"), ("transcriber", "local:whisper-tiny")):
        assert application.configuration.find_default(genus) == name


async def test_a_provider_without_the_genus_says_so() -> None:
    with pytest.raises(ConverseError, match="speaker"):
        await Speaker("anthropic:claude").speak(TEXT)
