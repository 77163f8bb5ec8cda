"""Odometer: a listener that adds up the usage of runs and calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from vibe_llms.events.calls import (
    CallEvent,
    CallFailedEvent,
    CallFinishedEvent,
    CallRetriedEvent,
    CallStartedEvent,
)
from vibe_llms.events.conversation import (
    ConversationEndedEvent,
    ConversationStartedEvent,
    ConversationUpdatedEvent,
)
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationDeferredEvent,
    GenerationDoubtedEvent,
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
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.identities import access_now
from vibe_llms.telemetry.accounts import Account, ModelAccount, ToolAccount, join_accounts
from vibe_llms.telemetry.measuring import measure_generation
from vibe_llms.telemetry.stopwatches import AnswerTiming, Stopwatch

_BATCH_SIZE: Final = 1000
"""Number of answers whose prices are looked up together, unless the account is read before."""

_NO_TIMINGS: Final[Mapping[object, AnswerTiming]] = MappingProxyType({})
_timings: ContextVar[Mapping[object, AnswerTiming]] = ContextVar(
    "vibe_llms_timings", default=_NO_TIMINGS
)
"""Timing of the answer that the current task receives, for each odometer. Each task has its own, so
that simultaneous answers are separate; tasks that clean up after an answer inherit it.
"""


class Odometer:
    """Adds up tokens, money and time, by model, by tool and by state.

    Use it as the listener of an engine, ``Engine(..., listener=odometer)``, or of an embedder or
    another instrument, ``Embedder(..., listener=odometer)``; use its :attr:`reactors` for answers
    without an engine, ``Model(..., reactors=odometer.reactors)``. It may listen to any number of
    runs and calls at the same time.

    Args:
        clock: Returns the seconds of a monotonic clock.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Key in the mapping of timings: several odometers may listen in one task.
        self._key = object()
        self._models: tuple[ModelAccount, ...] = ()
        self._unpriced_answers: list[Mapping[str, Any]] = []
        self._tools: dict[str, ToolAccount] = {}
        self._tool_watch = Stopwatch(clock)
        self._approval_watch = Stopwatch(clock)
        self._approvals = self._retries = self._doubted = 0
        self._runs: set[str] = set()
        self._calls: dict[int, CallStartedEvent] = {}

    def __call__(self, event: StreamEvent | LogEvent | CallEvent) -> None:
        """Process one event; most are ignored."""
        match event:
            case RunStartedEvent():
                self._runs.add(event.run_id)
            case RunSuspendedEvent() | RunEndedEvent():
                self._runs.discard(event.run_id)
                if not self._runs:  # calls without an end were cut off
                    self._tool_watch.stop_all()
                    self._approval_watch.stop_all()
            case GenerationStartedEvent():
                self._set_timing(AnswerTiming(model=event.model, is_in_run=True))
            case GenerationFinishedEvent():
                self._add_answer(event)
            case GenerationFailedEvent():
                self._record_failure(self._take_timing(), event.canisters, event.seconds)
            case GenerationDeferredEvent():
                self._take_timing()
            case GenerationDoubtedEvent():
                self._doubted += 1
            case ApprovalRequestedEvent():
                self._approvals += 1
                self._approval_watch.start(event.key)
            case ApprovalAnsweredEvent():
                self._approval_watch.stop(event.key)
            case InvocationStartedEvent():
                self._tool_watch.start(event.key)
            case InvocationFinishedEvent():
                self._add_result(event)
            case ResponseStartedEvent() | ContentStartedEvent():
                is_reasoning = isinstance(event, ContentStartedEvent) and event.kind == "reasoning"
                self._access_timing().follow(self._clock(), is_reasoning)
            case RetryEvent():
                self._retries += 1
                self._access_timing().follow(self._clock())
            case ResponseFinishedEvent() | ResponseFailedEvent():
                self._add_response(event)
            case CallStartedEvent():
                self._calls[event.call_id] = event
            case CallRetriedEvent():
                self._retries += 1
            case CallFinishedEvent() | CallFailedEvent():
                self._add_call(event)

    @property
    def reactors(self) -> ConversationReactors:
        """Reactors for calls without an engine; events within a run count once."""
        return ConversationReactors(
            allocator=self._react_to_start,
            updater=self._react_to_update,
            deallocator=self._react_to_end,
        )

    @property
    def account(self) -> Account:
        """The usage so far, without work in progress."""
        self._add_prices()
        return Account(
            models=self._models,
            tools=join_accounts(self._tools.values()),
            tools_seconds=self._tool_watch.seconds,
            approvals=self._approvals,
            approval_seconds=self._approval_watch.seconds,
            retries=self._retries,
            doubted=self._doubted,
        )

    def _add_prices(self) -> None:
        """Look up the prices of the recorded answers. Slow the first time: not during a stream."""
        answers, self._unpriced_answers = self._unpriced_answers, []
        if answers:
            priced = (measure_generation(**answer) for answer in answers)
            self._models = join_accounts((*self._models, *priced))

    def _record(self, **answer: Any) -> None:
        # The price is looked up later, for the day of the answer.
        self._unpriced_answers.append({"at": access_now(), **answer})
        if len(self._unpriced_answers) >= _BATCH_SIZE:
            self._add_prices()

    # Events of an engine

    def _add_answer(self, event: GenerationFinishedEvent) -> None:
        timing = self._take_timing()
        origin = timing.origin
        self._record(
            provider=origin.provider if origin else event.provider,
            model=origin.model if origin else event.model.removeprefix(f"{event.provider}:"),
            usage=event.usage,
            seconds=event.seconds,
            tier=event.tier,
            reasoning_seconds=timing.reasoning_seconds,
        )

    def _add_result(self, event: InvocationFinishedEvent) -> None:
        self._tool_watch.stop(event.key)
        call = ToolAccount(
            name=event.name,
            calls=1,
            failures=int(event.is_fault or event.result.is_error),
            seconds=event.seconds,
        )
        total = self._tools.get(event.name)
        self._tools[event.name] = call if total is None else total + call

    # Events of calls outside of conversations

    def _add_call(self, event: CallFinishedEvent | CallFailedEvent) -> None:
        started = self._calls.pop(event.call_id, None)
        if started is None:  # it began before this odometer listened
            return
        origin = event.result.origin if isinstance(event, CallFinishedEvent) else None
        self._record(
            provider=started.provider,
            model=started.model if origin is None else origin.model,
            usage=None if origin is None else origin.usage,
            seconds=event.seconds,
            is_failure=origin is None,
        )

    # Events of a stream

    def _add_response(self, event: ResponseFinishedEvent | ResponseFailedEvent) -> None:
        timing = self._access_timing()
        timing.follow(self._clock())
        response = event.response if isinstance(event, ResponseFinishedEvent) else None
        if response is not None:
            timing.origin = response.metadata.origin
        if timing.is_in_run:
            return  # the engine reports the end
        if isinstance(event, ResponseFailedEvent):
            self._record_failure(self._take_timing(), event.canisters)
        elif response is not None:
            self._take_timing()
            self._record(
                provider=response.metadata.origin.provider,
                model=response.metadata.origin.model,
                usage=response.metadata.usage,
                seconds=response.metadata.duration_seconds,
                reasoning_seconds=timing.reasoning_seconds,
            )

    # Events of the reactors of a call without an engine

    def _react_to_start(self, event: ConversationStartedEvent) -> None:
        if not self._access_timing().is_in_run:
            metadata = event.metadata
            model = f"{metadata.get('provider', '')}:{metadata.get('model', '')}"
            is_streamed = metadata.get("streaming") is not False
            self._set_timing(
                AnswerTiming(model=model, started_at=self._clock(), is_streamed=is_streamed)
            )

    def _react_to_update(self, event: ConversationUpdatedEvent) -> None:
        # Within a run, the engine sends the same events to its listener: they would count twice.
        if not self._access_timing().is_in_run:
            self(event.event)

    def _react_to_end(self, event: ConversationEndedEvent) -> None:
        if event.outcome != "completed" and not self._access_timing().is_in_run:
            self._record_failure(self._take_timing(), event.canisters)

    def _record_failure(
        self, timing: AnswerTiming, canisters: tuple[AnyCanister, ...], seconds: float | None = None
    ) -> None:
        if seconds is None and timing.started_at is not None:
            seconds = self._clock() - timing.started_at
        origin = _access_origin(canisters)
        self._record(
            provider=origin.provider if origin else "",
            model=origin.model if origin else timing.model,
            usage=origin.usage if origin else None,
            seconds=seconds,
            reasoning_seconds=timing.reasoning_seconds,
            is_failure=True,
        )

    def _access_timing(self) -> AnswerTiming:
        """Return the timing of the current answer; begin one if there is none."""
        timing = _timings.get().get(self._key)
        return self._set_timing(AnswerTiming()) if timing is None else timing

    def _set_timing(self, timing: AnswerTiming) -> AnswerTiming:
        # A new mapping: tasks started with the old one keep it.
        _timings.set({**_timings.get(), self._key: timing})
        return timing

    def _take_timing(self) -> AnswerTiming:
        """Return the timing of the current answer, which has ended, and remove it."""
        timings = dict(_timings.get())
        timing = timings.pop(self._key, None)
        _timings.set(timings)
        return timing or AnswerTiming()


def measure_events(log: Iterable[tuple[datetime, LogEvent]]) -> Account:
    """Make an account of the log of a conversation's runs, including durations.

    The durations of reasoning are unknown. Work in progress when a run broke off is ignored.

    Args:
        log: Each event with its time, oldest first.
    """
    total, now = Account(), 0.0

    def read_clock() -> float:
        return now

    odometer = Odometer(clock=read_clock)
    for timestamp, event in log:
        # A run that broke off did not record the end of its work: stop its stopwatches.
        if isinstance(event, RunStartedEvent):
            total += odometer.account
            odometer = Odometer(clock=read_clock)
        now = timestamp.timestamp()
        odometer(event)
    return total + odometer.account


def _access_origin(canisters: tuple[AnyCanister, ...]) -> Origin | None:
    origins = (canister.origin for canister in canisters)
    return next((origin for origin in origins if origin is not None), None)
