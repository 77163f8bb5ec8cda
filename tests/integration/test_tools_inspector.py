"""The MCP Inspector's client and our server of tools: what people look at servers with."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.daemons.tool_servers import (
    PLUGINS,
    compose_environment,
    produce_application,
    serve_tools,
)
from support.quality.node_programs import INSPECTOR, NODE, compose_command

pytestmark = pytest.mark.node

CONFORMANCE = '[ensembles.conformance]\nmodule = "conformance_ensemble"\n'


async def inspect(folder: Path, *arguments: str) -> Any:
    """Asks the Inspector; returns what it prints, as data."""
    node = Path(os.environ["VIBE_LLMS_NODE"]).resolve() / NODE
    inspector = await asyncio.create_subprocess_exec(
        *compose_command(INSPECTOR, "--cli", *arguments),
        env={"HOME": str(folder), "PATH": f"{node.parent}:{os.environ['PATH']}"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            said, complaints = await inspector.communicate()
    finally:
        if inspector.returncode is None:
            inspector.kill()
            await inspector.communicate()
    assert inspector.returncode == 0, (said + complaints).decode()
    return json.loads(said)


async def test_the_inspector_sees_all_that_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP: what is listed, and what is read, got, completed and called."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    application = produce_application(tmp_path, CONFORMANCE)
    async with serve_tools(application, ensembles=("conformance",)) as address:

        def ask(method: str, *more: str) -> Any:
            return inspect(tmp_path, address, "--transport", "http", "--method", method, *more)

        tools, resources, templates, prompts, read, got, called = await asyncio.gather(
            ask("tools/list", "--strict"),
            ask("resources/list"),
            ask("resources/templates/list"),
            ask("prompts/list"),
            ask("resources/read", "--uri", "test://template/7/data"),
            ask(
                *("prompts/get", "--prompt-name", "test_prompt_with_arguments"),
                *("--prompt-args", "arg1=one", "arg2=two"),
            ),
            ask("tools/call", "--tool-name", "test_multiple_content_types"),
        )

    assert "test_simple_text" in [each["name"] for each in tools["tools"]]
    assert [each["uri"] for each in resources["resources"]] == [
        "test://static-text",
        "test://static-binary",
        "test://watched-resource",
    ]
    (template,) = templates["resourceTemplates"]
    assert template["uriTemplate"] == "test://template/{id}/data"
    assert len(prompts["prompts"]) == 5
    assert json.loads(read["contents"][0]["text"])["id"] == "7"
    assert "arg1='one', arg2='two'" in got["messages"][0]["content"]["text"]
    assert [each["type"] for each in called["content"]] == ["text", "image", "resource"]


async def test_settings_give_another_program_our_files_shell_and_pages(tmp_path: Path) -> None:
    """As such programs start a server: by a file that names the command; in our bounds."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text="<h1>The tide</h1>", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    page = f"http://127.0.0.1:{runner.addresses[0][1]}/"

    home = tmp_path / "work"
    home.mkdir()
    (home / "notes.txt").write_text("The North Sea.\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("not theirs", encoding="utf-8")
    text = '[ensembles.fetch]\nprivate_hosts = ["127.0.0.1"]\n'
    command = [sys.executable, "-m", "vibe_llms", "serve", "tools", "--stdio"]
    server = {
        "command": command[0],
        "args": [*command[1:], "--tools", "io,shell,fetch", "--allow", "run_command"],
        "env": compose_environment(home, text),
        "cwd": str(home),
    }
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"mcpServers": {"vibe": server}}), encoding="utf-8")

    def ask(method: str, *more: str) -> Any:
        chosen = ("--config", str(settings), "--server", "vibe", "--method", method)
        return inspect(tmp_path, *chosen, *more)

    def call(name: str, **arguments: str) -> Any:
        pairs = [f"{name}={value}" for name, value in arguments.items()]
        return ask("tools/call", "--tool-name", name, "--tool-arg", *pairs)

    try:
        secret, shell, tide, asked = await asyncio.gather(
            call_failing(call("read_file", path="../secret.txt")),
            call("run_command", command="pwd; cat notes.txt"),
            call("fetch_page", url=page),
            call_failing(call("write_file", path="notes.txt", text="overwritten")),
        )
    finally:
        await runner.cleanup()
    assert "not theirs" not in secret
    assert shell["content"][0]["text"] == f"{home}\nThe North Sea.\n"
    assert "# The tide" in tide["content"][0]["text"]
    assert "--allow write_file" in asked
    assert (home / "notes.txt").read_text() == "The North Sea.\n"


async def call_failing(call: Any) -> str:
    """Returns all that the Inspector says of a call that is refused."""
    try:
        return json.dumps(await call)
    except AssertionError as error:
        return str(error)
