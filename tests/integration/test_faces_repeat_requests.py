"""Equal requests to the faces at the same time: each message counts once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from support.faces.facing import PAY, Face, facing, facing_friends
from support.runs.acting import invoke, say
from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.run_logs.file_log import FileLog
from vibe_llms.daemons.agents.faces import ai_sdk, threads
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.opening import ClaimedRun

pytestmark = pytest.mark.slow


def count_requested(face: Face, text: str) -> int:
    """Return how often the logs of all runs have a message."""
    store, found = face.daemon.premises.store, 0
    for identity in store.survey():
        for logged in store.open_log(identity).read():
            event: Any = logged.event
            if isinstance(event, RunRequestedEvent):
                found += sum(each.text == text for each in event.canisters)
            elif isinstance(event, MessageReceivedEvent):
                found += event.canister.text == text
    return found


def compose(spec: Any, *texts: str) -> dict[str, Any]:
    messages = [{"id": each, "role": "user", "content": each} for each in texts]
    properties = {"run": spec}
    return {"threadId": "t", "runId": "r", "messages": messages, "forwardedProps": properties}


async def test_equal_requests_continue_a_thread_once(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        spec = face.write_script([say("One.")], [say("Two.")], [say("Three.")])
        await face.post(compose(spec, "Hello."))
        body = compose(spec, "Hello.", "Again.")
        answers = await asyncio.gather(*[face.post(body) for _ in range(6)])
        assert count_requested(face, "Again.") == 1
        for events in answers:
            deltas = [each for each in events if each["type"] == "TEXT_MESSAGE_CONTENT"]
            assert "".join(each["delta"] for each in deltas) == "Two."


async def test_equal_messages_reach_a_waiting_run_once(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ag-ui", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], [say("Done.")])
        await face.post(compose(spec, "Pay."))
        body = compose(spec, "Pay.", "Soon.")
        await asyncio.gather(*[face.post(body) for _ in range(6)])
        assert count_requested(face, "Soon.") == 1


async def test_a_chat_whose_id_has_line_breaks_is_resumed(tmp_path: Path) -> None:
    name = "a\nb\r\nc"
    async with facing(tmp_path, "/ai-sdk", PAY) as face:
        spec = face.write_script([invoke("pay", to="Ann")], [say("Done.")])
        message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Pay."}]}
        await face.post({"id": name, "messages": [message], "run": spec})
        address = URL(f"{face.url}/{quote(name)}/stream", encoded=True)
        async with face.daemon.session.get(address) as answer:
            assert answer.status == 200
            assert b"tool-approval-request" in await answer.read()


def compose_edit(spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a first request to the AI SDK's face, and one that edits its message."""
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello."}]}
    body = {"id": "chat", "messages": [message], "run": spec}
    edited = {**message, "parts": [{"type": "text", "text": "Good evening."}]}
    return body, {**body, "messages": [edited], "messageId": "1"}


async def send(face: Face, body: dict[str, Any]) -> int:
    async with face.daemon.session.post(face.url, json=body, headers=face.headers) as answer:
        await answer.read()
        return answer.status


async def test_one_of_several_equal_edits_begins_a_branch(tmp_path: Path) -> None:
    async with facing(tmp_path, "/ai-sdk") as face:
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)

        statuses = await asyncio.gather(*[send(face, edit) for _ in range(6)])

        assert {*statuses} == {200}
        assert count_requested(face, "Good evening.") == 1


async def test_an_equal_edit_continues_a_branch_whose_request_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_forked, may_continue = asyncio.Event(), asyncio.Event()

    async def fork(*given: Any) -> threads.Thread:
        thread = await threads.fork_thread(*given)
        has_forked.set()
        await may_continue.wait()
        return thread

    monkeypatch.setattr(ai_sdk, "fork_thread", fork)
    async with facing(tmp_path, "/ai-sdk") as face:
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        slow = asyncio.create_task(send(face, edit))
        await has_forked.wait()

        assert await send(face, edit) == 200

        may_continue.set()
        assert await slow == 200
        assert count_requested(face, "Good evening.") == 1


@pytest.mark.parametrize(
    ("owner", "place"), [(DirectoryStore, "update_metadata"), (LocalRuns, "start")]
)
async def test_an_equal_edit_continues_a_branch_whose_process_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, place: str
) -> None:
    """The process dies before it sets the owner of the branch, or before it adds the message."""

    def die(*_: Any, **__: Any) -> None:
        raise StoreError(detail="The process dies here.")

    async with facing_friends(tmp_path, "/ai-sdk") as (face, _):
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        store = face.daemon.premises.store
        with monkeypatch.context() as patch:
            patch.setattr(owner, place, die)
            assert await send(face, edit) == 500
        assert len([*store.survey()]) == 2

        assert await send(face, edit) == 200
        assert count_requested(face, "Good evening.") == 1
        assert len([*store.survey()]) == 2


async def test_answers_are_generated_again_in_a_branch_whose_process_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: Any, **__: Any) -> None:
        raise StoreError(detail="The process dies here.")

    async with facing(tmp_path, "/ai-sdk") as face:
        first, _ = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        again = {**first, "trigger": "regenerate-message"}
        with monkeypatch.context() as patch:
            patch.setattr(LocalRuns, "start", die)
            assert await send(face, again) == 500

        assert await send(face, again) == 200
        assert len([*face.daemon.premises.store.survey()]) == 2


async def test_an_edit_waits_while_another_request_has_the_empty_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[FileLog] = []
    claim = FileLog.claim

    def refuse_once(log: FileLog) -> None:
        if not refused and not log.read():
            refused.append(log)
            raise StoreError(detail="Another process has the log.")
        claim(log)

    async with facing(tmp_path, "/ai-sdk") as face:
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        monkeypatch.setattr(FileLog, "claim", refuse_once)

        assert await send(face, edit) == 200
        assert refused
        assert count_requested(face, "Good evening.") == 1


async def test_of_two_different_edits_at_once_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_forked, may_continue = asyncio.Event(), asyncio.Event()

    async def fork(*given: Any) -> threads.Thread:
        thread = await threads.fork_thread(*given)
        has_forked.set()
        await may_continue.wait()
        return thread

    monkeypatch.setattr(ai_sdk, "fork_thread", fork)
    async with facing(tmp_path, "/ai-sdk") as face:
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        slow = asyncio.create_task(send(face, edit))
        await has_forked.wait()
        part = {"type": "text", "text": "Good night."}
        other = {**edit, "messages": [{**edit["messages"][0], "parts": [part]}]}

        assert await send(face, other) == 200

        may_continue.set()
        assert await slow == 400
        assert count_requested(face, "Good night.") == 1
        assert count_requested(face, "Good evening.") == 0


async def test_an_equal_edit_joins_a_run_that_has_not_added_the_message_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_continue, execute = asyncio.Event(), RunExecutor.execute

    async def execute_later(executor: RunExecutor, claimed: ClaimedRun) -> str:
        await may_continue.wait()
        return await execute(executor, claimed)

    async with facing(tmp_path, "/ai-sdk") as face:
        first, edit = compose_edit(face.write_script([say("One.")], [say("Two.")]))
        await face.post(first)
        monkeypatch.setattr(RunExecutor, "execute", execute_later)
        async with face.daemon.session.post(face.url, json=edit) as earlier:
            assert earlier.status == 200

            async with face.daemon.session.post(face.url, json=edit) as answer:
                assert answer.status == 200

            may_continue.set()
        assert count_requested(face, "Good evening.") == 1
