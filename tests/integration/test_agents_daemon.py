"""``vibe serve agents`` as a process, which is killed, before a gateway that comes late."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.network.ports import find_port
from support.runs.acting import invoke, say
from support.screens.command_line import produce_environment
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.agents.refusing import refuse_foreign
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.mcp.settings import McpServer


def pay() -> str:
    """Pays."""
    return "paid"


@asynccontextmanager
async def running(folder: Path, *options: str) -> AsyncIterator[str]:
    """Runs the daemon; kills it in the end."""
    (folder / "agents.toml").touch()
    environment = produce_environment(folder, VIBE_LLMS_CONFIG=str(folder / "agents.toml"))
    port = find_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vibe_llms", "serve", "agents", "--port", str(port), *options),
        env=environment,
        cwd=folder,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"Agents daemon on " not in (line := await process.stderr.readline()):
                assert line, "it did not start"
        assert f" on http://127.0.0.1:{port} " in line.decode()  # as `--address` takes it
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def watch_for(session: aiohttp.ClientSession, url: str, word: str) -> Any:
    """Watches a run until something happens; returns its line."""
    async with asyncio.timeout(60), session.get(url) as answer:
        found = False
        async for line in answer.content:
            if found:
                return json.loads(line.removeprefix(b"data: "))
            found = line == f"event: {word}\n".encode()
    raise AssertionError(f"{word} was not told")


@pytest.mark.slow
async def test_a_run_outlives_its_daemon_and_waits_for_its_gateway(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    port = find_port()
    gateway = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as session:
        async with running(tmp_path, "--gateway", gateway) as url:
            body = {"model": "remote:scripted:echo", "input": "Hello?"}
            async with session.post(f"{url}/runs", json=body) as answer:
                assert answer.status == 201, await answer.text()
                run_id = (await answer.json())["id"]
            line = await watch_for(session, f"{url}/runs/{run_id}/events", "run.retried")
            assert line["event"]["attempt"] == 1
            for name in ("host", "origin"):
                foreign = {name: "https://evil.example" if name == "origin" else "evil.example"}
                async with session.post(f"{url}/runs", json=body, headers=foreign) as answer:
                    assert answer.status == 403, name
            for model in ("scripted:echo", "openai_conversations:gpt-4o"):
                async with session.post(f"{url}/runs", json={**body, "model": model}) as answer:
                    assert answer.status == 400
                    assert "run.model" in await answer.text()
        configuration = load_configuration(
            environment={"HOME": str(tmp_path / "far")},
            working_directory=tmp_path / "far",
            command_line={"model": "scripted:echo"},
        )
        far = produce_service(Application(configuration))
        async with (
            Server(far, ServerSettings(port=port)),
            running(tmp_path, "--gateway", gateway) as url,
        ):
            line = await watch_for(session, f"{url}/runs/{run_id}/events", "run.completed")
            assert line["event"]["reason"] == "answered", line
            # Without a model, the gateway's default is asked.
            async with session.post(f"{url}/runs", json={"input": "Hello?"}) as answer:
                assert answer.status == 201, await answer.text()
                told = await answer.json()
            assert told["model"] == "remote"
            watched = f"{url}/runs/{told['id']}/events"
            line = await watch_for(session, watched, "run.completed")
            assert line["event"]["reason"] == "answered", line


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[providers.anthropic]\napi_key = "k"\n', "anthropic"),
        ('[providers.remote]\nmodule = "vibe_llms.providers.anthropic"\n', "remote"),
        ('[ensembles.io]\nroot = "."\n', "io"),
    ],
)
def test_it_refuses_what_must_not_be_there(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "vibe.toml"
    allowed = '[providers.remote]\nbase_url = "http://gateway"\n[mcp.near]\ncommand = ["serve"]\n'
    path.write_text(allowed)
    environment = {"HOME": str(tmp_path), "VIBE_LLMS_CONFIG": str(path)}
    refuse_foreign(load_configuration(environment=environment, working_directory=tmp_path))
    path.write_text(text)
    configuration = load_configuration(environment=environment, working_directory=tmp_path)
    with pytest.raises(ConfigurationError, match=rf"vibe\.toml:2.*{named}"):
        refuse_foreign(configuration)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "flow"])
async def test_its_servers_stay_connected_from_one_run_to_the_next(
    tmp_path: Path, kind: str
) -> None:
    """And from one approval to the next; runs of others have connections of their own."""
    connected: list[str] = []

    class Bank:
        name = "bank"
        server = McpServer(name="bank", url="https://bank.example")

        async def connect(self) -> None:
            connected.append("bank")

        async def disconnect(self) -> None:
            connected.append("gone")

        async def survey(self) -> list[Any]:
            return [produce_invoker(pay, effect="once", needs_approval=True)]

        def listen(self, listener: Any) -> None:
            pass

    async with serving(tmp_path, Bank()) as daemon:
        for _ in range(3):
            spec = daemon.premises.spec([invoke("pay")], [say("Done.")]).export()
            said: dict[str, Any] = {**spec, "input": "Pay."}
            if kind == "flow":
                task = compose_task("START --> T[/pay/] --> P0 --> END", "Done.")
                said = {"task": task, "ensembles": ["any"]}
            status, run = await daemon.ask("POST", "/runs", said)
            assert status == 201, run
            await daemon.premises.wait(run["id"], "waiting")
            _, told = await daemon.ask("GET", f"/runs/{run['id']}/approvals")
            (waiting,) = told["data"]
            answer = {"digest": waiting["request"]["digest"], "decision": "allow"}
            status, _ = await daemon.ask("POST", f"/runs/{run['id']}/approvals", answer)
            assert status == 200
            await daemon.premises.wait(run["id"], "ended")
    assert connected == ["bank", "gone"]


async def test_a_run_has_the_instructions_and_the_controls_of_its_skills(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        _, listed = await daemon.ask("GET", "/skills")
        (offer,) = [each for each in listed["data"] if each["name"] == "plain-words"]
        assert (offer["source"], offer["problem"]) == ("built-in", "")
        spec = {"model": "scripted:echo", "skills": ["plain-words"]}
        more = {"input": "Hello", "controls": {"temperature": 0.5}}
        _, run = await daemon.ask("POST", "/runs", {**spec, **more})
        await daemon.premises.wait(run["id"], "ended")
        _, told = await daemon.ask("GET", f"/conversations/{run['id']}")
        assert [each["role"] for each in told["data"]] == ["supervisor", "user", "assistant"]
        assert "plain words" in told["data"][0]["content"][0]["text"]
        assert told["data"][1]["content"][0]["text"] == "Hello"
        for skills in (["plain-wrods"], ["../x.toml"], [5], "plain-words"):
            body = {**spec, "input": "Hello", "skills": skills}
            status, refused = await daemon.ask("POST", "/runs", body)
            assert (status, "skill" in refused["error"]["message"]) == (400, True), skills
        # an invalid control ends the run, not its worker
        for controls in ({"temperature": "hot"}, {"": None}, {"temperature": {"a": [1]}}):
            body = {"model": "scripted:echo", "input": "Hello", "controls": controls}
            status, run = await daemon.ask("POST", "/runs", body)
            if status == 201:
                assert (await daemon.premises.wait(run["id"], "ended")).reason == "failed"
