"""Runs that somebody asks for are performed by a host, whatever becomes of those who asked."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.flows.flow_tasks import compose_task
from support.gateways.gateways import wait_until
from support.runs.acting import invoke, say
from support.runs.hosted import Premises, produce_application, write_event
from support.runs.scripting import write_script
from vibe_llms.agents import workers
from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_specs import RunRules, RunSpec
from vibe_llms.agents.workers import RunWorker, WorkerSettings
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.conversations.run_logs.log import claim_soon
from vibe_llms.events.engine import GenerationFinishedEvent, RunEndedEvent, RunStartedEvent
from vibe_llms.events.flow import FlowEndedEvent, LogEvent, NodeFinishedEvent
from vibe_llms.events.runs import (
    MessageReceivedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    EnsembleError,
    RequestError,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.flows.adapter import UniversalAdapter
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs import local as runs_local
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.spending import count_starts

DONE = [say("Done.")]


def look() -> str:
    """Looks."""
    return "nothing"


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


async def test_a_run_is_performed(tmp_path: Path) -> None:
    async with Premises(tmp_path, [look]) as premises:
        run_id = await premises.start(premises.spec([invoke("look")], DONE))
        summary = await premises.wait(run_id, "ended")
    assert summary.reason == "answered"
    assert premises.read_kinds(run_id)[0] == "run.requested"
    assert text_of(premises.store.read(run_id).canisters[-1]) == "Done."


async def test_a_key_asks_for_one_run(tmp_path: Path) -> None:
    premises, other = Premises(tmp_path), Premises(tmp_path)
    spec = premises.spec(DONE)
    found = await asyncio.gather(
        *(each.start(spec, key="k") for each in (premises, other) for _ in range(8))
    )
    assert len(set(found)) == 1
    kinds = premises.read_kinds(found[0])  # whoever was told first may have begun by now
    assert (kinds[0], kinds.count("run.requested")) == ("run.requested", 1)
    assert await premises.start(spec, key="k", subject="ann") != found[0]
    with pytest.raises(RequestError, match="Another request was made with this key"):
        await premises.start(premises.spec([say("Other.")], limits={"run_steps": 3}), key="k")


async def test_who_was_killed_before_the_order_asks_again(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    spec = premises.spec(DONE)
    from vibe_llms.agents.run_specs import derive_identity
    from vibe_llms.conversations.metadata import ConversationMetadata

    premises.store.create(derive_identity("", "k"), ConversationMetadata())
    assert premises.read_kinds(await premises.start(spec, key="k")) == ["run.requested"]


async def test_who_finds_no_room_is_told_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that there is no such conversation, which a client would take for its own mistake."""
    premises = Premises(tmp_path)

    def create(*_: object, **more: object) -> None:
        raise StoreError(detail="No space left on device.")

    monkeypatch.setattr(DirectoryStore, "plant", create)
    with pytest.raises(StoreError, match="No space left"):
        await premises.start(premises.spec(DONE), key="k")


async def test_an_approval_lets_it_go_on(tmp_path: Path) -> None:
    async with Premises(tmp_path, [PAY]) as premises:
        run_id = await premises.start(premises.spec([invoke("pay")], DONE))
        assert (await premises.wait(run_id, "waiting")).waiting == 1
        (waiting,) = await premises.runs.survey_approvals(run_id)
        answers = await asyncio.gather(
            *(premises.runs.approve(run_id, allow(waiting.request)) for _ in range(3)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, UnknownNameError) for each in answers) == 2, answers
        assert (await premises.wait(run_id, "ended")).reason == "answered"


@pytest.mark.slow
async def test_a_stop_is_heard_in_the_middle_and_taken_back(tmp_path: Path) -> None:
    begun, is_held = asyncio.Event(), True

    async def work() -> str:
        """Works."""
        begun.set()
        if is_held:
            await asyncio.sleep(3600)
        return "worked"

    tool = produce_invoker(work, effect="pure")
    async with Premises(tmp_path, [tool]) as premises:
        run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await begun.wait()
        with pytest.raises(RequestError, match="stop it first"):
            await premises.runs.delete(run_id)
        await premises.runs.stop(run_id, reason="enough")
        assert (await premises.runs.find(run_id)).state == "stopped"
        is_held = False
        await premises.runs.resume(run_id)
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        await premises.runs.delete(run_id)
        with pytest.raises(UnknownConversationError):
            await premises.runs.find(run_id)


async def test_what_another_process_says_to_a_run_that_ends_is_seen_to_at_once(
    tmp_path: Path,
) -> None:
    """Not when the store is looked through again: nobody wakes this host."""
    begun, is_held = asyncio.Event(), True

    async def work() -> str:
        """Works."""
        nonlocal is_held
        begun.set()
        if is_held:
            is_held = False
            await asyncio.sleep(3600)
        return "worked"

    tool = produce_invoker(work, effect="pure")
    settings = WorkerSettings(scan_seconds=3_600)
    async with Premises(tmp_path, [tool], settings=settings) as premises:
        run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await begun.wait()
        inbox = premises.store.open_inbox(run_id)
        inbox.put(StopRequestedEvent(message_id="a"))
        inbox.put(RunResumedEvent(message_id="b"))
        assert (await premises.wait(run_id, "ended")).reason == "answered"


async def test_what_is_said_while_the_end_is_written_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = FileLog.write
    message = MessageReceivedEvent(canister=UserCanister("Once more."), message_id="a")

    async def write_slowly(self: FileLog, run_id: str, *events: LogEvent, **how: bool) -> int:
        if not any(isinstance(each, RunEndedEvent) for each in events):
            return await write(self, run_id, *events, **how)
        (identity,) = premises.store.survey()
        if "message.received" in premises.read_kinds(identity):
            is_answered.set()
        else:
            premises.store.open_inbox(identity).put(message)
            await asyncio.sleep(0.05)
        return await write(self, run_id, *events, **how)

    is_answered = asyncio.Event()
    monkeypatch.setattr(runs_local, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(FileLog, "write", write_slowly)
    async with Premises(tmp_path, settings=WorkerSettings(scan_seconds=0.02)) as premises:
        run_id = await premises.start(premises.spec(DONE, DONE))
        await asyncio.wait_for(is_answered.wait(), 60)
        canisters = premises.store.read(run_id).canisters
    said = [text_of(each) for each in canisters]
    assert said == ["Do it.", "Done.", "Once more.", "Done."]


async def test_an_order_that_says_nothing_is_one(tmp_path: Path) -> None:
    """It comes to its end, here as nobody may fetch the embedded model, and does not wait."""
    async with Premises(tmp_path, []) as premises:
        run_id = await premises.start(RunSpec())
        summary = await premises.wait(run_id, "ended")
        assert summary.reason == "failed"
        assert "The weights of smollm2 are missing" in summary.detail


async def test_what_has_just_ended_can_be_deleted(tmp_path: Path) -> None:
    """Its end is in the log a moment before whoever performed it lets go of the log."""
    async with Premises(tmp_path, []) as premises:
        run_id = await premises.start(premises.spec(DONE))
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        log = premises.store.open_log(run_id)
        claim_soon(log)
        deleting = asyncio.create_task(premises.runs.delete(run_id))
        await asyncio.sleep(0.1)
        assert not deleting.done()
        log.close()
        await deleting


async def test_a_host_that_has_left_has_no_log_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where it has just begun to look at one, in a thread that cannot be stopped."""
    looking = threading.Event()

    def deliver_slowly(store: DirectoryStore, run_id: str, **_: Any) -> None:
        log = store.open_log(run_id)
        log.claim()
        looking.set()
        time.sleep(0.2)
        log.close()

    monkeypatch.setattr(workers, "deliver", deliver_slowly)
    premises = Premises(tmp_path)
    premises.runs.host = None
    run_id = await premises.start(premises.spec(DONE))
    premises.host.wake(run_id)
    assert await asyncio.to_thread(looking.wait, 60)
    await premises.host.close()
    premises.store.open_log(run_id).claim()


async def test_a_fork_of_what_was_answered_is_over_until_something_is_said(tmp_path: Path) -> None:
    """Nobody takes it up, so that nothing has to be reached for it, and it can be deleted."""
    async with Premises(tmp_path) as premises:
        run_id = await premises.start(premises.spec(DONE, [say("More.")]))
        await premises.wait(run_id, "ended")
        fork = await premises.runs.fork(run_id)
        assert (fork.state, fork.reason) == ("ended", "answered")
        assert premises.host.working == ()
        await premises.runs.send(fork.id, UserCanister("And?"))
        await premises.wait(fork.id, "ended", after=fork.sequence + 1)
        assert text_of(premises.store.read(fork.id).canisters[-1]) == "More."
        deleted = await premises.runs.fork(run_id)
        await premises.runs.delete(deleted.id)
    assert {*premises.store.survey()} == {run_id, fork.id}


async def test_a_fork_of_what_was_stopped_goes_on(tmp_path: Path) -> None:
    async with Premises(tmp_path, [PAY]) as premises:
        run_id = await premises.start(premises.spec([invoke("pay")], DONE))
        await premises.wait(run_id, "waiting")
        fork = await premises.runs.fork(run_id)
        assert (await premises.wait(fork.id, "waiting")).waiting == 1


async def test_a_message_lets_it_go_on(tmp_path: Path) -> None:
    async with Premises(tmp_path) as premises:
        run_id = await premises.start(premises.spec([say("One.")], [say("Two.")]))
        await premises.wait(run_id, "ended")
        await premises.runs.send(run_id, UserCanister("And now?"))
        await premises.wait(run_id, "ended")
    said = [text_of(each) for each in premises.store.read(run_id).canisters]
    print(
        premises.read_kinds(run_id),
        [e.event for e in premises.store.open_log(run_id).read()][-4:],
    )
    assert said == ["Do it.", "One.", "And now?", "Two."]


async def test_another_host_goes_on_where_one_has_left(tmp_path: Path) -> None:
    begun, is_held = asyncio.Event(), True

    async def work() -> str:
        """Works."""
        begun.set()
        if is_held:
            await asyncio.sleep(3600)
        return "worked"

    tool = produce_invoker(work, effect="pure")
    async with Premises(tmp_path, [tool]) as premises:
        run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await begun.wait()
    assert (await premises.runs.find(run_id)).state == "due"
    is_held = False
    async with Premises(tmp_path, [tool]) as premises:
        assert (await premises.wait(run_id, "ended")).reason == "answered"


async def test_limits_hold_over_all_times_that_it_is_taken_up(tmp_path: Path) -> None:
    turns: list[Any] = [[invoke("pay", f"p{number}")] for number in range(4)]
    async with Premises(tmp_path, [PAY]) as premises:
        spec = premises.spec(*turns, limits={"run_steps": 2})
        run_id = await premises.start(spec)
        for _ in range(2):
            await premises.wait(run_id, "waiting")
            (waiting,) = await premises.runs.survey_approvals(run_id)
            await premises.runs.approve(run_id, allow(waiting.request))
            await premises.wait(run_id, "waiting", "ended")
        summary = await premises.wait(run_id, "ended")
    assert (summary.reason, summary.limit) == ("limit", "run_steps")


async def test_what_is_out_of_reach_is_tried_again(tmp_path: Path) -> None:
    faults = [EnsembleError(detail="Nobody is there.") for _ in range(2)]
    async with Premises(tmp_path) as premises:
        produce = premises.host.executor.produce_tools
        assert produce is not None

        async def fail(names: Any) -> Any:
            if faults:
                raise faults.pop()
            return await produce(names)

        object.__setattr__(premises.host.executor, "produce_tools", fail)
        run_id = await premises.start(premises.spec(DONE))
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        assert premises.read_kinds(run_id).count("run.retried") == 2
        faults += [EnsembleError(detail="Nobody is there.") for _ in range(9)]
        run_id = await premises.start(premises.spec(DONE))
        assert (await premises.wait(run_id, "ended")).reason == "failed"
        assert premises.read_kinds(run_id).count("run.retried") == 3


LONG = WorkerSettings(scan_seconds=3_600, retry_seconds=3_600, longest_retry_seconds=3_600)


async def begin_to_pause(premises: Premises, tries: list[object]) -> str:
    """Asks for a run that is to be tried again in an hour; then it would succeed."""

    async def produce(names: Any) -> Any:
        tries.append(names)
        if len(tries) == 1:
            raise EnsembleError(detail="Nobody is there.")
        return ()

    object.__setattr__(premises.host.executor, "produce_tools", produce)  # type: ignore[attr-defined]
    run_id = await premises.start(premises.spec(DONE))
    await wait_until(lambda: premises.host._active[run_id].is_pausing)  # type: ignore[attr-defined]
    return run_id


async def test_what_is_said_to_a_run_that_is_to_be_tried_again_ends_its_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look alone does not, such as when somebody asks for it once more under its key."""
    tries, looks, look = list[object](), list[bool](), workers.is_pausing
    monkeypatch.setattr(RunWorker, "survey_open", lambda _: [])  # which may look, too
    monkeypatch.setattr(
        workers, "is_pausing", lambda *where: looks.append(look(*where)) or looks[-1]
    )
    async with Premises(tmp_path, settings=LONG) as premises:
        run_id = await begin_to_pause(premises, tries)
        premises.host.wake(run_id)
        await wait_until(lambda: looks == [True])
        assert (len(tries), premises.host.working) == (1, (run_id,))
        await premises.runs.resume(run_id)
        assert (await premises.wait(run_id, "ended")).reason == "answered"
    assert looks == [True, False]


async def test_what_another_process_says_ends_the_pause_when_the_store_is_looked_through(
    tmp_path: Path,
) -> None:
    tries = list[object]()
    settings = attrs.evolve(LONG, scan_seconds=0.02)
    async with Premises(tmp_path, settings=settings) as premises:
        run_id = await begin_to_pause(premises, tries)
        other = Premises(tmp_path, settings=LONG)
        other.runs.host = None
        await other.runs.resume(run_id)
        assert (await premises.wait(run_id, "ended")).reason == "answered"
    assert len(tries) == 2


async def test_a_run_that_is_to_be_tried_again_is_left_alone_by_others_until_then(
    tmp_path: Path,
) -> None:
    premises = Premises(tmp_path, settings=LONG)
    host: Any = premises.host
    premises.runs.host = None
    run_id = await premises.start(premises.spec(DONE))
    retried = RunRetriedEvent(detail="Nobody is there.", attempt=1, seconds=3_600)
    write_event(premises.store, run_id, retried)
    assert host.survey_open() == []
    write_event(premises.store, run_id, attrs.evolve(retried, seconds=0))
    assert host.survey_open() == [run_id]
    write_event(premises.store, run_id, retried)
    write_event(premises.store, run_id, RunResumedEvent(message_id="now"))
    assert host.survey_open() == [run_id]


async def test_who_was_cut_off_says_nothing_of_a_run_that_another_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Premises(tmp_path) as premises:
        tries: list[object] = []

        async def fail(_: object, begun: ClaimedRun) -> None:
            tries.append(begun)
            if len(tries) == 2:  # as a host that could reach the store all the time
                begun.release()  # its claim has run out
                ended = RunEndedEvent(run_id="another", reason="answered", detail="")
                write_event(premises.store, run_id, ended)
            raise StoreUnavailableError(path="store", detail="It is out of reach.")

        monkeypatch.setattr(RunExecutor, "execute", fail)
        run_id = await premises.start(premises.spec(DONE))
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        await wait_until(lambda: not premises.host.working)
        kinds = premises.read_kinds(run_id)
    assert len(tries) == 2
    assert (kinds.count("run.retried"), kinds.count("run.ended")) == (1, 1)


async def test_a_flow_that_cannot_reach_its_model_is_tried_again_and_ends_once(
    tmp_path: Path,
) -> None:
    """It has no end before the host gives up."""
    cut = {"contents": [{"text": "yes"}], "fault": {"kind": "cut"}}
    task = compose_task("START --> P0 --> END", "yes", script=write_script(tmp_path, cut))
    async with Premises(tmp_path) as premises:
        run_id = (await premises.runs.start(RunSpec(task=task))).id
        await wait_until(lambda: not premises.host.working)
        summary = await premises.runs.find(run_id)
        kinds = premises.read_kinds(run_id)
    assert (summary.state, summary.reason) == ("ended", "failed")
    assert "stream ended" in summary.detail
    assert kinds.count("run.retried") == 3
    assert [kinds.count(kind) for kind in ("flow.ended", "run.ended")] == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["deliver", "write_outcome"])
async def test_a_run_waits_for_a_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """Whatever was to be written down, be it why it waits: it goes on when there is room."""
    original, faults = getattr(workers, what), [OSError(errno.ENOSPC, "full") for _ in range(2)]

    def write(*arguments: Any, **more: Any) -> Any:
        if faults:
            raise StoreError(path="runs.jsonl", detail="The disk is full.") from faults.pop()
        return original(*arguments, **more)

    monkeypatch.setattr(workers, what, write)
    async with Premises(tmp_path) as premises:
        left = [EnsembleError(detail="Nobody is there.") for _ in range(3)]

        async def produce(_: Any) -> Any:
            if left:
                raise left.pop()
            return ()

        object.__setattr__(premises.host.executor, "produce_tools", produce)
        run_id = await premises.start(premises.spec(DONE))
        assert (await premises.wait(run_id, "ended")).reason == "answered"
    assert not faults
    assert "is delayed: The disk is full." in caplog.text
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_what_kills_its_host_is_given_up(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    run_id = await premises.start(premises.spec(DONE))
    await premises.host.close()
    begun = RunStartedEvent(run_id="r", conversation_id=run_id, length=1)
    for _ in range(5):
        write_event(premises.store, run_id, begun)
    async with premises:
        summary = await premises.wait(run_id, "ended")
    assert summary.reason == "failed"
    assert "5 times" in summary.detail


async def test_a_run_whose_log_has_lost_events_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Scans leave it alone and find the others; a message to it tries again."""
    premises = Premises(tmp_path)
    asker = LocalRuns(premises.store, premises.runs.application)  # only scans find what it asks for
    said = [UserCanister("Do it.")]
    damaged = (await asker.start(premises.spec(DONE), said)).id
    begun = RunStartedEvent(run_id="r", conversation_id=damaged, length=1)
    write_event(premises.store, damaged, begun)
    log = Path(premises.store.locate(damaged), "runs.jsonl")
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])

    async with premises:
        for _ in range(3):
            other = await asker.start(premises.spec(DONE), said)
            await premises.wait(other.id, "ended")
        assert caplog.text.count(f"run {damaged} cannot be executed") == 1
        premises.host.wake(damaged)
        await wait_until(lambda: caplog.text.count(f"run {damaged} cannot be executed") == 2)


@pytest.mark.slow
async def test_of_two_hosts_one_says_that_it_could_not_be_begun(tmp_path: Path) -> None:
    """Both try; whoever comes second finds that it has ended, once it has the log."""
    first, second = Premises(tmp_path), Premises(tmp_path)
    run_id = await first.start(RunSpec(model="scripted:nowhere"))
    await first.host.close()
    error = ConverseError(detail="It cannot be begun.")
    known = first.store.open_log(run_id).read()
    hosts: list[Any] = [first.host, second.host]
    await asyncio.gather(*(each._settle(run_id, known, error) for each in hosts))
    assert first.read_kinds(run_id).count("run.ended") == 1


async def test_what_comes_further_each_time_is_not_given_up(tmp_path: Path) -> None:
    """However often its host is killed: what it does is not what kills it."""
    premises = Premises(tmp_path)
    host, premises.runs.host = premises.host, None
    run_id = await premises.start(premises.spec(DONE))
    begun = RunStartedEvent(run_id="r", conversation_id=run_id, length=1)
    answered = GenerationFinishedEvent(
        key="k", turn=1, model="m", provider="p", canisters=1, stop_reason=StopReason.ANSWERED
    )
    for _ in range(4):
        for event in (begun, begun, answered):
            write_event(premises.store, run_id, event)
    assert count_starts(premises.store.open_log(run_id).read()) == 0
    premises.runs.host = host
    async with premises:
        assert (await premises.wait(run_id, "ended")).reason == "answered"


async def test_wrong_settings_end_it(tmp_path: Path) -> None:
    async with Premises(tmp_path) as premises:
        spec = premises.spec(DONE)
        (tmp_path / "script.toml").unlink()
        summary = await premises.wait(await premises.start(spec), "ended")
    assert summary.reason == "failed"


async def test_nothing_of_others_is_told(tmp_path: Path) -> None:
    async with Premises(tmp_path) as premises:
        run_id = await premises.start(premises.spec(DONE), subject="ann")
        await premises.wait(run_id, "ended", subject="ann")
        runs = premises.runs
        assert await runs.survey(subject="bob") == []
        for asked in (runs.find, runs.survey_approvals, runs.stop, runs.resume, runs.delete):
            with pytest.raises(UnknownConversationError):
                await asked(run_id, subject="bob")
        forked = await runs.fork(run_id, subject="ann")
        assert (forked.origin, forked.subject) == (run_id, "ann")


@pytest.mark.parametrize(
    "more",
    [{"limits": {"run_steps": 51}}, {"limits": {"attempts": 1}}, {"limits": {"run_cents": 0}}],
)
async def test_an_order_exceeds_nothing(tmp_path: Path, more: dict[str, Any]) -> None:
    premises = Premises(tmp_path)
    with pytest.raises(ConfigurationError, match=r"run\.limits"):
        await premises.start(premises.spec(DONE, **more))
    assert [*premises.store.survey()] == []


async def test_a_flow_waits_in_its_visits_and_leaves_nothing(tmp_path: Path) -> None:
    task = compose_task("START --> P0 --> T[/pay/] --> END", "yes")
    spec = RunSpec(task=task, ensembles=("any",))
    async with Premises(tmp_path, [PAY]) as premises:
        run_id = (await premises.runs.start(spec, subject="ann")).id
        summary = await premises.wait(run_id, "waiting", subject="ann")
        assert (summary.kind, summary.waiting) == ("flow", 1)
        (waiting,) = await premises.runs.survey_approvals(run_id, subject="ann")
        assert waiting.conversation_id != run_id
        with pytest.raises(RequestError, match="No visit of this flow is asking a model"):
            await premises.runs.send(run_id, UserCanister("Hello?"), subject="ann")
        await premises.runs.approve(run_id, allow(waiting.request), subject="ann")
        assert (await premises.wait(run_id, "ended", subject="ann")).reason == "ended"
        assert text_of(premises.store.read(run_id).canisters[-1]) == "paid"
        await premises.runs.delete(run_id, subject="ann")
    assert [*premises.store.survey()] == []


async def test_whoever_hears_that_a_flow_has_ended_finds_its_answer(tmp_path: Path) -> None:
    task = compose_task("START --> P0 --> T[/pay/] --> END", "yes")
    store, found = DirectoryStore(tmp_path / "store"), list[str]()

    def hear(event: object) -> None:
        if isinstance(event, FlowEndedEvent):
            found.append(text_of(store.read(event.run_id).canisters[-1]))

    adapter = UniversalAdapter(
        AdapterConfig(strict_validation=False),
        tools=[produce_invoker(pay)],
        application=produce_application(tmp_path),
        store=store,
        listener=hear,
    )
    assert (await adapter.execute(task)).final_response == "paid"
    assert found == ["paid"]


async def test_a_task_that_cannot_run_is_refused_or_ends(tmp_path: Path) -> None:
    async with Premises(tmp_path) as premises:
        task = compose_task("START --> T[/pay/] --> END", "yes")
        run_id = (await premises.runs.start(RunSpec(task=task))).id
        assert (await premises.wait(run_id, "ended")).reason == "failed"
        entry = {"name": "secrets", "source_url": "file:///etc/passwd"}
        task["resource_registry"] = {"entries": [entry]}
        with pytest.raises(ConfigurationError, match="source_url"):
            await premises.runs.start(RunSpec(task=task))


async def test_only_some_models_and_tools_may_be_named(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    premises.runs.rules = RunRules(providers=frozenset({"remote"}), ensembles=frozenset({"web"}))
    with pytest.raises(ConfigurationError) as caught:
        await premises.start(premises.spec(DONE))
    places = [finding.place for finding in caught.value.findings]
    assert places == ["run.ensembles", "run.model"]
    task = compose_task("START --> P0 --> END", "yes", mcp=["files"])
    with pytest.raises(ConfigurationError) as caught:
        await premises.runs.start(RunSpec(task=task))
    places = [finding.place for finding in caught.value.findings]
    assert places == ["run.task.resource_llm", "run.task.mcp"]
    task = compose_task("START --> P0 --> END", "yes", ensembles=["web"])
    premises.runs.rules = RunRules(ensembles=frozenset({"web"}))
    with pytest.raises(ConfigurationError, match=r"run\.task\.ensembles"):
        await premises.runs.start(RunSpec(task=task))
    premises.runs.rules = RunRules(ensembles=frozenset())
    with pytest.raises(ConfigurationError, match=r"run\.ensembles: .*'web'. Known: none\."):
        await premises.runs.start(RunSpec(ensembles=("web",)))


async def test_a_flow_stops_at_the_limits_of_its_order_and_goes_on_anew(tmp_path: Path) -> None:
    task = compose_task("START --> P0 --> P1 --> P2 --> END", "a", "b", "c")
    async with Premises(tmp_path) as premises:
        run_id = (await premises.runs.start(RunSpec(task=task, limits={"run_steps": 1}))).id
        summary = await premises.wait(run_id, "ended")
        assert (summary.reason, summary.limit, summary.answers) == ("limit", "max_requests", 1)
        await premises.runs.resume(run_id)
        summary = await premises.wait(run_id, "ended", after=summary.sequence)
        assert (summary.reason, summary.limit, summary.answers) == ("limit", "max_requests", 1)
        await premises.runs.resume(run_id)
        summary = await premises.wait(run_id, "ended", after=summary.sequence)
        assert summary.reason == "ended"
        nodes = [each for each in premises.read_kinds(run_id) if each == "node.finished"]
        assert len(nodes) == 5
        for limits in ({"run_faults": 1}, {"run_seconds": 10**6}, {"run_steps": 0}):
            with pytest.raises(ConfigurationError, match=r"run\.limits"):
                await premises.runs.start(RunSpec(task=task, limits=limits))


@pytest.mark.slow
async def test_a_flow_stops_in_time(tmp_path: Path) -> None:
    async def work() -> str:
        """Works."""
        await asyncio.sleep(3600)
        return "worked"

    task = compose_task("START --> T[/work/] --> P0 --> END", "yes")
    spec = RunSpec(task=task, ensembles=("any",), limits={"run_seconds": 1})
    async with Premises(tmp_path, [produce_invoker(work, effect="pure")]) as premises:
        run_id = (await premises.runs.start(spec)).id
        summary = await premises.wait(run_id, "ended")
    assert (summary.reason, summary.limit) == ("limit", "timeout_ms")


async def test_a_flow_is_forked_at_a_node(tmp_path: Path) -> None:
    task = compose_task("START --> P0 --> P1 --> P2 --> END", "a", "{{word}}", "c")
    task["variables"] = {"word": "one"}
    async with Premises(tmp_path) as premises:
        run_id = (await premises.runs.start(RunSpec(task=task))).id
        await premises.wait(run_id, "ended")
        for node, visit in (("P9", 1), ("P1", 2), ("", 1)):
            with pytest.raises(RequestError, match=node or "Name the node"):
                await premises.runs.fork(run_id, node=node, visit=visit)
        made = await premises.runs.fork(run_id, node="P1", variables={"word": "two"})
        forked = await premises.wait(made.id, "ended")
        assert (forked.kind, forked.reason, forked.origin) == ("flow", "ended", run_id)
        assert forked.answers == 2
        events = [each.event for each in premises.store.open_log(made.id).read()]
        said = [each.response for each in events if isinstance(each, NodeFinishedEvent)]
        assert [each for each in said if each] == ["a", "two", "c"]
        assert premises.read_kinds(made.id).count("node.started") == 2
        assert text_of(premises.store.read(made.id).canisters[-1]) == "c"
        plain = await premises.start(premises.spec(DONE))
        with pytest.raises(RequestError, match="Only flows"):
            await premises.runs.fork(plain, node="P1")


def read_ids(premises: Premises, run_id: str) -> set[str]:
    """Returns all ids of runs that the events of a run bear."""
    logged = premises.store.open_log(run_id).read()
    named = [getattr(each.event, "run_id", run_id) for each in logged]
    return {*named, *(each.run_id for each in logged)}


def count_ends(premises: Premises, run_id: str) -> int:
    """Counts the events by which a run is over."""
    kinds = premises.read_kinds(run_id)
    return kinds.count("run.ended") + kinds.count("flow.ended")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_all_events_of_a_run_have_its_id_and_it_has_one_end(
    tmp_path: Path, kind: str
) -> None:
    """Whoever finds an id in an event finds the run by it, also after it was tried again."""
    path = write_script(tmp_path, {"contents": [invoke("pay")]}, {"contents": DONE})
    spec = RunSpec(model=f"scripted:{path}", ensembles=("any",))
    if kind == "flow":
        task = compose_task("START --> P0 --> END", "Pay.", script=path)
        spec = RunSpec(task=task, ensembles=("any",))
    faults = [EnsembleError(detail="Nobody is there.") for _ in range(2)]
    async with Premises(tmp_path) as premises:

        async def produce(_: Any) -> Any:
            if faults:
                raise faults.pop()
            return [PAY]

        object.__setattr__(premises.host.executor, "produce_tools", produce)
        said = [] if kind == "flow" else [UserCanister("Pay.")]
        run_id = (await premises.runs.start(spec, said)).id
        await premises.wait(run_id, "waiting")
        (waiting,) = await premises.runs.survey_approvals(run_id)
        await premises.runs.approve(run_id, allow(waiting.request), key=waiting.key)
        await premises.wait(run_id, "ended")

        assert "run.retried" in premises.read_kinds(run_id)
        assert read_ids(premises, run_id) == {run_id}
        ends = [each for each in premises.read_kinds(run_id) if each.endswith(".ended")]
        assert ends == (["flow.ended", "flow.ended"] if kind == "flow" else ["run.ended"])


@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_a_stop_is_told_before_the_end_that_it_brings_about(
    tmp_path: Path, kind: str
) -> None:
    begun = asyncio.Event()

    async def work() -> str:
        """Works."""
        begun.set()
        await asyncio.sleep(3600)
        return "worked"

    tool = produce_invoker(work, effect="pure")
    async with Premises(tmp_path, [tool]) as premises:
        spec = premises.spec([invoke("work")], DONE)
        if kind == "flow":
            spec = RunSpec(
                task=compose_task("START --> T[/work/] --> P0 --> END", "x"), ensembles=("any",)
            )
        said = [] if kind == "flow" else [UserCanister("Work.")]
        run_id = (await premises.runs.start(spec, said)).id
        await begun.wait()
        await premises.runs.stop(run_id, reason="Enough.")

        kinds = premises.read_kinds(run_id)
        end = "flow.ended" if kind == "flow" else "run.ended"
        assert kinds.index("run.stop_requested") < kinds.index(end) == len(kinds) - 1
        assert count_ends(premises, run_id) == 1
        summary = await premises.runs.find(run_id)
        assert (summary.state, "Enough." in summary.detail) == ("stopped", True)


@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_what_is_stopped_before_it_has_begun_has_an_end_too(
    tmp_path: Path, kind: str
) -> None:
    """One, however often it is stopped; and it goes on all the same when it is asked to."""
    premises = Premises(tmp_path)
    runs = LocalRuns(premises.store, premises.runs.application)  # where nobody performs any
    spec = premises.spec(DONE)
    if kind == "flow":
        spec = RunSpec(task=compose_task("START --> P0 --> END", "x"))
    said = [] if kind == "flow" else [UserCanister("Go.")]
    run_id = (await runs.start(spec, said)).id
    for _ in range(2):
        await runs.stop(run_id, reason="Enough.")

    end = "flow.ended" if kind == "flow" else "run.ended"
    stop = "run.stop_requested"
    assert premises.read_kinds(run_id) == ["run.requested", stop, end, stop]
    assert (await runs.find(run_id)).state == "stopped"
    await runs.resume(run_id)
    async with premises:
        summary = await premises.wait(run_id, "ended")
    assert summary.reason == ("ended" if kind == "flow" else "answered")
    assert read_ids(premises, run_id) == {run_id}


async def test_a_run_that_waits_is_over_when_it_is_stopped(tmp_path: Path) -> None:
    """Nothing of it waits then; resumed, it asks again."""
    async with Premises(tmp_path, [PAY]) as premises:
        run_id = await premises.start(premises.spec([invoke("pay")], DONE))
        await premises.wait(run_id, "waiting")
        await premises.runs.stop(run_id)
        assert premises.read_kinds(run_id)[-2:] == ["run.stop_requested", "run.ended"]
        summary = await premises.runs.find(run_id)
        assert (summary.state, summary.waiting) == ("stopped", 0)
        await premises.runs.resume(run_id)
        assert (await premises.wait(run_id, "waiting")).waiting == 1
        (waiting,) = await premises.runs.survey_approvals(run_id)
        await premises.runs.approve(run_id, allow(waiting.request), key=waiting.key)
        await premises.wait(run_id, "ended")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_a_run_that_its_host_has_left_has_no_end_yet(tmp_path: Path, kind: str) -> None:
    """The next host goes on with it, and it ends once."""
    begun, is_held = asyncio.Event(), True

    async def work() -> str:
        """Works."""
        begun.set()
        if is_held:
            await asyncio.sleep(3600)
        return "worked"

    tool = produce_invoker(work, effect="pure")
    spec = RunSpec(task=compose_task("START --> T[/work/] --> P0 --> END", "x"), ensembles=("any",))
    async with Premises(tmp_path, [tool]) as premises:
        if kind == "conversation":
            spec = premises.spec([invoke("work")], DONE)
        said = [] if kind == "flow" else [UserCanister("Work.")]
        run_id = (await premises.runs.start(spec, said)).id
        await begun.wait()
    assert (count_ends(premises, run_id), premises.read_kinds(run_id)[-1]) == (0, "run.retried")
    runs = LocalRuns(premises.store, premises.runs.application)
    assert (await runs.find(run_id)).state == "due"
    is_held = False
    async with Premises(tmp_path, [tool]) as premises:
        await premises.wait(run_id, "ended")
    assert count_ends(premises, run_id) == 1


async def test_a_message_whose_run_could_not_start_is_answered_by_the_next(tmp_path: Path) -> None:
    """It was acknowledged, so that the conversation has it."""
    async with Premises(tmp_path) as premises:
        run_id = await premises.start(premises.spec(DONE))
        first = await premises.wait(run_id, "ended")
        broken = RunSpec(model="scripted:missing-script")
        await premises.runs.start(broken, [UserCanister("Second")], conversation=run_id)
        failed = await premises.wait(run_id, "ended", after=first.sequence + 1)
        assert failed.reason == "failed"
        await premises.runs.start(premises.spec(DONE), [UserCanister("Third")], conversation=run_id)
        await premises.wait(run_id, "ended", after=failed.sequence + 1)
        texts = [text_of(each) for each in premises.store.read(run_id).canisters]
    assert texts == ["Do it.", "Done.", "Second", "Third", "Done."]
