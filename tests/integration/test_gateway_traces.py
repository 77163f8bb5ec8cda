"""Each request is a span below its client's, and what the gateway asks stands below that span."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from support.gateways.gateways import produce_application, serve, wait_until
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.service import Service
from vibe_llms.daemons.tracing import Tracing
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.testing.simulator import Say, Simulator

_TRACE = "0af7651916cd43dd8448eb211c80319c"
_PARENT = "b7ad6b7169203331"
_SENT = f"00-{_TRACE}-{_PARENT}-01"
_STATE = "vendor=some,other=1"
_SECRET = "the tides of Murano"


async def _ask(service: Service, model: str, path: str = "/v1/chat/completions") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": _SECRET}]}
    async with serve(service) as address, aiohttp.ClientSession() as session:
        headers = {"traceparent": _SENT, "tracestate": _STATE}
        async with session.post(address + path, json=body, headers=headers) as got:
            await got.read()
            return got.status


@define
class _Traced:
    """A gateway that makes spans, before an upstream."""

    service: Service
    simulator: Simulator
    exporter: InMemorySpanExporter

    def find(self, kind: SpanKind) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.kind is kind]


@asynccontextmanager
async def _serve_traced(folder: Path) -> AsyncIterator[_Traced]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with Simulator() as simulator:
        application = produce_application(folder, simulator.url)
        service = produce_service(application, tracing=Tracing(provider))
        yield _Traced(service, simulator, exporter)


def _name(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def _name_parent(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


@pytest.mark.parametrize(
    "model",
    ["openai_conversations:gpt-5.5", "anthropic:claude-sonnet-4-6"],
    ids=["passthrough", "other"],
)
async def test_a_request_is_a_span_between_client_and_upstream(tmp_path: Path, model: str) -> None:
    async with _serve_traced(tmp_path) as traced:
        traced.simulator.enqueue(Say("The North Sea."))
        await _ask(traced.service, model)
        told_upstream = traced.simulator.requests[0].headers
    [span] = traced.find(SpanKind.SERVER)
    chats = traced.find(SpanKind.CLIENT)
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == _TRACE
    assert _name_parent(span) == _PARENT
    lowest = span
    if model.startswith("anthropic"):  # which is translated
        [lowest] = chats
        assert lowest.name == "chat claude-sonnet-4-6"
        assert _name_parent(lowest) == _name(span)
        assert dict(lowest.attributes or {})["gen_ai.usage.output_tokens"]
    else:
        assert not chats
    assert told_upstream["traceparent"] == f"00-{_TRACE}-{_name(lowest)}-01"
    assert told_upstream["tracestate"] == _STATE
    assert span.name == "POST /v1/chat/completions"
    assert span.status.status_code is StatusCode.UNSET
    told = dict(span.attributes or {})
    assert told["http.response.status_code"] == 200
    assert told["gen_ai.request.model"] == model
    assert told["gen_ai.provider.name"] in ("openai", "anthropic")
    assert told["gen_ai.usage.output_tokens"]
    for each in (span, lowest):
        assert _SECRET not in each.to_json()
        assert "North Sea" not in each.to_json()


async def test_a_response_in_the_background_stands_below_its_request(tmp_path: Path) -> None:
    async with _serve_traced(tmp_path) as traced:
        traced.simulator.enqueue(Say("The North Sea."))
        body = {"model": "anthropic:claude-sonnet-4-6", "input": _SECRET, "background": True}
        async with serve(traced.service) as address, aiohttp.ClientSession() as session:
            url, headers = f"{address}/v1/responses", {"traceparent": _SENT}
            async with session.post(url, json=body, headers=headers) as got:
                assert got.status == 200
            await wait_until(lambda: len(traced.exporter.get_finished_spans()) == 3)
    [chat] = traced.find(SpanKind.CLIENT)
    names = {_name(each): _name_parent(each) for each in traced.find(SpanKind.SERVER)}
    assert names[names[_name_parent(chat)]] == _PARENT


async def test_each_request_over_a_web_socket_is_a_span(tmp_path: Path) -> None:
    async with _serve_traced(tmp_path) as traced:
        traced.simulator.enqueue(Say("The North Sea."), Say("The Baltic Sea."))
        asked = {"type": "response.create", "model": "anthropic:claude-sonnet-4-6", "input": "?"}
        async with serve(traced.service) as address, aiohttp.ClientSession() as session:
            url, headers = f"{address}/v1/responses", {"traceparent": _SENT}
            async with session.ws_connect(url, headers=headers) as socket:
                for _ in range(2):
                    await socket.send_json(asked)
                    while (await socket.receive_json(timeout=60))["type"] != "response.completed":
                        pass
            await wait_until(lambda: len(traced.exporter.get_finished_spans()) == 4)
    spans, chats = traced.find(SpanKind.SERVER), traced.find(SpanKind.CLIENT)
    assert {_name_parent(each) for each in spans} == {_PARENT}
    assert {_name_parent(each) for each in chats} == {_name(each) for each in spans}


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [{"traceparent": "ÿ"}, {"traceparent": _SENT, "tracestate": "a=ÿ"}, {"tracestate": "a=b"}],
)
@pytest.mark.parametrize("model", ["openai_conversations:gpt-5.5", "anthropic:claude-sonnet-4-6"])
async def test_an_odd_trace_costs_no_answer(
    tmp_path: Path, model: str, sent: dict[str, str]
) -> None:
    async with Simulator() as simulator:
        simulator.enqueue(Say("Yes."))
        service = produce_service(produce_application(tmp_path, simulator.url))
        body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
        async with serve(service) as address, aiohttp.ClientSession() as session:
            url = f"{address}/v1/chat/completions"
            async with session.post(url, json=body, headers=sent) as got:
                assert got.status == 200
        assert "tracestate" not in simulator.requests[0].headers


async def test_what_a_client_gets_wrong_is_no_failure_of_the_server(tmp_path: Path) -> None:
    async with _serve_traced(tmp_path) as traced:
        await _ask(traced.service, "no:model", "/v1/messages")
    [span] = traced.find(SpanKind.SERVER)
    told = dict(span.attributes or {})
    assert told["http.response.status_code"] == 404
    assert told["error.type"] == "unknown-name"
    assert span.status.status_code is StatusCode.UNSET


async def test_the_configuration_switches_it_on(tmp_path: Path) -> None:
    quiet = produce_application(tmp_path, "http://127.0.0.1:9")
    assert produce_service(quiet).tracing is None
    told = produce_application(tmp_path, "http://127.0.0.1:9", telemetry="opentelemetry = true")
    assert produce_service(told).tracing is not None


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai_conversations:gpt-5.5", "anthropic:claude-sonnet-4-6"])
async def test_without_it_the_client_s_trace_goes_through(tmp_path: Path, model: str) -> None:
    async with Simulator() as simulator:
        simulator.enqueue(Say("Yes."))
        service = produce_service(produce_application(tmp_path, simulator.url))
        assert await _ask(service, model) == 200
        assert simulator.requests[0].headers["traceparent"] == _SENT
        assert simulator.requests[0].headers["tracestate"] == _STATE


async def test_a_translated_embedding_is_a_span_below_its_request(tmp_path: Path) -> None:
    async with _serve_traced(tmp_path) as traced:
        body = {"model": "google:gemini-embedding-001", "input": _SECRET}
        async with (
            serve(traced.service) as address,
            aiohttp.ClientSession() as session,
            session.post(f"{address}/v1/embeddings", json=body) as got,
        ):
            assert got.status == 200
        told_upstream = traced.simulator.requests[0].headers
    [span] = traced.find(SpanKind.SERVER)
    [call] = traced.find(SpanKind.CLIENT)
    assert call.name == "embeddings gemini-embedding-001"
    assert _name_parent(call) == _name(span)
    assert told_upstream["traceparent"].split("-")[2] == _name(call)
    assert _SECRET not in call.to_json()
