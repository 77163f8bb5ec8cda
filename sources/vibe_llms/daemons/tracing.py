"""Spans of requests, by OpenTelemetry's conventions for HTTP and for generative AI.

Never what was said. Words of HTTP as in https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.records import CallRecord
from vibe_llms.installing import needing
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import Attributes, describe_usage, split_address
from vibe_llms.telemetry.opentelemetry.operations import Operation
from vibe_llms.wire.tracing import TRACEPARENT

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


class Tracing:
    """Makes a span of each request, below the one that its client tells of.

    Args:
        tracer_provider: Where spans go; by default to that which the program has set up for all.

    Raises:
        DependencyError: ``opentelemetry-api`` is not installed.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        with needing("opentelemetry", "opentelemetry-api", "Telling of spans"):
            from opentelemetry import trace
            from opentelemetry.trace.propagation import tracecontext
        from vibe_llms.version import __version__

        self._tracer = trace.get_tracer("vibe_llms", __version__, tracer_provider, words.SCHEMA_URL)
        self._kind = trace.SpanKind.SERVER
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def begin(self, call: HttpCall) -> Operation:
        """Begins a request's span; what is sent from here on stands below it."""
        attributes: Attributes = {
            "http.request.method": call.method,
            "url.path": call.path,
            "url.scheme": call.scope.get("scheme", "http"),
        }
        if call.client:
            attributes["client.address"] = call.client
        parent = self._propagator.extract(call.headers)
        span = self._tracer.start_span(call.method, parent, self._kind, attributes)
        operation = Operation(span=span)
        operation.enter()
        told: dict[str, str] = {}
        self._propagator.inject(told)
        call.headers = {**call.headers, **told}
        TRACEPARENT.set(told.get("traceparent", ""))  # of this task, and so of this request
        return operation

    def end(self, operation: Operation, record: CallRecord) -> None:
        """Ends it, with all that is known of the request."""
        if record.route:
            operation.span.update_name(f"{record.method} {record.route}")
        operation.describe(_describe(record))
        if record.status >= 500 or record.error:
            kind = record.error or str(record.status)
            if record.status >= 500 or not record.status >= 400:
                operation.fail(kind)
            else:  # as HTTP has it, what a client gets wrong is no failure of the server
                operation.describe({words.ERROR: kind})
        operation.leave()


def _describe(record: CallRecord) -> Attributes:
    provider, model = split_address(record.address)
    told: dict[str, Any] = {
        "http.route": record.route,
        "http.response.status_code": record.status,
        words.REQUEST_MODEL: record.model or model,
        words.RESPONSE_MODEL: model,
        words.PROVIDER: provider and words.name_provider(provider),
        words.REQUEST_STREAM: record.streamed,
        **describe_usage(record.usage),
    }
    if record.first_seconds is not None and record.streamed:
        told[words.FIRST_CHUNK] = record.first_seconds
    return {name: value for name, value in told.items() if value not in ("", False)}
