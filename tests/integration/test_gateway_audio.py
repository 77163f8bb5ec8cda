"""Speech and transcription through the gateway, asked by the official client."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.speech import hide

TEXT = "The bridge is closed."
SPEAKERS = {
    "openai": "openai_responses:gpt-4o-mini-tts",
    "google": "google:gemini-3.8-flash-tts",
    "elevenlabs": "elevenlabs:eleven_flash_v2_5",
    "deepgram": "deepgram:aura-2-thalia-en",
    "scripted": "scripted:tones",
}
TRANSCRIBERS = {
    "openai": "openai_responses:gpt-4o-transcribe",
    "whisper": "openai_responses:whisper-1",
    "elevenlabs": "elevenlabs:scribe_v1",
    "deepgram": "deepgram:nova-3",
}
FILE = ("talk.mp3", hide(TEXT, "mp3"), "audio/mpeg")


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


def point(folder: Path, simulator: Simulator) -> Any:
    """Makes an application whose vendors are the simulator."""
    table = f'base_url = "{simulator.url}"\napi_key = "canary"'
    tables = {"providers.elevenlabs": table, "providers.deepgram": table}
    return produce_application(folder, simulator.url, **tables)


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """A gateway before the simulator."""
    async with serve_gateway(point(tmp_path, simulator), records) as running:
        yield running


def produce_client(address: str) -> openai.AsyncOpenAI:
    """Makes the official client."""
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0)


@pytest.mark.parametrize("name", list(SPEAKERS))
async def test_openais_client_speaks_with_any_vendor(
    name: str, address: str, records: list[CallRecord]
) -> None:
    async with (
        produce_client(address) as client,
        client.audio.speech.with_streaming_response.create(
            model=SPEAKERS[name], input=TEXT, voice="alloy", response_format="wav"
        ) as response,
    ):
        pieces = [piece async for piece in response.iter_bytes()]

    data = b"".join(pieces)
    assert data.startswith(b"RIFF")
    assert response.headers["content-type"] == "audio/wav"
    if name not in ("google", "scripted"):
        assert data.endswith(TEXT.encode())
    [record] = records
    assert record.way == ("passthrough" if name == "openai" else "translate")
    assert (record.status, record.address, record.streamed) == (200, SPEAKERS[name], True)
    lost = {"openai": [], "elevenlabs": [], "google": [], "deepgram": ["voice"]}
    assert [loss.path for loss in record.losses] == lost.get(name, ["voice"])


@pytest.mark.parametrize("name", ["openai", "google"])
async def test_speech_is_streamed_as_events_if_wanted(
    name: str, address: str, records: list[CallRecord]
) -> None:
    body = {"model": SPEAKERS[name], "input": TEXT, "voice": "alloy", "stream_format": "sse"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/audio/speech", json=body) as response,
    ):
        text = await response.text()

    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert {event["type"] for event in events} == {"speech.audio.delta", "speech.audio.done"}
    assert base64.b64decode(events[0]["audio"])
    assert events[-1]["usage"]["input_tokens"] > 0
    assert records[0].usage is not None
    assert records[0].usage.input_tokens == events[-1]["usage"]["input_tokens"]


async def test_azures_client_speaks_and_hears(address: str, simulator: Simulator) -> None:
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=address, api_key="x", api_version="2026-01-01", max_retries=0
    ) as client:
        await client.audio.speech.create(model=SPEAKERS["openai"], input=TEXT, voice="alloy")
    place = f"{address}/openai/deployments/{TRANSCRIBERS['openai']}/audio/transcriptions"
    form = aiohttp.FormData({"model": "other"})
    form.add_field("file", FILE[1], filename=FILE[0], content_type=FILE[2])
    async with aiohttp.ClientSession() as session, session.post(place, data=form) as response:
        answer = await response.json()

    assert answer["text"] == TEXT
    assert [each.body["model"] for each in simulator.requests] == [
        "gpt-4o-mini-tts",
        "gpt-4o-transcribe",
    ]


@pytest.mark.parametrize("name", list(TRANSCRIBERS))
async def test_openais_client_hears_with_any_vendor(
    name: str, address: str, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        answer = await client.audio.transcriptions.create(model=TRANSCRIBERS[name], file=FILE)

    assert answer.text == TEXT
    [record] = records
    is_openai = name in ("openai", "whisper")
    assert record.way == ("passthrough" if is_openai else "translate")
    if is_openai:
        assert record.usage is not None
        assert record.usage.total_input_tokens == 30
    else:
        assert answer.usage is not None
        assert answer.usage.type == "duration"


@pytest.mark.parametrize("name", ["openai", "elevenlabs", "deepgram"])
async def test_a_transcript_is_streamed(name: str, address: str, records: list[CallRecord]) -> None:
    async with produce_client(address) as client:
        stream = await client.audio.transcriptions.create(
            model=TRANSCRIBERS[name], file=FILE, stream=True
        )
        events = [event async for event in stream]

    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert "".join(deltas).strip() == TEXT
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == TEXT
    assert records[0].streamed
    assert not records[0].error


@pytest.mark.parametrize("name", ["whisper", "deepgram"])
async def test_times_are_told_in_every_format(name: str, address: str) -> None:
    async with produce_client(address) as client:
        verbose = await client.audio.transcriptions.create(
            model=TRANSCRIBERS[name], file=FILE, response_format="verbose_json"
        )
        words = await client.audio.transcriptions.create(
            model=TRANSCRIBERS[name],
            file=FILE,
            response_format="verbose_json",
            timestamp_granularities=["word"],
        )

    assert verbose.segments is not None
    assert (verbose.segments[0].start, verbose.segments[0].end) == (0.0, 1.5)
    assert words.words is not None
    assert [word.word for word in words.words] == TEXT.split()


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", f"{TEXT}\n"),
        ("srt", f"1\n00:00:00,000 --> 00:00:01,500\n{TEXT}\n"),
        ("vtt", f"WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n{TEXT}\n"),
    ],
)
async def test_subtitles_are_written_for_any_vendor(form: Any, expected: str, address: str) -> None:
    async with produce_client(address) as client:
        answer: Any = await client.audio.transcriptions.create(
            model=TRANSCRIBERS["deepgram"], file=FILE, response_format=form
        )

    assert answer == expected


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # of the library
@pytest.mark.parametrize(("name", "way"), [("whisper", "passthrough"), ("deepgram", "translate")])
async def test_audio_is_translated_or_the_loss_is_told(
    name: str, way: str, address: str, records: list[CallRecord]
) -> None:
    async with produce_client(address) as client:
        answer = await client.audio.translations.create(model=TRANSCRIBERS[name], file=FILE)

    assert answer.text.endswith(TEXT)
    assert records[0].way == way
    assert [loss.path for loss in records[0].losses] == (
        [] if name == "whisper" else ["translates"]
    )


async def test_a_budget_counts_audio(simulator: Simulator, tmp_path: Path) -> None:
    account = Account()
    async with (
        serve_gateway(point(tmp_path, simulator), authorizer=account) as address,
        produce_client(address) as client,
    ):
        await client.audio.transcriptions.create(
            model=TRANSCRIBERS["openai"], file=("a.mp3", hide("a" * 10_000, "mp3"), "audio/mpeg")
        )
        await client.audio.speech.create(model=SPEAKERS["scripted"], input=TEXT, voice="alloy")

    assert account.calls == ["settled", "settled"]
    assert 100 <= account.demands[0].input_tokens < 200
    usage = account.used[0][0]
    assert usage is not None
    assert usage.input_audio_tokens == 30


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"model": SPEAKERS["google"]}, 400, "text"),
        ({"model": SPEAKERS["google"], "input": "a", "response_format": "doc"}, 400, "doc"),
        ({"model": SPEAKERS["google"], "input": "a", "speed": "x"}, 400, "speed"),
        ({"model": SPEAKERS["openai"], "input": "a", "voice": "nobody"}, 400, "voice"),
        ({"model": "anthropic:claude", "input": "a"}, 404, "speaker"),
        ({"model": "elevenlabs:does-not-exist", "input": "a"}, 404, "does-not-exist"),
    ],
)
async def test_a_wrong_request_for_speech_is_refused(
    body: dict[str, Any], status: int, word: str, address: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/audio/speech", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == status, answer
    assert word in str(answer["error"])


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "file"),
        ({"response_format": "doc"}, "doc"),
        ({"temperature": "warm"}, "temperature"),
    ],
)
async def test_a_wrong_request_for_a_transcript_is_refused(
    fields: dict[str, str], word: str, address: str
) -> None:
    form = aiohttp.FormData(
        {"model": TRANSCRIBERS["deepgram"], **fields}, default_to_multipart=True
    )
    if fields:
        form.add_field("file", FILE[1], filename=FILE[0], content_type=FILE[2])
    place = f"{address}/v1/audio/transcriptions"
    async with aiohttp.ClientSession() as session, session.post(place, data=form) as response:
        answer = await response.json()

    assert response.status == 400, answer
    assert word in str(answer["error"])


async def test_a_table_falls_back_to_another_vendor_with_the_same_form(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> None:
    """The name in a form is that of the table, and each target gets its own."""
    file = tmp_path / "gateway.toml"
    broken, fine = "openai_responses:does-not-exist", TRANSCRIBERS["whisper"]
    file.write_text(
        f'[models.listener]\ntargets = ["{broken}", "{TRANSCRIBERS["deepgram"]}"]\n'
        f'[models.second]\ntargets = ["{broken}", "{fine}"]\n'
        f'[models.voice]\ntargets = ["elevenlabs:does-not-exist", "{SPEAKERS["openai"]}"]\n'
    )
    service = serve_gateway(point(tmp_path, simulator), records, file=file)
    async with service as address, produce_client(address) as client:
        first = await client.audio.transcriptions.create(model="listener", file=FILE)
        second = await client.audio.transcriptions.create(model="second", file=FILE)
        speech = await client.audio.speech.create(model="voice", input=TEXT, voice="alloy")
        with pytest.raises(openai.NotFoundError):
            await client.audio.transcriptions.create(model=fine, file=FILE)

    assert (first.text, second.text) == (TEXT, TEXT)
    assert speech.content.endswith(TEXT.encode())
    answered = [record.address for record in records if record.status == 200]
    assert answered == [TRANSCRIBERS["deepgram"], fine, SPEAKERS["openai"]]
    assert [record.way for record in records[:3]] == ["translate", "passthrough", "passthrough"]
