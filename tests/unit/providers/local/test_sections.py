"""Live audio is cut at pauses for a model that takes only complete audio."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.exceptions import RequestError, TranslationLossError
from vibe_llms.messages.transcripts import LiveTranscriptionRequest, TranscriptionRequest
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.local import sections as module
from vibe_llms.providers.local.sections import Section, SectionCutter, read_sections
from vibe_llms.providers.local.transcribing import LocalTranscriber

RATE = 8_000


def sound(seconds: float, level: int = 8_000) -> bytes:
    """Returns a square wave."""
    pair = struct.pack("<10h", *(level if at % 2 else -level for at in range(10)))
    return pair * round(seconds * RATE / 10)


def silence(seconds: float, level: int = 20) -> bytes:
    return sound(seconds, level)


def cut(*parts: bytes, size: int = 1_600) -> list[Section]:
    """Returns the sections of audio that arrives in pieces."""
    cutter, audio, found = SectionCutter(RATE), b"".join(parts), []
    for start in range(0, len(audio), size):
        cutter.feed(audio[start : start + size])
        while (section := cutter.cut()) is not None:
            found.append(section)
    while (section := cutter.cut(is_end=True)) is not None:
        found.append(section)
    assert cutter.seconds == len(audio) / 2 / RATE
    return found


def length(section: Section) -> float:
    return len(section.samples) / 2 / RATE


@pytest.mark.parametrize("size", [302, 1_600, 1_000_000])
def test_a_section_ends_in_a_pause(size: int) -> None:
    first, second = sound(2), sound(3) + silence(0.2) + sound(1)
    found = cut(first, silence(1), second, size=size)

    assert len(found) == 2
    assert found[0].samples.startswith(first)
    assert found[1].samples.endswith(second)
    assert found[0].start == 0
    assert found[1].start == pytest.approx(7.2 - length(found[1]))
    assert all(length(section) < seconds for section, seconds in zip(found, (3, 5), strict=True))


def test_a_section_is_available_before_more_is_said() -> None:
    cutter = SectionCutter(RATE)
    cutter.feed(sound(2) + silence(0.4))
    assert cutter.cut() is None
    cutter.feed(silence(0.2))
    section = cutter.cut()
    assert section is not None
    assert 2 < length(section) < 2.6


def test_silence_before_and_between_is_left_out() -> None:
    assert cut(silence(90)) == []

    found = cut(silence(40), sound(2), silence(40), sound(2), silence(40))
    assert [round(section.start) for section in found] == [40, 82]
    assert all(2 <= length(section) <= 3.5 for section in found)


def test_speech_without_a_pause_is_cut_where_it_is_quietest() -> None:
    found = cut(sound(27), sound(0.1, 3_000), sound(20))

    assert [round(length(section)) for section in found] == [27, 20]
    assert sum(len(section.samples) for section in found) == len(sound(47.1))


def test_what_waits_is_cut_into_few_sections() -> None:
    """A model that is slower than the audio catches up."""
    parts = [sound(4), silence(1)] * 12
    audio = b"".join(parts)
    assert len(cut(*parts)) == 12
    found = cut(*parts, size=len(audio))

    assert len(found) == 2
    assert all(length(section) <= 30 for section in found)


def test_a_quiet_person_after_a_loud_one_is_heard() -> None:
    found = cut(sound(3, 20_000), silence(1), sound(3, 1_500), silence(1), sound(2, 20_000))

    audio = b"".join(section.samples for section in found)
    assert sound(3, 1_500) in audio


def test_steady_noise_is_not_cut_into_small_sections() -> None:
    noise = random.Random(1)
    samples = noise.choices(range(-400, 400), k=RATE * 40)
    found = cut(struct.pack(f"<{len(samples)}h", *samples))

    assert len(found) == 2
    assert len(cut(sound(10), sound(20, 600), sound(3))) == 2  # noise while nobody speaks


class Library:
    """A library that hears one segment in each section.

    Attributes:
        requests: The requests, with the length of their audio.
        gate: Cleared while it works.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def begin(self, data: bytes, request: Any) -> tuple[Any, float]:
        if data == b"broken":
            raise RequestError(path="audio", detail="no", remedy="no")
        self.requests.append((len(data), request))
        number = len(self.requests)
        word = SimpleNamespace(start=0.5, end=1.0, word=f" number{number}")
        words = [word] if request.timestamps == "word" else None
        segment = SimpleNamespace(start=0.0, end=1.5, text=f" Part number{number}.", words=words)
        return iter([segment]), 1.5

    def advance(self, segments: Any) -> Any:
        return next(segments, None)


def describe(provider: str, name: str) -> ModelDescriptor:
    """Makes the descriptor of a transcriber."""
    attributes = ModelAttributes(
        address=ModelAddress(provider, name),
        genus=Genus.TRANSCRIBER,
        controls=(),
        traced_values=(),
    )
    return ModelDescriptor(provider=provider, name=name, attributes=attributes)


def produce() -> tuple[LocalTranscriber, Library]:
    library = Library()
    descriptor = describe("local", "whisper-tiny")
    return LocalTranscriber(descriptor, lambda: library), library  # type: ignore[arg-type, return-value]


def ask(**fields: Any) -> LiveTranscriptionRequest:
    return LiveTranscriptionRequest(mime_type="audio/pcm", sample_rate=RATE, **fields)


async def test_each_section_is_transcribed_while_audio_arrives() -> None:
    transcriber, library = produce()
    heard = asyncio.Event()

    async def record() -> AsyncIterator[bytes]:
        yield sound(2) + silence(0.6)
        await heard.wait()
        yield sound(2)

    request = ask(timestamps="word", prompt="Numbers.", interim=True)
    async with asyncio.timeout(60), transcriber.stream_live(request, record()) as stream:
        pieces = [await anext(stream)]
        heard.set()
        pieces += [piece async for piece in stream]
        transcript = await stream.result()

    assert pieces == ["Part number1.", " Part number2."]
    assert transcript.text == "Part number1. Part number2."
    assert [word.text for word in transcript.words] == ["number1", "number2"]
    second = transcript.words[1].start
    assert 2.5 < second < 3.2
    assert transcript.segments == ()
    assert transcript.seconds == 4.6
    assert [request.prompt for _, request in library.requests] == [
        "Numbers.",
        "Numbers. Part number1.",
    ]
    assert [loss.path for loss in transcript.losses] == ["audio", "interim"]


async def test_segments_have_the_times_of_the_whole_audio() -> None:
    transcriber, _ = produce()
    audio = [sound(2) + silence(0.6), silence(40), sound(2)]
    async with transcriber.stream_live(ask(timestamps="segment"), give(*audio)) as stream:
        transcript = await stream.result()

    assert [round(part.start) for part in transcript.segments] == [0, 42]
    assert transcript.words == ()


async def test_the_prompt_of_a_section_is_bounded() -> None:
    transcriber, library = produce()
    audio = [sound(2) + silence(0.6)] * 30
    async with transcriber.stream_live(ask(), give(*audio)) as stream:
        await stream.result()

    prompt = library.requests[-1][1].prompt
    assert prompt.endswith(f"Part number{len(library.requests) - 1}.")
    assert len(prompt) <= 200
    assert prompt.startswith(("Part ", "number"))


async def test_audio_is_read_ahead_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING_SECONDS", 5)
    cutter = SectionCutter(RATE)
    count = 0

    async def record() -> AsyncIterator[bytes]:
        nonlocal count
        for _ in range(20):
            count += 1
            yield sound(2) + silence(0.6)

    reading: Any = read_sections(cutter, record())
    await anext(reading)
    for _ in range(100):
        await asyncio.sleep(0)
    assert count < 6
    rest = [section async for section in reading]
    assert count == 20
    assert rest


async def test_an_error_of_the_recording_ends_the_call() -> None:
    transcriber, library = produce()

    async def record() -> AsyncIterator[bytes]:
        yield sound(1)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        async with transcriber.stream_live(ask(), record()) as stream:
            await stream.result()
    assert library.requests == []


async def test_leaving_the_stream_stops_the_recording() -> None:
    transcriber, _ = produce()
    is_closed = False

    async def record() -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            yield sound(2) + silence(0.6)
            await asyncio.Event().wait()
        finally:
            is_closed = True

    async with asyncio.timeout(60), transcriber.stream_live(ask(), record()) as stream:
        await anext(stream)
    assert is_closed


async def test_other_audio_is_collected() -> None:
    transcriber, library = produce()
    request = LiveTranscriptionRequest(mime_type="audio/mpeg")
    async with transcriber.stream_live(request, give(b"ID3", b"rest")) as stream:
        transcript = await stream.result()

    assert isinstance(library.requests[0][1], TranscriptionRequest)
    assert library.requests[0][0] == 7
    assert "audio/mpeg" in transcript.losses[0].reason


async def test_a_strict_call_takes_only_complete_audio() -> None:
    transcriber, _ = produce()
    with pytest.raises(TranslationLossError, match="sections"):
        transcriber.stream_live(ask(strict=True), give(b""))


async def give(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
