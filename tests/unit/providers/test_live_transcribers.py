"""Transcribers of vendors with audio that is still being recorded, against the simulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest

from support.vendors.remoting import produce_context
from vibe_llms.dialects.transcripts.deepgram_live import DeepgramCodec
from vibe_llms.dialects.transcripts.openai_live import OpenAICodec
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    TranslationLossError,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.wav import begin_wav
from vibe_llms.messages.transcripts import InterimText, LiveTranscriptionRequest, Transcript
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers import live_calls
from vibe_llms.providers.deepgram import produce_provider as produce_deepgram
from vibe_llms.providers.elevenlabs import produce_provider as produce_elevenlabs
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator

SENTENCES = ("The bridge is closed. ", "Nobody knows why. ", "Turn around ")
TEXT = "".join(SENTENCES).strip()
FACTORIES: dict[str, tuple[Any, str, str]] = {
    "deepgram": (produce_deepgram, "", "nova-3"),
    "mistral": (produce_compatible, "/v1", "voxtral-mini-transcribe-realtime"),
    "openai": (produce_openai, "/v1", "gpt-4o-transcribe"),
    "openai continuous": (produce_openai, "/v1", "gpt-realtime-whisper"),
    "elevenlabs": (produce_elevenlabs, "", "scribe_v1"),
}
LIVE = ["deepgram", "mistral", "openai", "openai continuous"]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


@pytest.fixture(autouse=True)
def _close_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not wait for a vendor that does not answer a close."""
    monkeypatch.setattr("vibe_llms.wire.sockets._CLOSE_SECONDS", 0.05)


class Microphone:
    """Audio that is recorded piece by piece.

    Attributes:
        gates: The pieces after the first wait for theirs.
        is_over: Whether all pieces were taken.
    """

    def __init__(self, *pieces: str) -> None:
        self.pieces = [piece.encode() for piece in pieces]
        self.gates = [asyncio.Event() for _ in pieces]
        self.gates[0].set()
        self.is_over = False
        self.is_stopped = False

    def open_all(self) -> Microphone:
        for gate in self.gates:
            gate.set()
        return self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece, gate in zip(self.pieces, self.gates, strict=True):
                await gate.wait()
                yield piece
            self.is_over = True
        finally:
            self.is_stopped = True


def produce(name: str, directory: Path, address: str, **limits: Any) -> Any:
    """Makes a client of a service."""
    factory, path, _ = FACTORIES[name]
    provider = name.partition(" ")[0]
    names = ("between_chunks_seconds",)
    settings = {name: limits.pop(name) for name in names if name in limits}
    context = produce_context(
        provider,
        directory,
        limits=Limits(**limits) if limits else None,
        base_url=address + path,
        api_key="canary-secret-key",
        **settings,
    )
    return factory(context).produce_client()


def ask(**fields: Any) -> LiveTranscriptionRequest:
    """Makes a request for samples."""
    return LiveTranscriptionRequest(**{"mime_type": "audio/pcm", "sample_rate": 24_000, **fields})


async def hear(
    client: Any, name: str, audio: Any, request: LiveTranscriptionRequest | None = None
) -> tuple[list[str], Transcript]:
    """Transcribes audio to its end."""
    try:
        model = await client.access(FACTORIES[name][2], Genus.TRANSCRIBER)
        async with model.stream_live(request or ask(), audio) as stream:
            pieces = [piece async for piece in stream]
            return pieces, await stream.result()
    finally:
        await client.close()


@pytest.mark.parametrize("name", LIVE)
async def test_text_arrives_while_audio_is_recorded(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    client = produce(name, tmp_path, simulator.url)
    microphone = Microphone(*SENTENCES)
    model = await client.access(FACTORIES[name][2], Genus.TRANSCRIBER)
    heard: list[str] = []
    async with asyncio.timeout(60), model.stream_live(ask(), microphone) as stream:
        for gate, sentence in zip(microphone.gates, SENTENCES, strict=True):
            gate.set()
            while sentence.strip() not in "".join(heard):
                assert not microphone.is_over or sentence is SENTENCES[-1]
                heard.append(await anext(stream))
        transcript = await stream.result()
    await client.close()

    assert "".join(heard) == transcript.text == TEXT
    assert transcript.losses == ()
    assert transcript.origin.provider == name.partition(" ")[0]
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("text", ["The bridge is closed. ", "Over", "One. Two. Three. "])
async def test_any_end_of_the_audio_is_complete(
    name: str, text: str, simulator: Simulator, tmp_path: Path
) -> None:
    text += " " * (len(text) % 2)  # samples have two bytes
    audio = Microphone(*(text[index : index + 2] for index in range(0, len(text), 2))).open_all()
    pieces, transcript = await hear(produce(name, tmp_path, simulator.url), name, audio)

    assert "".join(pieces) == transcript.text == text.strip()


async def test_deepgram_reports_times_length_and_language(
    simulator: Simulator, tmp_path: Path
) -> None:
    by_word, by_segment = [
        (
            await hear(
                produce("deepgram", tmp_path, simulator.url),
                "deepgram",
                Microphone("The bridge"),
                ask(timestamps=timestamps, options={"keyterm": "bridge"}),
            )
        )[1]
        for timestamps in ("word", "segment")
    ]

    assert [(word.text, word.start) for word in by_word.words] == [("The", 0.0), ("bridge", 0.5)]
    assert by_word.segments == by_segment.words == ()
    assert [(part.start, part.end) for part in by_segment.segments] == [(0.0, 0.5), (0.5, 1.0)]
    assert (by_word.seconds, by_word.language, by_word.origin.response_id) == (1.0, "en", "d1")
    query = simulator.requests[0].query
    assert (query["encoding"], query["sample_rate"]) == ("linear16", "24000")
    assert (query["language"], query["keyterm"]) == ("multi", "bridge")
    assert simulator.requests[0].headers["authorization"] == "Token canary-secret-key"


async def test_deepgram_takes_files_of_other_types_as_they_are(
    simulator: Simulator, tmp_path: Path
) -> None:
    request = LiveTranscriptionRequest(mime_type="audio/mpeg", language="de")
    audio = Microphone("ID3The bridge")
    _, transcript = await hear(
        produce("deepgram", tmp_path, simulator.url), "deepgram", audio, request
    )

    assert transcript.text == "The bridge"
    assert "encoding" not in simulator.requests[0].query
    assert simulator.requests[0].query["language"] == "de"


async def test_openai_counts_the_usage_of_all_items(simulator: Simulator, tmp_path: Path) -> None:
    audio = Microphone(*SENTENCES).open_all()
    request = ask(language="en", prompt="bridges")
    _, transcript = await hear(produce("openai", tmp_path, simulator.url), "openai", audio, request)

    assert transcript.usage is not None
    assert transcript.usage.input_audio_tokens == 90
    assert simulator.requests[0].query == {"intent": "transcription"}


@pytest.mark.parametrize(
    ("name", "request_", "reason"),
    [
        ("elevenlabs", ask(), "only as a whole"),
        ("openai", ask(sample_rate=16_000), "24,000"),
        ("openai", ask(translates=True), "not translate"),
        ("openai", LiveTranscriptionRequest(mime_type="audio/mpeg"), "audio/mpeg"),
        ("mistral", LiveTranscriptionRequest(mime_type="audio/mpeg"), "audio/mpeg"),
    ],
)
async def test_audio_is_collected_if_the_vendor_cannot_take_it_live(
    name: str,
    request_: LiveTranscriptionRequest,
    reason: str,
    simulator: Simulator,
    tmp_path: Path,
) -> None:
    text = "The bridge is closed"
    start = "" if request_.sample_rate else "ID3"
    audio = Microphone(f"{start}{text[:8]}", text[8:]).open_all()
    client = produce(name, tmp_path, simulator.url)
    pieces, transcript = await hear(client, name, audio, request_)

    assert transcript.text == "".join(pieces).strip()
    assert transcript.text.endswith(text)
    assert transcript.losses[0].path == "audio"
    assert reason in transcript.losses[0].reason
    assert simulator.requests[0].method == "POST"
    if request_.sample_rate:
        sent = simulator.requests[0].body["file"].data
        assert sent.startswith(begin_wav(request_.sample_rate, len(text)))
    with pytest.raises(TranslationLossError, match="audio"):
        await hear(
            produce(name, tmp_path, simulator.url),
            name,
            Microphone("x"),
            attrs.evolve(request_, strict=True),
        )


async def test_collected_audio_is_bounded(simulator: Simulator, tmp_path: Path) -> None:
    async def record() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 10_000_000

    client = produce("openai", tmp_path, simulator.url)
    with pytest.raises(ConverseError, match="25,000,000"):
        await hear(client, "openai", record(), ask(sample_rate=8_000))


@pytest.mark.parametrize("name", LIVE)
async def test_losses_of_live_calls(name: str, simulator: Simulator, tmp_path: Path) -> None:
    request = ask(temperature=0.0, timestamps="word", prompt="bridges")
    expected = {
        "deepgram": {"prompt", "temperature"},
        "mistral": {"prompt", "temperature", "timestamps"},
        "openai": {"temperature", "timestamps"},
        "openai continuous": {"prompt", "temperature", "timestamps"},
    }
    _, transcript = await hear(
        produce(name, tmp_path, simulator.url), name, Microphone("Hi"), request
    )
    assert {loss.path for loss in transcript.losses} == expected[name]

    with pytest.raises(TranslationLossError):
        await hear(
            produce(name, tmp_path, simulator.url),
            name,
            Microphone("Hi"),
            attrs.evolve(request, strict=True),
        )
    assert len(simulator.requests) == 1


def describe(provider: str, name: str) -> ModelDescriptor:
    """Makes the descriptor of a transcriber."""
    attributes = ModelAttributes(
        address=ModelAddress(provider, name),
        genus=Genus.TRANSCRIBER,
        controls=(),
        traced_values=(),
    )
    return ModelDescriptor(provider=provider, name=name, attributes=attributes)


INTERIM: dict[str, tuple[list[str | InterimText], list[str]]] = {
    "deepgram": ([InterimText("Th"), "The", InterimText(" br"), " bridge."], []),
    "openai": (
        [InterimText("The"), InterimText("The bridge."), "The bridge."],
        [],
    ),
    "openai continuous": (["The", " bridge."], ["interim"]),
    "mistral": (["The", " bridge."], ["interim"]),
    "elevenlabs": (["The bridge."], ["audio", "interim"]),
}


@pytest.mark.parametrize("name", INTERIM)
async def test_text_that_may_change_is_marked(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    """Without being asked for, it is not sent."""
    expected, lost = INTERIM[name]
    for interim in (True, False):
        audio = Microphone("The ", "bridge. ").open_all()
        client = produce(name, tmp_path, simulator.url)
        pieces, transcript = await hear(client, name, audio, ask(interim=interim))

        final = [piece for piece in pieces if isinstance(piece, str)]
        assert "".join(final).strip() == transcript.text.strip() == "The bridge."
        assert [type(piece) for piece in pieces] == [str] * len(pieces) or interim
        losses = [loss.path for loss in transcript.losses]
        if interim:
            assert ([piece if isinstance(piece, InterimText) else piece.strip() for piece in pieces]
                    == [each if isinstance(each, InterimText) else each.strip()
                        for each in expected])  # fmt: skip
            assert losses == lost
        else:
            assert "interim" not in losses


async def test_the_complete_text_corrects_its_beginnings(
    simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch("revised_text")
    audio = Microphone("It is ", "closed. ", "Turn around!").open_all()
    client = produce("openai", tmp_path, simulator.url)
    pieces, transcript = await hear(client, "openai", audio, ask(interim=True))

    assert transcript.text == "IT IS CLOSED. TURN AROUND!"
    assert [piece for piece in pieces if isinstance(piece, str)] == [
        "IT IS CLOSED.",
        " TURN AROUND!",
    ]
    assert InterimText(" Turn") in pieces


def test_later_items_are_shown_behind_an_item_that_is_not_complete() -> None:
    codec = OpenAICodec(
        ask(interim=True),
        describe("openai", "whisper-1"),
    )

    def feed(kind: str, item: str, **fields: str) -> list[str | InterimText]:
        name = f"conversation.item.input_audio_transcription.{kind}"
        return list(codec.feed(json.dumps({"type": name, "item_id": item, **fields})))

    assert feed("delta", "1", delta="Tea") == [InterimText("Tea")]
    assert feed("completed", "2", transcript="or coffee?") == [InterimText("Tea or coffee?")]
    assert feed("delta", "3", delta="No") == [InterimText("Tea or coffee? No")]
    assert feed("completed", "1", transcript="Milk") == ["Milk", " or coffee?", InterimText(" No")]
    assert feed("completed", "3", transcript="") == [InterimText("")]


def test_a_text_that_proves_to_be_nothing_is_removed() -> None:
    codec = DeepgramCodec(
        ask(interim=True),
        describe("deepgram", "nova-3"),
    )

    def feed(text: str, *, is_final: bool) -> list[str | InterimText]:
        channel = {"alternatives": [{"transcript": text}]}
        event = {"type": "Results", "is_final": is_final, "channel": channel}
        return list(codec.feed(json.dumps(event)))

    assert feed("Hm", is_final=False) == [InterimText("Hm")]
    assert feed("Hm", is_final=False) == []
    assert feed("", is_final=True) == [InterimText("")]
    assert feed("", is_final=False) == []
    assert feed("Yes", is_final=True) == ["Yes"]


@pytest.mark.parametrize("name", LIVE)
async def test_a_lost_connection_is_an_error(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch("cut_at_chunk=3")
    microphone = Microphone(*SENTENCES)
    microphone.gates[1].set()  # the last piece never comes
    with pytest.raises(TransportError, match="broke off") as caught:
        async with asyncio.timeout(60):
            await hear(produce(name, tmp_path, simulator.url), name, microphone)

    assert not caught.value.is_retryable
    assert microphone.is_stopped
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("name", LIVE)
async def test_an_error_of_the_vendor_is_reported(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch("midstream_overloaded=2")
    microphone = Microphone(*SENTENCES)
    microphone.gates[1].set()
    with pytest.raises(ProviderError, match="Overloaded"):
        async with asyncio.timeout(60):
            await hear(produce(name, tmp_path, simulator.url), name, microphone)
    assert microphone.is_stopped


@pytest.mark.parametrize(
    ("name", "fault", "error"),
    [
        ("deepgram", "no_terminator", TransportError),
        ("mistral", "no_terminator", TransportError),
        *((name, "garbage_line", ConverseError) for name in LIVE),
    ],
)
async def test_an_incomplete_or_invalid_answer_is_an_error(
    name: str, fault: str, error: type[Exception], simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch(fault)
    with pytest.raises(error):
        async with asyncio.timeout(60):
            await hear(
                produce(name, tmp_path, simulator.url), name, Microphone(*SENTENCES).open_all()
            )


async def test_a_vendor_that_ends_before_the_audio_is_an_error(
    simulator: Simulator, tmp_path: Path
) -> None:
    async def record() -> AsyncIterator[bytes]:
        yield b"The bridge "
        yield b'{"type":"CloseStream"}'
        await asyncio.Event().wait()

    client = produce("deepgram", tmp_path, simulator.url)
    model = await client.access("nova-3", Genus.TRANSCRIBER)
    codec_type = type(model._call_format.live.produce_codec(ask(), model.descriptor))
    original = codec_type.write
    # The vendor is told to end, as if its own time limit had passed.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            codec_type,
            "write",
            lambda self, piece: (
                [piece.decode()] if piece.startswith(b"{") else original(self, piece)
            ),
        )
        with pytest.raises(TransportError, match="closed the connection early"):
            async with asyncio.timeout(60), model.stream_live(ask(), record()) as stream:
                await stream.result()
    await client.close()


async def test_a_stalled_end_times_out(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("stall_at_chunk=2")
    client = produce("deepgram", tmp_path, simulator.url, between_chunks_seconds=0.1)
    with pytest.raises(TransportTimeoutError, match="stalled"):
        async with asyncio.timeout(60):
            await hear(client, "deepgram", Microphone(*SENTENCES).open_all())


@pytest.mark.parametrize("error", [OSError("unplugged"), ValueError("unplugged")])
async def test_a_broken_microphone_ends_the_call(
    error: Exception, simulator: Simulator, tmp_path: Path
) -> None:
    async def record() -> AsyncIterator[bytes]:
        yield b"The bridge "
        raise error

    with pytest.raises(type(error), match="unplugged"):
        await hear(produce("deepgram", tmp_path, simulator.url), "deepgram", record())


async def test_leaving_the_stream_stops_the_recording(simulator: Simulator, tmp_path: Path) -> None:
    microphone = Microphone(*SENTENCES)
    client = produce("deepgram", tmp_path, simulator.url)
    model = await client.access("nova-3", Genus.TRANSCRIBER)
    async with asyncio.timeout(60), model.stream_live(ask(), microphone) as stream:
        await anext(stream)
    await client.close()

    assert microphone.is_stopped
    assert not microphone.is_over


async def test_a_refused_connection_is_the_vendors_error(
    simulator: Simulator, tmp_path: Path
) -> None:
    simulator.switch("overloaded=9")
    client = produce("deepgram", tmp_path, simulator.url, attempts=1)
    with pytest.raises(ProviderError, match="Overloaded") as caught:
        await hear(client, "deepgram", Microphone("x"))
    assert caught.value.fault is ProviderFault.OVERLOADED


async def test_a_refused_connection_is_opened_again(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("server_error=1")
    client = produce("deepgram", tmp_path, simulator.url)
    pieces, _ = await hear(client, "deepgram", Microphone("The bridge"))

    assert pieces == ["The", " bridge"]
    assert len(simulator.requests) == 2


async def test_an_unreachable_vendor_is_named_without_the_key(tmp_path: Path) -> None:
    client = produce("deepgram", tmp_path, "http://127.0.0.1:9", attempts=1)
    with pytest.raises(TransportError, match="cannot be reached") as caught:
        await hear(client, "deepgram", Microphone("x"))
    assert "canary" not in repr(caught.value)


async def test_pauses_are_filled(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_calls, "_KEEP_ALIVE_SECONDS", 0.01)
    received: list[Any] = []
    from vibe_llms.testing.simulator.live_speech import DeepgramListen

    original = DeepgramListen.receive
    enough = asyncio.Event()

    def receive(self: DeepgramListen, message: bytes | str) -> Any:
        received.append(message)
        if received.count('{"type":"KeepAlive"}') > 1:
            enough.set()
        return original(self, message)

    monkeypatch.setattr(DeepgramListen, "receive", receive)

    async def record() -> AsyncIterator[bytes]:
        yield b"The "
        await enough.wait()
        yield b"bridge"

    async with asyncio.timeout(60):
        _, transcript = await hear(
            produce("deepgram", tmp_path, simulator.url), "deepgram", record()
        )
    assert transcript.text == "The bridge"
    assert received[-1] == '{"type":"CloseStream"}'


async def test_the_simulator_is_openais_by_its_library(simulator: Simulator) -> None:
    """OpenAI's library connects, configures the session, and reads the events."""
    import base64

    client = openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="x", max_retries=0)
    kinds = []
    async with (
        asyncio.timeout(60),
        client,
        client.realtime.connect(extra_query={"intent": "transcription"}) as connection,
    ):
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24_000},
                        "transcription": {"model": "gpt-4o-transcribe"},
                        "turn_detection": {"type": "server_vad"},
                    }
                },
            }
        )
        audio = base64.b64encode(b"The bridge. ").decode()
        await connection.input_audio_buffer.append(audio=audio)
        async for event in connection:
            kinds.append(event.type)
            if event.type.endswith("completed"):
                assert event.transcript == "The bridge."  # type: ignore[union-attr]
                break

    prefix = "conversation.item.input_audio_transcription."
    assert kinds == [
        "session.created",
        "session.updated",
        "input_audio_buffer.committed",
        f"{prefix}delta",
        f"{prefix}delta",
        f"{prefix}completed",
    ]
