"""Runs of flows that something goes wrong with: what is told of them, and how they go on."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import hold_slow_answers, write_script
from vibe_llms.conversations import Conversation, DirectoryStore, MemoryStore
from vibe_llms.conversations.run_logs import log as run_logs
from vibe_llms.events.flow import FlowStartedEvent
from vibe_llms.exceptions import RequestError, TransportError
from vibe_llms.flows import AdapterConfig, AdapterResult, UniversalAdapter
from vibe_llms.logs.disk import Disk

ROW = "START --> P0 --> P1 --> P2 --> END"


def execute(adapter: UniversalAdapter, *given: Any, **named: Any) -> AdapterResult:
    """Runs a task."""
    return asyncio.run(adapter.execute(*given, **named))


def resume(adapter: UniversalAdapter, run_id: str) -> AdapterResult:
    """Takes a run up."""
    return asyncio.run(adapter.resume(run_id))


class FullDisk(Disk):
    """Has room for so many writes."""

    room = 1_000_000

    def write(self, descriptor: int, data: bytes) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, data)


class BrieflyFullDisk(Disk):
    """Is full for two writes after so many."""

    after, left = 1_000_000, 2

    def write(self, descriptor: int, data: bytes) -> None:
        self.after -= 1
        if self.after < 0 < self.left:
            self.left -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, data)


@pytest.mark.slow
@pytest.mark.parametrize("room", range(0, 24))
def test_a_disk_that_is_full_ends_a_run_that_can_be_taken_up(tmp_path: Path, room: int) -> None:
    """What was said until then is in the result, which names the run; nothing is asked twice."""
    disk = FullDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    adapter = UniversalAdapter(store=store)
    disk.room = room
    result = execute(adapter, compose_task(ROW, "one", "two", "three"), run_id="full")
    if result.success and not any("No space" in each for each in result.warnings):
        return
    assert "No space" in " ".join((*result.errors, *result.warnings))
    assert all("\n" not in each for each in result.errors)
    disk.room = 1_000_000
    if room < 3:  # it has not begun
        assert result.reason == "refused"
        return
    assert (result.run_id, result.reason in ("failed", "ended")) == ("full", True)
    again = resume(adapter, "full")
    assert (again.success, again.final_response) == (True, "three")
    assert again.requests == 3
    assert Conversation.restore(store, "full").last_message is not None


@pytest.mark.slow
@pytest.mark.parametrize("after", range(33))
def test_a_hosted_run_whose_judge_meets_a_full_disk_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Whatever is written then, by a visit or by the model that judges its answer."""
    monkeypatch.setattr(run_logs, "_FULL_SECONDS", 0)
    disk = BrieflyFullDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    said = json.dumps({"reason": "It says so.", "is_met": True, "confidence": 1})
    verdict = {"contents": [{"text": said}], "match": "condition"}
    script = write_script(tmp_path, verdict, {"contents": [{"text": "Done."}]})
    condition = {"description": "It is done.", "evaluation_type": "JUDGE"}
    task = compose_task("START --> P0 --> END", "Do it.", script=script, conditions=[condition])
    disk.after = after
    result = asyncio.run(
        UniversalAdapter(store=store).execute(
            task, run_id="full", temporary_errors=(TransportError,)
        )
    )
    assert result.success, result.errors
    assert [each.is_met for each in result.verification] == [True]
    assert not any("No space" in each for each in result.warnings)
    assert disk.left == 0 or disk.after >= 0


def test_a_run_goes_on_as_it_was_taken_up_last(tmp_path: Path) -> None:
    """A bound that somebody has raised stays raised, and one may be what it is by default."""
    store = DirectoryStore(tmp_path)
    task = compose_task(ROW, "one", "two", "three")
    low = execute(UniversalAdapter(AdapterConfig(max_iterations=2), store=store), task)
    assert low.limit == "max_iterations"
    higher = resume(UniversalAdapter(AdapterConfig(max_iterations=3), store=store), low.run_id)
    assert (higher.limit, len(higher.path)) == ("max_iterations", 3)
    same = resume(UniversalAdapter(store=store), low.run_id)
    assert (same.limit, len(same.path)) == ("max_iterations", 3)
    default = resume(UniversalAdapter(AdapterConfig(max_iterations=1000), store=store), low.run_id)
    assert default.success, default.errors


def test_settings_that_mean_nothing_any_more_are_told() -> None:
    """A run of another version goes on without them."""
    store = MemoryStore()
    task = compose_task(ROW, "one", "two", "three")
    low = execute(UniversalAdapter(AdapterConfig(max_iterations=2), store=store), task)
    log = store.open_log(low.run_id)
    log.claim()
    event = FlowStartedEvent(run_id=low.run_id, task=task, settings={"max_dreams": 3})
    log.append(low.run_id, event)
    log.close()
    result = resume(UniversalAdapter(store=store), low.run_id)
    assert result.success, result.errors
    assert any("max_dreams" in each for each in result.warnings), result.warnings


def test_a_name_of_a_run_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Else two tasks would be one run."""
    store = DirectoryStore(tmp_path)
    adapter = UniversalAdapter(store=store)
    first = execute(adapter, compose_task("START --> P0 --> END", "one"), run_id="mine")
    assert first.success
    second = execute(adapter, compose_task("START --> P0 --> END", "two"), run_id="mine")
    assert (second.success, second.reason) == (False, "refused")
    assert "mine" in second.errors[0]
    assert resume(adapter, "mine").final_response == "one"


def test_two_cannot_take_up_one_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them does, and the other is told."""
    is_over = False
    hold_slow_answers(monkeypatch, lambda _: is_over)
    script = write_script(tmp_path, {"contents": [{"text": "slow"}], "delay_seconds": 0.2})
    store = DirectoryStore(tmp_path / "store")
    task = compose_task("START --> P0 --> END", "x", script=script)
    first = execute(UniversalAdapter(AdapterConfig(timeout_ms=20), store=store), task)
    adapters = [
        UniversalAdapter(AdapterConfig(timeout_ms=60_000), store=DirectoryStore(tmp_path / "store"))
        for _ in range(2)
    ]

    async def both() -> tuple[AdapterResult, AdapterResult]:
        nonlocal is_over
        resuming = [asyncio.create_task(each.resume(first.run_id)) for each in adapters]
        await asyncio.wait(resuming, return_when=asyncio.FIRST_COMPLETED)
        is_over = True
        await asyncio.wait(resuming)
        one, other = (each.result() for each in resuming)
        return (other, one) if one.success else (one, other)

    loser, winner = asyncio.run(both())
    assert (loser.success, winner.success) == (False, True)
    assert "already active" in loser.errors[0]
    assert len(loser.errors) == 1


def test_a_fork_with_another_task_goes_on_from_what_is_alike() -> None:
    """Edges are known by where they lead, not by their place in the diagram."""
    store = MemoryStore()
    adapter = UniversalAdapter(store=store)
    result = execute(adapter, compose_task("START --> P0 --> P1 --> END", "one", "two"))
    changed = compose_task(
        "P1 --> P2 --> END\n P0 --> P1\n START --> P0", "ONE", "TWO", "three after {{response:P0}}"
    )
    forked = asyncio.run(adapter.fork(result.run_id, "P1", task=changed))
    assert (forked.errors, forked.final_response) == ((), "three after one")
    assert forked.path == ("START", "P0", "P1", "P2", "END")


@pytest.mark.parametrize(
    ("diagram", "words"),
    [
        ("START --> P1 --> END\n P1 -->|on error| P0 --> END", "START"),
        ("START --> P0 --> P1 --> END\n P0 --> P2 --> P1", "P0"),
        ("START --> P0 -->|good| P1 --> END\n P0 --> END", "P0"),
        ("START --> P0 --> P2 --> END\n P0 -->|on error| P1 --> END", "P0"),
    ],
)
def test_a_fork_with_a_task_that_leads_elsewhere_is_refused(diagram: str, words: str) -> None:
    """The node is named from which the way is another one."""
    store = MemoryStore()
    adapter = UniversalAdapter(AdapterConfig(strict_validation=False), store=store)
    result = execute(adapter, compose_task("START --> P0 --> P1 --> END", "one", "two"))
    changed = compose_task(diagram, "one", "two", "three")
    with pytest.raises(RequestError, match=words):
        asyncio.run(adapter.fork(result.run_id, "P1", task=changed))
    assert len(list(store.survey())) == 3


def test_a_fork_of_a_run_that_was_taken_up_goes_on_from_any_visit() -> None:
    """Also from one before it was taken up, and what it cost until there is counted once."""
    store = MemoryStore()
    adapter = UniversalAdapter(AdapterConfig(max_iterations=3), store=store)
    task = compose_task(ROW, "one", "two", "three")
    low = execute(adapter, task)
    adapter = UniversalAdapter(AdapterConfig(max_iterations=50), store=store)
    assert resume(adapter, low.run_id).requests == 3
    for node in ("START", "P0", "P1", "P2", "END"):
        forked = asyncio.run(adapter.fork(low.run_id, node))
        assert (forked.success, forked.requests, len(forked.path)) == (True, 3, 5)


def test_a_stored_task_that_does_not_check_any_more_is_told(tmp_path: Path) -> None:
    """As of a run that began with a subflow whose file is gone."""
    inner, outer = tmp_path / "inner.json", tmp_path / "outer.json"
    inner.write_text(json.dumps(compose_task("START --> P0 --> END", "inner")))
    outer.write_text(json.dumps(compose_task("START --> P0 --> S[[inner]] --> END", "outer")))
    store = DirectoryStore(tmp_path / "store")
    low = execute(UniversalAdapter(AdapterConfig(max_iterations=2), store=store), outer)
    assert low.limit == "max_iterations"
    inner.unlink()
    adapter = UniversalAdapter(AdapterConfig(max_iterations=50), store=store)
    result = resume(adapter, low.run_id)
    assert (result.success, result.reason) == (False, "refused")
    assert "inner" in result.errors[0]
    outer.unlink()
    inner.write_text(json.dumps(compose_task("START --> P0 --> END", "inner")))
    result = resume(adapter, low.run_id)
    assert (result.success, result.final_response) == (True, "inner")


def test_a_subflow_that_has_begun_goes_on_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its file says something else meanwhile: its visits are those of its own diagram."""
    script = write_script(
        tmp_path,
        {"match": "slow", "contents": [{"text": "late"}], "delay_seconds": 0.001},
        {"contents": [{"text": "{input}"}]},
    )
    inner, outer = tmp_path / "inner.json", tmp_path / "outer.json"
    diagram = "START --> P0 --> P1 --> END"
    inner.write_text(json.dumps(compose_task(diagram, "inner", "slow", script=script)))
    outer.write_text(json.dumps(compose_task("START --> S[[inner]] --> P0 --> END", "outer")))
    store = DirectoryStore(tmp_path / "store")
    is_asked = False

    def hold(_: str | None) -> bool:
        nonlocal is_asked
        is_asked = True
        return False

    async def begin() -> None:
        beginning = asyncio.create_task(UniversalAdapter(store=store).execute(outer, run_id="mine"))
        while not is_asked:  # noqa: ASYNC110  # the answer that is held tells nobody else
            await asyncio.sleep(0.001)
        beginning.cancel()
        await asyncio.wait([beginning])

    with monkeypatch.context() as patched:
        hold_slow_answers(patched, hold)
        asyncio.run(begin())
    inner.write_text(json.dumps(compose_task("START --> P0 --> END\n P0 -->|on error| END", "new")))
    adapter = UniversalAdapter(AdapterConfig(timeout_ms=60_000), store=store)
    result = resume(adapter, "mine")
    assert (result.errors, result.responses["S"]) == ((), "late")
