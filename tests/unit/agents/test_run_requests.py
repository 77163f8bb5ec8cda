"""An order is on the disk whole or not at all, and its log is claimed once, for who performs it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import say
from support.runs.hosted import Premises
from support.stores.disks import Crash, CrashingDisk, Ledger
from vibe_llms.agents import local as module
from vibe_llms.agents.run_requests import begin_run, summarize_claimed
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.surveying import read_summary

RUN = "run"
QUIET = WorkerSettings(scan_seconds=3_600, runs=1)


def begin(store: Any, *, claims: bool = True) -> ClaimedRun | None:
    wanted = RunRequestedEvent(spec={"model": "m:n"}, canisters=(UserCanister("Do it."),))
    return begin_run(store, RUN, ConversationMetadata(model="m:n"), wanted, claims=claims)


def test_a_crash_leaves_an_order_whole_or_nothing(tmp_path: Path) -> None:
    found = set()
    for steps in itertools.count(1):
        folder = tmp_path / str(steps)
        store = DirectoryStore(folder, disk=CrashingDisk(steps))
        try:
            assert begin(store)
        except Crash:
            is_over = False
        else:
            is_over = True
        after = DirectoryStore(folder)
        try:
            said = after.read(RUN).canisters
        except UnknownConversationError:
            found.add("nothing")
            continue
        found.add("whole")
        (logged,) = after.open_log(RUN).read()
        assert isinstance(logged.event, RunRequestedEvent)
        assert [each.id for each in said] == [each.id for each in logged.event.canisters]
        if is_over:
            break
    assert found == {"nothing", "whole"}


def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    disk = Ledger()
    assert begin(DirectoryStore(tmp_path, disk=disk))
    assert disk.settle() == set()


def test_the_log_is_claimed_for_one(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    begun = begin(store)
    assert begun is not None
    assert summarize_claimed(begun) == read_summary(store, RUN)
    other = store.open_log(RUN)
    with pytest.raises(StoreError, match="already active"):
        other.claim()
    begun.log.close()
    other.claim()


def test_whoever_has_found_it_first_performs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vibe_llms.conversations.run_logs.file_log import FileLog

    def refuse(_: FileLog) -> None:
        raise StoreError(detail="Another has it.")

    monkeypatch.setattr(FileLog, "claim", refuse)
    store = DirectoryStore(tmp_path)
    assert begin(store) is None
    assert read_summary(store, RUN).state == "queued"


@pytest.mark.parametrize("kind", [DirectoryStore, MemoryStore])
def test_without_a_host_nothing_stays_claimed(tmp_path: Path, kind: Any) -> None:
    store = MemoryStore() if kind is MemoryStore else DirectoryStore(tmp_path)
    assert begin(store, claims=False) is None
    store.open_log(RUN).claim()


async def test_while_there_is_no_room_others_may_have_it(tmp_path: Path) -> None:
    premises = Premises(tmp_path, settings=QUIET)
    begun = begin(premises.store)
    assert begun is not None
    async with premises.host._room:  # type: ignore[attr-defined]  # another run works
        assert not premises.host.has_room
        premises.host.begin(begun)
        await asyncio.sleep(0)
        log = premises.store.open_log(RUN)
        log.claim()
        log.close()
        await premises.host.close()


async def test_a_host_that_leaves_lets_go_of_what_it_has_not_begun(tmp_path: Path) -> None:
    premises = Premises(tmp_path, settings=QUIET)
    begun = begin(premises.store)
    assert begun is not None
    premises.host.begin(begun)
    await premises.host.close()  # before its task was in turn
    premises.store.open_log(RUN).claim()


async def test_who_leaves_while_they_ask_has_a_run_that_is_performed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises = Premises(tmp_path, settings=QUIET)
    loop, written = asyncio.get_running_loop(), asyncio.Event()

    def tell(*given: Any, **more: Any) -> ClaimedRun | None:
        begun = begin_run(*given, **more)
        loop.call_soon_threadsafe(written.set)
        return begun

    monkeypatch.setattr(module, "begin_run", tell)
    async with premises:
        asking = asyncio.create_task(premises.start(premises.spec([say("Done.")])))
        await written.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (run_id,) = premises.store.survey()
        assert (await premises.wait(run_id, "ended")).reason == "answered"
