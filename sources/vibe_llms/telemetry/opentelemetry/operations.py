"""Operations with a span: a run, an answer, the execution of a tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.opentelemetry import conventions as words
from vibe_llms.telemetry.opentelemetry.attributes import Attributes

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.trace import Span


class Meters:
    """Histograms of durations and tokens."""

    def __init__(self, meter: Meter) -> None:
        def produce(name: str, description: str) -> Histogram:
            return meter.create_histogram(
                name,
                unit="s",
                description=description,
                explicit_bucket_boundaries_advisory=words.SECOND_BOUNDARIES,
            )

        self.chat = produce(words.OPERATION_DURATION, "GenAI operation duration.")
        self.first_chunk = produce(words.TIME_TO_FIRST_CHUNK, "Time to receive the first chunk.")
        self.run = produce(words.INVOKE_AGENT_DURATION, "The duration of an agent invocation.")
        self.tool = produce(words.EXECUTE_TOOL_DURATION, "The duration of a tool execution.")
        self._tokens = meter.create_histogram(
            words.TOKEN_USAGE,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=words.TOKEN_BOUNDARIES,
        )

    def count_tokens(self, usage: Usage | None, attributes: Mapping[str, Any]) -> None:
        """Record the usage of an answer, if known."""
        if usage is None:
            return
        counts = {"input": usage.total_input_tokens, "output": usage.total_output_tokens}
        for kind, count in counts.items():
            if count is not None:
                self._tokens.record(count, {**attributes, words.TOKEN_TYPE: kind})

    def end_answer(self, answer: Chat) -> None:
        """End an answer, and record its duration and the time to its first piece."""
        if answer.first_seconds is not None:
            labels = {name: label for name, label in answer.labels.items() if name != words.ERROR}
            self.first_chunk.record(answer.first_seconds, labels)
        answer.end(self.chat)


@define(eq=False, kw_only=True)
class Operation:
    """An operation in progress.

    Attributes:
        span: Span of the operation.
        labels: Further attributes of its metrics.
        started: Start of the operation, by the clock for durations.
    """

    span: Span
    labels: Attributes = attrs.field(factory=dict)
    started: float = attrs.field(factory=time.perf_counter)
    is_ended: bool = attrs.field(default=False, init=False)
    _token: Token[Context] | None = attrs.field(default=None, init=False)
    _task: object = attrs.field(default=None, init=False)

    def enter(self) -> None:
        """Make the operation's span the parent of everything that this task starts from now on."""
        from opentelemetry import context as contexts
        from opentelemetry.trace import set_span_in_context

        self._token = contexts.attach(set_span_in_context(self.span))
        self._task = _access_task()

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self.span.set_attributes(attributes)

    def fail(self, kind: str) -> None:
        """Mark the operation as failed. Error messages are omitted, as they may quote texts."""
        from opentelemetry.trace import Status, StatusCode

        self.labels[words.ERROR] = kind
        self.span.set_attribute(words.ERROR, kind)
        self.span.set_status(Status(StatusCode.ERROR, kind))

    def end(self, durations: Histogram) -> None:
        """End the operation, once, and record its duration."""
        if self.is_ended:
            return
        durations.record(time.perf_counter() - self.started, self.labels)
        self.leave()

    def leave(self) -> None:
        """End the operation's span, once."""
        if self.is_ended:
            return
        self.is_ended = True
        self.span.end()
        if self._token is not None and self._task is _access_task():
            from opentelemetry import context as contexts

            contexts.detach(self._token)  # in another task, the context ends with that task


@define(eq=False, kw_only=True)
class Chat(Operation):
    """An answer in progress.

    Attributes:
        is_in_run: Whether an engine reports it.
        is_streamed: Whether it is streamed; ``None`` if unknown.
        first_seconds: Time to the first piece.
        is_described: Whether the request and the answer are in its attributes.
    """

    is_in_run: bool = False
    is_streamed: bool | None = None
    first_seconds: float | None = None
    is_described: bool = False

    def follow(self) -> None:
        """Record the arrival of a part of the answer."""
        if self.first_seconds is None and self.is_streamed:
            self.first_seconds = time.perf_counter() - self.started
            seconds = self.first_seconds
            self.describe({words.REQUEST_STREAM: True, words.FIRST_CHUNK: seconds})


@define(eq=False, kw_only=True)
class RunOperation(Operation):
    """A run of an engine.

    Attributes:
        conversation_id: The conversation.
        chat: The answer in progress.
        tools: The executions in progress, by the keys of their invocations.
        usage: Usage of its answers.
    """

    conversation_id: str
    chat: Chat | None = None
    tools: dict[str, Operation] = attrs.field(factory=dict)
    usage: Usage | None = None


def _access_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
