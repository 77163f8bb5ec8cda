"""OpenTelemetry spans of requests, by the conventions for HTTP and for generative AI.

They never contain texts of requests, nor what looks like a key in a path or the name of a model.
Names of attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.secrets import redact_name
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import Attributes, describe_usage, split_address
from vibe_llms.telemetry.opentelemetry.operations import Operation
from vibe_llms.wire.tracing import TRACE

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from vibe_llms.events.calls import CallListener
    from vibe_llms.events.reactors import ConversationReactors

_MOST_CHARACTERS: Final = 2_000
"""Longest text of an attribute."""


class Tracing:
    """Creates a span for each request, as a child of the client's span.

    Args:
        tracer_provider: Receives the spans; by default the global one.
        captures_texts: Whether spans of models' answers contain requests and answers.

    Attributes:
        reactors: Create a span for each answer of a model, as a child of its request's.
        call_listeners: Create one for each other call of a model, such as an embedding.

    Raises:
        DependencyError: ``opentelemetry-api`` is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        captures_texts: bool | None = None,
    ) -> None:
        with needing("opentelemetry", "opentelemetry-api", "Tracing"):
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation import tracecontext
        from vibe_llms.foundation.version import __version__
        from vibe_llms.telemetry.opentelemetry.observer import OpenTelemetryObserver

        self._tracer = trace.get_tracer("vibe_llms", __version__, tracer_provider, words.SCHEMA_URL)
        self._kind = trace.SpanKind.SERVER
        self._access_context = context.get_current
        self._find_span = trace.get_current_span
        self._set_span = trace.set_span_in_context
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        observer = OpenTelemetryObserver(
            captures_texts=captures_texts, tracer_provider=tracer_provider, on_chat=self._set_parent
        )
        self.reactors: ConversationReactors = observer.reactors
        self.call_listeners: tuple[CallListener, ...] = (observer,)

    def _set_parent(self, span: Span) -> None:
        """Make the answer's span the parent of requests to a vendor."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._set_span(span))
        TRACE.set(carrier)

    def begin(self, call: HttpCall) -> Operation:
        """Start a request's span, the parent of everything that is sent from now on."""
        attributes: Attributes = {
            "http.request.method": call.method,
            "url.path": _clean(call.path),
            "url.scheme": call.scope.get("scheme", "http"),
        }
        if call.client:
            attributes["client.address"] = call.client
        # Inner calls of the gateway are children of the outer request.
        parent = self._access_context()
        if not self._find_span(parent).get_span_context().is_valid:
            parent = self._propagator.extract(call.headers, parent)
        span = self._tracer.start_span(call.method, parent, self._kind, attributes)
        operation = Operation(span=span)
        operation.enter()
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        headers = {name: text for name, text in call.headers.items() if name != "tracestate"}
        call.headers = {**headers, **carrier}
        return operation

    def end(self, operation: Operation, record: CallRecord) -> None:
        """End the span, with the attributes of the request."""
        if record.route:
            operation.span.update_name(f"{record.method} {record.route}")
        operation.describe(_describe(record))
        if record.status >= 500 or record.error:
            kind = record.error or str(record.status)
            if record.status >= 500 or record.status < 400:
                operation.fail(kind)
            else:  # by convention, client errors are not errors of the server
                operation.describe({words.ERROR: kind})
        operation.leave()


def _clean(text: str) -> str:
    return redact_name(text, _MOST_CHARACTERS)


def _describe(record: CallRecord) -> Attributes:
    provider, model = split_address(record.address)
    attributes: dict[str, Any] = {
        "http.route": record.route,
        "http.response.status_code": record.status,
        words.REQUEST_MODEL: _clean(record.model) or model,
        words.RESPONSE_MODEL: model,
        words.PROVIDER: provider and words.name_provider(provider),
        words.REQUEST_STREAM: record.streamed,
        **describe_usage(record.usage),
    }
    if record.first_seconds is not None and record.streamed:
        attributes[words.FIRST_CHUNK] = record.first_seconds
    return {name: value for name, value in attributes.items() if value not in ("", False)}
