"""A run whose order says so rests at each request, until its vendor's batch has answered it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from support.batches.vendor_batching import (
    MODELS,
    advance_all,
    is_submission,
    produce_application,
)
from vibe_llms.agents.deferred_batches import GATHER_SECONDS, DeferredBatches
from vibe_llms.agents.deferred_requests import DeferredRequests
from vibe_llms.agents.durable.runner import DurableRunner
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_specs import RunRules, RunSpec
from vibe_llms.agents.runners import open_runner
from vibe_llms.agents.workers import RunWorker
from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.inbox import describe_full
from vibe_llms.engine.generating import Generator
from vibe_llms.exceptions import ConfigurationError, ConverseError, RequestError, TransportError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.batching import ModelBatches
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.replaying import replay_run
from vibe_llms.runs.summaries import RunState
from vibe_llms.telemetry.prices import Price, price_usage
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, SynchronousSimulator
from vibe_llms.testing.simulator.batches import Batch

WAITING: Final[tuple[RunState, ...]] = ("waiting",)
ENDED: Final[tuple[RunState, ...]] = ("ended",)


class Gate(HurriedClock):
    """Lets gathered requests go when a test says so."""

    def __init__(self, *, is_open: bool = True) -> None:
        super().__init__()
        self.opened = asyncio.Event()
        if is_open:
            self.opened.set()

    async def sleep(self, seconds: float) -> None:
        if seconds == GATHER_SECONDS:
            await self.opened.wait()
        self.now += seconds
        # A loop that only looks again must leave room for the vendor, in its own thread.
        await asyncio.sleep(0.002)


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """The vendors."""
    with SynchronousSimulator() as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def add(first: int, second: int) -> int:
    """Adds two numbers."""
    return first + second


async def produce_tools(names: Any) -> list[Any]:
    return [add] if names else []


@asynccontextmanager
async def open_runs(
    simulator: SynchronousSimulator,
    simulate: str = "batch_polls=1",
    *,
    provider: str = "anthropic",
    gate: Gate | None = None,
) -> AsyncIterator[LocalRuns]:
    url = simulator.access_url(simulate)
    application = produce_application(provider, url, gate or Gate())
    try:
        async with open_runner(
            "local:", application=application, produce_tools=produce_tools
        ) as runs:
            yield runs
    finally:
        await application.close()


def count_batches(simulator: SynchronousSimulator) -> int:
    return sum(map(is_submission, simulator.requests))


def list_events(runs: LocalRuns, run_id: str) -> list[str]:
    return [each.event.type for each in runs.store.open_log(run_id).read()]


async def await_condition(holds: Callable[[], bool]) -> None:
    """Waits for what nobody tells of."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  # the other side is another thread
            await asyncio.sleep(0.01)


def survey_names(runs: LocalRuns) -> list[str]:
    """Returns under which names the vendor is known to have batches."""
    assert isinstance(runs.host, RunWorker)
    logs = runs.host.executor.deferred._logs.values()
    return [name for log in logs for name in log.vendor_names]


async def await_gathered(runs: LocalRuns, count: int) -> None:
    """Wait until this many requests are gathered; a run reports that it waits before that."""
    host = runs.host
    assert isinstance(host, RunWorker)
    await await_condition(
        lambda: (
            sum(len(lane._gathered) for lane in host.executor.deferred._models.values()) == count
        )
    )


def read_texts(runs: LocalRuns, run_id: str) -> list[str]:
    return [text_of(each) for each in Conversation.restore(runs.store, run_id).canisters]


async def start(runs: LocalRuns, text: str = "Hello.", **spec: Any) -> str:
    summary = await runs.start(RunSpec(channel="vendor", **spec), [UserCanister(text)])
    return summary.id


@pytest.mark.slow
@pytest.mark.parametrize("provider", MODELS)
async def test_each_request_of_a_run_goes_by_a_batch(
    simulator: SynchronousSimulator, provider: str
) -> None:
    """Between two requests its tools are executed at once; the log says all, at half the price."""
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("add", {"first": 2, "second": 3}),)),
        ScriptedAnswer(parts=(Say("It is 5."),)),
    )

    async with open_runs(simulator, provider=provider) as runs:
        run_id = await start(runs, "2 + 3?", ensembles=["sums"])
        summary = await runs.wait(run_id)
        texts, events = read_texts(runs, run_id), list_events(runs, run_id)
        logged = [each.event for each in runs.store.open_log(run_id).read()]
        replayed = await replay_run(runs.store, run_id)

    assert (summary.state, summary.reason) == ("ended", "answered")
    assert texts[-1] == "It is 5."
    assert count_batches(simulator) == 2
    paths = [each.path.partition("batch_polls=1")[2] for each in simulator.requests]
    assert not {"/v1/messages", "/v1/responses", "/v1/chat/completions"} & set(paths)
    told = [each for each in events if each != "run.state"]
    turn = ["generation.started", "generation.deferred", "run.suspended", "generation.answered"]
    assert told == [
        "run.requested",
        "run.started",
        *turn,
        "run.started",
        "generation.finished",
        "invocation.started",
        "invocation.finished",
        *turn,
        "run.started",
        "generation.finished",
        "run.ended",
    ]
    finished = [each for each in logged if each.type == "generation.finished"]
    assert {each.tier for each in finished} == {"batch"}
    if provider == "anthropic":
        usages = [each.usage for each in finished]
        prices = [price_usage(each, provider=provider, model=MODELS[provider]) for each in usages]
        usual = sum(float(each.amount) * 100 for each in prices if isinstance(each, Price))
        assert summary.cents == pytest.approx(usual / 2)
    assert replayed.difference is None


async def test_requests_of_many_runs_are_submitted_together(
    simulator: SynchronousSimulator,
) -> None:
    """And each result goes to its run."""
    gate = Gate(is_open=False)
    async with open_runs(simulator, gate=gate) as runs:
        names = [await start(runs, f"Question {number}.") for number in range(5)]
        for name in names:
            waiting = await runs.wait(name, states=WAITING)
        await await_gathered(runs, 5)
        gate.opened.set()
        for name in names:
            await runs.wait(name)
        texts = [read_texts(runs, name)[-1] for name in names]

    assert waiting.detail == "It waits for a vendor's batch."
    assert texts == [f"Question {number}." for number in range(5)]
    assert count_batches(simulator) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_submitted", [False, True])
async def test_another_process_goes_on_with_what_waits(
    simulator: SynchronousSimulator, is_submitted: bool
) -> None:
    """What is at the vendor is read, and what was only gathered is asked for again: each once."""
    gate = Gate(is_open=is_submitted)
    async with open_runs(simulator, "batch_polls=9999", gate=gate) as runs:
        run_id = await start(runs)
        await runs.wait(run_id, states=WAITING)
        await await_condition(lambda: not is_submitted or bool(survey_names(runs)))
    assert count_batches(simulator) == is_submitted
    end_all(simulator)

    async with open_runs(simulator) as runs:
        summary = await runs.wait(run_id)
        texts, events = read_texts(runs, run_id), list_events(runs, run_id)

    assert summary.reason == "answered"
    assert texts == ["Hello.", "Hello."]
    assert count_batches(simulator) == 1
    assert events.count("generation.deferred") == 2 - is_submitted


def end_all(simulator: SynchronousSimulator) -> None:
    """Lets the vendor come to an end with what it has."""
    for each in simulator._state.stored.values():
        if isinstance(each, Batch):
            each.polls = 1
    advance_all(simulator.url)


async def test_an_intent_that_nobody_heard_of_is_looked_for(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with any batch: what the vendor has not got is deferred again."""

    async def hang(self: ModelBatches, *given: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    asked = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "submit", hang)
        async with open_runs(simulator) as runs:
            run_id = await start(runs)
            await asked.wait()

    async with open_runs(simulator) as runs:
        summary = await runs.wait(run_id)

    assert summary.reason == "answered"
    assert count_batches(simulator) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulate", "reason"),
    [("batch_errors=1", "Internal server error"), ("batch_expires=1", "expired")],
)
async def test_a_request_that_was_not_answered_fails_its_run(
    simulator: SynchronousSimulator, simulate: str, reason: str
) -> None:
    """With the reason; whoever lets it go on has it asked again."""
    async with open_runs(simulator, simulate) as runs:
        run_id = await start(runs)
        failed = await runs.wait(run_id)
    async with open_runs(simulator) as runs:
        await runs.resume(run_id)
        summary = await runs.wait(run_id)

    assert (failed.state, failed.reason) == ("ended", "failed")
    assert reason in failed.detail
    assert summary.reason == "answered"
    assert count_batches(simulator) == 2


async def test_a_run_that_cannot_be_submitted_fails(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the vendor refuses the batch, and where there is none of it."""
    async with open_runs(simulator, "rate_limit=9") as runs:
        refused = await runs.wait(await start(runs))
        lacking = await runs.wait(await start(runs, model="scripted:echo"))

    assert refused.reason == lacking.reason == "failed"
    assert "too many requests" in refused.detail
    assert "The provider scripted does not support batches" in lacking.detail


async def test_a_batch_that_is_refused_as_a_whole_fails_its_runs(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is told, though the vendor names none."""
    monkeypatch.setattr("vibe_llms.testing.simulator.openai_batches.LINES_LIMIT", 0)
    async with open_runs(simulator, provider="openai_responses") as runs:
        failed = await runs.wait(await start(runs))

    assert failed.reason == "failed"
    assert "too_many_tasks" in failed.detail


async def test_a_run_whose_batch_is_gone_fails(simulator: SynchronousSimulator) -> None:
    """Its answer may have been billed, and is had no more."""
    async with open_runs(simulator, "batch_polls=9999") as runs:
        run_id = await start(runs)
        await await_condition(lambda: bool(survey_names(runs)))
        simulator._state.stored.clear()
        failed = await runs.wait(run_id)

    assert failed.reason == "failed"
    assert "may have been billed" in failed.detail


async def test_what_is_said_meanwhile_is_heard_after_the_answer(
    simulator: SynchronousSimulator,
) -> None:
    """The answer that was paid for counts, and the message has one of its own."""
    gate = Gate(is_open=False)
    async with open_runs(simulator, gate=gate) as runs:
        run_id = await start(runs, "One.")
        await runs.wait(run_id, states=WAITING)
        await runs.send(run_id, UserCanister("Two."))
        gate.opened.set()
        await runs.wait(run_id)
        texts = read_texts(runs, run_id)

    assert texts == ["One.", "One.", "Two.", "Two."]
    assert count_batches(simulator) == 2


async def test_a_run_that_was_stopped_keeps_its_answer(simulator: SynchronousSimulator) -> None:
    """It rests until somebody lets it go on, and asks nothing twice."""
    gate = Gate(is_open=False)
    async with open_runs(simulator, gate=gate) as runs:
        run_id = await start(runs)
        await runs.wait(run_id, states=WAITING)
        await runs.stop(run_id)
        gate.opened.set()
        await await_condition(lambda: "generation.answered" in list_events(runs, run_id))
        stopped = await runs.find(run_id)
        await runs.resume(run_id)
        summary = await runs.wait(run_id, states=ENDED)

    assert stopped.state == "stopped"
    assert summary.reason == "answered"
    assert count_batches(simulator) == 1


@pytest.mark.parametrize("where", [(Generator, "_add_answer"), (DeferredBatches, "read")])
async def test_an_answer_is_kept_that_its_run_was_broken_off_with(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    """As by a daemon that is stopped just then: whoever goes on asks nothing twice."""

    async def hang(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    begun = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(*where, hang)
        async with open_runs(simulator) as runs:
            run_id = await start(runs)
            await begun.wait()

    async with open_runs(simulator) as runs:
        summary = await runs.wait(run_id)
        events = list_events(runs, run_id)

    assert summary.reason == "answered"
    assert events.count("generation.deferred") == count_batches(simulator) == 1


@pytest.mark.parametrize("is_submitted", [False, True])
async def test_a_run_that_goes_on_too_early_asks_nothing_twice(
    simulator: SynchronousSimulator, is_submitted: bool
) -> None:
    """Its request is at the vendor, or about to be."""
    gate = Gate(is_open=is_submitted)
    async with open_runs(simulator, "batch_polls=9999", gate=gate) as runs:
        run_id = await start(runs)
        await runs.wait(run_id, states=WAITING)
        await await_condition(lambda: not is_submitted or bool(survey_names(runs)))
        await runs.resume(run_id)
        await await_condition(lambda: list_events(runs, run_id).count("generation.deferred") == 2)
        await runs.wait(run_id, states=WAITING)
        gate.opened.set()
        await await_condition(lambda: bool(survey_names(runs)))
        await asyncio.to_thread(end_all, simulator)
        await runs.wait(run_id)
        texts = read_texts(runs, run_id)

    assert texts == ["Hello.", "Hello."]
    sent = [each for each in simulator.requests if b'"custom_id"' in each.data]
    assert [each.data.count(b'"custom_id"') for each in sent] == [1]


async def test_an_answer_that_comes_while_its_run_is_deferred_again_is_taken(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that was let go on too early hears of it by itself: nobody would tell it again."""
    async with open_runs(simulator, "batch_polls=9999") as runs:
        run_id = await start(runs)
        await runs.wait(run_id, states=WAITING)
        await await_condition(lambda: bool(survey_names(runs)))
        emit = LocalRunContext.emit

        async def emit_late(self: LocalRunContext, event: Any, **how: Any) -> None:
            await emit(self, event, **how)
            if event.type == "generation.deferred":
                await asyncio.to_thread(end_all, simulator)
                await await_condition(lambda: "generation.answered" in list_events(runs, run_id))

        monkeypatch.setattr(LocalRunContext, "emit", emit_late)
        await runs.resume(run_id)
        async with asyncio.timeout(60):
            summary = await runs.wait(run_id)
        texts = read_texts(runs, run_id)

    assert summary.reason == "answered"
    assert texts == ["Hello.", "Hello."]
    assert count_batches(simulator) == 1


async def test_orders_that_cannot_be_deferred_are_refused(home: Path) -> None:
    """A flow's requests are not; nor can anything be deferred where nobody submits it."""
    application = Application.load(command_line={"model": "scripted:echo"})
    task = {"goal": {"description": "x"}}
    with pytest.raises(ConfigurationError, match="Flows cannot use"):
        RunRules().check(RunSpec(channel="vendor", task=task), application)
    with pytest.raises(ConfigurationError, match="direct"):
        RunSpec(channel="direct")
    deferred_requests = DeferredRequests(application.store, application)
    with pytest.raises(ConfigurationError, match="local: runner"):
        await deferred_requests.access("scripted:echo")
    await application.close()


async def test_two_processes_do_not_submit_from_one_folder(
    simulator: SynchronousSimulator,
) -> None:
    """The second says so of its runs, and the first goes on; of each model it has one lane."""
    async with open_runs(simulator) as first:
        assert isinstance(first.host, RunWorker)
        own = first.host.executor.deferred
        one, other = await asyncio.gather(own.access(""), own.access(""))
        assert one is other
        await first.wait(await start(first))
        async with open_runs(simulator) as second:
            assert isinstance(second.host, RunWorker)
            deferred_requests = second.host.executor.deferred
            with pytest.raises(OSError, match="lock"):
                await deferred_requests.access("")
        await first.wait(await start(first))


# --- what goes wrong holds up nobody else -------------------------------------------------


def fill_inbox(patched: pytest.MonkeyPatch, chosen: list[str], *, first: bool = False) -> None:
    """Lets the inboxes of some runs be full, as long as they are among the chosen.

    Args:
        first: Whether whoever is told first is one of them.
    """
    post = DeferredRequests._put_into_inbox

    def refuse(self: DeferredRequests, run_id: str, answered: Any) -> None:
        nonlocal first
        if first:
            chosen.append(run_id)
            first = False
        if run_id in chosen:
            raise describe_full()
        post(self, run_id, answered)

    patched.setattr(DeferredRequests, "_put_into_inbox", refuse)


async def test_one_full_inbox_holds_up_no_other_run(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others hear what came of theirs, and it does as soon as there is room; each once."""
    gate, full = Gate(is_open=False), list[str]()
    fill_inbox(monkeypatch, full, first=True)
    async with asyncio.timeout(60), open_runs(simulator, gate=gate) as runs:
        names = [await start(runs, f"Question {number}.") for number in range(3)]
        await await_gathered(runs, 3)
        gate.opened.set()
        await await_condition(lambda: bool(full))
        others = [(await runs.wait(name)).reason for name in names if name not in full]
        waiting = await runs.find(full[0])
        (name,), full[:] = tuple(full), []
        heard = await runs.wait(name)
        events = [list_events(runs, name).count("generation.answered") for name in names]

    assert others == ["answered"] * 2
    assert waiting.state == "waiting"
    assert heard.reason == "answered"
    assert events == [1, 1, 1]
    assert count_batches(simulator) == 1


@pytest.mark.slow
async def test_one_full_inbox_keeps_no_other_run_from_being_asked_again(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart, of what was gathered and not submitted."""
    async with open_runs(simulator, gate=Gate(is_open=False)) as runs:
        names = [await start(runs, f"Question {number}.") for number in range(2)]
        for name in names:
            await runs.wait(name, states=WAITING)

    for full in names:
        with monkeypatch.context() as patched:
            fill_inbox(patched, [full])
            async with open_runs(simulator) as runs:
                for name in names:
                    if name != full:
                        assert (await runs.wait(name)).reason == "answered"

    assert count_batches(simulator) == 2


async def test_a_file_that_does_not_read_holds_up_no_other_model(
    simulator: SynchronousSimulator, home: Path
) -> None:
    """What is in it may be at the vendor: of its model nothing is asked twice."""
    async with open_runs(simulator, "batch_polls=9999") as runs:
        names = [await start(runs, model="anthropic:claude-opus-4-5"), await start(runs)]
        await await_condition(lambda: len(survey_names(runs)) == 2)
        for name in names:
            await runs.wait(name, states=WAITING)
    (file,) = home.glob(".local/share/vibe-llms/deferred/*opus*.chunks")
    whole = file.read_bytes()
    file.write_bytes(b"nonsense\n" + whole)
    await asyncio.to_thread(end_all, simulator)

    async with asyncio.timeout(60), open_runs(simulator) as runs:
        other = await runs.wait(names[1])
        same = await runs.find(names[0])
    file.write_bytes(whole)
    async with open_runs(simulator) as runs:
        summary = await runs.wait(names[0])
        events = list_events(runs, names[0])

    assert other.reason == "answered"
    assert same.state == "waiting"
    assert summary.reason == "answered"
    assert events.count("generation.deferred") == 1
    assert count_batches(simulator) == 2


async def test_what_is_in_doubt_is_looked_for_again_without_a_restart(
    simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vendor whose list cannot be read now has it later; nothing is submitted twice."""
    submit, find = ModelBatches.submit, ModelBatches.find
    refusals = 3

    async def lose(self: ModelBatches, *given: Any) -> str:
        await self.poll(await submit(self, *given))
        raise TransportError(detail="The connection broke.", address="x")

    async def refuse(self: ModelBatches, *given: Any, **more: Any) -> Any:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise ConverseError(detail="The list is not to be had.")
        return await find(self, *given, **more)

    monkeypatch.setattr(ModelBatches, "submit", lose)
    monkeypatch.setattr(ModelBatches, "find", refuse)
    async with asyncio.timeout(60), open_runs(simulator) as runs:
        summary = await runs.wait(await start(runs))

    assert summary.reason == "answered"
    assert refusals < 0
    assert count_batches(simulator) == 1


def change_files(
    simulator: SynchronousSimulator, patched: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    """Changes the results that OpenAI has of what has ended; those that become empty are gone."""
    poll = ModelBatches.poll

    async def spoil(self: ModelBatches, identity: str) -> Any:
        state = await poll(self, identity)
        stored = simulator._state.stored
        for key, each in list(stored.items()):
            if getattr(each, "purpose", "") == "batch_output":
                data = change(each.data)
                stored[key] = attrs.evolve(each, data=data)
                if not data:
                    del stored[key]
        return state

    patched.setattr(ModelBatches, "poll", spoil)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda data: b"",
            "no longer has its batch or the results; its answer may have been billed",
        ),
        (lambda data: data[data.find(b"\n", 0, -1) + 1 :], "of 2 results of the batch"),
    ],
)
async def test_results_that_are_gone_or_cut_end_their_runs(
    simulator: SynchronousSimulator,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
    reason: str,
) -> None:
    """With what is missing, and not as if they had been cancelled."""
    monkeypatch.setattr("vibe_llms.agents.deferred_batches.MAX_READS", 3)
    gate, names = Gate(is_open=False), list[str]()
    change_files(simulator, monkeypatch, change)
    provider = "openai_responses"
    async with asyncio.timeout(60), open_runs(simulator, provider=provider, gate=gate) as runs:
        for number in range(2):
            names.append(await start(runs, f"Question {number}."))
        await await_gathered(runs, 2)
        gate.opened.set()
        ended = [await runs.wait(name) for name in names]

    # Whose request comes first in the batch is not given.
    failed = [each for each in ended if each.reason == "failed"]
    answered = [each for each in ended if each.reason == "answered"]
    assert len(failed) == (2 if "no longer" in reason else 1)
    assert all(reason in each.detail for each in failed)
    assert len(answered) == 2 - len(failed)


async def test_no_other_machine_goes_on_with_what_is_at_the_vendor(
    simulator: SynchronousSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would submit the request, and have it billed twice."""
    async with open_runs(simulator, "batch_polls=1000000") as runs:
        run_id = await start(runs)
        await runs.wait(run_id, states=WAITING)
        await await_condition(lambda: count_batches(simulator) == 1)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
        other = produce_application("anthropic", simulator.access_url("batch_polls=1"), Gate())
        async with open_runner("local:", application=other, store=runs.store) as others:
            for somebody in (others, LocalRuns(runs.store, other, is_owner=True)):
                with pytest.raises(RequestError, match="and billed, once more"):
                    await somebody.resume(run_id)
            assert isinstance(others.host, RunWorker)
            log = runs.store.open_log(run_id)
            log.claim()
            begun = ClaimedRun(
                conversation=Conversation.restore(runs.store, run_id), log=log, events=log.read()
            )
            with pytest.raises(RequestError, match="and billed, once more"):
                await others.host.executor.execute(begun)
            begun.release()
        await runs.resume(run_id)  # its own machine has the request already
        await runs.wait(run_id, states=WAITING)
        await other.close()
    assert count_batches(simulator) == 1


async def test_workers_refuse_what_they_leave_to_others(
    simulator: SynchronousSimulator, tmp_path: Path
) -> None:
    """When they are asked, and not when somebody performs it; a fork as well."""
    async with open_runs(simulator) as runs:
        run_id = await start(runs)
        await runs.wait(run_id)
        assert isinstance(runs.host, RunWorker)
        runner = DurableRunner(f"sqlite:///{tmp_path}/runner.db", runs.host.executor)
        shared = LocalRuns(runs.store, runs.application, host=runner, is_owner=True)
        known = set(runs.store.survey())
        with pytest.raises(ConfigurationError, match="Only runs of a local: runner"):
            await start(shared)
        with pytest.raises(ConfigurationError, match="Only runs of a local: runner"):
            await shared.fork(run_id)
        assert set(runs.store.survey()) == known
