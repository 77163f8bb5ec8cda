"""A worker dies after it has stored a compacted fork and before it has ended the parent's run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import say
from support.runs.hosted import Premises
from support.runs.scripting import write_script
from vibe_llms.agents.run_compaction import RunCompaction
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.instruments.engines import Engine
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs.delivering import deliver

STEPS = ("_conclude", "_end")
"""Methods before which the worker dies: after the fork is stored, and before the end is written."""

SUMMARY = {"match": "user: |assistant: |Summary so far", "contents": [say("They talked.")]}
ANSWER = {"contents": [say("You said: {input}")]}
WINDOW = '[[models]]\nprovider = "scripted"\npattern = ".*"\ncontext_window_tokens = 1000\n'


async def begin(premises: Premises) -> str:
    """Request a run of a conversation that fills the window; return its id."""
    talk = Conversation()
    for number in range(24):
        talk.add_user_message(f"Question {number} " + "word " * 30)
        talk.add_canister(AssistantCanister("All right.", turn_id=f"t{number}"))
    talk.save(premises.store)
    spec = RunSpec(model="play", window="summarize")
    await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
    return talk.id


def furnish(folder: Path) -> Path:
    """Write the configuration and the script into a folder; return it."""
    (folder / "none.toml").write_text(WINDOW)
    write_script(folder, SUMMARY, ANSWER)
    return folder


async def die_before(step: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a worker begin to move a run, and end it before a step; return the id of the parent."""
    reached, goes = asyncio.Event(), asyncio.Event()

    async def die(*_: Any, **more: Any) -> None:
        reached.set()
        await goes.wait()
        raise asyncio.CancelledError

    premises = Premises(furnish(folder))  # it does not scan, so it does not find the fork
    with monkeypatch.context() as patching:
        patching.setattr(RunCompaction, step, die)
        parent = await begin(premises)
        await reached.wait()
        closing = asyncio.create_task(premises.host.close())
        await asyncio.sleep(0)  # all tasks are cancelled by now, so nothing tries again
        goes.set()
        await closing
    assert len([*premises.store.survey()]) == 2
    return parent


def visit(folder: Path) -> Premises:
    """Return the store as another program sees it that executes no runs."""
    premises = Premises(folder)
    premises.runs.host = None
    return premises


def find_fork(premises: Premises, parent: str) -> str:
    """Return the id of the only other conversation."""
    (fork,) = [each for each in premises.store.survey() if each != parent]
    return fork


def count_answers(premises: Premises) -> int:
    """Return how often the message was answered, in all conversations."""
    texts = [
        text_of(canister)
        for each in premises.store.survey()
        for canister in premises.store.read(each).canisters
    ]
    return texts.count("You said: What now?")


async def let_a_daemon_look(folder: Path) -> None:
    """Let a daemon scan the store, and execute what it finds there."""
    async with Premises(folder) as premises:
        other = visit(folder)
        found = await other.runs.start(RunSpec(model="play"), [UserCanister("Another")])
        await premises.wait(found.id, "ended")  # found by a scan, like all else that is due
        others = set(premises.host.working) - {found.id}
        for each in others:
            await premises.wait(each, "ended")
        await premises.runs.delete(found.id)


@pytest.mark.parametrize("step", STEPS)
async def test_a_run_that_was_stopped_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Neither in the parent nor in the fork; resumed, it is answered once."""
    parent = await die_before(step, tmp_path, monkeypatch)
    other = visit(tmp_path)
    await other.runs.stop(parent)
    await let_a_daemon_look(tmp_path)
    fork = find_fork(other, parent)
    states = [(await other.runs.find(each)).state for each in (parent, fork)]
    assert states == ["stopped", "stopped"]
    assert count_answers(other) == 0
    await other.runs.resume(parent)
    async with Premises(tmp_path) as premises:
        assert (await premises.wait(parent, "ended")).continued_in == fork
        await premises.wait(fork, "ended")
    assert count_answers(other) == 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_run_that_was_not_stopped_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    parent = await die_before(step, tmp_path, monkeypatch)
    async with Premises(tmp_path) as premises:
        fork = (await premises.wait(parent, "ended")).continued_in
        await premises.wait(fork, "ended")
        assert find_fork(premises, parent) == fork
        assert count_answers(premises) == 1


async def test_a_fork_is_used_also_if_the_window_has_room_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise parent and fork would both be answered."""
    parent = await die_before("_end", tmp_path, monkeypatch)
    (tmp_path / "none.toml").write_text("")
    async with Premises(tmp_path) as premises:
        fork = (await premises.wait(parent, "ended")).continued_in
        assert fork == find_fork(premises, parent)
        await premises.wait(fork, "ended")
        assert count_answers(premises) == 1


async def test_a_stop_that_a_dying_worker_has_received_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises, plant = Premises(furnish(tmp_path)), RunCompaction._plant

    def plant_and_stop(compaction: RunCompaction, canisters: Sequence[AnyCanister]) -> str:
        fork = plant(compaction, canisters)
        stop = StopRequestedEvent(message_id="m")
        premises.store.open_inbox(compaction.claimed.conversation.id).put(stop)
        return fork

    def fail(*_: object) -> None:
        raise StoreError(detail="The disk was removed.")

    with monkeypatch.context() as patching:
        patching.setattr(RunCompaction, "_plant", plant_and_stop)
        patching.setattr(RunCompaction, "_pass_on", fail)
        parent = await begin(premises)
        assert await premises.wait(parent, "stopped")
        await premises.host.close()
    await let_a_daemon_look(tmp_path)
    assert (await premises.runs.find(find_fork(premises, parent))).state == "stopped"
    assert count_answers(premises) == 0


async def test_a_stop_just_before_the_end_reaches_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller has found the parent at work, and its stop comes after the last look for one."""
    premises, end = Premises(furnish(tmp_path)), RunCompaction._end

    async def stop_and_end(compaction: RunCompaction, *args: Any, **fields: Any) -> None:
        identity = compaction.claimed.conversation.id
        premises.store.open_inbox(identity).put(StopRequestedEvent(message_id="m"))
        await end(compaction, *args, **fields)
        # Before the worker takes on the fork; the inbox waits until the log is released.

    def stay(_: str) -> None:
        """Leave the fork to the next daemon."""

    premises.host.on_continued = stay  # type: ignore[attr-defined]
    monkeypatch.setattr(RunCompaction, "_end", stop_and_end)
    parent = await begin(premises)
    fork = (await premises.wait(parent, "ended")).continued_in
    await premises.host.close()
    deliver(premises.store, parent)
    assert (await premises.runs.find(fork)).state == "stopped"
    await let_a_daemon_look(tmp_path)
    assert count_answers(premises) == 0


async def test_a_parent_that_another_program_answers_is_not_answered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as ``vibe chat``, which claims the conversation."""
    parent = await die_before("_end", tmp_path, monkeypatch)
    other = visit(tmp_path)
    conversation = Conversation.restore(other.store, parent)
    application = other.runs.application
    async with Engine("play", store=other.store, application=application) as engine:
        await engine.answer(conversation)
    await let_a_daemon_look(tmp_path)
    assert (await other.runs.find(find_fork(other, parent))).state == "stopped"
    assert count_answers(other) == 1


async def test_a_deleted_parent_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await die_before("_end", tmp_path, monkeypatch)
    other = visit(tmp_path)
    fork = find_fork(other, parent)
    await other.runs.delete(parent)
    await let_a_daemon_look(tmp_path)
    assert (await other.runs.find(fork)).state == "stopped"
    assert count_answers(other) == 0


async def test_a_resumed_parent_resumes_its_fork(tmp_path: Path) -> None:
    """A client that has not followed yet gets its answer, and no second one."""
    premises = Premises(furnish(tmp_path))
    premises.host.on_continued = lambda fork: None  # type: ignore[attr-defined]
    parent = await begin(premises)
    fork = (await premises.wait(parent, "ended")).continued_in
    await premises.host.close()
    other = visit(tmp_path)
    await other.runs.stop(parent)
    assert (await other.runs.find(fork)).state == "stopped"
    async with Premises(tmp_path) as premises:
        for _ in range(2):
            before = (await premises.runs.find(fork)).sequence
            await premises.runs.resume(parent)
            await premises.wait(fork, "ended", after=before)
            assert count_answers(premises) == 1
