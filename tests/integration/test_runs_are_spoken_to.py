"""What is said to a run while it works, by another process: it is heard in the middle of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.acting import invoke, say
from support.runs.hosted import Premises, produce_application
from support.runs.scripting import write_script
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations import DirectoryStore
from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow, deny
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs import answer, survey_waiting
from vibe_llms.runs.parts import survey_parts

DONE = [say("Done.")]


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


class Work:
    """A tool that works until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.is_cancelled = asyncio.Event(), asyncio.Event(), False

    def produce(self) -> Any:
        async def work() -> str:
            """Works."""
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.is_cancelled = True
                raise
            return "worked"

        return produce_invoker(work, effect="pure")


def stand_outside(premises: Premises) -> LocalRuns:
    """Returns the same runs, as another process has them."""
    return LocalRuns(premises.store, premises.runs.application)


async def wait_until(holds: Callable[[], object]) -> None:
    """Waits for what is to come about; nothing tells of it."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def survey_responses(premises: Premises, run_id: str) -> list[str | None]:
    """Returns what the finished visits of a flow have said."""
    events = (each.event for each in premises.store.open_log(run_id).read())
    return [each.response for each in events if isinstance(each, NodeFinishedEvent)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_a_stop_from_elsewhere_ends_the_step_under_way(tmp_path: Path, kind: str) -> None:
    work = Work()
    async with Premises(tmp_path, [work.produce()]) as premises:
        if kind == "flow":
            task = compose_task("START --> T[/work/] --> P0 --> END", "yes")
            run_id = (await premises.runs.start(RunSpec(task=task, ensembles=("any",)))).id
        else:
            run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await work.begun.wait()
        await stand_outside(premises).stop(run_id, reason="enough")
        summary = await premises.wait(run_id, "stopped")
        await wait_until(lambda: work.is_cancelled)
        assert "enough" in summary.detail
        await wait_until(lambda: not premises.host.working)  # and is not begun again
        assert (await premises.runs.find(run_id)).state == "stopped"
        work.go_on.set()
        await stand_outside(premises).resume(run_id)
        assert (await premises.wait(run_id, "ended")).reason in ("answered", "ended")


@pytest.mark.slow
async def test_a_visit_goes_on_when_it_is_answered_while_others_work(tmp_path: Path) -> None:
    work = Work()
    diagram = "START --> S{{ }}\nS --> A[/work/] --> J\nS --> B[/pay/] --> J\nJ --> P0 --> END"
    task = compose_task(diagram, "yes")
    async with Premises(tmp_path, [work.produce(), PAY]) as premises:
        run_id = (await premises.runs.start(RunSpec(task=task, ensembles=("any",)))).id
        await work.begun.wait()
        outside = stand_outside(premises)
        await wait_until(lambda: survey_waiting(premises.store))
        waiting = await outside.survey_approvals(run_id)
        await outside.approve(run_id, allow(waiting[0].request))
        await wait_until(lambda: "paid" in survey_responses(premises, run_id))
        assert "worked" not in survey_responses(premises, run_id)
        work.go_on.set()
        assert (await premises.wait(run_id, "ended")).reason == "ended"


@pytest.mark.parametrize("is_stubborn", [True, False])
async def test_of_an_answer_here_and_one_elsewhere_the_first_counts(
    tmp_path: Path, is_stubborn: bool
) -> None:
    """And whoever is asked here is not kept asking."""
    store = DirectoryStore(tmp_path / "store")
    asked, is_left = asyncio.Event(), False

    class Approver:
        async def approve(self, request: ApprovalRequest) -> Approval:
            nonlocal is_left
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                is_left = True
                if not is_stubborn:
                    raise
            return allow(request)

    model = write_script(tmp_path, {"contents": [invoke("pay")]}, {"contents": DONE})
    engine = Engine(
        f"scripted:{model}",
        PAY,
        approver=Approver(),
        store=store,
        application=produce_application(tmp_path),
    )
    run = engine.prepare("Pay.")
    async with asyncio.timeout(60):
        performing = asyncio.create_task(run.perform())
        await asked.wait()
        (waiting,) = survey_waiting(store)
        denial = deny(waiting.request, "no")
        await asyncio.to_thread(answer, store, waiting.conversation_id, denial)
        outcome = await performing
    assert is_left
    kinds = [each.event.type for each in store.open_log(run.conversation.id).read()]
    assert kinds.count("approval.answered") == 1
    assert kinds.count("approval.refused") == is_stubborn
    assert outcome.is_answered
    assert "paid" not in str(outcome.canisters)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_a_stop_is_heard_that_came_while_tools_were_connected(
    tmp_path: Path, kind: str
) -> None:
    """It is in the log then, which nobody had, and is not passed over as one of long ago."""
    work, is_connecting, go_on = Work(), asyncio.Event(), asyncio.Event()

    async def connect(_: Any) -> Any:
        is_connecting.set()
        await go_on.wait()
        return [work.produce()]

    async with Premises(tmp_path) as premises:
        object.__setattr__(premises.host.executor, "produce_tools", connect)
        if kind == "flow":
            task = compose_task("START --> T[/work/] --> P0 --> END", "yes")
            run_id = (await premises.runs.start(RunSpec(task=task, ensembles=("any",)))).id
        else:
            run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await is_connecting.wait()
        await stand_outside(premises).stop(run_id)
        go_on.set()
        await wait_until(lambda: not premises.host.working)
        assert (await premises.runs.find(run_id)).state == "stopped"
    assert not work.begun.is_set()


async def test_a_flow_is_told_something_in_the_visit_that_asks_a_model(tmp_path: Path) -> None:
    work = Work()
    model = write_script(tmp_path, {"contents": [invoke("work")]}, {"contents": [say("Aye.")]})
    task = compose_task("START --> P0 --> T[/work/] --> END", "Begin.", script=model)
    async with Premises(tmp_path, [work.produce()]) as premises:
        run_id = (await premises.runs.start(RunSpec(task=task, ensembles=("any",)))).id
        await work.begun.wait()
        await stand_outside(premises).send(run_id, UserCanister("Hurry."))
        work.begun.clear()
        work.go_on.set()
        await premises.wait(run_id, "ended")
        (visit, _) = survey_parts(premises.store, run_id)
        said = [text_of(each) for each in premises.store.read(visit).canisters]
        assert said == ["Begin.", "", "worked", "Hurry.", "Aye."]
        with pytest.raises(RequestError, match="No visit of this flow is asking a model"):
            await premises.runs.send(run_id, UserCanister("Slower."))
