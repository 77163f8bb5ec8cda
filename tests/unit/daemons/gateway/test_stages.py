"""A request passes through its stages in order; each attempt passes through those that follow."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.daemons.gateway import basic_stages
from vibe_llms.daemons.gateway.accounting import account
from vibe_llms.daemons.gateway.calls import GatewayCall, Stage, handle
from vibe_llms.daemons.gateway.faces import chat_completions
from vibe_llms.daemons.gateway.stages import ANSWER, COMPACT, COUNT
from vibe_llms.exceptions import ConverseError


def produce_stage(
    name: str, seen: list[str], act: Callable[[GatewayCall], Awaitable[None]]
) -> Stage:
    async def perform(call: GatewayCall) -> None:
        seen.append(name)
        await act(call)
        seen.append(f"{name} ends")

    return perform


async def proceed(call: GatewayCall) -> None:
    await call.proceed()


async def answer(call: GatewayCall) -> None:
    """Answers, so that no stage follows."""


async def run(*performed: Stage) -> None:
    gateway: Any = SimpleNamespace(router=None)
    http: Any = SimpleNamespace()
    record: Any = SimpleNamespace()
    await handle(gateway, chat_completions.FACE, performed)(http, record)


async def test_stages_follow_each_other_and_end_in_reverse() -> None:
    seen: list[str] = []
    one, two = (produce_stage(name, seen, proceed) for name in ("one", "two"))
    last, unreached = (produce_stage(name, seen, answer) for name in ("last", "unreached"))

    await run(one, two, last, unreached)

    assert seen == ["one", "two", "last", "last ends", "two ends", "one ends"]


async def test_each_attempt_passes_through_the_following_stages() -> None:
    seen: list[str] = []
    calls: list[GatewayCall] = []

    async def try_twice(call: GatewayCall) -> None:
        for _ in range(2):
            attempt = call.fork(call.http)
            calls.append(attempt)
            await attempt.proceed()

    follow = produce_stage("follow", seen, proceed)
    await run(try_twice, follow, produce_stage("ask", seen, answer))

    assert seen == ["follow", "ask", "ask ends", "follow ends"] * 2
    assert calls[0] is not calls[1]


async def test_an_error_passes_back_through_all_stages() -> None:
    ended: list[str] = []

    async def clean_up(call: GatewayCall) -> None:
        try:
            await call.proceed()
        finally:
            ended.append("clean up")

    async def fail(call: GatewayCall) -> None:
        raise ConverseError(detail="The upstream failed.")

    with pytest.raises(ConverseError, match="upstream failed"):
        await run(clean_up, fail)
    assert ended == ["clean up"]


@pytest.mark.parametrize("listed", [ANSWER, COUNT, COMPACT], ids=["answer", "count", "compact"])
def test_clients_are_known_before_their_bodies_are_read(listed: tuple[Stage, ...]) -> None:
    assert listed[:2] == (basic_stages.authenticate, basic_stages.read)


def test_cost_is_reserved_for_each_target_and_before_it_is_asked() -> None:
    order = [ANSWER.index(each) for each in (basic_stages.fall_back, account, basic_stages.ask)]
    assert order == sorted(order)
    assert ANSWER[-1] is basic_stages.ask


def test_a_request_has_one_way() -> None:
    """No stage returns early, but with the rest: a request ends where a stage does not proceed."""
    returns = [
        stage.__name__
        for stage in {*ANSWER, *COUNT, *COMPACT}
        for node in ast.walk(ast.parse(inspect.getsource(stage)))  # type: ignore[arg-type]
        if isinstance(node, ast.Return) and node.value is None
    ]
    assert returns == []
