"""Somebody is asked, and somebody else may answer first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from vibe_llms.engine.approving import ApprovalGate, produce_answer
from vibe_llms.engine.contexts import RunContext
from vibe_llms.engine.prepared_calls import Call
from vibe_llms.engine.recovery import Record
from vibe_llms.events.runs import ApprovalRefusedEvent
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    allow,
    produce_approval_request,
)
from vibe_llms.messages.canisters import InvocationCanister


class Context:
    """Remembers what is told, and of what it is waited for that it reaches the disk."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, bool]] = []

    async def emit(self, event: Any, *, durable: bool = False) -> None:
        self.told.append((event, durable))


class Person:
    """Thinks until it is disturbed, and then does as it likes."""

    def __init__(self, then: Callable[[ApprovalRequest], Awaitable[Approval]]) -> None:
        self.thinks = asyncio.Event()
        self.then = then

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.thinks.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return await self.then(request)
        raise AssertionError


async def wait_for_question(person: Person, asking: asyncio.Task[Any]) -> None:
    """Waits until somebody thinks; whoever asks and ends before has failed."""
    thinking = asyncio.create_task(person.thinks.wait())
    await asyncio.wait([thinking, asking], return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        raise AssertionError(await asking)
    await thinking


def produce_call() -> tuple[Call, ApprovalRequest]:
    canister = InvocationCanister(invocation_id="p", name="pay", turn_id="t")
    request = produce_approval_request("p", "pay", {}, in_doubt=True)
    return Call(canister=canister, request=request), request


async def give_way(request: ApprovalRequest) -> Approval:
    raise asyncio.CancelledError


async def insist(request: ApprovalRequest) -> Approval:
    return allow(request)


@pytest.mark.parametrize("then", [give_way, insist])
async def test_whoever_answers_first_is_heard_and_who_was_asked_is_disturbed(
    then: Callable[[ApprovalRequest], Awaitable[Approval]],
) -> None:
    """An answer that comes too late is written down as refused, and settles nothing."""
    context, record, person = Context(), Record(), Person(then)
    gate = ApprovalGate(cast("RunContext", context), record, person, ())
    call, request = produce_call()
    gate.cancel_if_answered()  # nobody is being asked yet

    asking = asyncio.create_task(gate.ask([call]))
    await wait_for_question(person, asking)
    gate.cancel_if_answered()  # there is no answer yet, and nobody is disturbed
    await asyncio.sleep(0)
    assert not asking.done()
    answer = produce_answer(call.key, request, allow(request))
    record.add(answer)
    gate.cancel_if_answered()

    assert await asking == ()
    gate.cancel_if_answered()
    refused = ApprovalRefusedEvent(key=call.key, digest=request.digest)
    assert context.told[1:] == ([] if then is give_way else [(refused, True)])
    assert record.find_approval(call.key, request.digest, "pay", in_doubt=True) is answer


async def test_who_is_asked_has_come_to_an_end_before_the_run_has() -> None:
    """Such as a question on a screen, which somebody has to take away."""
    ended: list[str] = []

    async def tidy_up(request: ApprovalRequest) -> Approval:
        await asyncio.sleep(0.01)
        ended.append("asking")
        raise asyncio.CancelledError

    person = Person(tidy_up)
    gate = ApprovalGate(cast("RunContext", Context()), Record(), person, ())
    asking = asyncio.create_task(gate.ask([produce_call()[0]]))
    await wait_for_question(person, asking)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ended == ["asking"]
