"""How a model is asked in the turns of a run, and what the log says of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest import mock

import attrs
import pytest

from support.runs.acting import Clock, FinishedRun, Stage, WatchedLog, invoke, say, script
from vibe_llms.engine.states import Reason
from vibe_llms.events.engine import (
    GenerationAnsweredEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
)
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import Registry, invocable, produce_invoker
from vibe_llms.invocables.deduplicators import ByArguments
from vibe_llms.messages.canisters import AssistantCanister, Origin, StopReason
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import text_of
from vibe_llms.models.attributes import ModelAttributes


def look() -> str:
    """Looks."""
    return "a long view of it all " * 20


LOOK = attrs.evolve(produce_invoker(look, effect="pure"), deduplicator=ByArguments())
TURNS = [invoke("look", "1")], [invoke("look", "2")], [say("Done.")]


class Asked(list[Request]):
    """What a model is asked, and how."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.ways: list[tuple[Any, ...]] = []
        self.stage = stage

    def __enter__(self) -> Asked:
        model = self.stage.model
        converse, stream = model.converse, model.stream

        def note(perform: Any) -> Any:
            def ask(request: Request, *more: Any, **named: Any) -> Any:
                self.append(request)
                self.ways.append((*more, *named.items()))
                return perform(request, *more, **named)

            return ask

        self.patches = [
            mock.patch.object(model, "converse", note(converse)),
            mock.patch.object(model, "stream", note(stream)),
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for patch in self.patches:
            patch.stop()


@pytest.mark.parametrize("stream", [False, True])
async def test_each_turn_says_all_that_was_said_and_who_listens(stream: bool) -> None:
    """A request grows by what is new, so that what is known of it holds."""
    reactors = ConversationReactors()
    stage = Stage(script(*TURNS), [LOOK], reactors=reactors)
    with (
        Asked(stage) as asked,
        mock.patch.object(Request, "extend", autospec=True, side_effect=Request.extend) as extend,
    ):
        acted = await stage.act(stream=stream, choice="")

    assert asked.ways == [(reactors, *([] if stream else [("stream", False)]))] * 3
    assert [len(request.canisters) for request in asked] == [1, 3, 5]
    assert asked[-1].canisters == tuple(acted.canisters[:5])
    assert {request.conversation_id for request in asked} == {stage.conversation.id}
    assert {request.invocation_choice for request in asked} == {"auto"}
    assert extend.call_count == 2


async def test_a_run_may_begin_in_the_middle_of_a_turn() -> None:
    """The request says that the model shall go on with its own words."""
    paused = Origin(provider="p", model="m", stop_reason=StopReason.PAUSED)
    stage = Stage(script([say("Here.")]))
    stage.conversation.add_canister(AssistantCanister("Let me", turn_id="t", origin=paused))
    with Asked(stage) as asked:
        acted = await stage.act()

    assert [request.continuation for request in asked] == [True]
    assert acted.words == ["Hello", "Let me", "Here."]


@pytest.mark.parametrize("changes", [False, True])
async def test_what_requests_share_is_told_once_and_again_when_it_changes(changes: bool) -> None:
    """Before the model is asked, and on the disk by then: it may be billed from there on."""
    log = WatchedLog()
    stage = Stage(script(*TURNS), [LOOK], log=log)

    async def refresh(self: Registry) -> bool:
        return changes

    with mock.patch.object(Registry, "refresh", refresh):
        await stage.act()

    begun = [each for each in log.read() if isinstance(each.event, GenerationStartedEvent)]
    patterns = [cast("GenerationStartedEvent", each.event).pattern for each in begun]
    assert [sorted(pattern) for pattern in patterns] == [
        ["settings", "tools"],
        *[["settings", "tools"] if changes else []] * 2,
    ]
    assert {each.sequence for each in begun} <= log.secured


@pytest.mark.parametrize("used", [50, 90])
async def test_near_the_window_stale_results_are_left_out(used: int) -> None:
    """As far as the last answer says how much there is; what is stored stays."""
    usage = {"input_tokens": used, "output_tokens": 0}
    stage = Stage(script(*TURNS, usage=usage), [LOOK])
    access = ModelAttributes.access_value

    def access_value(self: ModelAttributes, key: str) -> object:
        return 100 if key == "context_window_tokens" else access(self, key)

    with mock.patch.object(ModelAttributes, "access_value", access_value), Asked(stage) as asked:
        acted = await stage.act()

    last = [text_of(each) for each in asked[-1].canisters]
    assert ("left out" in last[2], last[4]) == (used == 90, look())
    assert [loss.path for loss in acted.ending.losses] == ["canisters[2]"] * (used == 90)
    assert acted.words[2] == look()
    finished = [
        each.event for each in stage.log.read() if isinstance(each.event, GenerationFinishedEvent)
    ]
    assert [each.omitted for each in finished] == [0] * (len(finished) - 1) + [int(used == 90)]


async def test_a_model_that_stumbles_is_told_of_in_the_log() -> None:
    """Over its own feet: such an error says nothing of what was sent."""

    async def stumble(*arguments: Any, **more: Any) -> Any:
        raise ZeroDivisionError

    stage = Stage(script([say("Never said.")]))
    with mock.patch.object(stage.model, "converse", stumble), pytest.raises(ZeroDivisionError):
        await stage.act()

    told = [each.event for each in stage.log.read()]
    (failed,) = (each for each in told if isinstance(each, GenerationFailedEvent))
    assert (failed.error, failed.canisters, failed.attempts) == (None, (), 1)


async def test_the_log_says_how_long_an_answer_and_a_call_took_and_whether_it_failed() -> None:
    clock = Clock()

    @invocable(effect="pure", time_limit_seconds=None)
    async def fail() -> None:
        """Takes its time, and fails."""
        await clock.advance(7)
        raise ValueError

    stage = Stage(script([invoke("fail")], [say("Done.")]), [fail])
    converse = stage.model.converse

    async def think(*arguments: Any, **more: Any) -> Any:
        await clock.advance(3)
        return await converse(*arguments, **more)

    with (
        mock.patch.object(time, "monotonic", clock.read),
        mock.patch.object(stage.model, "converse", think),
    ):
        acted = await stage.act()

    finished = [each for each in acted.events if isinstance(each, GenerationFinishedEvent)]
    (ended,) = (each for each in acted.events if isinstance(each, InvocationFinishedEvent))
    assert [each.seconds for each in finished] == [3.0, 3.0]
    assert (ended.seconds, ended.is_fault) == (7.0, True)


class Backend:
    """Has an answer, or what came in its place, by now."""

    name, tier = "backend", "batch"

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    def put(self, conversation_id: str, request: Request) -> None:
        raise AssertionError

    async def read(self, said: GenerationAnsweredEvent, request: Request) -> Response:
        return await self._answer(request)


async def answer_late(stage: Stage) -> FinishedRun:
    """Performs a run whose answer took five seconds to come."""
    clock, key = Clock(), stage.conversation.canisters[0].id
    answered = GenerationAnsweredEvent(key=key, fate="answered", seconds=5.0)
    await stage.log.write("run-0", answered)
    with mock.patch.object(time, "monotonic", clock.read):
        return await stage.act()


async def test_an_answer_that_came_later_took_as_long_as_it_took_and_costs_what_it_does() -> None:
    stage = Stage(script([say("Done.")]))
    stage.deferral_backend = Backend(stage.model.converse)

    acted = await answer_late(stage)

    (finished,) = (each for each in acted.events if isinstance(each, GenerationFinishedEvent))
    assert (finished.seconds, finished.tier) == (5.0, "batch")
    assert acted.words == ["Hello", "Done."]


async def test_the_log_says_why_an_answer_that_was_to_come_later_is_none() -> None:
    refusal = RequestError(detail="It was refused.")

    async def refuse(request: Request) -> Response:
        raise refusal

    stage = Stage(script([say("Never said.")]))
    stage.deferral_backend = Backend(refuse)

    acted = await answer_late(stage)

    (failed,) = (each for each in acted.events if isinstance(each, GenerationFailedEvent))
    assert (failed.error, failed.seconds) == (refusal, 5.0)
    assert acted.ending.reason is Reason.FAILED
