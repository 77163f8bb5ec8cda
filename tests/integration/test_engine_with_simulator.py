"""Runs over real sockets, with vendors that misbehave; and nothing is left behind by any."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.mcp.mcp_servers import describe_server
from support.runs.approvers import AllowAll
from support.vendors.shipped import SHIPPED
from vibe_llms.engine.states import Reason, State
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine, RunOutcome
from vibe_llms.invocables import invocable, produce_invoker
from vibe_llms.invocables.mcp import McpEnsemble
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, StopReason
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator

FACES = ("anthropic", "openai_responses", "openai_conversations")
faces = pytest.mark.parametrize("face", FACES)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A running server."""
    async with Simulator() as running:
        yield running


@invocable(effect="pure")
async def weather(place: str) -> str:
    """Tells the weather at a place."""
    await asyncio.sleep(0.001 * len(place))
    return f"sunny in {place}"


Access = Callable[[str], Awaitable[Any]]


@pytest.fixture
async def access(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to a model of a shipped provider; its connections are closed at the end."""
    opened: list[Any] = []

    async def access_model(face: str) -> Any:
        opened.append(await SHIPPED[face].access(simulator.url, tmp_path))
        return opened[-1]

    yield access_model
    for model in opened:
        await model._client.close()


PLACES = ("Copenhagen", "Rome", "Reykjavik", "Oslo", "Lisbon")
FIVE = tuple(Invoke("weather", {"place": place}) for place in PLACES)


@faces
async def test_five_calls_whose_deltas_interleave(
    simulator: Simulator, face: str, access: Access
) -> None:
    """Each gets its own arguments, and the results stand in the order of the calls."""
    simulator.enqueue(
        ScriptedAnswer(parts=FIVE, simulate="interleaved_calls"),
        ScriptedAnswer(parts=(Say("Sunny."),)),
    )
    model = await access(face)

    outcome = await Engine(model, [weather]).answer("How is the weather?")

    results = [each for each in outcome.canisters if isinstance(each, ResultCanister)]
    assert [text_of(each) for each in results] == [f"sunny in {place}" for place in PLACES]
    calls = [each for each in outcome.canisters if isinstance(each, InvocationCanister)]
    assert [each.invocation_id for each in results] == [each.invocation_id for each in calls]
    assert outcome.text == "Sunny."


@faces
async def test_a_stream_that_is_cut_inside_the_arguments(
    simulator: Simulator, face: str, access: Access
) -> None:
    """Nothing is executed; the run fails, and taken up again it asks anew and goes on."""
    executed: list[str] = []

    def note_down(text: str) -> str:
        """Notes a text down."""
        executed.append(text)
        return "noted"

    call = Invoke("note_down", {"text": "a long text " * 20})
    simulator.enqueue(ScriptedAnswer(parts=(call,), simulate="cut_at_chunk=4"))
    model = await access(face)
    engine = Engine(model, [note_down])

    outcome = await engine.answer("Note it down!")

    assert outcome.reason is Reason.FAILED
    assert executed == []
    for canister in outcome.canisters:
        assert canister.origin is not None  # type: ignore[union-attr]
        assert canister.origin.stop_reason is StopReason.INTERRUPTED  # type: ignore[union-attr]

    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("note_down", {"text": "short"}),)),
        ScriptedAnswer(parts=(Say("Ok"),)),
    )
    again = await engine.answer(outcome.conversation)

    assert executed == ["short"]
    assert again.text == "Ok"


@faces
async def test_arguments_that_are_no_json_go_back_to_the_model(
    simulator: Simulator, face: str, access: Access
) -> None:
    """And the vendor takes the conversation with them in it."""
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("weather", '{"place": '),)),
        ScriptedAnswer(parts=(Invoke("weather", {"place": "Rome"}),)),
        ScriptedAnswer(parts=(Say("Sunny."),)),
    )
    model = await access(face)

    outcome = await Engine(model, [weather]).answer("How is the weather?")

    assert outcome.text == "Sunny."
    assert outcome.readings.faults == 1


@pytest.mark.slow
async def test_a_server_that_dies_in_the_middle_of_a_call(
    simulator: Simulator, access: Access
) -> None:
    """The model hears of it; the server is started again for the next call."""
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("die", {}),)),
        ScriptedAnswer(parts=(Invoke("add", {"a": 2, "b": 3}),)),
        ScriptedAnswer(parts=(Say("Five."),)),
    )
    model = await access("anthropic")
    ensemble = McpEnsemble(describe_server())

    outcome = await Engine(model, [ensemble], approver=AllowAll()).answer("Add!")

    died, added = [each for each in outcome.canisters if isinstance(each, ResultCanister)]
    assert died.is_error
    assert "may have taken effect" in text_of(died)
    assert text_of(added) == "5"
    assert outcome.text == "Five."


# --- nothing is left behind -------------------------------------------------------------------


def count_left() -> dict[str, int]:
    """Counts what this process holds: threads that work, children, descriptors, tasks."""
    gc.collect()
    process = psutil.Process()
    kept = ("asyncio_", "vibe-llms-portal", "ThreadPoolExecutor")  # of the loop, kept for later
    return {
        "threads": sum(not each.name.startswith(kept) for each in threading.enumerate()),
        "children": len(process.children(recursive=True)),
        "descriptors": process.num_fds(),
        "tasks": len(asyncio.all_tasks()),
    }


async def end_answered(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("add", {"a": 1, "b": 1}),)),
        ScriptedAnswer(parts=(Say("Two."),)),
    )
    return await engine.answer("Add!")


async def end_failed(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(ScriptedAnswer(parts=(Say("A long answer " * 9),), simulate="cut_at_chunk=3"))
    return await engine.answer("Go on!")


async def end_refused(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(ScriptedAnswer(parts=(Say("No."),), stop="refusal"))
    return await engine.answer("Do harm!")


async def end_at_time(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("hang_here", {}), Invoke("hang", {"path": "/dev/null"})))
    )
    engine = Engine(
        engine.model, engine.ensembles, approver=AllowAll(), limits=Limits(run_seconds=3)
    )
    return await engine.answer("Hang!")


async def end_cancelled(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(ScriptedAnswer(parts=(Invoke("hang_here", {}),)))
    run = engine.prepare("Hang!")
    task = asyncio.create_task(run.perform())
    await HANGING.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.outcome is not None
    return run.outcome


async def end_waiting(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(ScriptedAnswer(parts=(Invoke("echo", {"word": "ho"}),)))
    return await Engine(engine.model, engine.ensembles).answer("Call!")


async def end_dead(simulator: Simulator, engine: Engine) -> RunOutcome:
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("die", {}),)), ScriptedAnswer(parts=(Say("It died."),))
    )
    return await engine.answer("Die!")


HANGING = asyncio.Event()


async def hang_here() -> None:
    """Hangs."""
    HANGING.set()
    await asyncio.sleep(3600)


OUTCOMES = {
    end_answered: Reason.ANSWERED,
    end_failed: Reason.FAILED,
    end_refused: Reason.REFUSED,
    end_at_time: Reason.LIMIT,
    end_cancelled: Reason.CANCELLED,
    end_waiting: None,
    end_dead: Reason.ANSWERED,
}
WARM: set[str] = set()
"""The servers that this process has had: what is loaded once, stays."""


@pytest.mark.slow
@pytest.mark.parametrize("end", OUTCOMES, ids=lambda end: end.__name__)
async def test_nothing_is_left_whatever_the_outcome(
    simulator: Simulator, end: Any, access: Access
) -> None:
    """No task, thread, socket or child process; an MCP server was among the tools.

    Once that of the official package, which takes seconds to start, else one that is quick.
    """
    file = "server.py" if end is end_answered else "faulty.py"
    model = await access("anthropic")
    simulator.enqueue(ScriptedAnswer(parts=(Say("Hi"),)))
    warm = [] if file in WARM else [McpEnsemble(describe_server(file=file))]
    await Engine(model, warm).answer("Warm up!")  # the connection to the model stays, too
    WARM.add(file)
    await asyncio.sleep(0.05)
    before = count_left()

    HANGING.clear()
    server = McpEnsemble(describe_server(file=file))
    tools = [server, produce_invoker(hang_here, effect="idempotent")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        outcome = await end(simulator, Engine(model, tools, approver=AllowAll()))
        for _ in range(1_200):  # a process that was killed is gone a moment later
            after = count_left()
            if all(after[kind] <= before[kind] for kind in before):
                break
            await asyncio.sleep(0.05)

    assert outcome.reason is OUTCOMES[end]
    assert (outcome.state is State.AWAIT) == (outcome.reason is None)
    assert {kind: after[kind] - before[kind] for kind in before if after[kind] > before[kind]} == {}
