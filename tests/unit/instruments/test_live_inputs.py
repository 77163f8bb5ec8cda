"""Transcribers with audio that is still being recorded, by their names."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from vibe_llms import CallCache, Speaker, SyncSpeaker, SyncTranscriber, Transcriber
from vibe_llms.events.calls import CallEvent, CallFinishedEvent, CallStartedEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.wav import begin_wav, read_wav_head
from vibe_llms.instruments.live_inputs import LiveAudio
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.transcripts import InterimText, LiveTranscriptionRequest

TEXT = "The bridge is closed."


def play(text: str = TEXT) -> bytes:
    """Returns the samples of a text, for the transcriber ``notes``."""
    return b"".join(bytes((0, byte ^ 0x80)) * 240 for byte in text.encode())


async def record(data: bytes, size: int = 1_001) -> AsyncIterator[bytes]:
    """Yields audio in pieces."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def test_text_arrives_before_the_audio_ends() -> None:
    heard: list[str] = []
    words = [f"{word} " for word in TEXT.split()]

    async def speak() -> AsyncIterator[bytes]:
        for count, word in enumerate(words):
            yield play(word)
            assert len(heard) >= count  # all words but the last one were written down

    transcriber = Transcriber("scripted:notes")
    async with transcriber, transcriber.stream(speak(), sample_rate=24_000) as stream:
        async for word in stream:
            heard.append(word)  # the speaker looks at it
        transcript = await stream.result()

    assert "".join(heard) == transcript.text == f"{TEXT} "


async def test_the_beginning_of_a_word_is_shown_until_it_is_complete() -> None:
    transcriber = Transcriber("scripted:notes")
    audio = record(play("It is"), 2 * len(play("I")))
    async with transcriber, transcriber.stream(audio, sample_rate=24_000, interim=True) as stream:
        pieces = [piece async for piece in stream]

    assert pieces == [InterimText("It"), "It ", InterimText("i"), InterimText("is"), "is"]


async def test_texts_of_complete_audio_are_final() -> None:
    audio = AudioContent(data=begin_wav(24_000) + play())
    async with Transcriber("scripted:notes").stream(audio, interim=True) as stream:
        pieces = [piece async for piece in stream]

    assert pieces == ["The ", "bridge ", "is ", "closed."]


@pytest.mark.parametrize("size", [1, 7, 44, 100_000])
async def test_a_wav_header_says_what_the_samples_are(size: int) -> None:
    header = begin_wav(24_000)
    live = LiveAudio(record(header + play(), size))
    await live.detect()

    assert (live.mime_type, live.sample_rate) == ("audio/pcm", 24_000)
    pieces = [piece async for piece in live]
    assert b"".join(pieces) == play()
    assert not any(len(piece) % 2 for piece in pieces)


@pytest.mark.parametrize("size", [1, 51, 100_000])
@pytest.mark.parametrize("data_size", [1_000, 0, None])
async def test_chunks_behind_the_samples_are_no_audio(size: int, data_size: int | None) -> None:
    samples, title = bytes(range(250)) * 4, b"LIST\x04\x00\x00\x00INFO"
    live = LiveAudio(record(begin_wav(24_000, data_size) + samples + title, size))
    await live.detect()

    sent = b"".join([piece async for piece in live])
    assert sent == (samples if data_size else samples + title)  # an unknown size has no end


async def test_other_files_stay_as_they_are() -> None:
    stereo = bytearray(begin_wav(24_000) + b"x" * 20)
    stereo[22] = 2
    for data, kind in ((b"ID3" + b"x" * 40, "audio/mpeg"), (bytes(stereo), "audio/wav"),
                       (b"\x1a\x45\xdf\xa3" + b"x" * 30, "video/webm")):  # fmt: skip
        live = LiveAudio(record(data, 3))
        await live.detect()
        assert (live.mime_type, live.sample_rate) == (kind, None)
        assert b"".join([piece async for piece in live]) == data


async def test_odd_bytes_wait_for_their_other_half() -> None:
    live = LiveAudio(record(b"abcde", 1), 8_000)
    await live.detect()
    assert [piece async for piece in live] == [b"ab", b"cd"]


@pytest.mark.parametrize(
    ("audio", "settings", "message"),
    [
        (b"", {"sample_rate": 24_000}, "empty"),
        (b"", {}, "empty"),
        (b"abc", {}, "sample rate"),
        (b"abcd", {"sample_rate": 0}, "sample rate is 0"),
    ],
)
async def test_invalid_audio_is_refused(
    audio: bytes, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        async with Transcriber("scripted:notes").stream(record(audio), **settings):
            pass


async def test_pieces_are_bytes() -> None:
    async def speak() -> AsyncIterator[Any]:
        yield "text"

    with pytest.raises(RequestError, match="str, not bytes"):
        async with Transcriber("scripted:notes").stream(speak(), sample_rate=24_000):
            pass


async def test_bytes_are_not_taken_for_pieces() -> None:
    with pytest.raises(RequestError, match="Wrap the bytes"):
        async with Transcriber("scripted:notes").stream(play()):  # type: ignore[arg-type]
            pass


def test_the_synchronous_face_takes_a_generator_that_blocks() -> None:
    heard = threading.Event()
    words = [f"{word} " for word in TEXT.split()]

    def speak() -> Iterator[bytes]:
        yield play(words[0])
        yield play(words[1])
        assert heard.wait(60)
        yield play("".join(words[2:]))

    with (
        SyncTranscriber("scripted:notes") as transcriber,
        transcriber.stream(speak(), sample_rate=24_000) as stream,
    ):
        pieces = []
        for piece in stream:
            pieces.append(piece)
            heard.set()
        text = stream.result().text

    assert "".join(pieces) == text == f"{TEXT} "


async def test_listeners_and_caches_see_live_calls() -> None:
    events: list[CallEvent] = []
    transcriber = Transcriber("scripted:notes", listener=events.append, cache=CallCache())
    for _ in range(2):
        async with transcriber.stream(record(play()), sample_rate=24_000) as stream:
            assert (await stream.result()).text == TEXT

    started, finished = events[0], events[-1]
    assert isinstance(started, CallStartedEvent)
    assert isinstance(started.request, LiveTranscriptionRequest)
    assert started.is_streamed
    assert isinstance(finished, CallFinishedEvent)
    assert len([each for each in events if isinstance(each, CallStartedEvent)]) == 2


def test_a_header_may_have_other_chunks() -> None:
    plain = begin_wav(16_000)
    form, data = plain[12:36], plain[36:]
    extra = b"LIST\x03\x00\x00\x00abc\x00"
    head = read_wav_head(plain[:12] + extra + form + extra + data + b"samples")
    assert head is not None
    assert (head.rate, head.size) == (16_000, 44 + 2 * len(extra))
    assert read_wav_head(plain[:30]) is None
    endless = read_wav_head(plain[:12] + b"LIST\xff\xff\xff\x7f" + b"x" * 70_000)
    assert endless is not None
    assert endless.rate == 0


async def test_leaving_the_stream_closes_the_recording() -> None:
    is_closed = False

    async def speak() -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            yield play("The bridge ")
            yield play("is closed.")
            raise AssertionError("read too far")
        finally:
            is_closed = True

    async with Transcriber("scripted:notes").stream(speak(), sample_rate=24_000) as stream:
        await anext(stream)
    assert is_closed


async def test_a_text_is_spoken_by_sentences() -> None:
    async def write() -> AsyncIterator[str]:
        for word in ("The bridge ", "is closed. ", "It ", "is."):
            yield word

    speaker = Speaker("scripted:tones", language="en")
    async with speaker, speaker.stream(write()) as stream:
        pieces = [piece async for piece in stream]
        speech = await stream.result()

    text = "The bridge is closed. It is."
    assert speech.data[44:] == b"".join(pieces)[44:] == play(text)
    assert speech.audio.transcript == text
    assert speech.usage is not None
    assert speech.usage.input_tokens == 6
    assert [loss.path for loss in speech.losses] == ["text", "language"]


def test_the_synchronous_speaker_takes_a_generator() -> None:
    with SyncSpeaker("scripted:tones") as speaker, speaker.stream(iter(("Good ", "day"))) as stream:
        b"".join(stream)
        assert stream.result().data[44:] == play("Good day")


async def test_parts_of_a_text_are_strings() -> None:
    async with Speaker("scripted:tones").stream([b"x"]) as stream:  # type: ignore[list-item]
        with pytest.raises(RequestError, match="bytes, not a string"):
            await stream.result()
    with pytest.raises(RequestError, match="Expected a text, not int"):
        async with Speaker("scripted:tones").stream(3):  # type: ignore[arg-type]
            pass
