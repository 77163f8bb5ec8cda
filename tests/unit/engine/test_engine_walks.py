"""Whatever models, tools, people and faults do: a run ends, and does what it may and no more."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.scripting import produce_model
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.engine.driver import Driver, RunEnding
from vibe_llms.engine.generating import ModelCall
from vibe_llms.engine.states import Reason, State
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    EngineEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunSuspendedEvent,
)
from vibe_llms.exceptions import ProviderError, ProviderFault, StreamTruncatedError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import InvocationContext, Registry, produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, Scope, allow, deny, edit
from vibe_llms.invocables.calls import digest_call
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.runs.journals import ConversationJournal
from vibe_llms.runs.local import LocalRunContext

DESCRIPTOR = produce_model({"contents": [{"text": "x"}]}).descriptor

calls = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["look", "touch", "pay", "pay", "fail", "hang", "answer", "unknown"]
        ),
        "arguments": st.sampled_from(
            ["{}", '{"n": 1}', '{"n":  1.0}', '{"n": 2}', "[", "5", '{"m":1}']
        ),
        "id": st.sampled_from(["a", "b", "c"]),
        "owner": st.sampled_from([Owner.OURS] * 5 + [Owner.VENDOR]),
    }
)
PAY = {"name": "pay", "arguments": "{}", "id": "a", "owner": Owner.OURS}
turns = st.fixed_dictionaries(
    {
        "parts": st.lists(st.one_of(st.just("words"), calls), max_size=4),
        "stop": st.sampled_from([*StopReason]),
        "fault": st.sampled_from([None, None, None, "refused", "cut", "cut", "hang"]),
    }
)
answers = st.sampled_from(["allow", "call", "always", "deny", "edit", "raise", "wrong"])


@attrs.define
class WildModel:
    """A model that does as it is told, turn by turn, and its last turn for ever."""

    turns: Sequence[dict[str, Any]]
    asked: int = 0
    hangs: asyncio.Event = attrs.field(factory=asyncio.Event)
    descriptor: Any = DESCRIPTOR

    async def converse(self, request: Request, *_: object, **__: object) -> Response:
        turn = self.turns[min(self.asked, len(self.turns) - 1)]
        self.asked += 1
        if turn["fault"] == "hang":
            self.hangs.set()
            await asyncio.sleep(3600)
        if turn["fault"] == "refused":
            raise ProviderError(provider="wild", fault=ProviderFault.OVERLOADED, detail="busy")
        if turn["fault"] == "cut":
            error = StreamTruncatedError(detail="cut")
            error.keep_arrived(self._speak(turn, StopReason.INTERRUPTED))
            raise error
        stop = turn["stop"]
        origin = self._sign(StopReason.ANSWERED if stop in _BROKEN else stop)
        return Response(
            request=request,
            canisters=self._speak(turn, origin.stop_reason),
            metadata=ResponseMetadata(origin=origin),
        )

    def _sign(self, stop: StopReason) -> Origin:
        usage = Usage(input_tokens=10, output_tokens=1)
        return Origin(provider="wild", model="m", stop_reason=stop, usage=usage)

    def _speak(self, turn: dict[str, Any], stop: StopReason) -> tuple[AnyCanister, ...]:
        origin, turn_id = self._sign(stop), f"turn-{self.asked}"
        said: list[AnyCanister] = []
        for part in turn["parts"]:
            if part == "words":
                said.append(AssistantCanister("words", origin=origin, turn_id=turn_id))
                continue
            said.append(
                InvocationCanister(
                    invocation_id=part["id"],
                    name=part["name"],
                    arguments=part["arguments"],
                    owner=part["owner"],
                    origin=origin,
                    turn_id=turn_id,
                )
            )
        return tuple(said)


_BROKEN = (StopReason.INTERRUPTED, StopReason.FAILED)


@attrs.define
class World:
    """What the tools have done, by the keys of the calls that did it."""

    done: list[tuple[str, str, str]] = attrs.field(factory=list)

    def produce_tools(self) -> list[Any]:
        def note_down(name: str, n: int, context: InvocationContext) -> str:
            self.done.append((name, context.idempotency_key, json.dumps({"n": n})))
            return f"{name} {n}"

        async def look(context: InvocationContext, n: int = 0) -> str:
            """Looks."""
            return note_down("look", n, context)

        async def touch(context: InvocationContext, n: int = 0) -> str:
            """Touches."""
            await asyncio.sleep(0)
            return note_down("touch", n, context)

        async def pay(context: InvocationContext, n: int = 0) -> str:
            """Pays."""
            note_down("pay", n, context)
            await asyncio.sleep(0)
            return "paid"

        async def fail(context: InvocationContext, n: int = 0) -> str:
            """Fails."""
            note_down("fail", n, context)
            raise ValueError("no")

        async def hang(context: InvocationContext, n: int = 0) -> str:
            """Hangs."""
            note_down("hang", n, context)
            await asyncio.sleep(3600)
            return "never"

        async def answer(context: InvocationContext, n: int = 0) -> str:
            """Answers."""
            return note_down("answer", n, context)

        return [
            produce_invoker(look, effect="pure"),
            produce_invoker(touch, effect="idempotent", needs_approval=True),
            produce_invoker(pay, effect="once", needs_approval=True),
            produce_invoker(fail, effect="once"),
            produce_invoker(hang, effect="once", time_limit_seconds=0.01),
            produce_invoker(answer, effect="pure", is_final=True),
        ]


@attrs.define
class Person:
    """Answers requests for approvals as told, and then with no."""

    answers: list[str]

    async def approve(self, request: ApprovalRequest) -> Approval:
        match self.answers.pop(0) if self.answers else "deny":
            case "allow":
                return allow(request)
            case "call":
                return allow(request, scope=Scope.CALL)
            case "always":
                return allow(request, scope=Scope.ALWAYS)
            case "edit":
                return edit(request, {"n": 7})
            case "raise":
                raise RuntimeError("gone for lunch")
            case "wrong":
                return attrs.evolve(allow(request), digest="0" * 64)
        return deny(request)


async def run(
    model: WildModel,
    world: World,
    person: Person | None,
    limits: Limits,
    conversation: Conversation,
    log: MemoryLog,
    cancel_at: int | None,
) -> RunEnding | None:
    """Performs one run; ``None`` where it was cancelled."""
    task = asyncio.current_task()
    assert task is not None
    heard = 0

    def listen(event: object) -> None:
        nonlocal heard
        heard += 1
        if heard == cancel_at:
            task.cancel()

    context = LocalRunContext(f"run-{len(log.read())}", log, listener=listen)
    driver: Driver | None = None
    try:
        async with Registry(gather_ensembles(world.produce_tools())) as registry:
            driver = Driver(
                ModelCall(model=model, stream=False),  # type: ignore[arg-type]
                registry,
                ConversationJournal(conversation),
                context,
                limits=limits,
                approver=person,
            )
            await driver.drive()
    except asyncio.CancelledError:
        task.uncancel()
    return None if driver is None else driver.ending


@pytest.mark.slow
@examples(300)
@given(
    told=st.lists(turns, min_size=1, max_size=5),
    said=st.none() | st.lists(answers, max_size=5),
    bounds=st.fixed_dictionaries(
        {
            "run_steps": st.integers(1, 6),
            "run_invocations": st.integers(1, 8),
            "run_faults": st.integers(1, 5),
            "run_tokens": st.sampled_from([20, 1000]),
        }
    ),
    cancellations=st.lists(st.none() | st.integers(2, 16), min_size=1, max_size=5),
)
@example(
    told=[{"parts": [PAY], "stop": StopReason.INVOCATION, "fault": None}],
    said=["allow"],
    bounds={"run_steps": 3, "run_invocations": 3, "run_faults": 3, "run_tokens": 1000},
    cancellations=[9, None],
)
@example(
    told=[{"parts": [PAY, PAY], "stop": StopReason.INVOCATION, "fault": None}],
    said=["always"],
    bounds={"run_steps": 3, "run_invocations": 3, "run_faults": 3, "run_tokens": 1000},
    cancellations=[9, None],
)
def test_a_run_always_ends_and_does_only_what_it_may(
    told: list[dict[str, Any]],
    said: list[str] | None,
    bounds: dict[str, int],
    cancellations: list[int | None],
) -> None:
    """Several runs of one conversation, one after the other, some of them cancelled."""
    world, log, conversation = World(), MemoryLog(), Conversation()
    conversation.add_canister(UserCanister("Go!"))
    model = WildModel(told)
    person = None if said is None else Person(list(said))
    limits = Limits(**bounds, run_seconds=3600)

    async def walk() -> list[RunEnding | None]:
        endings = []
        for cancel_at in cancellations:
            before = list(conversation.canisters)
            ending = await asyncio.wait_for(
                run_bounded(model, world, person, limits, conversation, log, cancel_at), 20
            )
            assert list(conversation.canisters[: len(before)]) == before
            endings.append(ending)
        return endings

    endings = asyncio.run(walk())

    events = [logged.event for logged in log.read()]
    note(f"{[(e.state, e.reason, e.limit) if e else None for e in endings]}")
    check_endings(endings, limits)
    check_executions(world, events, conversation)
    check_results(events, conversation, endings[-1])


async def run_bounded(model: WildModel, *arguments: Any) -> RunEnding | None:
    """Runs, and stops a model that hangs."""
    model.hangs.clear()
    task = asyncio.ensure_future(run(model, *arguments))
    hanging = asyncio.ensure_future(model.hangs.wait())
    await asyncio.wait({task, hanging}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
    hanging.cancel()
    return await task


def check_endings(endings: Sequence[RunEnding | None], limits: Limits) -> None:
    """Each run ended within its limits, for a reason that it names."""
    for ending in endings:
        assert ending is not None
        assert (ending.reason is None) == (ending.state is State.AWAIT)
        assert bool(ending.limit) == (ending.reason is Reason.LIMIT)
        assert (ending.error is not None) == (ending.reason is Reason.FAILED)
        assert ending.readings.steps <= limits.run_steps
        assert ending.readings.invocations <= limits.run_invocations


def check_executions(
    world: World, events: Sequence[EngineEvent], conversation: Conversation
) -> None:
    """What was done had been asked for by the model, was approved, and was not repeated."""
    asked = {
        each.id: each for each in conversation.canisters if isinstance(each, InvocationCanister)
    }
    allowed: set[str] = set()
    fresh: set[str] = set()  # allowed since the last start, by an answer to just this call
    started: Counter[str] = Counter()
    for event in events:
        if isinstance(event, ApprovalAnsweredEvent) and event.decision != "deny":
            fresh.add(event.key)
            allowed.add(event.key)
            if event.scope == "call":
                allowed.add(event.digest)
            if event.scope == "always":
                allowed.add(event.name)
        if isinstance(event, InvocationStartedEvent):
            canister = asked[event.key]
            assert canister.owner is Owner.OURS
            assert canister.name == event.name
            assert canister.origin is not None
            assert canister.origin.stop_reason not in _BROKEN
            if event.name in ("touch", "pay"):
                reached = {event.key, event.name, digest_of(event)} & allowed
                assert reached, f"{event.name} was not approved"
            if event.effect == "once" and started[event.key]:
                assert event.key in fresh, "repeated in silence"
            started[event.key] += 1
            fresh.discard(event.key)
    keys = Counter(key.partition("/")[2] for _, key, _ in world.done)
    for key, count in keys.items():
        assert count <= started[key]


def digest_of(event: InvocationStartedEvent) -> str:
    return digest_call(event.name, json.loads(event.arguments))


def check_results(
    events: Sequence[EngineEvent], conversation: Conversation, last: RunEnding | None
) -> None:
    """Each call has at most one result, in the order of the calls; none that came is lost."""
    results = [each for each in conversation.canisters if isinstance(each, ResultCanister)]
    ids = [each.id for each in results]
    assert len(ids) == len(set(ids))
    finished = {e.result.id: e for e in events if isinstance(e, InvocationFinishedEvent)}
    assert set(ids) <= set(finished)
    if last is not None and last.reason in (Reason.ANSWERED, Reason.REFUSED):
        assert set(finished) == set(ids)
    order = {each.id: index for index, each in enumerate(conversation.canisters)}
    positions = [order[finished[each].key] for each in ids]
    assert positions == sorted(positions)
    if events:
        assert isinstance(events[-1], RunEndedEvent | RunSuspendedEvent)
