"""An MCP server behind ours: its clients find all that it has, whatever the era of either."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from support.daemons.tool_servers import (
    ERAS,
    ScriptedUser,
    connect_client,
    produce_application,
    read_text,
    serve_tools,
)

SERVER = Path(__file__).parents[1] / "support" / "mcp" / "passed_server.py"
BEHIND = ("2025-11-25", "2026-07-28")

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{MCPDeprecationWarning.__module__}.MCPDeprecationWarning"
)


def configure(protocol: str) -> str:
    """Returns a configuration that names the server behind."""
    return "\n".join(
        [
            "[mcp.behind]",
            f"command = {json.dumps(sys.executable)}",
            f"arguments = [{json.dumps(str(SERVER))}]",
            f"protocol = {json.dumps(protocol)}",
            "connect_seconds = 55",
        ]
    )


class Stranger:
    """A client's user, model and directories; and what the client hears."""

    def __init__(self) -> None:
        self.asked = ScriptedUser(name="Sylt", kind="sea", height=3)
        self.logged: list[tuple[str, Any, str | None]] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.heard: list[str] = []
        self.news = asyncio.Event()

    def produce_options(self) -> dict[str, Any]:
        """Returns what the official client takes."""
        return {
            "elicitation_callback": self.asked,
            "sampling_callback": self.sample,
            "list_roots_callback": self.list_roots,
            "logging_callback": self.log,
            "message_handler": self.hear,
        }

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        """Answers as a model."""
        text = types.TextContent(text=f"{params.system_prompt} {params.max_tokens}")
        return types.CreateMessageResult(
            role="assistant", content=text, model="theirs", stop_reason="endTurn"
        )

    async def list_roots(self, context: Any) -> types.ListRootsResult:
        """Says which directories there are."""
        root = {"uri": "file:///there", "name": "there"}
        return types.ListRootsResult(roots=[types.Root.model_validate(root)])

    async def log(self, params: Any) -> None:
        """Reads the log."""
        self.logged.append((params.level, params.data, params.logger))

    async def hear(self, message: Any) -> None:
        """Hears what is announced."""
        self.heard.append(getattr(message, "method", ""))
        self.news.set()

    async def follow(self, done: float, total: float | None, text: str | None) -> None:
        """Hears how far a call is."""
        self.progress.append((done, total, text))

    async def wait_for(self, method: str) -> None:
        """Waits until something was announced."""
        while method not in self.heard:
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def meet_through(
    folder: Path, era: str, behind: str
) -> AsyncIterator[tuple[Client, Stranger]]:
    """Connect the official client to the inner server, through ours."""
    stranger = Stranger()
    application = produce_application(folder, configure(behind))
    async with (
        serve_tools(application, mcp=("behind",), allowed=("all",)) as address,
        connect_client(address, era, **stranger.produce_options()) as client,
    ):
        yield client, stranger


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("behind", BEHIND)
async def test_all_that_a_server_behind_has_is_passed_on(
    tmp_path: Path, era: str, behind: str
) -> None:
    """Tools, resources, templates, prompts, suggestions, questions, words on the way, changes."""
    async with meet_through(tmp_path, era, behind) as (client, stranger):
        await judge_tools(client, stranger, era)
        await judge_questions(client, stranger)
        await judge_resources(client)
        await judge_prompts(client, stranger, era)
        await judge_watching(client, stranger, era)


async def judge_tools(client: Client, stranger: Stranger, era: str) -> None:
    """What is said of tools and of results, with what only programs read."""
    tools = {each.name: each for each in (await client.list_tools()).tools}
    assert not {"list_resources", "read_resource"} & set(tools)
    if era == "legacy":  # a client of the other that names its version asks nothing beforehand
        assert client.instructions == "Weigh first."
    scales = tools["weigh"]
    assert (scales.title, scales.meta) == ("Weigh something", {"example.org/kind": "scales"})
    assert scales.annotations is not None
    assert scales.annotations.open_world_hint is False
    assert [each.sizes for each in scales.icons or ()] == [["1x1"]]
    assert (scales.output_schema or {})["properties"]["grams"]["minimum"] == 0

    weighed = await client.call_tool("weigh", {"thing": "stone"})
    assert weighed.structured_content == {"grams": 5}

    if era == "legacy":
        await client.set_logging_level("warning")
    level: Any = {} if era == "legacy" else {"io.modelcontextprotocol/logLevel": "warning"}
    said = await client.call_tool(
        "echo", meta={"example.org/q": [1]} | level, progress_callback=stranger.follow
    )
    assert said.structured_content == {"said": {"example.org/q": [1]}}
    assert (said.meta or {})["example.org/answer"] == 42
    text, link = said.content
    assert text.annotations == types.Annotations(audience=["user"], priority=0.5)
    assert isinstance(link, types.ResourceLink)
    assert link.uri == "memo://hidden"
    assert stranger.progress == [(1, 4, "a quarter")]
    assert stranger.logged == [("warning", {"beware": "dog"}, "kennel")]


async def judge_questions(client: Client, stranger: Stranger) -> None:
    """What the server asks is asked of the client."""
    asked = await client.call_tool("ask_person", {"message": "Where?"})
    assert (read_text(asked), stranger.asked.messages) == ("Sylt sea 3", ["Where?"])
    sampled = await client.call_tool("ask_model", {"question": "Why?"})
    assert read_text(sampled) == "theirs said Be brief. 100 (endTurn)"
    assert read_text(await client.call_tool("ask_roots")) == "there=file:///there"


async def judge_resources(client: Client) -> None:
    """What is listed, and what is not; and the server's own errors."""
    assert [each.uri for each in (await client.list_resources()).resources] == [
        "memo://first",
        "memo://picture",
    ]
    templates = {
        each.uri_template: each
        for each in (await client.list_resource_templates()).resource_templates
    }
    assert set(templates) == {"memo://day/{day}", "memo://hidden/{name}"}
    assert templates["memo://hidden/{name}"].meta == {"example.org/h": 1}
    assert templates["memo://hidden/{name}"].title == "Hidden"

    async def read(uri: str) -> Any:
        (content,) = (await client.read_resource(uri)).contents
        return content

    first = await read("memo://first")
    assert (first.text, first.mime_type) == ("remember", "text/plain")
    assert (await read("memo://picture")).blob == "iVBORw=="
    assert (await read("memo://day/one")).text == "memo of one"
    for uri in ("memo://day/none", "memo://nowhere", "strange:thing"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def judge_prompts(client: Client, stranger: Stranger, era: str) -> None:
    """Prompts with their arguments, suggestions for these, and a list that grows."""
    (prompt,) = (await client.list_prompts()).prompts
    assert [(each.name, each.required) for each in prompt.arguments or ()] == [
        ("name", True),
        ("style", False),
    ]
    got = await client.get_prompt("greet", {"name": "Ada"})
    assert [(each.role, each.content.text) for each in got.messages] == [  # type: ignore[union-attr]
        ("user", "Greet Ada, short."),
        ("assistant", "Dear"),
    ]
    reference = types.PromptReference(name="greet")
    argument = {"name": "style", "value": "lo"}
    said = await client.complete(reference, argument, {"name": "Ada"})
    assert (said.completion.values, said.completion.total) == (["lo!", "Ada"], 2)
    with pytest.raises(MCPError, match="Did you mean 'greet'"):
        await client.get_prompt("greed")

    if era == "legacy":
        await client.call_tool("grow")
        await stranger.wait_for("notifications/prompts/list_changed")
    else:
        async with client.listen(prompts_list_changed=True) as events:
            await client.call_tool("grow")
            await anext(aiter(events))
    assert "further" in [each.name for each in (await client.list_prompts()).prompts]


async def judge_watching(client: Client, stranger: Stranger, era: str) -> None:
    """A resource that changes."""
    if era == "legacy":
        await client.subscribe_resource("memo://first")
        await touch_until_heard(client, stranger.wait_for("notifications/resources/updated"))
        await client.unsubscribe_resource("memo://first")
    else:
        async with client.listen(resource_subscriptions=["memo://first"]) as events:
            await touch_until_heard(client, anext(aiter(events)))


async def touch_until_heard(client: Client, hearing: Any) -> None:
    """Changes the resource; the one behind may have been told a moment later that we watch it."""
    heard = asyncio.ensure_future(hearing)
    while not heard.done():
        await client.call_tool("touch")
        await asyncio.wait((heard,), timeout=0.05)
    await heard
