"""Spans and metrics of calls outside of conversations, such as embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vibe_llms.events.calls import (
    CallEvent,
    CallFailedEvent,
    CallFinishedEvent,
    CallPieceEvent,
    CallRetriedEvent,
    CallStartedEvent,
)
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import (
    describe_call,
    describe_result,
    name_model,
)
from vibe_llms.telemetry.opentelemetry.operations import Chat, Meters

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class CallSpans:
    """Creates a span for each call; texts and media are never recorded.

    Args:
        start: Starts a span with a name and attributes.
        meters: Histograms of durations and tokens.
        on_start: Called with the span of each call before a request is sent.
    """

    def __init__(
        self,
        start: Callable[[str, dict[str, Any]], Span],
        meters: Meters,
        on_start: Callable[[Span], object] | None,
    ) -> None:
        self._start = start
        self._meters = meters
        self._on_start = on_start
        self._calls: dict[int, Chat] = {}

    def __call__(self, event: CallEvent) -> None:
        """Process an event of a call."""
        if isinstance(event, CallStartedEvent):
            self._begin(event)
            return
        call = self._calls.get(event.call_id)
        if call is None:  # it began before this listener was subscribed
            return
        match event:
            case CallRetriedEvent():
                call.describe({words.RETRIES: event.attempt - 1})
            case CallPieceEvent():
                call.follow()
            case CallFinishedEvent():
                origin = event.result.origin
                call.labels[words.RESPONSE_MODEL] = origin.model
                call.describe(describe_result(event.result))
                self._meters.count_tokens(origin.usage, call.labels)
                self._end(event.call_id)
            case CallFailedEvent():
                call.fail(words.name_error(event.error))
                self._end(event.call_id)

    def _begin(self, event: CallStartedEvent) -> None:
        operation = words.OPERATIONS.get(event.genus, event.genus)
        labels = name_model(operation, f"{event.provider}:{event.model}")
        attributes = {**labels, **describe_call(event.genus, event.request)}
        span = self._start(f"{operation} {event.model}".rstrip(), attributes)
        call = Chat(span=span, labels=labels)
        call.is_streamed = event.is_streamed
        self._calls[event.call_id] = call
        if self._on_start is not None:
            self._on_start(span)

    def _end(self, call_id: int) -> None:
        call = self._calls.pop(call_id)
        self._meters.end_answer(call)
