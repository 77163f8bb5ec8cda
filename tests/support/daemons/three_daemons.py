"""The three daemons as processes: a gateway before a simulator, agents before that, and tools."""

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

from support.gateways.gateways import find_port
from support.gateways.hostile_upstreams import find_environment
from vibe_llms.dialects.history import NO_RESULT, NOT_BEGUN
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator, answering
from vibe_llms.testing.simulator.behaviour import respond
from vibe_llms.testing.simulator.prompts import SimulatedPrompt

SECRET: Final = "sk-of-the-vendor"
MODEL: Final = "anthropic:claude-sonnet-4-5"
NAMES: Final = ("gateway", "tools", "agents")
_TOLD: Final = {"gateway": "Gateway on ", "tools": "Tools on ", "agents": "Agents daemon on "}


def play(prompt: SimulatedPrompt) -> ScriptedAnswer:
    """Says what a model would that has a job of some steps, each of which writes its name down.

    By what was said alone, so that any number of runs may go on at once, and any step again.
    """
    found = re.findall(r"Job (\w+) of (\d+)", prompt.prefix)
    if not found:
        return respond(prompt)
    (job, steps), step = found[-1], count_results(prompt.prefix)
    if step == int(steps):
        return ScriptedAnswer(parts=(Say(f"Job {job} is done."),))
    name = f"{job}-{step}"
    # It takes some time before and behind its effect, in which it can be killed.
    command = {"command": f"sleep 0.05 && echo {name} >>noted && sleep 0.05"}
    return ScriptedAnswer(parts=(Invoke("run_command", command, id=name),))


def read_jobs(simulator: Simulator) -> Counter[str]:
    """Counts how often a vendor was asked for each step of each job."""
    asked: Counter[str] = Counter()
    for request in simulator.requests:
        written = json.dumps(request.body)
        if found := re.findall(r"Job (\w+) of \d+", written):
            asked[f"{found[-1]}-{count_results(written)}"] += 1
    return asked


def count_results(written: str) -> int:
    """Count what was executed, as a vendor is told; calls of an answer that broke off were not."""
    unknown = written.count(NO_RESULT) + written.count(NOT_BEGUN)
    return written.count('"tool_result"') - unknown


@attrs.define
class Daemon:
    """One of the three.

    Attributes:
        printed: What it has said so far.
    """

    name: str
    port: int
    options: Sequence[str]
    running: asyncio.subprocess.Process | None = None
    printed: list[str] = attrs.field(factory=list)
    listening: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self.running is not None
        return self.running.pid

    async def start(self, folder: Path, more: Mapping[str, str]) -> None:
        """Starts it, and waits until it answers."""
        self.running = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vibe_llms", "serve", self.name, "--port", str(self.port)),
            *self.options,
            cwd=folder / self.name,
            env={**find_environment(folder / self.name), **more},
            stderr=PIPE,
        )
        async with asyncio.timeout(60):
            assert process.stderr is not None
            while _TOLD[self.name] not in (line := (await process.stderr.readline()).decode()):
                self.printed.append(line)
                assert line, "".join(self.printed)
        self.listening = asyncio.create_task(self._listen(process.stderr))

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.printed.append(line.decode("utf-8", "replace"))

    async def end(self, *, kill: bool = True) -> int:
        """Ends it, at once or as a signal asks it to; returns its exit code."""
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
    """All three, and a client of them.

    Attributes:
        variables: Of each daemon's environment, besides those of its folder.
        is_full: Whether the agents daemon has no room to write to, and may say so.
    """

    folder: Path
    daemons: dict[str, Daemon]
    session: aiohttp.ClientSession
    simulator: Simulator
    variables: Mapping[str, str] = attrs.field(factory=dict)
    is_full: bool = False

    @property
    def url(self) -> str:
        """Where runs are asked for."""
        return self.daemons["agents"].url

    async def start(self, *names: str) -> None:
        """Starts some of them."""
        daemons = [self.daemons[name] for name in names]
        await asyncio.gather(*(each.start(self.folder, self.variables) for each in daemons))

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Asks the agents daemon until it answers, whatever becomes of it; returns the answer.

        Raises:
            AssertionError: It refuses.
        """
        headers = {name.replace("_", "-"): text for name, text in headers.items()}
        while True:
            was_full = self.is_full
            try:
                async with self.session.request(
                    method, self.url + path, json=body, headers=headers
                ) as answer:
                    told = await answer.json()
                    # It leaves, or could not write down what was said.
                    if answer.status == 503 or (
                        answer.status == 500 and (was_full or self.is_full)
                    ):
                        raise aiohttp.ClientConnectionError
            except (aiohttp.ClientError, ConnectionError):
                await asyncio.sleep(0.05)
                continue
            if answer.status == 409 and path.endswith("/approvals"):
                return told
            assert answer.status < 300, told
            return told

    async def begin(self, job: str, steps: int, **more: Any) -> str:
        """Asks for a run that has a job; returns its id."""
        body = {"model": f"remote:{MODEL}", "ensembles": ["tools"]}
        body |= {"input": f"Job {job} of {steps}", **more}
        return str((await self.ask("POST", "/runs", body, Idempotency_Key=job))["id"])

    async def watch(self, run_id: str, told: list[Any]) -> None:
        """Watches a run until it has ended, coming back wherever it is cut off by the last id."""
        url = f"{self.url}/runs/{run_id}/events?follow=false"
        while not (told and told[-1][1] == "run.completed" and _is_over(told[-1][2])):
            headers = {"Last-Event-ID": str(told[-1][0])} if told else {}
            with suppress(aiohttp.ClientError, ConnectionError):
                async with self.session.get(url, headers=headers) as answer:
                    if answer.status == 200:
                        await read_frames(answer.content, told)
                    else:
                        assert answer.status == 503, await answer.text()
            await asyncio.sleep(0.05)

    async def allow_all(self, run_id: str) -> None:
        """Allows whatever a run asks for, until it has ended."""
        path = f"/runs/{run_id}"
        while (await self.ask("GET", path))["state"] != "ended":
            for each in (await self.ask("GET", f"{path}/approvals"))["data"]:
                said = {"digest": each["request"]["digest"], "decision": "allow"}
                await self.ask("POST", f"{path}/approvals", said)
            await asyncio.sleep(0.05)

    def read_noted(self) -> Counter[str]:
        """Counts what has taken effect."""
        path = self.folder / "tools" / "noted"
        return Counter(path.read_text().split() if path.exists() else ())


def _is_over(line: Any) -> bool:
    """Tells whether a run goes on no more; one whose host has left does."""
    return bool(line["event"]["reason"] != "cancelled")


async def read_frames(content: aiohttp.StreamReader, told: list[Any]) -> None:
    """Adds number, word and line of each event that has come whole."""
    fields: dict[str, str] = {}
    async for line in content:
        if text := line.decode().rstrip("\n"):
            name, _, value = text.partition(": ")
            fields[name] = value
            continue
        if "id" in fields:
            told.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
        fields = {}


def write_files(folder: Path, ports: Mapping[str, int], vendor: str, agents: str) -> None:
    """Writes a configuration for each daemon, which has a folder of its own.

    Runs may do what the server ``tools`` has, and have to ask for what ``asking`` has: the same.
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
    """Runs the three, and kills them in the end.

    Args:
        vendor: The address of another vendor than the simulator.
        simulate: The simulator's faults and quirks.
        agents: What is configured besides where runs are.
        variables: Of the daemons' environment.
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
