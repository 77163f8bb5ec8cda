"""Listeners and caches of the instruments of all genera."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.gateways.gateways import produce_application
from vibe_llms import Embedder, Illustrator, Moderator, Ranker, Speaker, Transcriber
from vibe_llms.application import Application
from vibe_llms.messages.contents import AudioContent
from vibe_llms.providers.call_caching import CallCache
from vibe_llms.telemetry.odometer import Odometer
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.speech import hide

AUDIO = AudioContent(data=hide("The bridge.", "mp3"))
CASES: dict[str, tuple[type[Any], str, Callable[[Any], Any]]] = {
    "embed": (Embedder, "text-embedding-3-small", lambda each: each.embed("a house")),
    "rank": (Ranker, "jina-reranker-v3", lambda each: each.rank("red", ["red", "blue"])),
    "moderate": (Moderator, "omni-moderation-latest", lambda each: each.moderate("hello")),
    "draw": (Illustrator, "gpt-image-2", lambda each: each.draw("A house")),
    "speak": (Speaker, "gpt-4o-mini-tts", lambda each: each.speak("The bridge.")),
    "transcribe": (Transcriber, "gpt-4o-transcribe", lambda each: each.transcribe(AUDIO)),
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Start the simulator."""
    async with Simulator() as running:
        yield running


def produce(folder: Path, simulator: Simulator, **tables: str) -> Application:
    """Create an application whose vendors are the simulator."""
    jina = f'base_url = "{simulator.url}/v1"\napi_key = "canary"'
    return produce_application(folder, simulator.url, **{"providers.jina": jina, **tables})


@pytest.mark.parametrize(("kind", "model", "use"), CASES.values(), ids=CASES)
async def test_an_instrument_has_a_listener_and_a_cache(
    kind: type[Any], model: str, use: Any, simulator: Simulator, tmp_path: Path
) -> None:
    odometer, cache = Odometer(), CallCache()
    provider = "jina" if kind is Ranker else "openai_responses"
    options = {"application": produce(tmp_path, simulator), "listener": odometer, "cache": cache}
    async with kind(f"{provider}:{model}", **options) as instrument:
        first = await use(instrument)
        second = await use(instrument)

    assert len(simulator.requests) == 1
    assert type(first) is type(second)
    [account] = odometer.account.models
    assert (account.model, account.generations) == (f"{provider}:{model}", 1)
    usage = first.usage
    assert (account.usage and account.usage.total_input_tokens) == (
        usage and usage.total_input_tokens
    )


@pytest.mark.parametrize("name", ["speak", "transcribe"])
async def test_a_stream_has_a_listener_and_a_cache(
    name: str, simulator: Simulator, tmp_path: Path
) -> None:
    kind, model, _ = CASES[name]
    subject: Any = "The bridge." if name == "speak" else AUDIO
    odometer, cache = Odometer(), CallCache()
    options = {"application": produce(tmp_path, simulator), "listener": odometer, "cache": cache}
    async with kind(f"openai_responses:{model}", **options) as instrument:
        for _ in range(2):
            async with instrument.stream(subject) as stream:
                pieces = [piece async for piece in stream]

    assert pieces
    assert len(simulator.requests) == 1
    assert odometer.account.models[0].generations == 1


async def test_an_embedder_that_ranks_is_an_embedder_for_listeners(
    simulator: Simulator, tmp_path: Path
) -> None:
    events: list[Any] = []
    application = produce(tmp_path, simulator)
    async with Ranker("scripted:words", application=application, listener=events.append) as ranker:
        await ranker.rank("red", ["red", "blue"])

    assert {event.genus for event in events if hasattr(event, "genus")} == {"embedder"}


async def test_the_configured_telemetry_observes_calls(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    application = produce(tmp_path, simulator, telemetry="opentelemetry = true")
    async with Embedder("scripted:words", application=application) as embedder:
        await embedder.embed("a house")

    assert [span.name for span in exporter.get_finished_spans()] == ["embeddings words"]
