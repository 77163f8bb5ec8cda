"""The odometer listens, and keeps account."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

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
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, ProviderError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.requests import Request
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import EventSource, ResponseStream
from vibe_llms.telemetry.accounts import Account
from vibe_llms.telemetry.odometer import Odometer, measure_events
from vibe_llms.telemetry.prices import Price, price_usage

USAGE = Usage(input_tokens=10, output_tokens=5, reasoning_tokens=3)


@attrs.define
class Bench:
    """An odometer with a clock that goes by hand."""

    now: float = 100.0
    odometer: Odometer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.odometer = Odometer(clock=lambda: self.now)

    @property
    def account(self) -> Account:
        return self.odometer.account

    def hear(self, *events: Any, then: float = 0.0) -> None:
        for event in events:
            self.odometer(event)
        self.now += then


@attrs.define
class Source:
    """An event source that brings one event a read, and then an error, if there is one."""

    events: list[StreamEvent]
    error: ConverseError | None = None

    async def receive(self) -> list[StreamEvent] | None:
        if not self.events and self.error is not None:
            raise self.error
        return [self.events.pop(0)] if self.events else None

    async def close(self) -> None: ...


def _answer(
    reactors: ConversationReactors | None = None,
    *,
    error: ConverseError | None = None,
    streaming: bool = True,
    retries: int = 0,
) -> ResponseStream:
    """The stream of a short answer, which can break off in the middle, or be asked for again."""
    busy = ProviderError(provider="mine", detail="Too busy.")
    again = [RetryEvent(attempt=2 + n, after_seconds=1.0, error=busy) for n in range(retries)]
    beginning = [*again, ContentStartedEvent(index=0, kind="text"), ContentDeltaEvent(0, "Yes")]
    end = [
        ContentFinishedEvent(index=0),
        UsageEvent(usage=USAGE),
        ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
    ]

    async def open_source() -> Translation[EventSource]:
        return Translation(Source([*beginning, *([] if error else end)], error), ())

    return ResponseStream(
        request=Request(canisters=(UserCanister("Well?"),)),
        assembler=Assembler(provider="mine", model="m-2026"),
        open_source=open_source,
        reactors=reactors,
        streaming=streaming,
    )


async def _follow(stream: ResponseStream, odometer: Odometer) -> None:
    async for event in stream:
        odometer(event)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def _start(key: str, turn: int = 1) -> GenerationStartedEvent:
    return GenerationStartedEvent(key=key, turn=turn, model="openai:gpt")


def _finish(key: str, seconds: float = 4.0, usage: Usage | None = USAGE) -> GenerationFinishedEvent:
    return GenerationFinishedEvent(
        key=key,
        turn=1,
        model="openai:gpt",
        provider="openai",
        canisters=1,
        stop_reason=StopReason.ANSWERED,
        usage=usage,
        seconds=seconds,
    )


def _begin_call(key: str, name: str = "read") -> InvocationStartedEvent:
    return InvocationStartedEvent(
        key=key,
        invocation_id=key,
        name=name,
        arguments="{}",
        effect="pure",
        idempotency_key=key,
    )


def _end_call(
    key: str, seconds: float, name: str = "read", *, is_error: bool = False
) -> InvocationFinishedEvent:
    result = ResultCanister("x", invocation_id=key, is_error=is_error)
    return InvocationFinishedEvent(
        key=key, invocation_id=key, name=name, result=result, seconds=seconds
    )


def _ask(key: str) -> ApprovalRequestedEvent:
    return ApprovalRequestedEvent(
        key=key, invocation_id=key, name="write", arguments="{}", digest=key
    )


def test_reasoning_is_timed_from_its_beginning_to_whatever_comes_next(bench: Bench) -> None:
    """What a model thinks between two texts counts, too; the rest is generation."""
    bench.hear(_start("u1"), then=1.0)
    bench.hear(ResponseStartedEvent(), ContentStartedEvent(index=0, kind="reasoning"), then=0.5)
    bench.hear(ContentDeltaEvent(0, "Hm"), then=0.5)
    bench.hear(ContentStartedEvent(index=1, kind="text"), then=1.0)
    bench.hear(ContentStartedEvent(index=2, kind="reasoning"), then=0.25)
    bench.hear(ContentStartedEvent(index=3, kind="invocation"), then=0.75)
    bench.hear(ResponseFinishedEvent(stop_reason=StopReason.INVOCATION), _finish("u1"))

    (model,) = bench.account.models
    assert (model.seconds, model.reasoning_seconds, model.generation_seconds) == (4.0, 1.25, 2.75)
    assert [state.seconds for state in bench.account.states] == [1.25, 2.75, None, None]


async def test_an_answer_in_one_piece_does_not_tell_when_it_was_thought(bench: Bench) -> None:
    """How long it took is known, how much of that was reasoning is not."""
    await _answer(bench.odometer.reactors, streaming=False).response()

    (model,) = bench.account.models
    assert model.seconds is not None
    assert model.reasoning_seconds is None


def test_reasoning_ends_with_the_answer_or_with_the_attempt(bench: Bench) -> None:
    """What passes before the engine tells the end, or until another attempt, is not thought."""
    busy = ProviderError(provider="openai", detail="Too busy.")
    bench.hear(_start("u1"), ContentStartedEvent(index=0, kind="reasoning"), then=1.0)
    bench.hear(RetryEvent(attempt=2, after_seconds=9.0, error=busy), then=9.0)
    bench.hear(ContentStartedEvent(index=0, kind="reasoning"), then=0.5)
    bench.hear(ResponseFinishedEvent(stop_reason=StopReason.ANSWERED), then=7.0)
    bench.hear(ResponseStartedEvent(), _finish("u1", seconds=18.0))

    (model,) = bench.account.models
    assert model.reasoning_seconds == 1.5


def test_parallel_calls_have_a_sum_and_a_time_by_the_wall(bench: Bench) -> None:
    """Three calls of two tools: what overlaps counts once by the wall, and fully by tool."""
    bench.hear(_begin_call("a"), then=1.0)
    bench.hear(_begin_call("b", "write"), then=1.0)
    bench.hear(_end_call("a", 2.0), then=1.0)
    bench.hear(_end_call("b", 2.0, "write", is_error=True), then=10.0)
    bench.hear(_begin_call("c"), then=0.5)
    bench.hear(_end_call("c", 0.5))

    account = bench.account
    assert account.tools_seconds == 3.5
    assert [(t.name, t.calls, t.failures, t.seconds) for t in account.tools] == [
        ("read", 2, 0, 2.5),
        ("write", 1, 1, 2.0),
    ]


def test_waiting_for_approvals_is_measured_apart(bench: Bench) -> None:
    """Two requests that wait at the same time are one wait, and no time of a tool."""
    bench.hear(_ask("a"), _ask("b"), then=2.0)
    answer = ApprovalAnsweredEvent(key="a", digest="a", decision="allow", name="write")
    bench.hear(answer, then=3.0)
    bench.hear(attrs.evolve(answer, key="b"))

    account = bench.account
    assert (account.approvals, account.approval_seconds, account.tools_seconds) == (2, 5.0, None)


@pytest.mark.parametrize(
    "end",
    [
        RunSuspendedEvent(run_id="r", digests=("a",)),
        RunEndedEvent(run_id="r", reason="cancelled"),
    ],
)
def test_the_end_of_a_run_stops_all_clocks(bench: Bench, end: Any) -> None:
    """Nobody waits for an approval, or for a call, of a run that is over."""
    bench.hear(RunStartedEvent(run_id="r", conversation_id="c", length=1))
    bench.hear(_ask("a"), _begin_call("b"), then=2.0)
    bench.hear(end, then=100.0)

    assert (bench.account.approval_seconds, bench.account.tools_seconds) == (2.0, 2.0)


def test_another_run_goes_on_when_one_ends(bench: Bench) -> None:
    """One odometer may listen to several runs."""
    for run in ("r", "s"):
        bench.hear(RunStartedEvent(run_id=run, conversation_id=run, length=1))
    bench.hear(_begin_call("a"), then=2.0)
    bench.hear(RunEndedEvent(run_id="r", reason="answered"), then=3.0)
    bench.hear(_end_call("a", 5.0))

    assert bench.account.tools_seconds == 5.0


def test_failures_retries_and_doubts_are_counted(bench: Bench) -> None:
    """What may have been billed for nothing is in the account, as unknown."""
    error = ProviderError(provider="openai", detail="No.")
    bench.hear(_start("u1"), RetryEvent(attempt=2, after_seconds=1.0, error=error))
    bench.hear(GenerationFailedEvent(key="u1", turn=1, model="openai:gpt", error=error, seconds=2))
    bench.hear(GenerationDoubtedEvent(key="u0", turn=1, model="openai:gpt"))

    account = bench.account
    (model,) = account.models
    assert (model.model, model.generations, model.failures) == ("openai:gpt", 1, 1)
    assert (model.unreported, model.usage, model.seconds) == (1, None, 2)
    assert (account.retries, account.doubted) == (1, 1)


async def test_answers_that_come_at_the_same_time_are_told_apart(bench: Bench) -> None:
    """Each task receives an answer of its own; one thinks while the other speaks."""

    async def receive(key: str, *kinds: str) -> None:
        bench.hear(_start(key), ResponseStartedEvent())
        for index, kind in enumerate(kinds):
            bench.hear(ContentStartedEvent(index=index, kind=kind))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            bench.now += 1.0
        bench.hear(ResponseFinishedEvent(stop_reason=StopReason.ANSWERED))
        bench.hear(_finish(key, seconds=9.0))

    async with asyncio.TaskGroup() as group:
        group.create_task(receive("a", "reasoning", "text", "text"))
        group.create_task(receive("b", "text", "text", "text"))

    (model,) = bench.account.models
    assert model.generations == 2
    assert model.reasoning_seconds == 1.0  # of the one; the other's text did not end it


async def test_calls_without_an_engine_are_heard_through_reactors() -> None:
    """The same account from a model's reactors."""
    odometer = Odometer()

    for _ in range(2):
        await _answer(odometer.reactors).response()

    (account,) = odometer.account.models
    assert (account.model, account.generations, account.failures) == ("mine:m-2026", 2, 0)
    assert account.usage == USAGE + USAGE
    assert account.untimed == 0


async def test_the_events_of_a_stream_can_be_handed_on() -> None:
    """Whoever iterates a stream can let the odometer hear each event."""
    odometer = Odometer()

    for _ in range(2):
        await _follow(_answer(), odometer)

    assert odometer.account.generations == 2
    assert odometer.account.usage == USAGE + USAGE


async def test_what_an_engine_and_its_reactors_tell_counts_once() -> None:
    """An engine with the odometer as listener may have its reactors, too."""
    odometer = Odometer()

    odometer(_start("u1"))
    await _follow(_answer(odometer.reactors), odometer)
    odometer(_finish("u1"))

    (account,) = odometer.account.models
    assert (account.generations, account.usage) == (1, USAGE)
    assert account.model == "mine:m-2026"  # the name under which it answered


@pytest.mark.parametrize("has_reactors", [False, True])
@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("end", ["answered", "failed", "left"])
async def test_whoever_hears_of_an_answer_inside_a_run_counts_it_once(
    end: str, retries: int, has_reactors: bool
) -> None:
    """However it ends, and however often it was asked for: reactors add nothing to the listener."""
    odometer = Odometer()
    error = ProviderError(provider="mine", detail="Too busy.") if end == "failed" else None
    reactors = odometer.reactors if has_reactors else None

    odometer(_start("u1"))
    async with _answer(reactors, error=error, retries=retries) as stream:
        with contextlib.suppress(ProviderError):
            async for event in stream:
                odometer(event)
                if end == "left" and isinstance(event, ContentDeltaEvent):
                    break
    if end == "answered":
        odometer(_finish("u1"))
    else:
        odometer(
            GenerationFailedEvent(
                key="u1",
                turn=1,
                model="mine:m-2026",
                error=error or ConverseError(detail="Left."),
                seconds=2,
            )
        )

    (account,) = odometer.account.models
    assert (account.generations, account.failures) == (1, int(end != "answered"))
    assert odometer.account.retries == retries


@pytest.mark.parametrize("is_heard_by", ["reactors", "listener"])
async def test_an_answer_that_breaks_off_is_a_failure(is_heard_by: str) -> None:
    """It counts once, under the name of who was asked."""
    odometer = Odometer()
    error = ProviderError(provider="mine", detail="Too busy.")
    heard = odometer.reactors if is_heard_by == "reactors" else None

    with pytest.raises(ConverseError):
        await _follow(_answer(heard, error=error), odometer if heard is None else Odometer())

    (account,) = odometer.account.models
    assert (account.model, account.generations, account.failures) == ("mine:m-2026", 1, 1)


async def test_an_answer_that_somebody_stops_is_a_failure() -> None:
    """Leaving a stream early may still be billed: it counts, and so does its time."""
    odometer = Odometer()

    async with _answer(odometer.reactors) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break

    (account,) = odometer.account.models
    assert (account.model, account.generations, account.failures) == ("mine:m-2026", 1, 1)
    assert account.seconds is not None


def test_nothing_grows_with_the_number_of_events(bench: Bench) -> None:
    """However long it listens, it keeps no more than the names that it heard."""

    def listen(count: int) -> int:
        for number in range(count):
            bench.hear(_start(f"u{number}"), _finish(f"u{number}"))
            bench.hear(_begin_call(f"c{number}"), _end_call(f"c{number}", 1.0))
        return _weigh(bench.odometer)

    assert listen(3000) < 1100
    assert bench.account.generations == 3000


def _weigh(odometer: Odometer) -> int:
    return sum(len(value) for value in vars(odometer).values() if hasattr(value, "__len__"))


def _log(*entries: tuple[float, Any]) -> list[tuple[datetime, Any]]:
    return [(datetime.fromtimestamp(second, UTC), event) for second, event in entries]


def test_a_log_tells_how_long_things_took() -> None:
    """By its moments, what overlapped and what was waited for; but not what was thought."""
    account = measure_events(
        _log(
            (0, RunStartedEvent(run_id="r", conversation_id="c", length=1)),
            (0, _start("u1")),
            (4, _finish("u1")),
            (5, _ask("a")),
            (8, ApprovalAnsweredEvent(key="a", name="read", digest="a", decision="allow")),
            (8, _begin_call("a")),
            (9, _begin_call("b")),
            (10, _end_call("a", 2.0)),
            (12, _end_call("b", 3.0)),
        )
    )

    (model,) = account.models
    assert (model.seconds, model.reasoning_seconds) == (4.0, None)
    assert account.tools[0].seconds == 5.0
    assert (account.tools_seconds, account.approval_seconds) == (4.0, 3.0)


def test_what_went_on_when_a_run_broke_off_counts_for_nothing() -> None:
    """Days may lie between a crash and the run that goes on from there."""
    account = measure_events(
        _log(
            (0, RunStartedEvent(run_id="r", conversation_id="c", length=1)),
            (1, _begin_call("a")),
            (90_000, RunStartedEvent(run_id="s", conversation_id="c", length=2)),
            (90_001, _begin_call("b")),
            (90_003, _end_call("b", 2.0)),
            (90_003, RunEndedEvent(run_id="s", reason="answered")),
        )
    )

    assert account.tools_seconds == 2.0


def test_the_runs_of_a_log_are_counted_together() -> None:
    """Each that came before, however many there were."""
    runs = []
    for number in range(3):
        begun = RunStartedEvent(run_id=f"r{number}", conversation_id="c", length=1)
        doubt = GenerationDoubtedEvent(key=f"u{number}", turn=1, model="openai:gpt")
        runs += [(number, begun), (number, doubt), (number, doubt), (number, _finish("u"))]

    account = measure_events(_log(*runs))

    assert (account.doubted, account.generations) == (6, 3)


def _call(bench: Bench, *, streaming: bool = True, model: str = "m:1") -> ConversationReactors:
    """Begins a call without an engine."""
    said = {"provider": "mine", "model": model, "streaming": streaming}
    reactors = bench.odometer.reactors
    assert reactors.allocator is not None
    reactors.allocator(ConversationStartedEvent(conversation_id="c", metadata=said))
    return reactors


def _update(reactors: ConversationReactors, *events: StreamEvent) -> None:
    assert reactors.updater is not None
    for event in events:
        reactors.updater(ConversationUpdatedEvent(conversation_id="c", event=event))


def _fail(reactors: ConversationReactors, *canisters: AnyCanister) -> None:
    assert reactors.deallocator is not None
    reactors.deallocator(
        ConversationEndedEvent(conversation_id="c", outcome="failed", canisters=canisters)
    )


def test_of_a_call_that_fails_is_kept_who_was_asked_for_how_long_and_what_was_thought(
    bench: Bench,
) -> None:
    """The name of a model may have a colon itself."""
    reactors = _call(bench)
    bench.now += 1.0
    _update(reactors, ContentStartedEvent(index=0, kind="reasoning"))
    bench.now += 2.0
    _update(reactors, ContentStartedEvent(index=1, kind="text"))
    bench.now += 4.0
    _fail(reactors)

    (account,) = bench.account.models
    assert (account.model, account.failures) == ("mine:m:1", 1)
    assert (account.seconds, account.reasoning_seconds) == (7.0, 2.0)
    assert account.usage is None


@pytest.mark.parametrize(("streaming", "thought"), [(True, 2.0), (False, None)])
async def test_what_a_call_without_an_engine_thought_is_known_of_a_stream(
    bench: Bench, streaming: bool, thought: float | None
) -> None:
    reactors = _call(bench, streaming=streaming)
    _update(reactors, ContentStartedEvent(index=0, kind="reasoning"))
    bench.now += 2.0
    response = await _answer(streaming=streaming).response()
    _update(reactors, ResponseFinishedEvent(stop_reason=StopReason.ANSWERED, response=response))

    (account,) = bench.account.models
    assert (account.generations, account.reasoning_seconds) == (1, thought)


def test_a_failure_says_who_had_begun_to_answer_and_what_that_used(bench: Bench) -> None:
    """Of what had arrived, the first that knows tells."""
    origin = Origin(provider="theirs", model="m-1", usage=USAGE)
    asked, begun = UserCanister("And?"), AssistantCanister("Well", origin=origin)
    event = GenerationFailedEvent(key="u1", turn=1, model="openai:gpt", canisters=(asked, begun))
    bench.hear(_start("u1"), event)

    (account,) = bench.account.models
    assert (account.model, account.usage, account.failures) == ("theirs:m-1", USAGE, 1)


def test_a_model_without_a_vendor_is_called_by_its_name_alone(bench: Bench) -> None:
    bench.hear(GenerationStartedEvent(key="u1", turn=1, model="plain"))
    bench.hear(GenerationFailedEvent(key="u1", turn=1, model="plain"))
    reactors = bench.odometer.reactors
    _update(reactors, ResponseFailedEvent(error=ConverseError(detail="Left.")))

    assert [account.model for account in bench.account.models] == ["", "plain"]


def test_a_log_whose_beginning_is_lost_is_measured_as_well() -> None:
    account = measure_events(_log((5, _begin_call("a")), (7, _end_call("a", 2.0))))

    assert account.tools_seconds == 2.0


async def test_odometers_that_listen_in_one_task_hear_each_for_itself() -> None:
    """What one is told by an engine, the other hears as a call."""
    first, second = Odometer(), Odometer()
    first(_start("u1"))
    await _follow(_answer(), second)

    assert (first.account.generations, second.account.generations) == (0, 1)


async def test_a_request_that_is_deferred_is_not_under_way_any_more() -> None:
    """So that a call which comes next counts for itself."""
    odometer = Odometer()
    odometer(_start("u1"))
    odometer(GenerationDeferredEvent(key="u1", turn=1, model="openai:gpt", backend="d"))
    await _follow(_answer(), odometer)

    assert odometer.account.generations == 1


def test_an_answer_that_only_an_engine_tells_of_is_of_the_model_that_was_asked(
    bench: Bench,
) -> None:
    bench.hear(_start("u1"), _finish("u1"))

    assert [account.model for account in bench.account.models] == ["openai:gpt"]


def test_what_a_batch_answered_is_priced_as_that(bench: Bench) -> None:
    """As the vendor's own batches cost less."""
    finish = attrs.evolve(_finish("u1"), model="openai:gpt-5", tier="batch")
    bench.hear(_start("u1"), finish)

    (account,) = bench.account.models
    expected = price_usage(USAGE, provider="openai", model="gpt-5", tier="batch")
    usual = price_usage(USAGE, provider="openai", model="gpt-5")
    assert (account.prices, account.unpriced) == _tell(expected)
    assert _tell(expected) != _tell(usual)


def _tell(price: Any) -> tuple[Any, tuple[str, ...]]:
    is_priced = isinstance(price, Price)
    return (price.buckets, ()) if is_priced else ((), (price.reason,))
