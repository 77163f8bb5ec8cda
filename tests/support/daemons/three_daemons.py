"""The three daemons as processes: agents, tools, and a gateway to a simulated vendor."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import attrs
import pytest

from support.gateways.hostile_upstreams import find_environment
from support.network.ports import find_port
from vibe_llms.dialects.history import NO_RESULT, NOT_BEGUN
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator, answering
from vibe_llms.testing.simulator.behaviour import respond
from vibe_llms.testing.simulator.prompts import SimulatedPrompt

SECRET: Final = "sk-of-the-vendor"
MODEL: Final = "anthropic:claude-sonnet-4-5"
NAMES: Final = ("gateway", "tools", "agents")
_READY_TEXTS: Final = {
    "gateway": "Gateway on ",
    "tools": "Tools on ",
    "agents": "Agents daemon on ",
}


def play(prompt: SimulatedPrompt) -> ScriptedAnswer:
    """Return the answer of a model that has a job of some steps, each a command that logs its name.

    The answer depends on the prompt alone, so that runs may be concurrent, and repeat a step.
    """
    found = re.findall(r"Job (\w+) of (\d+)", prompt.prefix)
    if not found:
        return respond(prompt)
    (job, steps), step = found[-1], count_results(prompt.prefix)
    if step == int(steps):
        return ScriptedAnswer(parts=(Say(f"Job {job} is done."),))
    name = f"{job}-{step}"
    # Pauses before and after the effect leave time for a kill.
    command = {"command": f"sleep 0.05 && echo {name} >>noted && sleep 0.05"}
    return ScriptedAnswer(parts=(Invoke("run_command", command, id=name),))


def read_jobs(simulator: Simulator) -> Counter[str]:
    """Count the requests to a vendor for each step of each job."""
    counts: Counter[str] = Counter()
    for request in simulator.requests:
        written = json.dumps(request.body)
        if found := re.findall(r"Job (\w+) of \d+", written):
            counts[f"{found[-1]}-{count_results(written)}"] += 1
    return counts


def count_results(written: str) -> int:
    """Count the results in a request, but for those of calls that were not executed."""
    unknown = written.count(NO_RESULT) + written.count(NOT_BEGUN)
    return written.count('"tool_result"') - unknown


@attrs.define
class Daemon:
    """One of the three daemons.

    Attributes:
        name: Its name on the command line.
        port: Its port on loopback.
        options: More arguments of its command.
        running: Its process, if any.
        printed: The lines of its standard error.
        listening: Reads these lines.
    """

    name: str
    port: int
    options: Sequence[str]
    running: asyncio.subprocess.Process | None = None
    printed: list[str] = attrs.field(factory=list)
    listening: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self.running is not None
        return self.running.pid

    async def start(self, folder: Path, more: Mapping[str, str]) -> None:
        """Start it, and wait until it accepts requests."""
        self.running = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vibe_llms", "serve", self.name, "--port", str(self.port)),
            *self.options,
            cwd=folder / self.name,
            env={**find_environment(folder / self.name), **more},
            stderr=PIPE,
        )
        async with asyncio.timeout(60):
            assert process.stderr is not None
            while _READY_TEXTS[self.name] not in (
                line := (await process.stderr.readline()).decode()
            ):
                self.printed.append(line)
                assert line, "".join(self.printed)
        self.listening = asyncio.create_task(self._listen(process.stderr))

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.printed.append(line.decode("utf-8", "replace"))

    async def end(self, *, kill: bool = True) -> int:
        """Kill or terminate it; return its exit code."""
        assert self.running is not None
        with suppress(ProcessLookupError):
            (self.running.kill if kill else self.running.terminate)()
        async with asyncio.timeout(60):
            code = await self.running.wait()
            if self.listening is not None:
                await self.listening
        return code


@attrs.define
class Trio:
    """The three daemons, and a client of them.

    Attributes:
        folder: It holds a folder for each.
        daemons: From their names.
        session: The client.
        simulator: The simulated vendor.
        variables: Environment variables of each daemon, besides those of its folder.
        is_full: Whether the disk of the agents daemon is full, so that it may fail.
    """

    folder: Path
    daemons: dict[str, Daemon]
    session: aiohttp.ClientSession
    simulator: Simulator
    variables: Mapping[str, str] = attrs.field(factory=dict)
    is_full: bool = False

    @property
    def url(self) -> str:
        """The address of the agents daemon."""
        return self.daemons["agents"].url

    async def start(self, *names: str) -> None:
        """Start some of the daemons."""
        daemons = [self.daemons[name] for name in names]
        await asyncio.gather(*(each.start(self.folder, self.variables) for each in daemons))

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Repeat a request to the agents daemon until it answers; return the answer.

        Raises:
            AssertionError: It refuses the request.
        """
        headers = {name.replace("_", "-"): text for name, text in headers.items()}
        while True:
            was_full = self.is_full
            try:
                async with self.session.request(
                    method, self.url + path, json=body, headers=headers
                ) as answer:
                    result = await answer.json()
                    # It is ending, or could not write.
                    if answer.status == 503 or (
                        answer.status == 500 and (was_full or self.is_full)
                    ):
                        raise aiohttp.ClientConnectionError
            except (aiohttp.ClientError, ConnectionError):
                await asyncio.sleep(0.05)
                continue
            if answer.status == 409 and path.endswith("/approvals"):
                return result
            assert answer.status < 300, result
            return result

    async def begin(self, job: str, steps: int, **more: Any) -> str:
        """Start a run with a job; return its id."""
        body = {"model": f"remote:{MODEL}", "ensembles": ["tools"]}
        body |= {"input": f"Job {job} of {steps}", **more}
        return str((await self.ask("POST", "/runs", body, Idempotency_Key=job))["id"])

    async def watch(self, run_id: str, events: list[Any]) -> None:
        """Add the events of a run until it ends; resume after the last one at each cut."""
        url = f"{self.url}/runs/{run_id}/events?follow=false"
        while not (events and events[-1][1] == "run.completed" and _is_over(events[-1][2])):
            headers = {"Last-Event-ID": str(events[-1][0])} if events else {}
            with suppress(aiohttp.ClientError, ConnectionError):
                async with self.session.get(url, headers=headers) as answer:
                    if answer.status == 200:
                        await read_frames(answer.content, events)
                    else:
                        assert answer.status == 503, await answer.text()
            await asyncio.sleep(0.05)

    async def allow_all(self, run_id: str) -> None:
        """Approve each request of a run until the run ends."""
        path = f"/runs/{run_id}"
        while (await self.ask("GET", path))["state"] != "ended":
            for each in (await self.ask("GET", f"{path}/approvals"))["data"]:
                approval = {"digest": each["request"]["digest"], "decision": "allow"}
                await self.ask("POST", f"{path}/approvals", approval)
            await asyncio.sleep(0.05)

    def count_effects(self) -> Counter[str]:
        """Count how often each step has taken effect."""
        path = self.folder / "tools" / "noted"
        return Counter(path.read_text().split() if path.exists() else ())


def _is_over(line: Any) -> bool:
    """Return whether a run has ended for good, and not by the end of its host."""
    return bool(line["event"]["reason"] != "cancelled")


async def read_frames(content: aiohttp.StreamReader, events: list[Any]) -> None:
    """Add number, type, and content of each complete event of a stream."""
    fields: dict[str, str] = {}
    async for line in content:
        if text := line.decode().rstrip("\n"):
            name, _, value = text.partition(": ")
            fields[name] = value
            continue
        if "id" in fields:
            events.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
        fields = {}


def write_files(folder: Path, ports: Mapping[str, int], vendor: str, agents: str) -> None:
    """Write the configuration of each daemon into its folder.

    Runs may use the tools of the server ``tools``, and need approvals for those of ``asking``:
    the same daemon.
    """
    tools = f'url = "http://127.0.0.1:{ports["tools"]}/mcp"\n'
    texts = {
        "gateway": f'[providers.anthropic]\nbase_url = "{vendor}"\napi_key = "{SECRET}"\n',
        "tools": "",
        "agents": f'[mcp.tools]\n{tools}allowed = ["*"]\n[mcp.asking]\n{tools}{agents}',
    }
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / name / "vibe.toml").write_text(text, encoding="utf-8")


@asynccontextmanager
async def running(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    vendor: str = "",
    simulate: str = "",
    agents: str = "",
    **variables: str,
) -> AsyncIterator[Trio]:
    """Run the three daemons; kill them in the end.

    Args:
        folder: An empty folder.
        monkeypatch: Sets the answers of the simulator.
        vendor: The address of a vendor to use in place of the simulator.
        simulate: The simulator's faults and quirks.
        agents: More configuration of the agents daemon.
        variables: Environment variables of the daemons.
    """
    monkeypatch.setattr(answering, "respond", play)
    ports = {name: find_port() for name in NAMES}
    options = {
        "gateway": (),
        "tools": ("--tools", "shell", "--allow", "all"),
        "agents": ("--gateway", f"http://127.0.0.1:{ports['gateway']}"),
    }
    daemons = {name: Daemon(name, ports[name], options[name]) for name in NAMES}
    async with Simulator(simulate) as simulator, aiohttp.ClientSession() as session:
        write_files(folder, ports, vendor or simulator.url, agents)
        trio = Trio(folder, daemons, session, simulator, variables)
        try:
            await trio.start(*NAMES)
            yield trio
        finally:
            for each in daemons.values():
                if each.running is not None:
                    await each.end()
