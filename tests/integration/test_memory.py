"""Memory across conversations: a model remembers, another recalls, the user corrects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.runs.approvers import AllowAll
from support.runs.scripting import write_script
from support.vendors.shipped import SHIPPED
from vibe_llms import Application, Conversation, Engine
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.memory.books import open_book
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator


def invoke(name: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": f"c-{name}", "name": name, "arguments": json.dumps(arguments)}
    return {"contents": [{"invocation": call}]}


def load(home: Path, **line: Any) -> Application:
    settings = {"directories.data": str(home / "data"), "directories.cache": str(home / "cache")}
    return Application(
        load_configuration(
            environment={"HOME": str(home)}, working_directory=home, command_line=settings | line
        )
    )


async def converse(application: Application, home: Path, *responses: dict[str, Any]) -> list[str]:
    """Hold a conversation of two turns with a scripted model; return the results of its tools."""
    script = write_script(home, *responses)
    conversation = Conversation()
    conversation.add_user_message("Hello.")
    conversation.save(application.store)
    tools = await application.produce_ensembles(["memory"])
    engine = Engine(f"scripted:{script}", tools, approver=AllowAll(), store=application.store)
    async with engine:
        conversation = (await engine.answer(conversation)).conversation
        conversation.add_user_message("Remember that I like green tea.")
        conversation = (await engine.answer(conversation)).conversation
    return [text_of(each) for each in conversation.canisters if isinstance(each, ResultCanister)]


async def test_a_note_outlives_its_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    application = load(tmp_path)
    hello, done = {"contents": [{"text": "Hello!"}]}, {"contents": [{"text": "Done."}]}

    written = await converse(
        application, tmp_path, hello, invoke("write_note", path="tea", text="Green."), done
    )
    read = await converse(application, tmp_path, invoke("read_notes", path="tea"), hello, done)

    assert written == ["tea.md was created."]
    (origin,) = open_book(application.store, application.configuration).read("tea").origins
    assert origin.turn == 2
    stored = application.store.read(origin.conversation).canisters
    assert "Remember that" in text_of(stored)
    assert read[0].startswith(f"[from conversation {origin.conversation}, turn 2, ")
    assert read[0].endswith("]\nGreen.")


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["anthropic", "openai_responses"])
async def test_a_vendors_memory_tool_is_served_by_the_notes(
    tmp_path: Path, vendor: str, simulator: Simulator
) -> None:
    """Anthropic is offered its own tool, another vendor a function with the same commands."""
    home = load(tmp_path, **{"ensembles.memory.vendor_tool": True})
    create = {"command": "create", "path": "/memories/tea.md", "file_text": "Green.\n"}
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("memory", create),)),
        ScriptedAnswer(parts=(Say("Done."),)),
        ScriptedAnswer(parts=(Invoke("memory", {"command": "view", "path": "/memories"}),)),
        ScriptedAnswer(parts=(Say("Green tea."),)),
    )
    model = await SHIPPED[vendor].access(simulator.url, tmp_path)
    tools = await home.produce_ensembles(["memory"])
    async with Engine(model, tools, approver=AllowAll()) as engine:
        await engine.answer("Remember that I like green tea.")
        outcome = await engine.answer("What do I like?")

    result = next(each for each in outcome.canisters if isinstance(each, ResultCanister))
    assert "7 bytes\t/memories/tea.md" in text_of(result)
    note = open_book(home.store, home.configuration).read("tea")
    assert (note.text, len(note.origins)) == ("Green.\n", 1)
    offered = simulator.requests[0].body["tools"][0]
    assert offered["type"] == ("memory_20250818" if vendor == "anthropic" else "function")
    await model._client.close()  # type: ignore[attr-defined]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running
