"""A run that a host takes up is claimed once, and by nobody else until it has come to rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.gateways.gateways import wait_until
from support.runs.acting import invoke, say
from support.runs.hosted import Premises, write_event
from support.stores.postgresql_server import produce_url
from vibe_llms.agents import workers
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.run_logs.database_log import DatabaseLog
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.events.runs import MessageReceivedEvent, StopRequestedEvent
from vibe_llms.exceptions import EnsembleError, StoreError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of

DONE = [say("Done.")]
QUIET = WorkerSettings(scan_seconds=3_600)


@pytest.fixture(
    params=["memory", "directory", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def premises(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Premises]:
    """Premises in whose store runs are asked for that nobody has taken up."""
    shared: Any = MemoryStore() if request.param == "memory" else None
    if request.param == "postgresql":
        shared = PostgresqlStore(produce_url(tmp_path))
    made = Premises(tmp_path, [look], shared=shared, settings=QUIET)
    made.runs.host = None  # who asks wakes nobody
    yield made
    if isinstance(shared, PostgresqlStore):
        shared.database.close()


def look() -> str:
    """Looks."""
    return "nothing"


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The logs that are claimed from now on, each as often as it is."""
    claimed: list[object] = []
    for kind in (MemoryLog, FileLog, DatabaseLog):

        def note(log: Any, claim: Any = kind.claim) -> None:
            claim(log)
            claimed.append(log)

        monkeypatch.setattr(kind, "claim", note)
    return claimed


async def test_a_conversation_is_claimed_once(premises: Premises, claims: list[object]) -> None:
    run_id = await premises.start(premises.spec([invoke("look")], DONE))
    claims.clear()
    premises.host.wake(run_id)
    assert (await premises.wait(run_id, "ended")).reason == "answered"
    await wait_until(lambda: not premises.host.working)
    assert len(claims) == 1
    said = [text_of(each) for each in premises.store.read(run_id).canisters]
    assert (said[0], said[-1]) == ("Do it.", "Done.")
    premises.store.open_log(run_id).claim()  # nobody has it any more


async def test_a_flow_is_claimed_once_and_so_is_its_visit(
    premises: Premises, claims: list[object]
) -> None:
    task = compose_task("START --> P0 --> END", "yes")
    run_id = (await premises.runs.start(RunSpec(task=task))).id
    claims.clear()
    premises.host.wake(run_id)
    assert (await premises.wait(run_id, "ended")).reason == "ended"
    await wait_until(lambda: not premises.host.working)
    assert len(claims) == 2
    premises.store.open_log(run_id).claim()


async def test_what_cannot_be_made_ready_is_let_go_of(premises: Premises) -> None:
    """Before what became of it is written, and while it waits to be tried again."""

    async def fail(_: object) -> Any:
        raise EnsembleError(detail="Nobody is there.")

    object.__setattr__(premises.host.executor, "produce_tools", fail)  # type: ignore[attr-defined]
    run_id = await premises.start(premises.spec(DONE))
    premises.host.wake(run_id)
    await wait_until(lambda: "run.retried" in premises.read_kinds(run_id))
    log = premises.store.open_log(run_id)
    await wait_until(lambda: is_claimed(log))
    log.close()
    await premises.host.close()


def is_claimed(log: Any) -> bool:
    """Claims a log, if that can be."""
    try:
        log.claim()
    except StoreError:
        return False
    return True


async def test_who_is_told_to_go_while_it_claims_has_nothing(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be stopped: what it brings is let go of."""
    claimed, go_on, restore = threading.Event(), threading.Event(), workers.Conversation.restore

    def restore_slowly(*given: Any) -> Any:
        claimed.set()
        assert go_on.wait(60)
        return restore(*given)

    monkeypatch.setattr(workers.Conversation, "restore", restore_slowly)
    run_id = await premises.start(premises.spec(DONE))
    premises.host.wake(run_id)
    assert await asyncio.to_thread(claimed.wait, 10)
    closing = asyncio.create_task(premises.host.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    premises.store.open_log(run_id).claim()
    assert premises.read_kinds(run_id) == ["run.requested"]


async def test_what_another_has_ended_before_the_claim_is_not_begun(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, ended = workers.claim_at_once, RunEndedEvent(run_id="other", reason="answered")

    def claim_late(log: Any) -> bool:
        write_event(premises.store, run_id, ended)
        return claim(log)

    run_id = await premises.start(premises.spec(DONE))
    monkeypatch.setattr(workers, "claim_at_once", claim_late)
    premises.host.wake(run_id)
    await wait_until(lambda: not premises.host.working)
    assert premises.read_kinds(run_id) == ["run.requested", "run.ended"]
    premises.store.open_log(run_id).claim()


async def test_what_is_said_while_it_is_made_ready_is_heard(premises: Premises) -> None:
    """A message before the model is asked, and a stop as one of that run."""

    async def tell(_: object) -> Any:
        inbox = premises.store.open_inbox(run_id)
        inbox.put(MessageReceivedEvent(canister=UserCanister("Wait."), message_id="a"))
        inbox.put(StopRequestedEvent(message_id="b"))
        return ()

    object.__setattr__(premises.host.executor, "produce_tools", tell)  # type: ignore[attr-defined]
    run_id = await premises.start(premises.spec(DONE))
    premises.host.wake(run_id)
    await wait_until(lambda: not premises.host.working)
    assert (await premises.runs.find(run_id)).state == "stopped"
    kinds = premises.read_kinds(run_id)
    assert kinds.count("message.received") == kinds.count("run.stop_requested") == 1
    assert "generation.started" not in kinds
