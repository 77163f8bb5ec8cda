"""Runs in the store of a plugin: made, watched, spoken to, approved and resumed by others."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from support.daemons.run_daemons import serving
from support.network.ports import find_port
from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from support.screens.command_line import VIBE, produce_environment
from vibe_llms import Application, Conversation, Engine, invocable
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import ConversationStore, DirectoryStore
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.plugins.plugged import PluggedStore
from vibe_llms.runs.copying import copy_store

EXAMPLES = Path(__file__).parents[1] / "fixtures" / "example-plugins"

OTHER_PROGRAM = """
import asyncio, sys
from vibe_llms import Application, Conversation, Engine, invocable

@invocable(effect="once", needs_approval=True)
def pay(cents: int) -> str:
    '''Pays.'''
    with open("paid.txt", "a") as file:
        file.write(f"{cents}\\n")
    return "paid"

async def main():
    store = Application.load().store
    conversation = Conversation.restore(store, sys.argv[1])
    async with Engine("scripted:script.toml", [pay], store=store) as engine:
        outcome = await engine.answer(conversation)
    print(outcome.reason, outcome.text)

asyncio.run(main())
"""


@invocable(effect="once", needs_approval=True)
def pay(cents: int) -> str:
    """Pays."""
    return f"paid {cents}"


@pytest.fixture(params=["sqlite", "ledger"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConversationStore]:
    """The store of a plugin, which the user has chosen: its logs are files, or rows of its own."""
    monkeypatch.syspath_prepend(EXAMPLES)
    file = tmp_path / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    module = f"{request.param}_store"
    file.write_text(f'store = "{request.param}"\n[plugins.{module}]\nmodule = "{module}"\n')
    configuration = load_configuration(
        environment={"HOME": str(tmp_path)}, working_directory=tmp_path
    )
    found = Application(configuration).store
    assert isinstance(found, PluggedStore)
    yield found
    assert not (tmp_path / ".local/share/vibe-llms/conversations").exists()


def perform(home: Path, *command: str) -> str:
    """Performs a command in a process of its own; returns what it says."""
    plugins = os.pathsep.join([str(EXAMPLES), produce_environment(home)["PYTHONPATH"]])
    done = subprocess.run(
        command,
        cwd=home,
        env=produce_environment(home, PYTHONPATH=plugins),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
async def test_other_processes_speak_to_a_run_and_resume_it(
    tmp_path: Path, store: ConversationStore
) -> None:
    """The command lists, approves, sends and watches; another program goes on, once."""
    write_script(
        tmp_path,
        {"contents": [invoke("pay", cents=100)]},
        {"contents": [say("It is paid.")]},
        {"contents": [say("Goodbye.")]},
    )
    conversation = Conversation()
    conversation.add_user_message("Pay, please.")
    async with Engine(f"scripted:{tmp_path / 'script.toml'}", [pay], store=store) as engine:
        outcome = await engine.answer(conversation)
    assert len(outcome.requests) == 1
    identity = conversation.id

    (row,) = json.loads(perform(tmp_path, *VIBE, "runs", "list", "--json"))
    assert (row["id"], row["state"]) == (identity, "waiting")
    perform(tmp_path, *VIBE, "runs", "approve", identity, "--allow")
    perform(tmp_path, *VIBE, "runs", "send", identity, "And be quick.")
    assert not (tmp_path / "paid.txt").exists()
    (tmp_path / "other.py").write_text(OTHER_PROGRAM)
    told = perform(tmp_path, sys.executable, "other.py", identity)

    assert told.startswith("answered "), told
    assert (tmp_path / "paid.txt").read_text() == "100\n"
    said = [text_of(each) for each in store.read(identity).canisters]
    assert "And be quick." in said
    assert said[-1] == told.removeprefix("answered ").strip()
    watched = perform(tmp_path, *VIBE, "runs", "watch", identity)
    assert "pay" in watched
    assert perform(tmp_path, sys.executable, "other.py", identity).startswith("answered ")
    assert (tmp_path / "paid.txt").read_text() == "100\n"


@pytest.mark.slow
async def test_the_daemon_of_one_engine_goes_on_where_that_of_another_was(
    tmp_path: Path, store: ConversationStore
) -> None:
    """Over HTTP: a run waits, is watched, gets a message and an approval, and ends elsewhere."""
    paid: list[int] = []

    @invocable(effect="once", needs_approval=True)
    def pay(cents: int) -> str:
        """Pays."""
        paid.append(cents)
        return "paid"

    async with serving(tmp_path, pay, seconds=60, shared=store) as daemon:
        run_id = await daemon.start([invoke("pay", cents=5)], [say("It is paid.")])
        last = 0
        async with daemon.session.get(f"{daemon.url}/runs/{run_id}/events") as told:
            async for line in told.content:
                if line.startswith(b"id: "):
                    last = int(line[4:])
                elif line == b"event: approval.requested\n":
                    break
        await daemon.premises.wait(run_id, "waiting")

    async with serving(tmp_path, pay, seconds=60, shared=store) as daemon:
        assert (await daemon.ask("GET", f"/runs/{run_id}"))[1]["state"] == "waiting"
        (request,) = (await daemon.ask("GET", f"/runs/{run_id}/approvals"))[1]["data"]
        status, told = await daemon.ask(
            "POST", f"/runs/{run_id}/messages", {"content": "And be quick."}
        )
        assert status == 200, told
        answer = {"digest": request["request"]["digest"], "decision": "allow"}
        status, told = await daemon.ask("POST", f"/runs/{run_id}/approvals", answer)
        assert status == 200, told
        await daemon.premises.wait(run_id, "ended")
        words = [word for _, word, _ in await daemon.watch(run_id, after=str(last))]

    assert "run.completed" in words
    assert paid == [5]
    said = [text_of(each) for each in store.read(run_id).canisters]
    assert {"And be quick.", "It is paid."} <= set(said)


@pytest.mark.slow
async def test_the_daemon_as_a_process_keeps_its_runs_there(
    tmp_path: Path, store: ConversationStore
) -> None:
    """``vibe serve agents`` takes the configured store; what it did is read by others."""
    (tmp_path / "far").mkdir()
    configuration = load_configuration(
        environment={"HOME": str(tmp_path / "far")},
        working_directory=tmp_path / "far",
        command_line={"model": "scripted:echo"},
    )
    ports = [find_port(), find_port()]
    path = os.pathsep.join([str(EXAMPLES), produce_environment(tmp_path)["PYTHONPATH"]])
    gateway = produce_service(Application(configuration))
    options = ("--port", str(ports[1]), "--gateway", f"http://127.0.0.1:{ports[0]}")
    async with Server(gateway, ServerSettings(port=ports[0])), aiohttp.ClientSession() as session:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vibe_llms", "serve", "agents", *options),
            env=produce_environment(tmp_path, PYTHONPATH=path),
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(60):
                while b"Agents daemon on " not in (line := await process.stderr.readline()):
                    assert line, "it did not start"
                url = f"http://127.0.0.1:{ports[1]}/runs"
                async with session.post(url, json={"input": "Hello?"}) as answer:
                    assert answer.status == 201, await answer.text()
                    run_id = (await answer.json())["id"]
                async with session.get(f"{url}/{run_id}/events") as told:
                    async for line in told.content:
                        if line == b"event: run.completed\n":
                            break
        finally:
            process.kill()
            await process.wait()

    (row,) = json.loads(perform(tmp_path, *VIBE, "runs", "list", "--json"))
    assert (row["id"], row["state"]) == (run_id, "ended")
    assert text_of(store.read(run_id).canisters[-1]) == "Hello?"


@pytest.mark.slow
async def test_a_run_that_waits_is_copied_with_its_log_and_its_inbox(
    tmp_path: Path, store: ConversationStore
) -> None:
    """From there to another store and back."""
    write_script(tmp_path, {"contents": [invoke("pay", cents=100)]})
    conversation = Conversation()
    conversation.add_user_message("Pay, please.")
    async with Engine(f"scripted:{tmp_path / 'script.toml'}", [pay], store=store) as engine:
        await engine.answer(conversation)
    perform(tmp_path, *VIBE, "runs", "send", conversation.id, "And be quick.")
    other, identity = DirectoryStore(tmp_path / "other"), conversation.id

    copy_store(store, other)
    events, messages = other.open_log(identity).read(), other.open_inbox(identity).read()
    store.delete(identity)
    copy_store(other, store)

    assert [each.event for each in store.open_log(identity).read()] == [
        each.event for each in events
    ]
    assert list(store.open_inbox(identity).read()) == list(messages)
    assert UserCanister("Pay, please.").content == store.read(identity).canisters[0].content
