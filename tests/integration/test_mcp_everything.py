"""The official server that has everything, written by others, over both transports."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from support.network.ports import find_port
from support.quality.node_programs import EVERYTHING, compose_command
from support.runs.approvers import AllowAll
from support.runs.scripting import produce_model
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.mcp import ElicitationAnswer, McpEnsemble, McpServer, produce_mcp_ensemble
from vibe_llms.invocables.mcp.elicitation import Question
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.contents import ImageContent

pytestmark = pytest.mark.node

TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


@attrs.define(eq=False)
class Person:
    """Fills in a name, and goes where it is sent."""

    asked: list[Question] = attrs.field(factory=list)

    async def elicit(self, question: Question) -> ElicitationAnswer:
        self.asked.append(question)
        return ElicitationAnswer(values={"name": "Ada"} if question.fields else {})


@asynccontextmanager
async def run_over_http() -> AsyncIterator[str]:
    """Runs the server over HTTP, and gives its address."""
    port = find_port()
    process = await asyncio.create_subprocess_exec(
        *compose_command(EVERYTHING, "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"listening" not in (line := await process.stderr.readline()):
                assert line, "It has ended."
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def meet(transport: str, person: Person) -> AsyncIterator[tuple[Registry, McpEnsemble]]:
    """Connects the server with everybody whom it could want to ask."""
    async with contextlib.AsyncExitStack() as stack:
        place: dict[str, Any]
        if transport == "http":
            place = {"url": await stack.enter_async_context(run_over_http())}
        else:
            command, *arguments = compose_command(EVERYTHING, "stdio")
            place = {"command": command, "arguments": arguments}
        ensemble = produce_mcp_ensemble(
            McpServer(name="everything", needs_approval=False, **place),
            approver=AllowAll(),
            model=produce_model({"contents": [{"text": "well said"}]}),
            elicitor=person,
            roots=[Path.cwd()],
        )
        registry = await stack.enter_async_context(Registry([ensemble]))
        yield registry, ensemble


async def call(registry: Registry, name: str, /, **arguments: Any) -> Outcome:
    outcome = await perform(registry.access(name), arguments, InvocationContext())
    assert not outcome.is_error, outcome.text
    return outcome


@TRANSPORTS
async def test_everything_that_the_official_server_has_can_be_had(transport: str) -> None:
    """Tools with every kind of content, its questions, its resources and its prompts."""
    person, heard = Person(), list[str]()
    async with meet(transport, person) as (registry, ensemble):
        assert (await call(registry, "get-sum", a=1, b=2)).text == "The sum of 1 and 2 is 3."
        picture = (await call(registry, "get-tiny-image")).contents[1]
        weather = (await call(registry, "get-structured-content", location="Chicago")).text
        embedded = (await call(registry, "get-resource-reference")).text
        sampled = (await call(registry, "trigger-sampling-request", prompt="Hello")).text
        filled = (await call(registry, "trigger-elicitation-request")).text
        roots = (await call(registry, "get-roots-list")).text
        long = await perform(
            registry.access("trigger-long-running-operation"),
            {"duration": 0.1, "steps": 2},
            InvocationContext(listener=heard.append),
        )
        listed = (await call(registry, "list_resources", search="static")).text
        read = (await call(registry, "read_resource", uri="demo://resource/dynamic/text/7")).text
        prompts = {each.name for each in await ensemble.shelf.list_prompts()}
        [said] = await ensemble.shelf.get_prompt("args-prompt", {"city": "Rome"})

    assert isinstance(picture, ImageContent)
    assert '"temperature"' in weather
    assert "demo://resource/dynamic/text/1" in embedded
    assert "well said" in sampled
    assert "Ada" in filled
    assert "Monica" in filled, "a default"
    assert person.asked[0].server == "everything"
    assert Path.cwd().as_uri() in roots
    assert not long.is_error
    assert heard == ["1 of 2", "2 of 2"]
    assert "demo://resource/static/document" in listed
    assert "Resource 7" in read
    assert {"simple-prompt", "args-prompt"} <= prompts
    assert "Rome" in said.content[0].text


@TRANSPORTS
async def test_a_person_is_sent_to_an_address_by_the_official_server(transport: str) -> None:
    """It says what it is for."""
    person = Person()
    async with meet(transport, person) as (registry, _):
        await call(registry, "trigger-url-elicitation", url="https://example.org/enter")

    [question] = person.asked
    assert question.address == "https://example.org/enter"
    assert question.fields == ()


@TRANSPORTS
async def test_a_person_is_sent_somewhere_before_a_call_is_made_again(transport: str) -> None:
    """The official server refuses the call first, and asks once more when it has begun."""
    person = Person()
    async with meet(transport, person) as (registry, _):
        await call(
            registry,
            "trigger-url-elicitation",
            url="https://example.org/enter",
            elicitationId="first",
            errorPath=True,
        )

    before, within = (each.address for each in person.asked)
    assert before == "https://modelcontextprotocol.io"
    assert within == "https://example.org/enter"


async def test_the_official_server_sees_no_variables_that_are_not_meant_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys of vendors stand in variables, and a server is a stranger."""
    monkeypatch.setenv("SOME_API_KEY", "a-very-secret-word")
    async with meet("stdio", Person()) as (registry, _):
        told = (await call(registry, "get-env")).text

    assert "PATH" in told
    assert "a-very-secret-word" not in told


async def test_a_call_that_is_cancelled_leaves_the_official_server_usable_and_then_gone() -> None:
    """The connection outlives the call, and the program does not outlive the connection."""
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    async with meet("stdio", Person()) as (registry, _):
        started = asyncio.Event()
        context = InvocationContext(listener=lambda _: started.set())
        slow = registry.access("trigger-long-running-operation")
        calling = asyncio.ensure_future(perform(slow, {"duration": 600, "steps": 6000}, context))
        await started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await call(registry, "echo", message="still here")).text == "Echo: still here"

    assert {each.pid for each in psutil.Process().children(recursive=True)} <= before
