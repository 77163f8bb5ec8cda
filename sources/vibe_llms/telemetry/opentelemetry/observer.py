"""Observer: a listener that creates spans and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, get_args

from vibe_llms.events.calls import CallEvent
from vibe_llms.events.conversation import (
    ConversationEndedEvent,
    ConversationFailedEvent,
    ConversationStartedEvent,
    ConversationUpdatedEvent,
)
from vibe_llms.events.engine import (
    GenerationDeferredEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import (
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.messages.requests import Response
from vibe_llms.messages.views import text_of
from vibe_llms.telemetry.accounts import add_usages
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import (
    Attributes,
    describe_origin,
    describe_request,
    describe_texts,
    describe_usage,
    name_model,
)
from vibe_llms.telemetry.opentelemetry.calls import CallSpans
from vibe_llms.telemetry.opentelemetry.operations import Chat, Meters, Operation, RunOperation

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanKind, TracerProvider

_STREAM_EVENTS = (ResponseStartedEvent, ContentStartedEvent)


class OpenTelemetryObserver:
    """Creates spans and metrics of runs, answers, executed tools and other calls of models.

    Use it as the listener of an engine, ``Engine(..., listener=observer)``; use its
    :attr:`reactors` for answers without one, and as the listener of an embedder or another
    instrument, ``Embedder(..., listener=observer)``. The setting ``telemetry.opentelemetry``
    installs one in all places. A run is the parent of its answers and executions; the current span
    at its start is the parent of the run.

    Args:
        captures_texts: Whether spans include questions, answers, and the arguments and results of
            tools; by default only if the environment variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` enables it.
        tracer_provider, meter_provider: Destinations of spans and metrics; by default the
            program's global ones.
        on_chat: Called with the span of each answer before a request is sent.

    Raises:
        DependencyError: ``opentelemetry-api`` is not installed.
    """

    def __init__(
        self,
        *,
        captures_texts: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        on_chat: Callable[[Span], object] | None = None,
    ) -> None:
        with needing("opentelemetry", "opentelemetry-api", "Tracing"):
            from opentelemetry import metrics, trace
        from vibe_llms.foundation.version import __version__

        url = words.SCHEMA_URL
        tracer = trace.get_tracer("vibe_llms", __version__, tracer_provider, url)
        meter = metrics.get_meter("vibe_llms", __version__, meter_provider, url)
        self._start_span: Callable[..., Span] = tracer.start_span
        self._kinds: type[SpanKind] = trace.SpanKind
        self._meters = Meters(meter)
        self._on_chat = on_chat
        self._captures = _captures_texts_by_default() if captures_texts is None else captures_texts
        self._run: ContextVar[RunOperation | None] = ContextVar("vibe_llms_run", default=None)
        self._chat: ContextVar[Chat | None] = ContextVar("vibe_llms_chat", default=None)
        calls = CallSpans(self._start_call, self._meters, on_chat)
        self._handlers: dict[type, Callable[[Any], None]] = {
            RunStartedEvent: self._begin_run,
            RunSuspendedEvent: self._end_run,
            RunEndedEvent: self._end_run,
            GenerationStartedEvent: self._begin_generation,
            GenerationFinishedEvent: self._finish_generation,
            GenerationFailedEvent: self._fail_generation,
            GenerationDeferredEvent: self._defer_generation,
            InvocationStartedEvent: self._begin_tool,
            InvocationFinishedEvent: self._end_tool,
            ResponseStartedEvent: self._follow_stream,
            ContentStartedEvent: self._follow_stream,
            ResponseFinishedEvent: self._describe_response,
            **dict.fromkeys(get_args(CallEvent), calls),
        }

    def __call__(self, event: StreamEvent | LogEvent | CallEvent) -> None:
        """Process one event; most are ignored."""
        # Most events of a stream are ignored; this lookup is their only cost.
        handler = self._handlers.get(event.__class__)
        if handler is not None:
            handler(event)

    @property
    def reactors(self) -> ConversationReactors:
        """Reactors for calls without an engine; within a run they only add details."""
        return ConversationReactors(
            allocator=self._react_to_start,
            updater=self._react_to_update,
            failure=self._react_to_failure,
            deallocator=self._react_to_end,
        )

    # Runs

    def _begin_run(self, event: RunStartedEvent) -> None:
        labels = name_model(words.INVOKE_AGENT, event.model)
        ids: Attributes = {words.CONVERSATION: event.conversation_id, words.RUN_ID: event.run_id}
        span = self._start_span(words.INVOKE_AGENT, attributes={**labels, **ids})
        run = RunOperation(span=span, labels=labels, conversation_id=event.conversation_id)
        run.enter()
        self._run.set(run)

    def _end_run(self, event: RunEndedEvent | RunSuspendedEvent) -> None:
        run = self._run.get()
        if run is None:
            return
        self._run.set(None)  # a run within a run has its own task and context
        operations = [*run.tools.values(), *([run.chat] if run.chat else [])]
        for operation in operations:
            if not operation.is_ended:  # it was cancelled with the run, without an event
                operation.fail(words.name_error(None))
                durations = self._meters.chat if operation is run.chat else self._meters.tool
                operation.end(durations)
        run.describe(describe_usage(run.usage))
        if isinstance(event, RunSuspendedEvent):
            run.describe({words.RUN_REASON: "suspended"})
        else:
            run.describe({words.RUN_REASON: event.reason})
            if event.limit:
                run.describe({words.RUN_LIMIT: event.limit})
            if event.reason == "failed":
                run.fail(words.name_error(event.error) if event.error else "_OTHER")
        run.end(self._meters.run)

    # Answers within a run

    def _begin_generation(self, event: GenerationStartedEvent) -> None:
        run = self._run.get()
        chat = self._begin_chat(event.model, run.conversation_id if run else "")
        chat.is_in_run = True
        chat.enter()
        if run is not None:
            run.chat = chat

    def _finish_generation(self, event: GenerationFinishedEvent) -> None:
        chat, run = self._chat.get(), self._run.get()
        if run is not None:
            run.usage = add_usages((run.usage, event.usage))
        if event.tier and (chat is None or chat.is_ended):  # a deferred answer has arrived
            chat = self._begin_chat(event.model, run.conversation_id if run else "")
        if chat is None or chat.is_ended:
            return  # an earlier run sent the request, and this one only reports its outcome
        chat.labels[words.PROVIDER] = words.name_provider(event.provider)
        if not chat.is_described:
            reason = words.FINISHES.get(event.stop_reason)
            chat.describe({words.FINISH_REASONS: (reason,)} if reason else {})
            chat.describe(describe_usage(event.usage))
        chat.describe({words.PROVIDER: chat.labels[words.PROVIDER]})
        self._meters.count_tokens(event.usage, chat.labels)
        self._end_chat(chat)

    def _fail_generation(self, event: GenerationFailedEvent) -> None:
        chat = self._chat.get()
        if chat is not None and not chat.is_ended:
            chat.fail(words.name_error(event.error))
            self._end_chat(chat)

    def _defer_generation(self, event: GenerationDeferredEvent) -> None:
        chat = self._chat.get()
        if chat is not None and not chat.is_ended:  # there is no error and no usage yet
            self._end_chat(chat)

    # Tools

    def _begin_tool(self, event: InvocationStartedEvent) -> None:
        operation = self._start_tool(event.name, event.invocation_id)
        if self._captures:
            operation.describe({words.TOOL_ARGUMENTS: event.arguments})
        operation.enter()
        run = self._run.get()
        if run is not None:
            run.tools[event.key] = operation

    def _end_tool(self, event: InvocationFinishedEvent) -> None:
        run = self._run.get()
        operation = run.tools.pop(event.key, None) if run else None
        if operation is None:  # not executed: refused, malformed, or a duplicate
            operation = self._start_tool(event.name, event.invocation_id)
        if event.is_fault or event.result.is_error:
            operation.fail("tool_error")
        if self._captures:
            operation.describe({words.TOOL_RESULT: text_of(event.result)})
        operation.end(self._meters.tool)

    def _start_tool(self, name: str, invocation_id: str) -> Operation:
        labels: Attributes = {
            words.OPERATION: words.EXECUTE_TOOL,
            words.TOOL_NAME: name,
            words.TOOL_TYPE: "function",
        }
        attributes = {**labels, words.TOOL_CALL: invocation_id}
        span = self._start_span(f"{words.EXECUTE_TOOL} {name}", attributes=attributes)
        return Operation(span=span, labels=labels)

    # Events of streams, within a run or not

    def _follow_stream(self, event: ResponseStartedEvent | ContentStartedEvent) -> None:
        chat = self._chat.get()
        if chat is not None and not chat.is_ended:
            if chat.is_streamed is None:
                chat.is_streamed = True  # only an engine sends stream events
            chat.follow()

    def _describe_response(self, event: ResponseFinishedEvent) -> None:
        chat = self._chat.get()
        if chat is not None and not chat.is_ended and event.response is not None:
            self._describe(chat, event.response)

    def _describe(self, chat: Chat, response: Response) -> None:
        if chat.is_described:
            return
        chat.is_described = True
        origin = response.metadata.origin
        chat.labels[words.RESPONSE_MODEL] = origin.model
        chat.describe({**describe_request(response.request), **describe_origin(origin)})
        if self._captures:
            chat.describe(describe_texts(response))
        if not chat.is_in_run:
            self._meters.count_tokens(origin.usage, chat.labels)
            self._end_chat(chat)

    # Calls without an engine

    def _react_to_start(self, event: ConversationStartedEvent) -> None:
        metadata: Mapping[str, Any] = event.metadata
        chat = self._chat.get()
        if chat is None or chat.is_ended or not chat.is_in_run:
            address = f"{metadata.get('provider', '')}:{metadata.get('model', '')}"
            chat = self._begin_chat(address, event.conversation_id)
        chat.is_streamed = bool(metadata.get("streaming", True))

    def _react_to_update(self, event: ConversationUpdatedEvent) -> None:
        if isinstance(event.event, (*_STREAM_EVENTS, ResponseFinishedEvent)):
            self(event.event)

    def _react_to_failure(self, event: ConversationFailedEvent) -> None:
        self._break_off(words.name_error(event.error))

    def _react_to_end(self, event: ConversationEndedEvent) -> None:
        if event.outcome != "completed":
            self._break_off(words.name_error(None))

    def _break_off(self, kind: str) -> None:
        chat = self._chat.get()
        if chat is not None and not chat.is_ended and not chat.is_in_run:
            chat.fail(kind)
            self._end_chat(chat)

    def _start_call(self, name: str, attributes: Attributes) -> Span:
        return self._start_span(name, kind=self._kinds.CLIENT, attributes=attributes)

    def _begin_chat(self, address: str, conversation_id: str) -> Chat:
        labels = name_model(words.CHAT, address)
        model = labels.get(words.REQUEST_MODEL, "")
        attributes = dict(labels)
        if conversation_id:
            attributes[words.CONVERSATION] = conversation_id
        span = self._start_call(f"{words.CHAT} {model}".rstrip(), attributes)
        chat = Chat(span=span, labels=labels)
        self._chat.set(chat)
        if self._on_chat is not None:
            self._on_chat(span)
        return chat

    def _end_chat(self, chat: Chat) -> None:
        self._meters.end_answer(chat)
        self._chat.set(None)


def _captures_texts_by_default() -> bool:
    return os.environ.get(words.CAPTURE_VARIABLE, "").strip().lower() in words.CAPTURE_VALUES
