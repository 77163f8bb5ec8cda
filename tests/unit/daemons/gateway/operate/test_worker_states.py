"""States of worker processes are exchanged as files; those of ended processes still count."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from vibe_llms.daemons.gateway.operate import worker_states as exchange
from vibe_llms.daemons.gateway.operate.entries import describe_request
from vibe_llms.daemons.gateway.operate.history import BUCKET_SECONDS, Bucket
from vibe_llms.daemons.gateway.operate.traffic import compose_traffic
from vibe_llms.daemons.gateway.operate.worker_states import TargetState, WorkerState, WorkerStates
from vibe_llms.daemons.records import CallRecord
from vibe_llms.messages.losses import Loss, LossKind


def produce_state(process: int, number: int) -> WorkerState:
    """Return a state with something of each kind."""
    record = CallRecord(
        request_id="req_1", method="POST", path="/v1/messages", started=1.0, face="messages",
        losses=(Loss(kind=LossKind.DROPPED, path="seed", reason="No seed."),),
    )  # fmt: skip
    return WorkerState(
        started=1.5,
        busy=2,
        buckets={number: Bucket(requests=3)},
        requests=[describe_request(record, 0.0)],
        targets={"quick": [TargetState(circuit="open", open_until=5.0)]},
        process=process,
    )


def find_ended_process() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def put(folder: Path, state: WorkerState) -> Path:
    """Write the state of another process."""
    path = folder / f"{state.process}.state"
    path.write_bytes(msgspec.msgpack.encode(state))
    return path


async def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    now = int(time.time() // BUCKET_SECONDS)
    own, other = produce_state(os.getpid(), now), produce_state(os.getppid(), now)
    for state in (own, other):
        put(tmp_path, state)
    assert await WorkerStates(lambda: own, tmp_path).survey() == [own, other]
    assert await WorkerStates(lambda: own).survey() == [own]
    assert other.requests[0].time == datetime.fromtimestamp(1, UTC)


async def test_an_ended_process_counts_as_long_as_its_requests_are_recent(tmp_path: Path) -> None:
    now = int(time.time() // BUCKET_SECONDS)
    own = produce_state(os.getpid(), now)
    ended = find_ended_process()
    recent = put(tmp_path, produce_state(ended, now - 5))
    [_, read] = await WorkerStates(lambda: own, tmp_path).survey()
    assert (read.busy, read.targets, read.buckets[now - 5].requests) == (0, {}, 3)
    traffic = compose_traffic([own, read], now * BUCKET_SECONDS + 5.0)
    assert (traffic.workers, sum(traffic.requests) + traffic.recent.requests) == (1, 9)
    recent.unlink()
    old = put(tmp_path, produce_state(ended, now - 1000))
    assert await WorkerStates(lambda: own, tmp_path).survey() == [own]
    assert not old.exists()


async def test_a_damaged_file_is_skipped(tmp_path: Path) -> None:
    own = produce_state(os.getpid(), 1)
    for name, data in (("1.state", b""), ("2.state", b"\xff"), ("3.state", b"\x80")):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "4.state").mkdir()
    assert await WorkerStates(lambda: own, tmp_path).survey() == [own]


async def test_a_change_is_written_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "DELAY_SECONDS", 0.01)
    states = [produce_state(os.getpid(), 1)]
    workers = WorkerStates(lambda: states[0], tmp_path)
    workers.begin()
    path = tmp_path / f"{os.getpid()}.state"
    try:
        for number in (1, 2):
            states[0] = produce_state(os.getpid(), number)
            async with asyncio.timeout(60):
                while True:
                    if path.exists():
                        read = msgspec.msgpack.decode(path.read_bytes(), type=WorkerState)
                        if number in read.buckets:
                            break
                    await asyncio.sleep(0.01)
    finally:
        await workers.end()
    assert not list(tmp_path.glob("*.draft"))
