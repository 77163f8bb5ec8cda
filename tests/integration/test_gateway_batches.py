"""Files and batches of the gateway, by the official libraries of OpenAI and Anthropic."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_files import RoutedGateway, hold_answers
from vibe_llms.daemons.gateway.batches.running import CONCURRENCY
from vibe_llms.daemons.gateway.batches.storage import GatewayBatchStorage
from vibe_llms.testing.simulator import Simulator

TABLES = '[models.quick]\ntargets = ["first:gpt-5.5"]\nbatches = "requests"\n'
CHAT = "/v1/chat/completions"


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        yield RoutedGateway(tmp_path, first, second)


@asynccontextmanager
async def reach_openai(routed: RoutedGateway, key: str = "x") -> AsyncIterator[openai.AsyncOpenAI]:
    """Makes OpenAI's client of a gateway that runs."""
    address = f"{routed.address}/v1"
    async with openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0) as client:
        yield client


def compose_lines(count: int, path: str = CHAT, **fields: Any) -> bytes:
    """Composes an input file of questions."""
    lines = [
        {
            "custom_id": f"question-{number}",
            "method": "POST",
            "url": path,
            "body": {
                "model": "quick",
                "messages": [{"role": "user", "content": f"Sea {number}?"}],
                **fields,
            },
        }
        for number in range(count)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


async def wait_for(read: Callable[[], Any], is_over: Callable[[Any], bool]) -> Any:
    """Reads the state of a batch until it is over."""
    async with asyncio.timeout(60):
        while not is_over(state := await read()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # as clients do
    return state


async def run_batch(client: openai.AsyncOpenAI, data: bytes, path: str = CHAT) -> Any:
    """Uploads a file and runs a batch of it to its end."""
    file = await client.files.create(file=("in.jsonl", data), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint=path, completion_window="24h", metadata={"team": "a"}
    )
    assert batch.status == "in_progress"
    return await wait_for(
        lambda: client.batches.retrieve(batch.id), lambda each: each.completed_at is not None
    )


async def read_lines(client: openai.AsyncOpenAI, identity: str) -> list[Any]:
    """Reads a file of results."""
    content = await client.files.content(identity)
    return [json.loads(line) for line in content.text.splitlines()]


async def test_a_batch_answers_each_request_of_a_file(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await run_batch(client, compose_lines(7))
        lines = await read_lines(client, batch.output_file_id)

    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed) == (7, 7)
    assert batch.metadata == {"team": "a"}
    assert batch.error_file_id is None
    assert sorted(line["custom_id"] for line in lines) == [f"question-{n}" for n in range(7)]
    assert {line["response"]["status_code"] for line in lines} == {200}
    for line in lines:  # the simulator repeats the question
        answer = line["response"]["body"]["choices"][0]["message"]["content"]
        assert answer == f"Sea {line['custom_id'].removeprefix('question-')}?"


@pytest.mark.slow
async def test_a_batch_completes_prompts(routed: RoutedGateway) -> None:
    path = "/v1/completions"
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await run_batch(client, compose_lines(2, path, prompt="Name a sea."), path)
        lines = await read_lines(client, batch.output_file_id)

    assert {line["response"]["body"]["object"] for line in lines} == {"text_completion"}


async def test_failures_are_in_the_file_of_errors(routed: RoutedGateway) -> None:
    data = compose_lines(1) + compose_lines(1, model="unknown").replace(b"question", b"wrong")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await run_batch(client, data)
        (line,) = await read_lines(client, batch.error_file_id)

    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
    assert line["custom_id"] == "wrong-0"
    assert line["response"]["status_code"] == 404
    assert "unknown" in line["response"]["body"]["error"]["message"]


async def test_an_error_that_passes_is_tried_again(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.daemons.gateway.batches.running.FIRST_PAUSE_SECONDS", 0.0)
    async with routed.run(TABLES), reach_openai(routed) as client:
        routed.first.switch("server_error=1")
        batch = await run_batch(client, compose_lines(1))

    assert batch.request_counts.completed == 1


async def test_results_that_cannot_be_stored_are_not_paid_for_again_and_again(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GatewayBatchStorage, "append_results", fail)
    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("in.jsonl", compose_lines(30)), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint=CHAT, completion_window="24h"
        )
        for _ in range(10):
            state = await client.batches.retrieve(batch.id)
            await asyncio.sleep(0.05)
        assert state.status == "in_progress"
    assert len(routed.first.requests) <= CONCURRENCY


async def test_files_are_listed_read_and_deleted(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("in.jsonl", b"some text"), purpose="user_data")
        assert (file.bytes, file.filename, file.purpose) == (9, "in.jsonl", "user_data")
        assert [each.id async for each in client.files.list()] == [file.id]
        assert [each.id async for each in client.files.list(purpose="batch")] == []
        assert (await client.files.content(file.id)).content == b"some text"
        assert (await client.files.delete(file.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no requests"),
        (b"{", "Line 1"),
        (compose_lines(1) * 2, "repeats"),
        (compose_lines(1, path="/v1/embeddings"), "url"),
        (compose_lines(1, stream=True), "stream"),
        (b'{"custom_id": "a", "url": "/v1/chat/completions"}', "no body"),
    ],
)
async def test_an_invalid_file_is_refused_with_its_line(
    routed: RoutedGateway, data: bytes, words: str
) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("in.jsonl", data or b"\n"), purpose="batch")
        with pytest.raises(openai.BadRequestError, match=words):
            await client.batches.create(
                input_file_id=file.id, endpoint=CHAT, completion_window="24h"
            )
        assert [each async for each in client.batches.list()] == []


async def test_a_cancelled_batch_keeps_what_it_has(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = hold_answers(monkeypatch)

    async def read_first() -> int:
        return len(routed.first.requests)

    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("in.jsonl", compose_lines(40)), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint=CHAT, completion_window="24h"
        )
        await wait_for(read_first, lambda count: count == CONCURRENCY)
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        may_answer.set()
        state = await wait_for(
            lambda: client.batches.retrieve(batch.id), lambda each: each.cancelled_at is not None
        )
        assert state.status == "cancelled"
        assert state.request_counts.completed <= CONCURRENCY
        assert [each.id async for each in client.batches.list()] == [batch.id]


async def test_clients_see_their_own_only(routed: RoutedGateway) -> None:
    async with (
        routed.run(TABLES, authorizer=FriendAuthorizer()),
        reach_openai(routed, "friend") as ann,
        reach_openai(routed, "bob") as bob,
    ):
        batch = await run_batch(ann, compose_lines(1))
        assert [each async for each in bob.batches.list()] == []
        assert [each async for each in bob.files.list()] == []
        with pytest.raises(openai.NotFoundError):
            await bob.batches.retrieve(batch.id)
        with pytest.raises(openai.NotFoundError):
            await bob.files.content(batch.output_file_id)
    subjects = {record.subject for record in routed.records if record.path == CHAT}
    assert subjects == {"friend"}


async def test_a_batch_continues_after_a_restart(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        first = await run_batch(client, compose_lines(3))
        may_answer = hold_answers(monkeypatch)
        file = await client.files.create(file=("in.jsonl", compose_lines(30)), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint=CHAT, completion_window="24h"
        )
        async with asyncio.timeout(60):
            while len(routed.first.requests) < 3 + CONCURRENCY:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    may_answer.set()

    async with routed.run(TABLES), reach_openai(routed) as client:
        state = await wait_for(
            lambda: client.batches.retrieve(batch.id), lambda each: each.completed_at is not None
        )
        lines = await read_lines(client, state.output_file_id)
        assert await client.batches.retrieve(first.id) == first
    assert len({line["custom_id"] for line in lines}) == 30
    assert len(routed.first.requests) == 3 + CONCURRENCY + 30, "those under way are sent again"


async def test_old_files_and_batches_are_deleted(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.daemons.gateway.batches.running.SWEEP_SECONDS", 0.0)
    async with routed.run(TABLES), reach_openai(routed) as client:
        await run_batch(client, compose_lines(1))
        assert len([each async for each in client.files.list()]) == 2
        later = time.time() + 31 * 86_400
        monkeypatch.setattr(time, "time", lambda: later)
        file = await client.files.create(file=("new", b"text"), purpose="user_data")
        assert [each.id async for each in client.files.list()] == [file.id]
        assert [each async for each in client.batches.list()] == []


@pytest.mark.parametrize("identity", ["..%2F..%2Fvibe.toml", "batch_x", "file-" + "0" * 24])
async def test_unknown_ids_are_not_found(routed: RoutedGateway, identity: str) -> None:
    async with routed.run(TABLES):
        for path in ("/v1/files/{}", "/v1/files/{}/content", "/v1/batches/{}"):
            url = f"{routed.address}{path.format(identity)}"
            async with routed.session.get(url) as answer:
                assert answer.status == 404


async def test_a_batch_of_messages(routed: RoutedGateway) -> None:
    params = {"model": "quick", "max_tokens": 64, "messages": [{"role": "user", "content": "Sea?"}]}
    requests = [
        {"custom_id": "right", "params": params},
        {"custom_id": "wrong", "params": {**params, "model": "unknown"}},
    ]
    async with routed.run(TABLES):
        client = anthropic.AsyncAnthropic(base_url=routed.address, api_key="x", max_retries=0)
        async with client:
            made: Any = await client.messages.batches.create(requests=requests)  # type: ignore[arg-type]
            assert made.processing_status in ("in_progress", "ended")
            state = await wait_for(
                lambda: client.messages.batches.retrieve(made.id),
                lambda each: each.processing_status == "ended",
            )
            results = {
                each.custom_id: each.result
                async for each in await client.messages.batches.results(made.id)
            }
            assert (state.request_counts.succeeded, state.request_counts.errored) == (1, 1)
            assert results["right"].type == "succeeded"
            assert results["right"].message.content[0].text == "Sea?"
            assert results["wrong"].type == "errored"
            assert results["wrong"].error.error.type == "not_found_error"
            assert [each.id async for each in client.messages.batches.list()] == [made.id]
            await client.messages.batches.delete(made.id)
            with pytest.raises(anthropic.NotFoundError):
                await client.messages.batches.retrieve(made.id)


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ([], "list of requests"),
        ([{"custom_id": "a"}], "params"),
        ([{"custom_id": "a", "params": {}}] * 2, "repeated"),
        ([{"custom_id": "a", "params": {"stream": True}}], "stream"),
    ],
)
async def test_an_invalid_batch_of_messages_is_refused(
    routed: RoutedGateway, requests: list[Any], words: str
) -> None:
    async with routed.run(TABLES):
        client = anthropic.AsyncAnthropic(base_url=routed.address, api_key="x", max_retries=0)
        async with client:
            with pytest.raises(anthropic.BadRequestError, match=words):
                await client.messages.batches.create(requests=requests)


async def test_batches_of_messages_are_listed_in_pages(routed: RoutedGateway) -> None:
    params = {"model": "quick", "max_tokens": 64, "messages": [{"role": "user", "content": "Sea?"}]}
    async with routed.run(TABLES):
        client = anthropic.AsyncAnthropic(base_url=routed.address, api_key="x", max_retries=0)
        async with client:
            for _ in range(4):
                requests: Any = [{"custom_id": "a", "params": params}]
                await client.messages.batches.create(requests=requests)
            listed = [each.id async for each in client.messages.batches.list(limit=3)]
            assert len(listed) == 4
            page = await client.messages.batches.list(limit=2, before_id=listed[3])
            assert ([each.id for each in page.data], page.has_more) == (listed[1:3], True)
            page = await client.messages.batches.list(limit=2, before_id=listed[1])
            assert ([each.id for each in page.data], page.has_more) == (listed[:1], False)
        async with routed.session.get(
            f"{routed.address}/v1/messages/batches?limit={'1' * 5_000}"
        ) as answer:
            assert answer.status == 400


async def test_metadata_have_a_limit(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("in.jsonl", compose_lines(1)), purpose="batch")
        with pytest.raises(openai.BadRequestError, match="metadata"):
            await client.batches.create(
                input_file_id=file.id,
                endpoint=CHAT,
                completion_window="24h",
                metadata={"a": "x" * 70_000},
            )


async def test_results_of_a_batch_under_way_are_refused(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_answers(monkeypatch)
    params = {"model": "quick", "max_tokens": 64, "messages": [{"role": "user", "content": "Sea?"}]}
    async with routed.run(TABLES):
        url = f"{routed.address}/v1/messages/batches"
        body = {"requests": [{"custom_id": "a", "params": params}]}
        async with routed.session.post(url, json=body) as answer:
            identity = (await answer.json())["id"]
        async with routed.session.get(f"{url}/{identity}/results") as answer:
            assert answer.status == 400
        async with routed.session.delete(f"{url}/{identity}") as answer:
            assert answer.status == 400
