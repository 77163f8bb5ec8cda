"""MCP servers that die, hang, flood and speak garbage: told in words, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.mcp.mcp_servers import FIXTURES, call, describe_server
from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import Registry, measure_schemas
from vibe_llms.invocables.mcp import McpEnsemble
from vibe_llms.invocables.mcp.kit import load_kit


def describe(manner: str = "plain", **fields: Any) -> McpEnsemble:
    """Returns the ensemble of a faulty server."""
    return McpEnsemble(
        describe_server(manner, file="faulty.py", **fields), limits=Limits(event_bytes=1_000_000)
    )


@contextlib.asynccontextmanager
async def connect(manner: str = "plain", **fields: Any) -> AsyncIterator[Registry]:
    """Connects a faulty server."""
    async with Registry([describe(manner, **fields)]) as registry:
        yield registry


@pytest.mark.slow
async def test_a_call_in_which_the_server_dies_says_so_and_the_next_one_is_served() -> None:
    """It names how the server ended and what it said last, and that the call may have worked."""
    async with connect() as registry:
        died = await call(registry, "die")
        after = await call(registry, "echo", word="again")

    assert died.is_error
    assert "was killed by signal 9; its last output: I am dying" in died.text
    assert "is being started again. The call may have taken effect." in died.text
    assert after.text == '{"word": "again"}'


@pytest.mark.slow
async def test_a_restarted_server_is_surveyed_again() -> None:
    """Its tools may be others now, so the registry is told."""
    async with connect() as registry:
        await call(registry, "die")
        await call(registry, "echo")

        assert await registry.refresh()
        assert not registry.failures


async def test_a_server_that_dies_too_often_is_given_up() -> None:
    """After the restarts that are allowed, calls are refused at once, and say why."""
    async with connect(restarts=1) as registry:
        await call(registry, "die")
        await call(registry, "die")
        refused = await call(registry, "echo")

    assert refused.is_error
    assert refused.text.startswith("echo was not called. The MCP server 'workshop' cannot be used")


async def test_a_server_that_was_given_up_is_tried_again_when_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some time later a call brings it back, if it can be."""
    monkeypatch.setattr("vibe_llms.invocables.owners.RETRY_SECONDS", 0.0)
    async with connect(restarts=0) as registry:
        await call(registry, "die")
        back = await call(registry, "echo", word="back")

    assert back.text == '{"word": "back"}'


@pytest.mark.slow
async def test_a_call_in_which_the_server_hangs_ends_with_its_time() -> None:
    """The server stays: other calls are answered meanwhile and afterwards."""
    async with connect(call_seconds=2) as registry:
        hung, answered = await asyncio.gather(call(registry, "hang"), call(registry, "echo"))

        assert "exceeded its time limit of 2 seconds" in hung.text
        assert not answered.is_error
        assert not (await call(registry, "echo")).is_error


async def test_a_result_against_its_own_schema_is_an_error() -> None:
    """What does not fit the schema that the server itself gave is not passed on as if it did."""
    async with connect() as registry:
        outcome = await call(registry, "lie")

    assert outcome.is_error
    assert "result.truth: is required" in outcome.text
    assert "may have taken effect" in outcome.text


@pytest.mark.slow
async def test_schemas_that_take_for_ever_hold_neither_a_call_nor_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither that of the arguments nor that of the results, which the official package leaves."""
    monkeypatch.setattr("vibe_llms.invocables.validator_process.VALIDATOR_SECONDS", 0.5)
    async with connect() as registry:
        refused = await call(registry, "trap", bait="a" * 50 + "!")
        lied = await call(registry, "trap")
        after = await call(registry, "echo", word="again")

    assert refused.is_error
    assert refused.text.startswith("Cannot apply the schema of trap")
    assert '$.properties.bait.pattern ("^(a+)+$")' in refused.text
    assert lied.is_error
    assert "Cannot apply the schema of the results of 'trap' of workshop" in lied.text
    assert "It may have taken effect." in lied.text
    assert after.text == '{"word": "again"}'


async def test_half_a_character_does_not_leave_a_call_without_its_answer() -> None:
    """The sign for what cannot be read takes its place."""
    async with connect() as registry:
        outcome = await call(registry, "half")

    assert outcome.text == "caf\ufffd"


async def test_a_result_of_very_many_contents_is_cut() -> None:
    """The model is told how many there were."""
    async with connect() as registry:
        outcome = await call(registry, "crowd")

    assert len(outcome.contents) == 1_000
    assert outcome.text.endswith("x[19001 more contents left out]")


async def test_a_message_beyond_the_limit_ends_the_server_and_not_us() -> None:
    """The error names the limit; the server is started again."""
    async with connect() as registry:
        outcome = await call(registry, "huge")

        assert "more than event_bytes = 1,000,000 bytes" in outcome.text
        assert not (await call(registry, "echo")).is_error


async def test_an_error_of_the_protocol_is_told() -> None:
    """The server's own words reach the model, in one sentence."""
    async with connect() as registry:
        outcome = await call(registry, "wrong")

    assert outcome.text.startswith(
        "The MCP server 'workshop' cannot perform 'wrong': it is all wrong."
    )


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["garbage", "loud", "slow", "odd", "pages"])
async def test_what_can_be_borne_is(manner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stray lines, megabytes of log, a slow start, odd tools and endless pages hinder nobody."""
    monkeypatch.setattr("vibe_llms.invocables.mcp.resources.PAGES_LIMIT", 5)
    async with connect(manner) as registry:
        assert (await call(registry, "echo", word=manner)).text == f'{{"word": "{manner}"}}'
        names = [each.invoker.name for each in registry.survey()]

    assert len(names) == len(set(names)) == (1 if manner == "pages" else 9)


async def test_a_bad_tool_does_not_take_the_others_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What can be meant is offered, mended; of the rest each is named in a warning."""
    async with connect("nulls") as registry:
        names = [each.invoker.name for each in registry.survey()]
        schemas = {each.invoker.name: each.invoker.schema for each in registry.survey()}
        answered = [(await call(registry, each)).text for each in ("null", "empty", "missing")]
        odd = [(await call(registry, each, a="x")).is_error for each in ("lost", "pattern")]

    assert names[:4] == ["echo", "null", "empty", "untyped"]
    assert names[-1] == "die"
    assert schemas["null"] == schemas["empty"] == {"type": "object"}
    assert answered == ["{}"] * 3
    assert odd == [True, True]  # and no exception
    left_out = [record.getMessage() for record in caplog.records if "left out" in record.message]
    assert {"nulled", "lost"} <= {*names}
    for name in ("(five)", "(text)", "(listed)", "(worded)", "(7)"):
        assert sum(name in message for message in left_out) == 1, (name, left_out)
    assert "echo" not in str(left_out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("dead", "it exited with status 1; its last output: no licence found"),
        ("flood", "it wrote more than 1000 lines that are not messages"),
        ("endless", "it sent a message of more than event_bytes = 1,000,000 bytes"),
        ("future", "Unsupported protocol version from the server: 2099-01-01"),
        ("parting", "Unsupported protocol version from the server: 2099-01-01"),
        ("mute", "it was not ready within 0.5 seconds"),
    ],
)
async def test_what_cannot_be_borne_is_told_when_connecting(manner: str, words: str) -> None:
    """The error names the server and what it did; there is nothing to disconnect."""
    await load_kit()
    seconds = 0.5 if manner == "mute" else 20

    with pytest.raises(EnsembleError) as caught:
        async with connect(manner, connect_seconds=seconds):
            pass

    assert str(caught.value).startswith("The MCP server 'workshop' cannot be connected: ")
    assert words in str(caught.value)


async def test_a_program_that_is_not_there_is_told_with_its_remedy() -> None:
    """It says which program, and where it was named."""
    with pytest.raises(EnsembleError, match=r"'no-such-program' is not on the path.*\[mcp\.work"):
        async with connect(command="no-such-program"):
            pass


@pytest.mark.slow
async def test_a_server_sees_no_variables_that_are_not_meant_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys in our environment stay with us; those given to the server arrive."""
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    ensemble = McpEnsemble(describe_server(environment={"ITS_KEY": "its own"}))
    async with Registry([ensemble]) as registry:
        assert (await call(registry, "reveal", variable="OPENAI_API_KEY")).text == "is not there"
        assert (await call(registry, "reveal", variable="ITS_KEY")).text == "its own"


async def test_a_server_does_not_tell_its_secrets_through_us(tmp_path: Path) -> None:
    """What it was given and says again is struck out of errors and of its log."""
    log = tmp_path / "log"
    with pytest.raises(EnsembleError, match="no licence found for the key") as caught:
        async with connect("dead", environment={"ITS_KEY": "hush-hush-hush"}, log_path=log):
            pass

    assert "hush" not in str(caught.value)
    assert "no licence found" in log.read_text()
    assert "hush" not in log.read_text()


@pytest.mark.slow
async def test_what_a_server_says_is_kept_in_a_bounded_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file begins anew when it is full; its end is the end of what was said."""
    monkeypatch.setattr("vibe_llms.processes.outputs.LOG_BYTES", 100_000)
    log = tmp_path / "deeper" / "server.log"
    async with connect("loud", log_path=log):
        for _ in range(1_200):
            if log.exists() and log.read_text().endswith("the last words\n"):
                break
            await asyncio.sleep(0.05)

        assert log.read_text().endswith("the last words\n")
        assert log.stat().st_size <= 100_000 + 65_536


@pytest.mark.slow
async def test_of_a_lazy_server_a_model_is_told_what_it_has_found() -> None:
    """The search costs less than all tools; what it finds can be called after a refresh."""
    ensemble = describe(lazy=True)
    async with Registry([ensemble]) as registry:
        shown = [each.invoker for each in registry.survey()]
        found = await call(registry, "search_tools", query="says")

        assert [each.name for each in shown] == ["search_tools"]
        assert measure_schemas(shown).tokens < measure_schemas(ensemble.tools).tokens
        assert found.text == "echo: Says what it is told."
        assert await registry.refresh()
        assert (await call(registry, "echo", word="found")).text == '{"word": "found"}'
        await call(registry, "search_tools", query="ends")
        await registry.refresh()
        await call(registry, "die")
        await call(registry, "echo")
        await registry.refresh()
        names = [each.invoker.name for each in registry.survey()]
        assert names == ["search_tools", "echo", "die"]


async def test_an_ensemble_can_be_connected_again() -> None:
    """As a chat does, whose runs each connect what they need."""
    ensemble = describe()
    for word in ("first", "second"):
        async with Registry([ensemble]) as registry:
            assert (await call(registry, "echo", word=word)).text == f'{{"word": "{word}"}}'


async def test_cancelling_a_connect_ends_the_program(tmp_path: Path) -> None:
    """A program that was just started is ended, too."""
    await load_kit()
    before = set(psutil.Process().children(recursive=True))
    task = asyncio.create_task(describe("mute").connect())
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not await _survive(set(psutil.Process().children(recursive=True)) - before)


async def test_a_stubborn_server_and_what_it_started_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores the end of its input and the request to end; its own program does, too."""
    monkeypatch.setattr("vibe_llms.invocables.mcp.stdio.CLOSING_SECONDS", 0.2)
    monkeypatch.setattr("vibe_llms.invocables.mcp.stdio.GRACE_SECONDS", 0.2)
    note = tmp_path / "pids"
    arguments = (str(FIXTURES / "faulty.py"), "stubborn", str(note))
    async with connect(arguments=arguments):
        pids = [int(word) for word in note.read_text().split()]
        assert all(psutil.pid_exists(pid) for pid in pids)

    assert not await _survive({psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)})


async def _survive(processes: set[psutil.Process]) -> list[psutil.Process]:
    """Returns those that still run after a while."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, 60)
    return [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kill -9 of ours is followed on Linux")
def test_no_server_outlives_us_when_we_are_killed(tmp_path: Path) -> None:
    """After kill -9 of the process that started it, a stubborn server ends with all its own."""
    note = tmp_path / "pids"
    program = f"""
        import asyncio, sys
        sys.path.insert(0, {str(FIXTURES.parents[1])!r})
        from test_mcp_faults import connect
        from vibe_llms.invocables.mcp import stdio
        stdio.GRACE_SECONDS = 0.2
        async def main():
            arguments = ({str(FIXTURES / "faulty.py")!r}, "stubborn", {str(note)!r})
            async with connect(arguments=arguments):
                print("connected", flush=True)
                await asyncio.sleep(600)
        asyncio.run(main())
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
    }
    ours = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, env=environment
    )
    assert ours.stdout is not None
    assert ours.stdout.readline() == b"connected\n"
    processes = [psutil.Process(int(word)) for word in note.read_text().split()]

    ours.send_signal(signal.SIGKILL)
    ours.wait()
    ours.stdout.close()

    _, alive = psutil.wait_procs(processes, 60)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
async def test_nothing_is_left_after_any_of_it() -> None:
    """No task, thread, descriptor or process stays, whatever happened to the server."""
    async with connect() as registry:
        await call(registry, "echo")
    await _settle()
    before = _count()

    for manner in ("plain", "garbage"):
        async with connect(manner, call_seconds=0.2) as registry:
            await asyncio.gather(call(registry, "hang"), call(registry, "echo"))
            await call(registry, "die")
            await call(registry, "echo")
            task = asyncio.create_task(call(registry, "hang"))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait({task})
    with pytest.raises(EnsembleError):
        async with connect("dead"):
            pass
    await _settle()

    assert _count() == before


async def _settle() -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = [thread.name for thread in threading.enumerate()]
        if not any("waitpid" in name or name == "vibe-llms-invocable" for name in names):
            break
        await asyncio.sleep(0.05)


def _count() -> dict[str, int]:
    gc.collect()
    process = psutil.Process()
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": process.num_fds(),
        "children": len(process.children(recursive=True)),
        "threads": sum("asyncio" not in each.name for each in threading.enumerate()),
    }
