"""Batches of the gateway's clients on disk, and their runner, without a gateway."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vibe_llms.daemons.gateway.batches.answers import encode_lines
from vibe_llms.daemons.gateway.batches.files import FileStorage, generate_identity
from vibe_llms.daemons.gateway.batches.interfaces import BatchClient
from vibe_llms.daemons.gateway.batches.results import BatchResults
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.batches.storage import (
    DAY_SECONDS,
    BatchedAnswer,
    BatchedRequest,
    GatewayBatch,
    GatewayBatchStorage,
)
from vibe_llms.exceptions import StoreError
from vibe_llms.logs.locks import locked

DAY_OF_TEST = 40 * DAY_SECONDS
SCOPE: Any = {"type": "http", "headers": [(b"authorization", b"Bearer sk-secret")]}


class Service:
    """Answers all requests with one body, and counts them."""

    def __init__(
        self, body: bytes = b"{}", statuses: Iterable[int] = (), headers: Sequence[Any] = ()
    ) -> None:
        self.body, self.statuses, self.headers = body, iter(statuses), headers
        self.requests = 0
        self.received: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        self.received.append(dict(scope["headers"]))
        status = next(self.statuses, 200)
        await send({"type": "http.response.start", "status": status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def produce_runner(tmp_path: Path, service: Service) -> GatewayBatchRunner:
    """Makes a runner of batches in a folder."""
    storage = GatewayBatchStorage(tmp_path / "batches")
    runner = GatewayBatchRunner(storage, FileStorage(tmp_path / "files"))
    runner.service = service
    return runner


def add(runner: GatewayBatchRunner, count: int = 3, **fields: Any) -> GatewayBatch:
    """Stores a batch."""
    batch = GatewayBatch(
        id=generate_identity("batch_"),
        path="/v1/embeddings",
        subject="ann",
        total=count,
        input_file="file-1",
        **{"created": int(time.time()), **fields},
    )
    body = msgspec.Raw(b"{}")
    items = [BatchedRequest(custom_id=str(n), path=batch.path, body=body) for n in range(count)]
    runner.storage.add(batch, items)
    return batch


async def run(runner: GatewayBatchRunner, batch: GatewayBatch, scope: Any = SCOPE) -> GatewayBatch:
    """Runs a batch until its task ends; returns its state."""
    runner.start(batch, BatchClient(subject="ann", scope=scope))
    (task,) = runner._tasks.values()
    await task
    return runner.storage.find(batch.id, "ann", "batch_")


async def test_answers_of_several_lines_are_results_of_one(tmp_path: Path) -> None:
    service = Service(b'{\n  "a": 1,\r\n  "b": "x\\ny"\n}')
    runner = produce_runner(tmp_path, service)
    batch = await run(runner, add(runner))

    assert (batch.status, batch.completed) == ("completed", 3)
    results = runner.storage.read_results(batch)
    lines = [json.loads(line) for line in encode_lines(results).splitlines()]
    assert [line["response"]["body"] for line in lines] == [{"a": 1, "b": "x\ny"}] * 3
    assert service.requests == 3


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"", b'{"a": 1e999}', b"a\nb"])
async def test_an_answer_that_is_no_json_is_a_text(tmp_path: Path, body: bytes) -> None:
    runner = produce_runner(tmp_path, Service(body))
    batch = await run(runner, add(runner))

    assert batch.status == "completed"
    (first, *_) = runner.storage.read_results(batch)
    assert msgspec.json.decode(first.body) == body.decode("utf-8", "replace")


async def test_a_batch_that_has_ended_meanwhile_is_not_run_again(tmp_path: Path) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    stale = add(runner)
    runner.storage.mark_cancelling(stale)
    ended = await run(runner, stale)
    assert (ended.status, service.requests) == ("cancelled", 0)

    assert await run(runner, stale) == ended
    assert service.requests == 0


async def test_a_batch_that_was_deleted_meanwhile_is_not_run(tmp_path: Path) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    batch = add(runner)
    runner.storage.delete(batch)
    runner.start(batch, BatchClient(subject="ann", scope=SCOPE))
    (task,) = runner._tasks.values()
    await task
    assert service.requests == 0


async def test_another_process_runs_the_batch(tmp_path: Path) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    batch = add(runner)
    with locked(runner.storage.locate_lock(batch), wait_seconds=0):
        assert (await run(runner, batch)).status == "in_progress"
    assert service.requests == 0


async def test_a_cut_result_is_requested_again_and_a_damaged_request_left_out(
    tmp_path: Path,
) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    batch = add(runner)
    folder = tmp_path / "batches" / batch.id
    requests = (folder / "requests.jsonl").read_bytes()
    (folder / "requests.jsonl").write_bytes(b"{\n" + requests)
    (folder / "results.jsonl").write_bytes(
        b'\n{"custom_id":"0","status":200,"body":7}\n\n{"custom_id":"1","sta'
    )
    batch = await run(runner, batch)

    assert (batch.status, batch.completed, service.requests) == ("completed", 3, 2)
    assert {each.custom_id for each in runner.storage.read_results(batch)} == {"0", "1", "2"}


async def test_an_expired_batch_sends_nothing(tmp_path: Path) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    batch = await run(runner, add(runner, created=int(time.time()) - DAY_SECONDS))
    assert (batch.status, service.requests) == ("expired", 0)


async def test_files_are_private_and_have_no_key(tmp_path: Path) -> None:
    runner = produce_runner(tmp_path, Service())
    await run(runner, add(runner))
    for path in tmp_path.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_file():
            assert mode == 0o600, path
            assert b"sk-secret" not in path.read_bytes()
        elif path.parent != tmp_path:
            assert mode == 0o700, path


async def test_what_nobody_reads_again_is_deleted(tmp_path: Path) -> None:
    runner = produce_runner(tmp_path, Service())
    old, long_ago = add(runner, created=int(time.time()) - DAY_OF_TEST), time.time() - DAY_OF_TEST
    new, broken, fresh = add(runner), add(runner), add(runner)
    file = await runner.files.add(b"data", name="a", purpose="batch", subject="ann")
    half = await runner.files.add(b"half", name="b", purpose="batch", subject="ann")
    (tmp_path / "files" / f"{half.id}.json").unlink()
    ended = await runner.files.add(b"ended", name="c", purpose="batch", subject="ann", ends=1)
    for path in (tmp_path / "files" / "references").iterdir():
        os.utime(path, (long_ago, long_ago))
    upload = await runner.uploads.begin(name="d", media_type="", subject="ann", size=None)
    for path in (tmp_path / "files" / "uploads").iterdir():
        os.utime(path, (long_ago, long_ago))
    for batch in (broken, fresh):
        (tmp_path / "batches" / batch.id / "batch.json").write_bytes(b"{")
    os.utime(tmp_path / "batches" / broken.id, (long_ago, long_ago))

    await runner.sweep()

    assert {path.name for path in (tmp_path / "batches").iterdir()} == {new.id, fresh.id}
    assert old.id != new.id
    left = {path.name for path in (tmp_path / "files").rglob("*") if path.is_file()}
    assert {name for name in left if "file-" in name} == {
        f"{file.id}.json",
        f"{file.content_id}.{file.id}",
    }
    assert await runner.files.read(file) == b"data"
    assert not any(upload.id in name for name in left)
    for gone in (half, ended):
        with pytest.raises(StoreError):
            await runner.files.read(gone)


async def test_a_shutdown_does_not_end_a_batch(tmp_path: Path) -> None:
    runner = produce_runner(tmp_path, Service(statuses=[200] + [503] * 9))
    batch = add(runner, 9)
    runner.drain()

    assert (await run(runner, batch)).status == "in_progress"
    assert len(runner.storage.read_results(batch)) < 9


async def test_headers_of_one_request_are_not_repeated(tmp_path: Path) -> None:
    service = Service()
    runner = produce_runner(tmp_path, service)
    pairs = [(b"Idempotency-Key", b"1"), (b"Expect", b"100-continue"), (b"x-tag", b"a")]
    scope = {**SCOPE, "headers": [*SCOPE["headers"], *pairs], "query_string": b"limit=3"}
    await run(runner, add(runner), scope)

    assert service.received == 3 * [
        {
            b"authorization": b"Bearer sk-secret",
            b"x-tag": b"a",
            b"content-type": b"application/json",
        }
    ]


async def test_a_pause_is_at_least_as_long_as_the_answer_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    service = Service(statuses=[429, 429, 200], headers=[(b"Retry-After", b"17")])
    runner = produce_runner(tmp_path, service)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    batch = await run(runner, add(runner, 1))

    assert (batch.completed, pauses) == (1, [17.0, 17.0])


async def test_answers_at_vendors_are_counted_before_they_are_read(tmp_path: Path) -> None:
    runner = produce_runner(tmp_path, Service())
    batch = add(runner, 5)
    results = BatchResults(runner.storage, batch, [])

    await results.show_progress("gpt", 3)
    assert (await results.read_state()).completed == 3

    await results.add(BatchedAnswer(custom_id="0", status=500))
    await results.add(BatchedAnswer(custom_id="0", status=200))  # it has a result
    await results.show_progress("gpt", 2)
    state = await results.read_state()
    assert (state.completed, state.failed) == (2, 1)
    assert [each.status for each in runner.storage.read_results(batch)] == [500]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
async def test_only_the_user_of_the_gateway_can_read_files(tmp_path: Path) -> None:
    runner = produce_runner(tmp_path, Service())
    await runner.uploads.begin(name="d", media_type="", subject="ann", size=None)
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
    shutil.rmtree(tmp_path / "files")
    await runner.files.add(b"data", name="a", purpose="batch", subject="ann")
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
