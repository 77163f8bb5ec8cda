"""Gateway, agents and tools as processes: runs by the one, through the other, with the third."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from support.daemons import three_daemons
from support.daemons.three_daemons import MODEL, NAMES, SECRET, read_jobs
from support.gateways.gateways import wait_until
from support.gateways.judging import open_judge
from support.network.watched_sockets import read_ports, watch_sockets


@pytest.mark.slow
async def test_runs_go_on_while_strangers_ask_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is asked for once, and each call takes effect once."""
    async with three_daemons.running(tmp_path, monkeypatch) as trio:
        told: list[list[Any]] = [[] for _ in range(4)]
        ids = [await trio.begin(f"j{number}", 3) for number in range(4)]
        watching = [asyncio.create_task(trio.watch(*each)) for each in zip(ids, told, strict=True)]
        for client in ("chat", "responses", "messages"):
            async with open_judge(client, trio.daemons["gateway"].url) as judge:
                for stream in (False, True):
                    assert (await judge.ask(MODEL, stream=stream)).text == "Name a sea."
        await asyncio.gather(*watching)
        for run_id, each in zip(ids, told, strict=True):
            assert each[-1][2]["event"]["reason"] == "answered"
            assert (await trio.ask("GET", f"/runs/{run_id}"))["state"] == "ended"
        assert trio.count_effects() == {
            f"j{job}-{step}": 1 for job in range(4) for step in range(3)
        }
        assert read_jobs(trio.simulator) == {
            f"j{job}-{step}": 1 for job in range(4) for step in range(4)
        }


@pytest.mark.slow
async def test_only_the_gateway_speaks_to_vendors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs do: the others' connections lead to each other alone, and they know no key.

    Nor has the agents daemon tools of its own: what took effect did so where the tools are.
    """
    (tmp_path / "sockets").mkdir()
    variables = watch_sockets(tmp_path / "sockets")
    async with three_daemons.running(tmp_path, monkeypatch, **variables) as trio:
        run_id = await trio.begin("asking", 2, ensembles=["asking"])
        await trio.allow_all(run_id)
        fork = await trio.ask("POST", f"/runs/{run_id}/fork")
        await trio.ask("POST", f"/runs/{fork['id']}/messages", {"content": "Job more of 3"})
        await trio.allow_all(fork["id"])
        assert trio.count_effects() == {"asking-0": 1, "asking-1": 1, "more-2": 1}
        own = {"model": f"remote:{MODEL}", "input": "Job own of 1", "ensembles": ["shell"]}
        async with trio.session.post(f"{trio.url}/runs", json=own) as refused:
            assert refused.status == 400
            assert "Runs may not use the ensemble 'shell'" in await refused.text()
        ports = {name: each.port for name, each in trio.daemons.items()}
        vendor = urlsplit(trio.simulator.url).port
        seen = read_ports(tmp_path / "sockets")
        pids = {name: each.pid for name, each in trio.daemons.items()}
        assert seen == {  # nor has anything that they have started
            pids["gateway"]: {vendor},
            pids["agents"]: {ports["gateway"], ports["tools"]},
        }
        for name in ("agents", "tools"):
            environment = Path(f"/proc/{trio.daemons[name].pid}/environ").read_bytes()
            assert SECRET.encode() not in environment


@pytest.mark.slow
async def test_runs_wait_for_a_gateway_that_stalls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as they may; they say so, and can be stopped; what it was asked in vain is told."""
    impatient = "[providers.remote]\nfirst_byte_seconds = 4\n[limits]\nattempts = 1\n"
    async with three_daemons.running(tmp_path, monkeypatch, agents=impatient) as trio:
        stalled = psutil.Process(trio.daemons["gateway"].pid)
        stalled.suspend()
        try:
            told: list[list[Any]] = [[], [], []]
            ids = [
                await trio.begin("waits", 2),
                await trio.begin("bounded", 1, limits={"run_seconds": 5}),
                await trio.begin("stopped", 1),
            ]
            watching = [
                asyncio.create_task(trio.watch(*each)) for each in zip(ids, told, strict=True)
            ]
            waits, bounded, stopped = ids
            await wait_until(lambda: any(word == "run.retried" for _, word, _ in told[0]))
            summary = await trio.ask("GET", f"/runs/{waits}")
            assert summary["state"] in ("queued", "working")
            assert trio.daemons["gateway"].url.partition("//")[2] in summary["detail"]
            await trio.ask("POST", f"/runs/{stopped}/stop", {"reason": "it takes too long"})
            while (await trio.ask("GET", f"/runs/{stopped}"))["state"] != "stopped":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await asyncio.wait_for(watching[1], 60)
            summary = await trio.ask("GET", f"/runs/{bounded}")
            assert (summary["reason"], summary["limit"]) == ("limit", "run_seconds")
            assert not trio.simulator.requests
        finally:
            stalled.resume()
        async with asyncio.timeout(60):
            await watching[0]
        watching[2].cancel()
        assert told[0][-1][2]["event"]["reason"] == "answered"
        assert trio.count_effects() == {"waits-0": 1, "waits-1": 1}
        # What came too late for whoever had asked may have been billed, and is said.
        failed = sum(word == "step.failed" for _, word, _ in told[0])
        asked = sum(count for job, count in read_jobs(trio.simulator).items() if "waits" in job)
        assert failed >= 1
        assert 3 <= asked <= 3 + failed


@pytest.mark.slow
async def test_whoever_has_no_room_goes_on_with_what_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models are asked; a command says that it could not write; and later it is as before."""
    async with three_daemons.running(tmp_path, monkeypatch) as trio:
        living = [psutil.Process(trio.daemons[name].pid) for name in ("gateway", "tools")]
        most = [each.rlimit(psutil.RLIMIT_FSIZE) for each in living]
        for job, limits in (("full", [(0, hard) for _, hard in most]), ("later", most)):
            for each, limit in zip(living, limits, strict=True):
                each.rlimit(psutil.RLIMIT_FSIZE, limit)
            told: list[Any] = []
            await asyncio.wait_for(trio.watch(await trio.begin(job, 2), told), 60)
            assert told[-1][2]["event"]["reason"] == "answered"
            results = [
                line["event"]["result"] for _, word, line in told if word == "tool.completed"
            ]
            texts = ["".join(part["text"] for part in each["content"]) for each in results]
            assert ["exit code" in each for each in texts] == [job == "full"] * 2
        assert trio.count_effects() == {"later-0": 1, "later-1": 1}
        for daemon in trio.daemons.values():
            assert await daemon.end(kill=False) == 0
            assert "Traceback" not in "".join(daemon.printed)


@pytest.mark.slow
async def test_all_leave_when_they_are_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order; what was under way goes on when they are back, or is asked about."""
    async with three_daemons.running(tmp_path, monkeypatch) as trio:
        told: list[list[Any]] = [[] for _ in range(3)]
        ids = [await trio.begin(f"j{number}", 6) for number in range(3)]
        watching = [asyncio.create_task(trio.watch(*each)) for each in zip(ids, told, strict=True)]
        watching += [asyncio.create_task(trio.allow_all(each)) for each in ids]
        for names in (("agents", "gateway", "tools"), ("tools", "gateway", "agents")):
            heard = len(trio.simulator.requests)
            await wait_until(lambda: len(trio.simulator.requests) >= heard + 3)  # noqa: B023
            for name in names:
                assert await trio.daemons[name].end(kill=False) == 0
            await trio.start(*NAMES)
        async with asyncio.timeout(60):
            await asyncio.gather(*watching)
        for each in told:
            assert [number for number, _, _ in each] == [*range(1, len(each) + 1)]
            assert each[-1][2]["event"]["reason"] == "answered", each[-1]
        for daemon in trio.daemons.values():
            assert "Traceback" not in "".join(daemon.printed)
            assert "before its answer was complete" not in "".join(daemon.printed)
