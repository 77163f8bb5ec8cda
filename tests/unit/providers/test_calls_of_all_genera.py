"""Parts below all genera: events, spans, accounts, cache, rates, errors, recordings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.vendors.genera import GENERA, GenusCase
from vibe_llms.events.calls import (
    CallFailedEvent,
    CallFinishedEvent,
    CallPieceEvent,
    CallRetriedEvent,
    CallStartedEvent,
)
from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.vectors import Vectors
from vibe_llms.models.genera import Genus
from vibe_llms.providers.call_caching import CallCache, cache_calls, digest_call, measure_bytes
from vibe_llms.providers.call_observing import observe_calls
from vibe_llms.telemetry.odometer import Odometer
from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.recording import Recorder, Replayer
from vibe_llms.testing.recording.replayer import UnrecordedRequestError
from vibe_llms.testing.simulator import Simulator
from vibe_llms.wire.direct import DirectTransport

QUICK = ("embedder", "illustrator that edits", "speaker", "transcriber of bytes")
"""Cases for the default test command: bodies of JSON, forms and bytes, and a stream."""

pytestmark = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in GENERA.items()
    ],
)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Start the simulator."""
    async with Simulator() as running:
        yield running


@attrs.frozen
class Bench:
    """A model of a case at the simulator, with everything that observes it."""

    model: Any
    events: list[Any] = attrs.field(factory=list)
    odometer: Odometer = attrs.field(factory=Odometer)


@pytest.fixture
async def bench(case: GenusCase, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Bench]:
    """Access the model of a case."""
    client = case.produce_provider(tmp_path, simulator.url).produce_client()
    model = await client.access(case.model, case.genus)
    events: list[Any] = []
    odometer = Odometer()
    yield Bench(observe_calls(model, case.genus, [events.append, odometer]), events, odometer)
    await client.close()


def describe(result: Any) -> Any:
    """Return the parts of a result that can be compared."""
    if isinstance(result, Vectors):
        return [list(row) for row in result], result.origin
    return result


async def test_listeners_receive_the_events_of_a_call(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    simulator.switch("rate_limit=1")
    result = await bench.model.call(case.request)

    started, retried, finished = bench.events
    assert isinstance(started, CallStartedEvent)
    assert (started.genus, started.provider) == (case.genus, case.provider)
    assert (started.model, started.request, started.is_streamed) == (
        case.model,
        case.request,
        False,
    )
    assert isinstance(retried, CallRetriedEvent)
    assert retried.attempt == 2
    assert isinstance(retried.error, ProviderError)
    assert isinstance(finished, CallFinishedEvent)
    assert finished.result is result
    assert finished.seconds > 0
    assert {event.call_id for event in bench.events} == {started.call_id}
    account = bench.odometer.account
    assert account.retries == 1
    [used] = account.models
    assert (used.generations, used.failures) == (1, 0)
    assert used.model == f"{case.provider}:{result.origin.model}"
    assert used.usage == (result.usage and attrs.evolve(result.usage, native=None))
    assert used.seconds == finished.seconds


async def test_the_error_of_a_call_has_its_stage_and_is_counted(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    simulator.switch("server_error=9")
    with pytest.raises(ProviderError) as caught:
        await bench.model.call(case.request)

    assert caught.value.stage is Stage.PROVIDER
    assert caught.value.fault is ProviderFault.SERVER
    failed = bench.events[-1]
    assert isinstance(failed, CallFailedEvent)
    assert failed.error is caught.value
    [used] = bench.odometer.account.models
    assert (used.generations, used.failures, used.unreported) == (1, 1, 1)


async def test_a_cancelled_call_has_an_event(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    simulator.switch("slow=2000")
    task = asyncio.create_task(bench.model.call(case.request))
    await asyncio.sleep(0)  # the call begins, and waits for the vendor
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.events[-1].error is None


async def test_a_stream_has_the_events_of_a_call(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    simulator.switch("rate_limit=1")
    async with bench.model.stream(case.request) as stream:
        pieces = [piece async for piece in stream]
        result = await stream.result()

    kinds = [type(event) for event in bench.events]
    piece = [CallPieceEvent] if pieces else []
    assert kinds == [CallStartedEvent, CallRetriedEvent, *piece, CallFinishedEvent]
    assert bench.events[0].is_streamed
    assert bench.events[-1].result is result
    assert bool(pieces) >= case.streams
    assert bench.odometer.account.retries == 1


async def test_an_abandoned_stream_has_failed(case: GenusCase, bench: Bench) -> None:
    async with bench.model.stream(case.request) as stream:
        await anext(stream, None)

    kinds = [type(event) for event in bench.events]
    assert kinds[-1] is (CallFailedEvent if CallPieceEvent in kinds else CallFinishedEvent)


async def test_a_call_has_a_span_and_metrics(case: GenusCase, bench: Bench) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(
        tracer_provider=tracers, meter_provider=MeterProvider(metric_readers=[reader])
    )
    model = observe_calls(bench.model, case.genus, [observer])
    result = await model.call(case.request)

    [span] = exporter.get_finished_spans()
    told = dict(span.attributes or {})
    assert span.name == f"{case.operation} {case.model}"
    assert told["gen_ai.operation.name"] == case.operation
    assert told["gen_ai.provider.name"] == case.provider
    assert told["gen_ai.request.model"] == case.model
    assert told["gen_ai.response.model"] == result.origin.model
    tokens = None if result.usage is None else result.usage.total_input_tokens
    assert told.get("gen_ai.usage.input_tokens") == tokens
    outputs = {"illustrator": "image", "speaker": "speech", "transcriber": "text"}
    assert told.get("gen_ai.output.type") == outputs.get(case.genus)
    assert told.get("gen_ai.embeddings.dimension.count") == getattr(result, "width", None)
    assert "house" not in span.to_json()
    assert "bridge" not in span.to_json()
    data = reader.get_metrics_data()
    assert data is not None
    [scope] = data.resource_metrics[0].scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    [duration] = metrics["gen_ai.client.operation.duration"].data.data_points
    assert (duration.attributes or {})["gen_ai.operation.name"] == case.operation
    assert ("gen_ai.client.token.usage" in metrics) == (tokens is not None)


async def test_the_span_of_a_failed_call_names_the_error(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    simulator.switch("server_error=9")
    observer = OpenTelemetryObserver(tracer_provider=tracers)
    with pytest.raises(ProviderError):
        await observe_calls(bench.model, case.genus, [observer]).call(case.request)

    [span] = exporter.get_finished_spans()
    assert dict(span.attributes or {})["error.type"] == "server"


async def test_an_equal_call_is_answered_from_the_cache(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    cache = CallCache()
    model: Any = cache_calls(bench.model, cache)
    first = await model.call(case.request)
    second = await model.call(attrs.evolve(case.request))
    async with model.stream(case.request) as stream:
        third = await stream.result()
    other = await model.call(case.other)

    assert len(simulator.requests) == 2
    if not hasattr(case.request, "texts") or case.genus is Genus.RANKER:
        assert cache.size_bytes == measure_bytes(first) + measure_bytes(other)
    for found in (second, third):
        unused = attrs.evolve(found, origin=first.origin)
        assert describe(unused) == describe(first)
        assert found.usage is None if first.usage is None else not found.usage.total_input_tokens
    assert len([event for event in bench.events if isinstance(event, CallStartedEvent)]) == 2


async def test_a_complete_stream_is_cached(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    model: Any = cache_calls(bench.model, CallCache())
    async with model.stream(case.request) as stream:
        pieces = [piece async for piece in stream]
        first = await stream.result()
    async with model.stream(case.request) as stream:
        again = [piece async for piece in stream]
    second = await model.call(case.request)

    assert len(simulator.requests) == 1
    if pieces:
        assert again[0][:0].join(again).strip() == pieces[0][:0].join(pieces).strip()
    assert describe(attrs.evolve(second, origin=first.origin)) == describe(first)


async def test_equal_calls_at_once_are_sent_once(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    model: Any = cache_calls(bench.model, CallCache())
    first, second, other = await asyncio.gather(
        model.call(case.request), model.call(case.request), model.call(case.other)
    )

    assert len(simulator.requests) == 2
    assert describe(attrs.evolve(second, origin=first.origin)) == describe(first)
    assert describe(other) != describe(first)


async def test_a_failed_call_is_not_cached(
    case: GenusCase, bench: Bench, simulator: Simulator
) -> None:
    model: Any = cache_calls(bench.model, CallCache())
    simulator.switch("server_error=9")
    results = await asyncio.gather(
        model.call(case.request), model.call(case.request), return_exceptions=True
    )
    assert all(isinstance(each, ProviderError) for each in results)
    simulator.switch("")
    await model.call(case.request)


async def test_calls_wait_for_the_rate_of_their_provider(
    case: GenusCase, simulator: Simulator, tmp_path: Path
) -> None:
    clock = HurriedClock()
    provider = case.produce_provider(tmp_path, simulator.url, clock=clock, requests_per_minute=6)
    client = provider.produce_client()
    model = await client.access(case.model, case.genus)
    try:
        await model.call(case.request)
        started = clock.read()
        async with observe_calls(model, case.genus, [print]).stream(case.request) as stream:  # type: ignore[attr-defined]
            await stream.result()
    finally:
        await client.close()

    assert clock.read() - started == pytest.approx(10, abs=1)


async def test_a_recording_is_replayed_without_a_network(
    case: GenusCase, simulator: Simulator, tmp_path: Path
) -> None:
    path = tmp_path / "exchanges.jsonl"

    async def call(provider: Any, request: Any) -> Any:
        client = provider.produce_client()
        try:
            model = await client.access(case.model, case.genus)
            return await model.call(request)
        finally:
            await client.close()

    recorded = case.produce_provider(tmp_path, simulator.url)
    recorder = Recorder(DirectTransport(limits=Limits()), path)
    recorded.use_transport(recorder)
    first = await call(recorded, case.request)
    await recorder.close()
    replayed = case.produce_provider(tmp_path, "http://127.0.0.1:9")
    replayed.use_transport(Replayer(path))

    assert describe(await call(replayed, case.request)) == describe(first)
    assert b"canary" not in path.read_bytes()
    with pytest.raises(UnrecordedRequestError):
        await call(replayed, case.other)


async def test_different_requests_have_different_digests(case: GenusCase) -> None:
    model = (case.provider, case.model)
    strict = attrs.evolve(case.request, strict=True)
    digests = [
        digest_call(model, case.request),
        digest_call(model, case.other),
        digest_call(model, strict),
        digest_call((case.provider, "other"), case.request),
    ]

    assert len({*digests}) == 4
    assert digests[0] == digest_call(model, attrs.evolve(case.request))
