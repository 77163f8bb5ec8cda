"""Streamed responses that are kept, those in the background, and those over web sockets."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from vibe_llms.daemons.gateway.responses import background as responses_background
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.testing.simulator import Invoke, Say, Simulator

CARRIED = "openai_responses:gpt-5.5"
TRANSLATED = "anthropic:claude-sonnet-5"
BOTH = pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
LONG = "All the water of the sea, which is deep, and cold, and grey. " * 20
REFUSING = """\
CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.responses
BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def client(simulator: Simulator, tmp_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's library, before a gateway."""
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application) as address, produce_client(address) as made:
        yield made


def produce_client(address: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client", max_retries=0)


@BOTH
async def test_a_streamed_response_can_be_gone_on_from(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say("The North Sea."))
    simulator.enqueue(Say("Cold."))
    async with client.responses.stream(model=model, input="Name a sea.") as stream:
        async for event in stream:
            if event.type == "response.created":
                known = await client.responses.retrieve(event.response.id)
                assert known.status in ("in_progress", "completed")
        first = await stream.get_final_response()
    read = await client.responses.retrieve(first.id)
    assert (read.status, read.output_text) == ("completed", "The North Sea.")
    second = await client.responses.create(
        model=model, input="How cold?", previous_response_id=first.id
    )
    assert second.output_text == "Cold."
    assert "The North Sea." in str(simulator.requests[1].body)


@pytest.mark.slow
@BOTH
async def test_each_word_of_a_stream_says_what_it_goes_on_from(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    for text in ("The North Sea.", "Cold.", "Grey."):
        simulator.enqueue(Say(text))
    first = await client.responses.create(model=model, input="Name a sea.")
    begun = await client.conversations.create()
    for field, name in (("previous_response_id", first.id), ("conversation", begun.id)):
        asked: Any = {field: name}
        stream = await client.responses.create(model=model, input="Well?", stream=True, **asked)
        told = [event.response.to_dict() async for event in stream if hasattr(event, "response")]
        assert len(told) >= 3
        for each in told:
            found = each[field]
            assert (found["id"] if isinstance(found, dict) else found) == name
        assert (told[-1]["status"], len(told[-1]["output"])) == ("completed", 1)


@BOTH
async def test_what_a_client_did_not_wait_for_is_kept_as_it_was_cut(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say(LONG), simulate="stall_at_chunk=8")
    stream = await client.responses.create(model=model, input="Talk.", stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
        if event.type == "response.created":
            identity = event.response.id
    await stream.close()
    kept = await wait(client, identity)
    assert kept.status == "cancelled"
    assert kept.output_text
    assert LONG.startswith(kept.output_text)


async def test_an_answer_in_the_background_is_begun_and_polled(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    simulator.enqueue(Say("The North Sea."))
    begun = await client.responses.create(model=TRANSLATED, input="Name a sea.", background=True)
    assert (begun.status, begun.background) == ("queued", True)
    ended = await wait(client, begun.id)
    assert (ended.status, ended.output_text) == ("completed", "The North Sea.")
    assert ended.id == begun.id
    assert ended.usage is not None


async def test_an_answer_in_the_background_that_fails_says_so(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    simulator.enqueue(Say("No."), simulate="server_error")
    begun = await client.responses.create(model=CARRIED, input="Name a sea.", background=True)
    ended = await wait(client, begun.id)
    assert ended.status == "failed"
    assert ended.error is not None


@pytest.mark.slow
@BOTH
async def test_an_answer_in_the_background_is_followed_again_from_any_event(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say(LONG))
    stream = await client.responses.create(model=model, input="Talk.", background=True, stream=True)
    seen = []
    async for event in stream:
        seen.append(event)
        if len(seen) == 5:
            break
    await stream.close()
    identity = seen[0].response.id
    follow = await client.responses.retrieve(
        identity, stream=True, starting_after=seen[-1].sequence_number
    )
    rest = [event async for event in follow]
    numbers = [event.sequence_number for event in (*seen, *rest)]
    assert numbers == list(range(len(numbers)))
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.id == identity
    await wait(client, identity)
    again = await client.responses.retrieve(identity, stream=True)
    assert [event.sequence_number async for event in again] == numbers


async def test_what_was_not_asked_for_as_a_stream_is_none(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    """Neither while it is answered nor after that; and nobody waits to hear so."""
    simulator.enqueue(Say(LONG), simulate="stall_at_chunk=8")
    begun = await client.responses.create(model=CARRIED, input="Talk.", background=True)
    await wait_until(lambda: simulator.requests)
    for _ in range(2):
        with pytest.raises(openai.BadRequestError, match="not requested with background and"):
            await client.responses.retrieve(begun.id, stream=True)
        await client.responses.cancel(begun.id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "background"),
    [(CARRIED, False), (TRANSLATED, True)],
    ids=["waited for", "in the background"],
)
async def test_a_response_whose_end_cannot_be_kept_has_failed(
    simulator: Simulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    background: bool,
) -> None:
    """Whoever looks is told so at once, and the disk when it takes writes again."""
    opened, disk = ResponseDatabase._open, {"is_full": False}

    def open_full(registry: ResponseDatabase) -> sqlite3.Connection:
        connection = opened(registry)
        connection.execute("DROP TRIGGER IF EXISTS refuse")
        if disk["is_full"]:
            connection.execute(REFUSING)
        return connection

    monkeypatch.setattr(ResponseDatabase, "_open", open_full)
    monkeypatch.setattr(responses_background, "_POLL_SECONDS", 0.02)
    application = produce_application(tmp_path, simulator.url)
    file = application.configuration.data_directory / "gateway/responses.sqlite"
    simulator.enqueue(Say(LONG[:120]), simulate="slow=5")
    async with serve_gateway(application) as address, produce_client(address) as client:
        stream = await client.responses.create(
            model=model, input="Talk.", stream=True, background=background
        )
        identity = ""
        with suppress(openai.APIError):
            async for event in stream:
                if event.type == "response.output_text.delta":
                    disk["is_full"] = True
                identity = identity or event.response.id
        assert disk["is_full"]
        told = await wait(client, identity)
        assert (told.status, told.error.code) == ("failed", "server_error")
        assert _read_status(file, identity) == "in_progress"

        disk["is_full"] = False
        await wait_until(lambda: _read_status(file, identity) == "failed")


def _read_status(file: Path, identity: str) -> str:
    with closing(sqlite3.connect(file)) as database:
        sought = "SELECT status FROM responses WHERE id = ?"
        return str(database.execute(sought, (identity,)).fetchone()[0])


@BOTH
async def test_an_answer_in_the_background_is_cancelled(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say(LONG), simulate="stall_at_chunk=8")
    begun = await client.responses.create(model=model, input="Talk.", background=True)
    await wait_until(lambda: simulator.requests)
    cancelled = await client.responses.cancel(begun.id)
    assert cancelled.status == "cancelled"
    assert (await client.responses.retrieve(begun.id)).status == "cancelled"


async def wait(client: openai.AsyncOpenAI, identity: str) -> Any:
    async with asyncio.timeout(60):
        while True:
            found = await client.responses.retrieve(identity)
            if found.status not in ("queued", "in_progress"):
                return found
            await asyncio.sleep(0.01)


async def read_response(connection: Any, lane: str | None = None) -> Any:
    async with asyncio.timeout(60):
        async for event in connection:
            if event.type == "error" or event.type == "response.completed":
                assert event.stream_id == lane
                return event
    raise AssertionError("The socket was closed.")


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("store", [True, False])
async def test_a_socket_has_a_conversation(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str, store: bool
) -> None:
    simulator.enqueue(Invoke("measure", {"place": "here"}))
    simulator.enqueue(Say("Three metres."))
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    tool: Any = {"type": "function", "name": "measure", "parameters": schema, "strict": False}
    async with client.responses.connect() as connection:
        await connection.response.create(model=model, input="How deep?", tools=[tool], store=store)
        first = (await read_response(connection)).response
        await connection.response.create(
            model=model,
            previous_response_id=first.id,
            store=store,
            tools=[tool],
            input=[
                {
                    "type": "function_call_output",
                    "call_id": first.output[0].call_id,
                    "output": "3",
                }
            ],
        )
        second = (await read_response(connection)).response
        assert second.output[0].content[0].text == "Three metres."
        assert "How deep?" in str(simulator.requests[1].body)
        if store:
            assert (await client.responses.retrieve(second.id)).output_text == "Three metres."
        else:
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(second.id)


@BOTH
async def test_a_socket_says_what_is_wrong_and_goes_on(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say("Yes."))
    async with client.responses.connect() as connection:
        await connection.response.create(
            model=model, input="On.", previous_response_id="resp_none", stream_id="one"
        )
        refused = await read_response(connection, "one")
        assert (refused.type, refused.status) == ("error", 400)
        assert refused.error.code == "previous_response_not_found"
        await connection.response.steer(input="Stop.", previous_response_id="resp_none")
        assert (await connection.recv()).type == "response.steer.failed"
        await connection.send_raw(b'{"type": "response.steer", "input": "\xdf"}')
        assert (await connection.recv()).status == 400
        await connection.response.create(model=model, input="Well?", stream_id="one")
        answered = await read_response(connection, "one")
        assert answered.response.output[0].content[0].text == "Yes."


@pytest.mark.slow
@pytest.mark.parametrize("store", [True, False])
async def test_a_socket_leaves_nothing_of_its_turns(
    simulator: Simulator, client: openai.AsyncOpenAI, store: bool
) -> None:
    """However many there were: what is of one turn is gone when the next has ended."""
    counts = []
    async with client.responses.connect() as connection:
        for turn in range(1, 21):
            simulator.enqueue(Say("Yes."))
            await connection.response.create(model=TRANSLATED, input="Well?", store=store)
            await read_response(connection)
            simulator.requests.clear()
            if turn in (10, 20):
                counts.append(_count_ours())
    grown = counts[1] - counts[0]
    assert not grown, grown


def _count_ours() -> Counter[str]:
    """Counts the objects of the gateway and of what it is made of, by class."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    # A class with a property `__module__` has no name of its module to compare.
    return Counter(
        kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("vibe_llms.d")
    )


@BOTH
async def test_a_socket_that_is_closed_ends_what_is_asked(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Say(LONG), simulate="stall_at_chunk=8")
    async with client.responses.connect() as connection:
        await connection.response.create(model=model, input="Talk.")
        created = await connection.recv()
    assert (await wait(client, created.response.id)).status == "cancelled"
