"""Spans of requests, by OpenTelemetry's conventions for HTTP and for generative AI.

Never what was said. Words of HTTP as in https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import Attributes, describe_usage, split_address
from vibe_llms.telemetry.opentelemetry.operations import Operation
from vibe_llms.wire.tracing import TRACE

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from vibe_llms.events.reactors import ConversationReactors


class Tracing:
    """Makes a span of each request, below the one that its client tells of.

    Args:
        tracer_provider: Where spans go; by default to that which the program has set up for all.
        captures_texts: Whether spans of models' answers shall have what was asked and answered.

    Attributes:
        reactors: Make a span of each answer of a model, below that of its request.

    Raises:
        DependencyError: ``opentelemetry-api`` is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        captures_texts: bool | None = None,
    ) -> None:
        with needing("opentelemetry", "opentelemetry-api", "Telling of spans"):
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation import tracecontext
        from vibe_llms.foundation.version import __version__
        from vibe_llms.telemetry.opentelemetry.observer import OpenTelemetryObserver

        self._tracer = trace.get_tracer("vibe_llms", __version__, tracer_provider, words.SCHEMA_URL)
        self._kind = trace.SpanKind.SERVER
        self._access_context = context.get_current
        self._find_span = trace.get_current_span
        self._place = trace.set_span_in_context
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        observer = OpenTelemetryObserver(
            captures_texts=captures_texts, tracer_provider=tracer_provider, on_chat=self._go_below
        )
        self.reactors: ConversationReactors = observer.reactors

    def _go_below(self, span: Span) -> None:
        """Lets what is sent to a vendor stand below the span of its answer."""
        told: dict[str, str] = {}
        self._propagator.inject(told, self._place(span))
        TRACE.set(told)

    def begin(self, call: HttpCall) -> Operation:
        """Begins a request's span; what is sent from here on stands below it."""
        attributes: Attributes = {
            "http.request.method": call.method,
            "url.path": call.path,
            "url.scheme": call.scope.get("scheme", "http"),
        }
        if call.client:
            attributes["client.address"] = call.client
        # What the gateway asks of itself stands below what it was asked.
        parent = self._access_context()
        if not self._find_span(parent).get_span_context().is_valid:
            parent = self._propagator.extract(call.headers, parent)
        span = self._tracer.start_span(call.method, parent, self._kind, attributes)
        operation = Operation(span=span)
        operation.enter()
        told: dict[str, str] = {}
        self._propagator.inject(told)
        kept = {name: text for name, text in call.headers.items() if name != "tracestate"}
        call.headers = {**kept, **told}
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
