"""``vibe runs`` with an address: the same commands, of a daemon in another process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from support.screens.command_line import produce_environment
from vibe_llms.agents.remote import connect
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.filtering import RunFilter


def pay() -> str:
    """Pays."""
    return "paid"


def test_runs_are_titled_and_filtered_by_the_daemon(premises: Premises, address: str) -> None:
    async def survey() -> None:
        async with connect(address) as runs:
            spec = premises.spec([say("Done.")])
            await runs.start(spec, [UserCanister("Look\naround.")])
            await runs.start(spec, [UserCanister("Go home.")])
            assert {each.title for each in await runs.survey()} == {"Look around.", "Go home."}
            wanted = RunFilter(query="AROUND loo", since=datetime(2020, 1, 1, tzinfo=UTC))
            assert [each.title for each in await runs.survey(wanted=wanted)] == ["Look around."]
            assert not await runs.survey(wanted=RunFilter(kind="flow"))

    asyncio.run(survey())


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path, tools=[produce_invoker(pay, effect="once", needs_approval=True)])


@pytest.fixture
def address(premises: Premises) -> Iterator[str]:
    """A daemon in a thread of its own."""
    loop, found, over = asyncio.new_event_loop(), list[str](), asyncio.Event()
    ready = threading.Event()

    async def produce_tools(_: object) -> object:
        return premises.tools

    async def serve() -> None:
        service = produce_service(
            premises.runs.application,
            premises.store,
            produce_tools=produce_tools,  # type: ignore[arg-type]
            hosting=FAST,
        )
        async with Server(service, ServerSettings(port=0)) as server:
            found.append(server.urls[0])
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(60)
    loop.close()


Vibe = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of somebody who has neither a configuration nor runs."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "none.toml").touch()
    return produce_environment(home, VIBE_LLMS_CONFIG=str(home / "none.toml"))


@pytest.fixture
def vibe(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Vibe:
    """Performs a command in this process: to start one for each takes most of the time."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(environment["HOME"])

    def perform(*words: str) -> subprocess.CompletedProcess[str]:
        code = run(["runs", *words])
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return perform


@pytest.mark.slow
def test_a_run_is_seen_and_spoken_to_elsewhere(
    premises: Premises, address: str, environment: dict[str, str], vibe: Vibe
) -> None:
    there = ("--address", address)
    spec = premises.spec([invoke("pay")], [say("Done.")], [say("More.")])

    async def begin() -> str:
        async with connect(address) as runs:
            return (await runs.start(spec, [UserCanister("Do it.")])).id

    run_id = asyncio.run(begin())
    command = [sys.executable, "-m", "vibe_llms", "runs", "watch", run_id, *there]
    watched = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert "awaits 1 approval" in watched.stdout
    assert f"runs approve {run_id} --address {address}" in watched.stderr
    assert run_id in (listed := vibe("list", *there, "--state", "waiting").stdout)
    assert listed.endswith("\tDo it.\n")  # so that one is told from another, as here
    assert vibe("list").stdout == ""  # this machine has none
    shown = json.loads(vibe("show", run_id[:6], *there, "--json").stdout)
    assert (shown["id"], shown["requests"][0]["name"]) == (run_id, "pay")

    both = vibe("approve", run_id, *there, "--allow", "--deny")
    assert (both.returncode, "contradict each other" in both.stderr) == (2, True)
    for word in ("", "../.."):
        told = vibe("show", word, *there)
        assert told.returncode == ExitCode.NOT_FOUND
        assert f"Unknown run {word!r}." in told.stderr
        assert f"runs list --address {address}" in told.stderr
    elsewhere = vibe("list", "--address", f"{address}/page/")
    assert f"{address}/page is not an agents daemon" in elsewhere.stderr
    assert "not started attached" in vibe("detach", run_id, *there).stderr

    assert vibe("approve", run_id, *there, "--allow").stdout == "Allowed: pay\n"
    assert "pay: paid" in vibe("watch", run_id, *there, "--after", "3").stdout
    late = vibe("approve", run_id, *there, "--allow")
    assert (late.returncode, "pay allowed" in late.stderr) == (1, True)

    assert vibe("send", run_id, "Once more.", *there).stdout == "Sent.\n"
    lines = vibe("watch", run_id, *there, "--json").stdout.splitlines()
    numbers = [json.loads(line)["sequence"] for line in lines]
    assert numbers == [*range(1, len(numbers) + 1)]
    fork = vibe("fork", run_id, *there).stdout.strip()
    assert {run_id, fork} == {each["id"] for each in _list(vibe, there)}
    assert "not active" in vibe("stop", run_id, *there).stderr
    assert vibe("delete", fork, *there).returncode == 0
    assert [each["id"] for each in _list(vibe, there)] == [run_id]


def _list(vibe: Vibe, there: tuple[str, str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(vibe("list", *there, "--json").stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost:8010", "Invalid address of an agents daemon"),
        ("http://127.0.0.1:1", "127.0.0.1:1"),
        (" ", "it is empty."),
    ],
)
def test_what_cannot_be_reached_is_told_in_one_line(vibe: Vibe, address: str, said: str) -> None:
    for words in (["list"], ["show", "any"], ["watch", "any"], ["stop", "any"], ["resume", "any"]):
        told = vibe(*words, "--address", address)
        assert told.returncode not in (0, 1)
        assert told.stdout == ""
        assert said in told.stderr
        assert len(told.stderr.strip().splitlines()) == 1
