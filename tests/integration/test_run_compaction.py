"""Runs that reach the model's window continue in a compacted fork."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.daemons.run_daemons import serving
from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from support.runs.scripting import hold_slow_answers, write_script
from support.stores.postgresql_server import produce_url
from vibe_llms.agents.run_compaction import RunCompaction
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations.compaction import find_summary, read_whole
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.runs import MessageReceivedEvent, StopRequestedEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.views import text_of

SUMMARY = {
    "match": "user: |assistant: |Summary so far",
    "contents": [say("The cat is called Mia.")],
    "usage": {"input_tokens": 700, "output_tokens": 10},
}
ANSWER = {"contents": [say("You said: {input}")]}
WINDOW = """
[[models]]
provider = "scripted"
pattern = ".*"
context_window_tokens = 1000
"""


def furnish(folder: Path, *responses: dict[str, Any]) -> RunSpec:
    """Return the specification of a run with a small window."""
    (folder / "none.toml").write_text(WINDOW)
    path = write_script(folder, *(responses or (SUMMARY, ANSWER)))
    return RunSpec(model=f"scripted:{path}", window="summarize")


def store_talk(premises: Premises, turns: int = 30, **metadata: Any) -> Conversation:
    """Store a conversation, which fills the window after about 20 turns."""
    talk = Conversation(metadata=ConversationMetadata(name="Cats", **metadata))
    for number in range(turns):
        talk.add_user_message(f"Question {number} " + "word " * 30)
        talk.add_canister(AssistantCanister("All right.", turn_id=f"t{number}"))
    talk.save(premises.store)
    return talk


async def continue_run(
    premises: Premises, spec: RunSpec, talk: Conversation, *texts: str, **more: Any
) -> str:
    """Continue a conversation, wait for the end of its run, and return the id of the fork."""
    await premises.runs.start(
        spec, [UserCanister(text) for text in texts], conversation=talk.id, **more
    )
    subject = more.get("subject", "")
    ended = await premises.wait(talk.id, "ended", "stopped", subject=subject)
    return ended.continued_in


def tell(canisters: Sequence[AnyCanister]) -> list[str]:
    """Return the beginnings of the texts."""
    return [text_of(each)[:12] for each in canisters]


async def test_a_full_window_continues_in_a_fork(tmp_path: Path) -> None:
    """Its run answers there; both streams say so, and the parent keeps everything."""
    spec = furnish(tmp_path)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, tags=("t", "owner:ann"))
        fork = await continue_run(premises, spec, talk, "What now?", subject="ann")
        parent = await premises.runs.find(talk.id, subject="ann")
        moved = await premises.wait(fork, "ended", subject="ann")
    assert (parent.reason, parent.label, parent.tone) == ("continued", "continued", "ended")
    assert (moved.reason, moved.origin, moved.subject, moved.name) == (
        *("answered", talk.id, "ann", "Cats"),
    )
    assert parent.tokens == 0
    assert moved.tokens >= 710  # of the summary
    stored = premises.store.read(fork)
    assert stored.metadata.tags == ("t",)
    summary = find_summary(stored.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    assert summary.summarizes.conversation == talk.id
    assert tell(stored.canisters[-2:]) == ["What now?", "You said: Wh"]
    whole, findings = read_whole(premises.store, stored)
    assert (findings, len(whole)) == ([], 63)
    assert tell(premises.store.read(talk.id).canisters[-1:]) == ["What now?"]
    kinds = premises.read_kinds(talk.id)
    assert kinds == ["run.requested", "run.started", "run.continued", "run.ended"]
    assert premises.read_kinds(fork)[:3] == ["run.requested", "run.continued", "run.started"]
    (continued,) = [
        each.event.conversation
        for each in premises.store.open_log(talk.id).read()
        if each.event.type == "run.continued"
    ]
    assert continued == fork


@pytest.mark.slow
async def test_a_window_with_room_and_other_policies_stay(tmp_path: Path) -> None:
    spec = furnish(tmp_path)
    async with Premises(tmp_path) as premises:
        for turns, window in ((5, "summarize"), (30, "drop"), (30, "")):
            talk = store_talk(premises, turns)
            chosen = attrs.evolve(spec, window=window)
            assert await continue_run(premises, chosen, talk, "What now?") == ""
        talk, chosen = store_talk(premises), attrs.evolve(spec, stays=True)
        assert await continue_run(premises, chosen, talk, "What now?") == ""
        assert tell(premises.store.read(talk.id).canisters[-1:]) == ["You said: Wh"]


async def test_a_request_compacts_and_rests(tmp_path: Path) -> None:
    """The conversation's number of turns and its pins decide; the run is not resumed."""
    spec = attrs.evolve(furnish(tmp_path), window="", compact=True)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 6, keep=1)
        pinned = talk.canisters[2].id
        premises.store.update_metadata(talk.id, pinned=(pinned,))
        fork = await continue_run(premises, spec, talk)
        moved = await premises.runs.find(fork)
        stored = premises.store.read(fork)
        assert (moved.state, moved.reason) == ("ended", "answered")
        assert [each.role for each in stored.canisters] == [
            *("user", "document", "user", "assistant"),
        ]
        assert stored.canisters[0].id == pinned
        assert (stored.metadata.keep, stored.metadata.pinned) == (1, (pinned,))
        await premises.runs.send(fork, UserCanister("And now?"))
        await premises.wait(fork, "ended", after=moved.sequence)
        assert tell(premises.store.read(fork).canisters[-2:]) == ["And now?", "You said: An"]
        assert premises.read_kinds(fork).count("run.continued") == 1


async def test_an_unanswered_message_is_not_answered_by_a_compaction(tmp_path: Path) -> None:
    spec = attrs.evolve(furnish(tmp_path), compact=True)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 8)
        talk.add_user_message("Open?")
        talk.save(premises.store)
        fork = await continue_run(premises, spec, talk)
        assert (await premises.runs.find(fork)).state == "stopped"
        await premises.runs.resume(fork)
        await premises.wait(fork, "ended")
    assert tell(premises.store.read(fork).canisters[-2:]) == ["Open?", "You said: Op"]


async def test_a_compaction_with_a_message_answers_it(tmp_path: Path) -> None:
    spec = attrs.evolve(furnish(tmp_path), window="", compact=True)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 8)
        fork = await continue_run(premises, spec, talk, "And now?")
        await premises.wait(fork, "ended")
        short = Conversation()
        short.add_user_message("One")
        short.save(premises.store)
        assert await continue_run(premises, spec, short, "Two") == ""  # nothing to summarize
        empty = Conversation()
        empty.add_user_message("One")
        empty.save(premises.store)
        assert await continue_run(premises, spec, empty) == ""
        failed = await premises.runs.find(empty.id)
    assert tell(premises.store.read(fork).canisters[-2:]) == ["And now?", "You said: An"]
    assert (failed.reason, "nothing to summarize" in failed.detail) == ("failed", True)


def short_sequence(premises: Premises, talk: Conversation) -> int:
    """Return the number of the last request of a run."""
    events = premises.store.open_log(talk.id).read()
    return max(each.sequence for each in events if each.event.type == "run.requested")


async def test_what_cannot_be_compacted_is_refused(tmp_path: Path) -> None:
    spec = attrs.evolve(furnish(tmp_path), compact=True)
    premises = Premises(tmp_path)
    with pytest.raises(RequestError, match="name a conversation"):
        await premises.runs.start(spec, [UserCanister("Hello")])
    talk = store_talk(premises, 3)
    call = InvocationCanister(name="pay", arguments="{}", invocation_id="c", turn_id="c")
    talk.add_canister(call)
    talk.save(premises.store)
    with pytest.raises(RequestError, match="no result"):
        await premises.runs.start(spec, [UserCanister("Hello")], conversation=talk.id)


def approved(tool: Callable[[], str]) -> Any:
    """Return a tool whose calls need an approval."""
    return produce_invoker(tool, effect="once", needs_approval=True)


async def test_an_open_call_stays_in_the_fork(tmp_path: Path) -> None:
    """It is stopped while it waits for an approval, compacted, and approved in the fork."""
    paid = []

    def pay() -> str:
        """Pays."""
        paid.append(1)
        return "paid"

    spec = furnish(tmp_path, SUMMARY, {"contents": [invoke("pay")]}, ANSWER)
    spec = attrs.evolve(spec, ensembles=("any",), window="")
    async with Premises(
        tmp_path, [produce_invoker(pay, effect="once", needs_approval=True)]
    ) as premises:
        talk = store_talk(premises, 8)
        await premises.runs.start(spec, [UserCanister("Pay Ann.")], conversation=talk.id)
        await premises.wait(talk.id, "waiting")
        await premises.runs.stop(talk.id)
        await premises.wait(talk.id, "stopped")
        fork = await continue_run(premises, attrs.evolve(spec, compact=True), talk)
        assert (await premises.runs.find(fork)).state == "stopped"
        await premises.runs.resume(fork)
        await premises.wait(fork, "waiting")
        (waiting,) = await premises.runs.survey_approvals(fork)
        await premises.runs.approve(fork, allow(waiting.request))
        await premises.wait(fork, "ended")
    assert paid == [1]
    roles = [each.role for each in premises.store.read(fork).canisters[-4:]]
    assert roles == ["user", "invocation", "result", "assistant"]


async def test_a_full_window_waits_for_open_calls(tmp_path: Path) -> None:
    """A run that has begun its turn never moves."""

    def pay() -> str:
        """Pays."""
        return "word " * 600

    spec = furnish(tmp_path, SUMMARY, {"contents": [invoke("pay")]}, ANSWER)
    spec = attrs.evolve(spec, ensembles=("any",))
    async with Premises(
        tmp_path, [produce_invoker(pay, effect="once", needs_approval=True)]
    ) as premises:
        talk = store_talk(premises, 10)
        await premises.runs.start(spec, [UserCanister("Pay Ann.")], conversation=talk.id)
        await premises.wait(talk.id, "waiting")
        (waiting,) = await premises.runs.survey_approvals(talk.id)
        await premises.runs.approve(talk.id, allow(waiting.request))
        ended = await premises.wait(talk.id, "ended")
    assert (ended.reason, ended.continued_in) == ("answered", "")


async def test_a_message_to_a_run_may_fill_the_window(tmp_path: Path) -> None:
    """The parent has it, too; later messages belong to the fork."""
    spec = furnish(tmp_path)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 10)
        assert await continue_run(premises, spec, talk, "What now?") == ""
        await premises.runs.send(talk.id, UserCanister("Long " + "word " * 600))
        ended = await premises.wait(talk.id, "ended", after=short_sequence(premises, talk) + 4)
        moved = await premises.wait(ended.continued_in, "ended")
        with pytest.raises(RequestError, match=moved.id):
            await premises.runs.send(talk.id, UserCanister("More"))
    assert tell(premises.store.read(moved.id).canisters[-2:]) == ["Long word wo", "You said: Lo"]
    assert tell(premises.store.read(talk.id).canisters[-1:]) == ["Long word wo"]


async def test_a_file_name_that_fills_the_window_is_left_out(tmp_path: Path) -> None:
    """Otherwise each message would be summarized again and again."""
    spec = furnish(tmp_path)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 20)
        for path in ("long/" * 2000, "short.txt"):
            arguments = f'{{"path": "{path}"}}'
            talk.add_user_message("Read.")
            call = InvocationCanister(
                name="read", arguments=arguments, invocation_id=path[:5], turn_id=path[:5]
            )
            talk.add_canisters([call, ResultCanister("No.", invocation_id=path[:5], name="read")])
            talk.add_canister(AssistantCanister("Sorry.", turn_id=path[:5]))
        for number in range(5):
            talk.add_user_message(f"Again {number}.")
            talk.add_canister(AssistantCanister("All right.", turn_id=f"u{number}"))
        talk.save(premises.store)
        fork = await continue_run(premises, spec, talk, "What now?")
        moved = await premises.wait(fork, "ended")
        summary = find_summary(premises.store.read(fork).canisters)
    assert (moved.reason, moved.continued_in) == ("answered", "")
    assert summary is not None
    assert summary.summarizes is not None
    assert summary.summarizes.files == ("short.txt",)


async def test_a_fork_that_is_still_too_long_does_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message pays for one summary."""
    monkeypatch.setattr("vibe_llms.conversations.compaction.reaches_window", lambda *_: True)
    spec = furnish(tmp_path)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises, 8)
        fork = await continue_run(premises, spec, talk, "What now?")
        moved = await premises.wait(fork, "ended")
        assert (moved.reason, moved.continued_in) == ("answered", "")
        await premises.runs.send(fork, UserCanister("And now?"))
        again = await premises.wait(fork, "ended", after=moved.sequence)
    assert (again.reason, again.continued_in != "") == ("continued", True)


async def test_a_summary_without_text_ends_the_run(tmp_path: Path) -> None:
    """The message is stored; the next attempt answers it."""
    spec = furnish(tmp_path, {"match": "user: ", "contents": [say(" ")]}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        assert await continue_run(premises, spec, talk, "What now?") == ""
        failed = await premises.runs.find(talk.id)
        assert (failed.reason, failed.tone) == ("failed", "failed")
        assert "could not be summarized" in failed.detail
        assert tell(premises.store.read(talk.id).canisters[-1:]) == ["What now?"]
        write_script(tmp_path, SUMMARY, ANSWER)
        again = attrs.evolve(spec, model=f"scripted:{tmp_path / 'again.toml'}")
        (tmp_path / "script.toml").rename(tmp_path / "again.toml")
        await premises.runs.start(again, conversation=talk.id)
        ended = await premises.wait(talk.id, "ended", after=failed.sequence)
        await premises.wait(ended.continued_in, "ended")
    assert tell(premises.store.read(ended.continued_in).canisters[-1:]) == ["You said: Wh"]


async def test_a_stop_reaches_the_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that arrives after the fork was stored, and before the parent has ended."""
    spec = furnish(tmp_path)
    async with Premises(tmp_path, settings=attrs.evolve(FAST, scan_seconds=60)) as premises:
        talk, plant = store_talk(premises), RunCompaction._plant

        def plant_and_stop(compaction: RunCompaction, canisters: Sequence[AnyCanister]) -> str:
            fork = plant(compaction, canisters)
            premises.store.open_inbox(talk.id).put(StopRequestedEvent(message_id="m"))
            return fork

        monkeypatch.setattr(RunCompaction, "_plant", plant_and_stop)
        await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
        fork = (await premises.wait(talk.id, "ended")).continued_in
        assert (await premises.wait(fork, "stopped")).answers == 0
        await premises.runs.resume(fork)
        await premises.wait(fork, "ended")


async def test_a_message_just_before_the_end_is_answered_in_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the parent's window has room for it."""
    spec = attrs.evolve(furnish(tmp_path), window="", compact=True)
    async with Premises(tmp_path) as premises:
        talk, end = store_talk(premises, 8), RunCompaction._end

        async def send_and_end(compaction: RunCompaction, *args: Any, **fields: Any) -> None:
            monkeypatch.setattr(RunCompaction, "_end", end)
            late = MessageReceivedEvent(canister=UserCanister("Late"), message_id="m")
            premises.store.open_inbox(talk.id).put(late)
            await end(compaction, *args, **fields)

        monkeypatch.setattr(RunCompaction, "_end", send_and_end)
        fork = await continue_run(premises, spec, talk, "What now?")
        for _ in range(6_000):
            if (told := tell(premises.store.read(fork).canisters[-1:])) == ["You said: La"]:
                break
            await asyncio.sleep(0.01)
        assert told == ["You said: La"]
        parent = await premises.wait(talk.id, "ended")
    assert (parent.reason, parent.continued_in) == ("continued", fork)
    assert tell(premises.store.read(talk.id).canisters[-1:]) == ["Late"]


@pytest.mark.slow
async def test_a_stop_of_the_parent_stops_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has not followed yet does not pay for an answer that it has stopped."""
    hold_slow_answers(monkeypatch, lambda _: False)
    spec = furnish(tmp_path, SUMMARY, {**ANSWER, "delay_seconds": 0.01})
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        fork = await continue_run(premises, spec, talk, "What now?")
        await premises.wait(fork, "working")
        await premises.runs.stop(talk.id)
        await premises.wait(fork, "stopped")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Holds summaries until it has an item."""
    opened: list[str] = []
    hold_slow_answers(monkeypatch, lambda _: opened)
    return opened


@pytest.mark.slow
async def test_a_run_is_stopped_while_it_summarizes(tmp_path: Path, gate: list[str]) -> None:
    """Nothing was sent after it, the message is stored, and the run can be resumed."""
    spec = furnish(tmp_path, {**SUMMARY, "delay_seconds": 0.01}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
        await premises.wait(talk.id, "working")
        await premises.runs.stop(talk.id, reason="too long")
        stopped = await premises.wait(talk.id, "stopped")
        assert tell(premises.store.read(talk.id).canisters[-1:]) == ["What now?"]
        assert len([*premises.store.survey()]) == 1
        gate.append("open")
        await premises.runs.resume(talk.id)
        ended = await premises.wait(talk.id, "ended", after=stopped.sequence)
        await premises.wait(ended.continued_in, "ended")
    assert "too long" in stopped.detail


@pytest.mark.slow
async def test_a_stop_from_another_process_ends_a_summary(tmp_path: Path, gate: list[str]) -> None:
    spec = furnish(tmp_path, {**SUMMARY, "delay_seconds": 0.01}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
        await premises.wait(talk.id, "working")
        other = Premises(tmp_path)
        other.runs.host = None
        await other.runs.stop(talk.id)
        await premises.wait(talk.id, "stopped")
    assert gate == []


@pytest.mark.slow
async def test_messages_during_a_summary_reach_the_fork(tmp_path: Path, gate: list[str]) -> None:
    """Each once, and in order; the parent has them, too."""
    spec = furnish(tmp_path, {**SUMMARY, "delay_seconds": 0.01}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
        await premises.wait(talk.id, "working")
        for text in ("Second", "Third"):
            await premises.runs.send(talk.id, UserCanister(text))
        gate.append("open")
        ended = await premises.wait(talk.id, "ended")
        await premises.wait(ended.continued_in, "ended")
    told = tell(premises.store.read(ended.continued_in).canisters)
    assert [each for each in told if each in ("What now?", "Second", "Third")] == [
        *("What now?", "Second", "Third"),
    ]
    assert tell(premises.store.read(talk.id).canisters[-3:]) == ["What now?", "Second", "Third"]


@pytest.mark.slow
async def test_a_worker_that_is_closed_hands_over(tmp_path: Path, gate: list[str]) -> None:
    spec = furnish(tmp_path, {**SUMMARY, "delay_seconds": 0.01}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        await premises.runs.start(spec, [UserCanister("What now?")], conversation=talk.id)
        await premises.wait(talk.id, "working")
    assert (await premises.runs.find(talk.id)).state == "due"
    gate.append("open")
    async with Premises(tmp_path) as premises:
        ended = await premises.wait(talk.id, "ended")
        await premises.wait(ended.continued_in, "ended")


@pytest.mark.slow
async def test_time_is_limited(tmp_path: Path, gate: list[str]) -> None:
    spec = furnish(tmp_path, {**SUMMARY, "delay_seconds": 0.01}, ANSWER)
    async with Premises(tmp_path) as premises:
        talk = store_talk(premises)
        limited = attrs.evolve(spec, limits={"run_seconds": 1})
        assert await continue_run(premises, limited, talk, "What now?") == ""
        ended = await premises.runs.find(talk.id)
    assert (ended.limit, gate) == ("run_seconds", [])


@pytest.mark.slow
@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
@pytest.mark.parametrize(
    "base", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
async def test_a_worker_with_a_queue_continues_in_the_fork(tmp_path: Path, base: str) -> None:
    """Also if the conversations are in a database."""
    is_shared = base == "postgresql"
    url = produce_url(tmp_path) if is_shared else f"sqlite:///{tmp_path}/runner.db"
    shared = PostgresqlStore(url) if is_shared else None
    spec = furnish(tmp_path)
    async with Premises(tmp_path, runner=url, shared=shared) as premises:
        talk = store_talk(premises)
        fork = await continue_run(premises, spec, talk, "What now?")
        moved = await premises.wait(fork, "ended")
    assert moved.reason == "answered"
    assert tell(premises.store.read(fork).canisters[-2:]) == ["What now?", "You said: Wh"]


async def test_clients_follow_over_http(tmp_path: Path) -> None:
    """The event stream and the run name the fork; the policy is set by a request."""
    spec = furnish(tmp_path)
    async with serving(tmp_path) as daemon:
        talk = store_talk(daemon.premises, 8)
        path = f"/conversations/{talk.id}"
        first = talk.canisters[0].id
        status, told = await daemon.ask("PATCH", path, {"keep": 2, "pinned": [first]})
        assert (status, told["metadata"]["keep"], told["metadata"]["name"]) == (200, 2, "Cats")
        for wrong in ({}, {"pinned": ["none"]}, {"keep": -1}, {"pin": [first]}):
            status, _ = await daemon.ask("PATCH", path, wrong)
            assert status == 400, wrong
        body = {**spec.export(), "conversation": talk.id, "compact": True}
        status, _ = await daemon.ask("POST", "/runs", body)
        assert status == 201
        frames = await daemon.watch(talk.id)
        _, run = await daemon.ask("GET", f"/runs/{talk.id}")
        fork = run["continued_in"]
        told = [each["event"] for _, word, each in frames if word == "run.continued"]
        assert [(each["conversation"], each["continues"]) for each in told] == [(fork, talk.id)]
        assert frames[-1][1] == "run.completed"
        _, read = await daemon.ask("GET", f"/conversations/{fork}")
        assert read["data"][1]["summarizes"]["conversation"] == talk.id
        assert read["metadata"]["parent"]["identity"] == talk.id
        status, refused = await daemon.ask("POST", f"/runs/{talk.id}/messages", {"content": "More"})
        assert (status, fork in refused["error"]["message"]) == (409, True)
