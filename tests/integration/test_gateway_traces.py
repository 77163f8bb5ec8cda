"""Each request is a span below its client's, and what the gateway asks stands below that span."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateways import produce_application, serve
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.service import Service
from vibe_llms.daemons.tracing import Tracing
from vibe_llms.testing.simulator import Say, Simulator

_TRACE = "0af7651916cd43dd8448eb211c80319c"
_PARENT = "b7ad6b7169203331"
_SENT = f"00-{_TRACE}-{_PARENT}-01"
_SECRET = "the tides of Murano"


async def _ask(service: Service, model: str, path: str = "/v1/chat/completions") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": _SECRET}]}
    async with serve(service) as address, aiohttp.ClientSession() as session:
        headers = {"traceparent": _SENT}
        async with session.post(address + path, json=body, headers=headers) as got:
            await got.read()
            return got.status


async def _trace(folder: Path, model: str, path: str) -> tuple[ReadableSpan, str]:
    """Returns the span of a request, and the traceparent that the upstream was sent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with Simulator() as simulator:
        simulator.enqueue(Say("The North Sea."))
        service = produce_service(produce_application(folder, simulator.url))
        service.tracing = Tracing(provider)
        await _ask(service, model, path)
        sent = simulator.requests[0].headers["traceparent"] if simulator.requests else ""
    [span] = exporter.get_finished_spans()
    return span, sent


@pytest.mark.parametrize(
    "model", ["openai_conversations:gpt-5.5", "anthropic:claude-sonnet-4-6"], ids=["carry", "other"]
)
async def test_a_request_is_a_span_between_client_and_upstream(tmp_path: Path, model: str) -> None:
    span, sent = await _trace(tmp_path, model, "/v1/chat/completions")
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == _TRACE
    assert f"{span.parent.span_id:016x}" == _PARENT
    assert sent == f"00-{_TRACE}-{span.context.span_id:016x}-01"
    assert (span.name, span.kind) == ("POST /v1/chat/completions", SpanKind.SERVER)
    assert span.status.status_code is StatusCode.UNSET
    told = dict(span.attributes or {})
    assert told["http.response.status_code"] == 200
    assert told["gen_ai.request.model"] == model
    assert told["gen_ai.provider.name"] in ("openai", "anthropic")
    assert told["gen_ai.usage.output_tokens"]
    assert _SECRET not in span.to_json()
    assert "North Sea" not in span.to_json()


async def test_what_a_client_gets_wrong_is_no_failure_of_the_server(tmp_path: Path) -> None:
    span, _ = await _trace(tmp_path, "no:model", "/v1/messages")
    told = dict(span.attributes or {})
    assert told["http.response.status_code"] == 404
    assert told["error.type"] == "unknown-name"
    assert span.status.status_code is StatusCode.UNSET


async def test_the_configuration_switches_it_on(tmp_path: Path) -> None:
    quiet = produce_application(tmp_path, "http://127.0.0.1:9")
    assert produce_service(quiet).tracing is None
    told = produce_application(tmp_path, "http://127.0.0.1:9", telemetry="opentelemetry = true")
    assert produce_service(told).tracing is not None


async def test_without_it_a_carried_traceparent_goes_through(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        simulator.enqueue(Say("Yes."))
        service = produce_service(produce_application(tmp_path, simulator.url))
        assert await _ask(service, "openai_conversations:gpt-5.5") == 200
        assert simulator.requests[0].headers["traceparent"] == _SENT
