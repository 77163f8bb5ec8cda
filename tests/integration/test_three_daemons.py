"""Gateway, agents and tools as processes: runs by the one, through the other, with the third."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import three_daemons
from gateways import become
from judging import open_judge
from three_daemons import MODEL, NAMES, SECRET, read_jobs
from watched_sockets import read_ports, watch_sockets


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
        assert trio.read_noted() == {f"j{job}-{step}": 1 for job in range(4) for step in range(3)}
        assert read_jobs(trio.simulator) == {
            f"j{job}-{step}": 1 for job in range(4) for step in range(4)
        }


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
        assert trio.read_noted() == {"asking-0": 1, "asking-1": 1, "more-2": 1}
        own = {"model": f"remote:{MODEL}", "input": "Job own of 1", "ensembles": ["shell"]}
        async with trio.session.post(f"{trio.url}/runs", json=own) as refused:
            assert refused.status == 400
            assert "'shell' is no ensemble that runs may use" in await refused.text()
        ports = {name: each.port for name, each in trio.daemons.items()}
        vendor = urlsplit(trio.simulator.url).port
        seen = {
            name: read_ports(tmp_path / "sockets", each.pid) for name, each in trio.daemons.items()
        }
        assert seen["gateway"] == {vendor}
        assert seen["agents"] == {ports["gateway"], ports["tools"]}
        assert seen["tools"] == set()
        for name in ("agents", "tools"):
            environment = Path(f"/proc/{trio.daemons[name].pid}/environ").read_bytes()
            assert SECRET.encode() not in environment


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
            await become(lambda: len(trio.simulator.requests) >= heard + 3)  # noqa: B023
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
            assert "without a whole answer" not in "".join(daemon.printed)
