"""A face waits for the answer to a message while another process keeps the log of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.faces.facing import Face, facing, read_events
from support.gateways.gateways import wait_until
from support.runs.acting import say
from support.runs.hosted import Premises, write_event
from vibe_llms.agents import local
from vibe_llms.agents.run_requests import list_requested
from vibe_llms.conversations.run_logs.log import RunLog, claim_soon
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs import delivering

pytestmark = pytest.mark.slow

TURNS = ([say("One.")], [say("Two.")], [say("Three.")])


def compose(spec: Any, *texts: str) -> dict[str, Any]:
    messages = [{"id": each, "role": "user", "content": each} for each in texts]
    properties = {"run": spec}
    return {"threadId": "t", "runId": "r", "messages": messages, "forwardedProps": properties}


def read_text(events: Sequence[dict[str, Any]]) -> str:
    """Return the answer: its pieces, or the last message of a snapshot if the run has ended."""
    snapshots = [each for each in events if each["type"] == "MESSAGES_SNAPSHOT"]
    if snapshots:
        return str(snapshots[-1]["messages"][-1]["content"])
    return "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of runs whose messages this process tried to deliver, without any patience."""
    found: list[str] = []

    def deliver(store: Any, identity: str, **_: Any) -> bool:
        found.append(identity)
        return delivering.deliver(store, identity, wait_seconds=0)

    monkeypatch.setattr(local, "deliver", deliver)
    monkeypatch.setitem(claim_soon.__kwdefaults__, "wait_seconds", 0.0)
    return found


async def claim_first_run(face: Face, spec: Any) -> tuple[str, RunLog]:
    """Have a run answer a message; claim its log as another process does."""
    await face.post(compose(spec, "Hello."))
    store = face.daemon.premises.store
    (run_id,) = store.survey()
    log = store.open_log(run_id)
    assert claim_soon(log, wait_seconds=60)
    return run_id, log


async def test_a_message_for_a_run_whose_log_is_kept_after_its_end_is_answered(
    tmp_path: Path, attempts: list[str]
) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        spec = face.write_script(*TURNS)
        run_id, log = await claim_first_run(face, spec)
        body = compose(spec, "Hello.", "Again.")
        sent = asyncio.create_task(face.post(body))
        await wait_until(lambda: len(attempts) > 3 or sent.done())
        repeated = asyncio.create_task(face.post(body))
        count = len(attempts)
        await wait_until(lambda: len(attempts) > count + 3 or repeated.done())
        assert not sent.done()
        assert not repeated.done()

        log.close()

        assert [read_text(each) for each in (await sent, await repeated)] == ["Two.", "Two."]
        canisters = face.daemon.premises.store.read(run_id).canisters
        assert [text_of(each) for each in canisters] == ["Hello.", "One.", "Again.", "Two."]


async def test_a_message_that_a_run_of_another_process_has_not_received_is_answered(
    tmp_path: Path, attempts: list[str]
) -> None:
    async with facing(tmp_path, "/ag-ui") as face:
        spec = face.write_script(*TURNS)
        run_id, log = await claim_first_run(face, spec)
        requested = RunRequestedEvent(spec=spec, canisters=(UserCanister("More."),))
        log.append(run_id, requested)
        log.append(run_id, RunStartedEvent(run_id=run_id, conversation_id=run_id, length=2))
        body = compose(spec, "Hello.", "Again.")
        async with face.daemon.session.post(face.url, json=body) as answer:
            reading = asyncio.create_task(answer.read())
            attempts.clear()
            log.append(run_id, RunEndedEvent(run_id=run_id, reason="answered"))
            await wait_until(lambda: len(attempts) > 1 or reading.done())
            assert not reading.done()

            log.close()

            assert read_text(read_events(await reading)) == "Two."


async def test_a_client_that_gives_up_while_the_log_is_kept_holds_no_stream(
    tmp_path: Path, attempts: list[str]
) -> None:
    async with facing(tmp_path, "/ag-ui", watchers=1) as face:
        spec = face.write_script(*TURNS)
        run_id, log = await claim_first_run(face, spec)
        sent = asyncio.create_task(face.post(compose(spec, "Hello.", "Again.")))
        await wait_until(lambda: len(attempts) > 3)
        sent.cancel()
        status = 429
        while status == 429:
            async with face.daemon.session.get(
                f"{face.daemon.url}/runs/{run_id}/events?follow=false"
            ) as watched:
                status = watched.status
        assert status == 200

        log.close()

        events = await face.post(compose(spec, "Hello.", "Again."))
        assert read_text(events) == "Two."


async def test_a_message_in_the_inbox_does_not_join_a_conversation_twice(tmp_path: Path) -> None:
    """A client may send it again when the run that it was for has ended without it."""
    premises = Premises(tmp_path)
    runs, store = premises.runs, premises.store
    runs.host = None
    spec = premises.spec(*TURNS)
    run_id = await premises.start(spec)
    write_event(store, run_id, RunEndedEvent(run_id=run_id, reason="answered"))
    message = UserCanister("Again.")
    received = MessageReceivedEvent(canister=message, message_id=message.id)
    store.open_inbox(run_id).put(received)

    with pytest.raises(RequestError, match="active"):
        await runs.start(spec, [message], conversation=run_id)

    await runs.deliver(run_id)
    requested = list_requested(store.open_log(run_id).read())
    assert [each.id for each in requested].count(message.id) == 1
