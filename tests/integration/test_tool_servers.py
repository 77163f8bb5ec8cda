"""A server of tools and strangers: over pipes and HTTP, with sessions and without."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from support.daemons.tool_servers import (
    ERAS,
    ScriptedUser,
    compose_command,
    compose_environment,
    connect_client,
    describe_program,
    produce_application,
    read_text,
    serve_tools,
)
from support.gateways.gateways import wait_until
from support.mcp.mcp_servers import call
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.tools.refusing import leave_out_providers
from vibe_llms.exceptions import ConfigurationError, ConverseError
from vibe_llms.invocables import Registry
from vibe_llms.invocables.mcp import McpServer
from vibe_llms.invocables.mcp.ensembles import produce_mcp_ensemble


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server is, with a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("The North Sea.\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["pipes", "http"])
async def test_a_stranger_lists_and_calls_what_is_configured(
    folder: Path, way: str, era: str
) -> None:
    """By whatever way and in whatever era: the same tools, hints and answers."""

    async def judge(target: Any) -> None:
        async with connect_client(target, era) as client:
            tools = (await client.list_tools()).tools
            assert [each.name for each in tools][:2] == ["read_file", "list_files"]
            hints = {each.name: each.annotations for each in tools}
            assert (reading := hints["read_file"]) is not None
            assert (reading.read_only_hint, reading.destructive_hint) == (True, False)
            assert (running := hints["run_command"]) is not None
            assert (running.read_only_hint, running.idempotent_hint) == (False, False)
            assert running.destructive_hint is True

            assert read_text(await client.call_tool("read_file", {"path": "notes.txt"})) == (
                "The North Sea.\n"
            )
            wrong = await client.call_tool("read_file", {"pth": "notes.txt"})
            assert wrong.is_error
            assert "did you mean 'path'?" in read_text(wrong)
            with pytest.raises(MCPError, match="did you mean 'read_file'"):
                await client.call_tool("read_fil", {})

    if way == "pipes":
        await judge(describe_program(folder))
    else:
        async with serve_tools(produce_application(folder)) as address:
            await judge(address)


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ScriptedUser(allow=True), "hi\n"),
        (ScriptedUser(allow=False), "was asked and declined"),
        (ScriptedUser("accept"), "lacks 'allow' (true or false)"),
        (ScriptedUser(allow="yes"), "lacks 'allow' (true or false)"),
        (ScriptedUser("decline"), "did not allow it"),
        (None, "--allow run_command"),
    ],
)
async def test_what_needs_an_approval_is_asked_of_the_user_or_refused(
    folder: Path, era: str, answer: ScriptedUser | None, said: str
) -> None:
    """The user sees the arguments whole; nothing is executed without a clear yes."""
    async with (
        serve_tools(produce_application(folder), ensembles=("shell",)) as address,
        connect_client(address, era, elicitation_callback=answer) as client,
    ):
        result = await client.call_tool("run_command", {"command": "echo hi; echo \u202e >made"})

    assert said in read_text(result)
    assert result.is_error is (said != "hi\n")
    assert (folder / "made").exists() is (said == "hi\n")
    if answer is not None:
        assert r"echo hi; echo \u202e >made" in answer.messages.pop()
        answer.messages.clear()


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("allowed", ["run_command", "all"])
async def test_what_is_allowed_needs_no_question(folder: Path, allowed: str, era: str) -> None:
    """What ``--allow`` names, or all; the tests of what is left say it on the command line."""
    async with (
        serve_tools(
            produce_application(folder), ensembles=("shell",), allowed=(allowed,)
        ) as address,
        connect_client(address, era) as client,
    ):
        assert read_text(await client.call_tool("run_command", {"command": "echo a"})) == "a\n"


async def test_an_approval_is_for_the_call_that_was_asked_about(folder: Path) -> None:
    """What the client brings back is sealed; with other arguments it is worth nothing."""
    head = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "run_command",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    answer = {"approval": {"action": "accept", "content": {"allow": True}}}

    async with (
        serve_tools(produce_application(folder), ensembles=("shell",)) as address,
        httpx2.AsyncClient(headers=head) as client,
    ):

        async def ask(command: str, **more: Any) -> Any:
            params = {"name": "run_command", "arguments": {"command": command}, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params | more}
            return (await client.post(address, json=body)).json()

        unasked = await ask("touch a", inputResponses=answer)
        assert unasked["result"]["resultType"] == "input_required"
        state = unasked["result"]["requestState"]
        other = await ask("touch b", inputResponses=answer, requestState=state)
        assert other["error"]["code"] == -32602
        forged = await ask("touch a", inputResponses=answer, requestState=state[:-2] + "xx")
        assert forged["error"]["code"] == -32602
        assert not list(folder.glob("?"))
        done = await ask("touch a", inputResponses=answer, requestState=state)
        assert done["result"]["isError"] is False
        assert [each.name for each in folder.glob("?")] == ["a"]


@pytest.mark.slow
async def test_equal_calls_get_equal_bytes(folder: Path) -> None:
    """Lists and results, however often."""
    requests: list[dict[str, Any]] = [
        {"method": "tools/list"},
        {"method": "tools/call", "params": {"name": "list_files", "arguments": {}}},
    ]
    said = [await converse(folder, *requests) for _ in range(2)]

    assert said[0] == said[1]
    assert len(said[0]) == 3


async def converse(folder: Path, *requests: dict[str, Any], lines: bytes = b"") -> list[bytes]:
    """Opens a session over pipes, asks, and returns the lines that came back."""
    opening = {
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a stranger", "version": "1"},
        },
    }
    said: list[bytes] = []
    async with asyncio.timeout(60):
        program = await start(folder)
        assert program.stdin is not None
        assert program.stdout is not None
        for number, each in enumerate((opening, *requests)):
            message = {"jsonrpc": "2.0", "id": number, **each}
            program.stdin.write(json.dumps(message).encode() + b"\n")
            said.append(await program.stdout.readline())
            if number == 0:
                done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                program.stdin.write(json.dumps(done).encode() + b"\n" + lines)
                said += [await program.stdout.readline() for _ in lines.splitlines()]
        program.stdin.close()
        rest = await program.stdout.read()
        assert rest == b""
        assert await program.wait() == 0
    return said


async def start(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Starts a server over pipes."""
    return await asyncio.create_subprocess_exec(
        *compose_command(*arguments),
        cwd=folder,
        env=compose_environment(folder),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**24,
    )


@pytest.mark.slow
async def test_nonsense_on_the_pipe_is_answered_and_harms_nothing(folder: Path) -> None:
    """A line a complaint, in JSON-RPC; what comes after it is answered."""
    nonsense = [
        b"Good morning",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        b"[" * 100_000,
        b'{"jsonrpc": "1.0", "id": 1}',
    ]
    said = await converse(folder, {"method": "ping"}, lines=b"\n".join(nonsense) + b"\n")

    *complaints, last = said[1:]
    assert len(complaints) == len(nonsense)
    for each in complaints:
        assert json.loads(each)["error"]["code"] in (-32700, -32600), each
        assert not re.search(
            rb"validat|pydantic|a valid", each
        )  # nor whatever the package says of its own classes
    assert json.loads(last)["result"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stdin", "kill", "term"])
async def test_nothing_is_left_when_the_pipe_ends_or_the_server_is_killed(
    folder: Path, end: str
) -> None:
    """A command that was under way ends with the server, whatever ends that."""
    async with asyncio.timeout(60):
        program = await start(folder, "--tools", "shell", "--allow", "all")
        assert program.stdin is not None
        assert program.stdout is not None
        arguments = {"command": "echo $$ >pid.new; mv pid.new pid; sleep 600"}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "run_command", "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        program.stdin.write(json.dumps(message).encode() + b"\n")
        await wait_until((folder / "pid").exists)
        number = int((folder / "pid").read_text())
        os.kill(number, 0)

        if end == "stdin":
            program.stdin.close()
        else:
            program.send_signal(signal.SIGKILL if end == "kill" else signal.SIGTERM)
        await program.communicate()
        await wait_until(lambda: not is_alive(number))
        assert program.returncode == (-signal.SIGKILL if end == "kill" else 0)


def is_alive(number: int) -> bool:
    """Tells whether a process is there, and no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
async def test_providers_that_are_configured_are_left_out(folder: Path) -> None:
    """Their keys, too: the command starts with any configuration, and the library refuses one."""
    text = '[limits]\nattempts = 1\n\n[providers.anthropic]\napi_key = "sk-1"\n'
    text += '[providers.mine]\nmodule = "mine"\n'
    program = await asyncio.create_subprocess_exec(
        *compose_command(),
        cwd=folder,
        env=compose_environment(folder, text),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await program.communicate()

    assert (program.returncode, out) == (0, b""), error
    with pytest.raises(ConfigurationError, match="anthropic"):
        async with serve_tools(produce_application(folder, text)):
            pass
    configuration = produce_application(folder, text).configuration
    left = leave_out_providers(configuration)
    written = [str(each.value) for each in left.settings.values()]
    written += [f"{each.name} {dict(each.settings)}" for each in left.plugins]
    assert not [each for each in written if "sk-1" in each or each.startswith("mine")]
    assert left.limits == configuration.limits


async def test_a_slip_in_what_is_allowed_is_no_permission(folder: Path) -> None:
    """The server does not start, and says what was meant."""
    with pytest.raises(ConverseError, match="did you mean 'run_command'"):
        async with serve_tools(produce_application(folder), allowed=("run_comand",)):
            pass


async def test_pages_of_other_names_are_refused(folder: Path) -> None:
    """A name that was rebound to this machine, and a page from elsewhere."""
    records: list[CallRecord] = []
    async with (
        serve_tools(produce_application(folder), records) as address,
        httpx2.AsyncClient() as client,
    ):
        for name, value in [
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "http://localhost:3000"),
            ("sec-fetch-site", "same-site"),
        ]:
            answer = await client.post(address, json={}, headers={name: value})
            assert answer.status_code == 403
            assert value in answer.json()["error"]["message"]
        own = address.removesuffix("/mcp").replace("127.0.0.1", "localhost")
        fine = await client.post(address, json={}, headers={"origin": own})
        assert fine.status_code != 403
        for headers in ({"content-type": "text/plain"}, {"content-encoding": "gzip"}):
            answer = await client.post(address, content=b"{}", headers=headers)
            assert answer.status_code == 415
    assert [each.error for each in records][:4] == ["access"] * 4


async def test_our_own_client_finds_the_same_through_a_server(folder: Path) -> None:
    """The same invocables with the same schemas, and the same outcomes."""
    application = produce_application(folder)
    (direct,) = await application.produce_ensembles(["io"])
    async with serve_tools(application, ensembles=("io",)) as address, Registry([direct]) as near:
        server = McpServer(name="tools", url=address, trust_annotations=True)
        async with Registry([produce_mcp_ensemble(server)]) as far:
            ours, theirs = near.survey(), far.survey()
            assert [each.description for each in theirs] == [each.description for each in ours]
            effects = [each.invoker.effect for each in theirs]
            assert effects == [each.invoker.effect for each in ours]
            for arguments in ({"path": "notes.txt"}, {"path": "nowhere"}, {"path": 1}):
                assert await call(far, "read_file", **arguments) == await call(
                    near, "read_file", **arguments
                )


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_behind_is_passed_on_with_its_changes(folder: Path, era: str) -> None:
    """Tools of an MCP server behind, what they say on their way, and a list that grows."""
    fixture = Path(__file__).parent.parent / "fixtures" / "mcp" / "server.py"
    text = "\n".join(
        [
            "[mcp.workshop]",
            f"command = {json.dumps(sys.executable)}",
            f"arguments = [{json.dumps(str(fixture))}, 'plain']",
            "connect_seconds = 55",
        ]
    )
    heard: list[str] = []
    news = asyncio.Event()

    async def hear(progress: float, total: float | None = None, message: str | None = None) -> None:
        heard.append(f"{progress:g} of {total:g}: {message}")

    async def notice(message: Any) -> None:
        if "list_changed" in getattr(message, "method", ""):
            news.set()

    application = produce_application(folder, text)
    async with (
        serve_tools(application, mcp=("workshop",), allowed=("all",)) as address,
        connect_client(address, era, message_handler=notice) as client,
    ):
        assert read_text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        counted = await client.call_tool("count", {"to": 3}, progress_callback=hear)
        assert read_text(counted) == "counted"
        assert heard == ["1 of 3: at 1", "2 of 3: at 2", "3 of 3: at 3"]

        if era == "legacy":
            await client.call_tool("learn", {"name": "sing"})
            await news.wait()
        else:
            async with client.listen(tools_list_changed=True) as events:
                await client.call_tool("learn", {"name": "sing"})
                await anext(aiter(events))
        assert "sing" in [each.name for each in (await client.list_tools()).tools]
