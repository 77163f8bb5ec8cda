"""The ensemble ``memory``: its tools and effects, users kept apart, and search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Conversation
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.tags import OWNER_TAG
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.call_execution import perform
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.memory.books import open_book
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.server_tools import ServerTool


def produce_application(
    tmp_path: Path, *, embedder: str = "scripted:words", **settings: Any
) -> Application:
    environment = {
        "VIBE_LLMS_DIRECTORIES_DATA": str(tmp_path / "data"),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(tmp_path / "cache"),
    }
    line = {"embedder": embedder}
    line.update({f"ensembles.memory.{name}": value for name, value in settings.items()})
    return Application(
        load_configuration(environment=environment, working_directory=tmp_path, command_line=line)
    )


async def call(application: Application, tool: str, **arguments: Any) -> Outcome:
    """Call a tool once, for the context among the arguments."""
    context = arguments.pop("context", None) or InvocationContext()
    (ensemble,) = await application.produce_ensembles(["memory"])
    await ensemble.connect()
    try:
        (invoker,) = (each for each in await ensemble.survey() if each.name == tool)
        return await perform(invoker, arguments, context)
    finally:
        await ensemble.disconnect()


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_each_tool_declares_its_effect(tmp_path: Path) -> None:
    tools = {}
    for is_vendor in (False, True):
        application = produce_application(tmp_path, vendor_tool=is_vendor)
        (ensemble,) = await application.produce_ensembles(["memory"])
        for each in await ensemble.survey():
            tools[each.name] = (str(each.effect), each.needs_approval)
    (memory, search) = await ensemble.survey()

    assert tools == {
        "read_notes": ("pure", False),
        "search_notes": ("idempotent", False),
        "write_note": ("idempotent", True),
        "delete_note": ("once", True),
        "memory": ("once", True),
    }
    assert memory.describe().server_tool == ServerTool("memory")
    assert search.name == "search_notes"


async def test_notes_are_written_read_and_deleted(tmp_path: Path) -> None:
    application = produce_application(tmp_path)

    written = await call(application, "write_note", path="tea", text="Green.\nHot.")
    added = await call(application, "write_note", path="tea", text="No sugar.", if_exists="append")
    listed = await call(application, "read_notes")
    read = await call(application, "read_notes", path="tea")

    assert (written.text, added.text) == ("tea.md was created.", "The text was added to tea.md.")
    assert listed.text == "tea.md: Green."
    assert read.text == "Green.\nHot.\nNo sugar.\n"
    deleted = await call(application, "delete_note", path="tea.md")
    assert deleted.text == "tea.md was deleted: 1 note."
    assert (await call(application, "read_notes")).text == "[There are no notes.]"


async def test_a_note_is_not_replaced_by_chance(tmp_path: Path) -> None:
    """A second conversation that does not know the note cannot overwrite it."""
    application = produce_application(tmp_path)
    for _ in range(2):  # a repeated call is no other note
        assert not (await call(application, "write_note", path="tea", text="Green.")).is_error

    refused = await call(application, "write_note", path="tea.md", text="Black.")
    assert refused.is_error
    assert "already exists" in refused.text
    assert (await call(application, "read_notes", path="tea")).text == "Green."
    black = {"path": "tea", "text": "Black.", "if_exists": "replace"}
    assert (await call(application, "write_note", **black)).text == "tea.md was replaced."


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "projects/other/x", "tags/x"])
async def test_paths_out_of_reach_fail_in_words(tmp_path: Path, path: str) -> None:
    application = produce_application(tmp_path)

    for tool, more in (("write_note", {"text": "x"}), ("delete_note", {}), ("read_notes", {})):
        outcome = await call(application, tool, path=path, **more)
        assert outcome.is_error
        assert "note" in outcome.text
    assert not (tmp_path / "data" / "notes").exists()


async def test_a_note_names_its_conversation_and_turn(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    conversation = Conversation()
    for number in range(3):
        conversation.add_user_message(f"{number}")
        call_of_turn = InvocationCanister(invocation_id=f"i{number}", name="write_note")
        conversation.add_canister(call_of_turn)
    conversation.save(application.store)

    for run, invocation in ((conversation.id, "i1"), ("not-stored", "i1")):
        context = InvocationContext(run_id=run, invocation_id=invocation)
        await call(application, "write_note", context=context, path=run, text="x")

    book = open_book(application.store, application.configuration)
    (origin,) = book.read(conversation.id).origins
    assert (origin.conversation, origin.turn) == (conversation.id, 2)
    (origin,) = book.read("not-stored").origins
    assert (origin.conversation, origin.turn) == ("not-stored", None)
    read = await call(application, "read_notes", path=conversation.id)
    assert f"[from conversation {conversation.id}, turn 2, " in read.text


async def test_users_of_a_daemon_have_notes_of_their_own(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    contexts = {"": InvocationContext(), "bob": InvocationContext(subject="bob")}
    conversation = Conversation(metadata=ConversationMetadata(tags=(f"{OWNER_TAG}ann",)))
    conversation.save(application.store)
    contexts["ann"] = InvocationContext(run_id=conversation.id)
    for name, context in contexts.items():
        await call(application, "write_note", context=context, path="me", text=f"I am {name}.")

    for name, context in contexts.items():
        assert f"I am {name}." in (await call(application, "read_notes", context=context)).text
        found = await call(application, "search_notes", context=context, query="who am I")
        assert found.text.count("I am") == 1
        assert f"I am {name}." in found.text


@pytest.mark.parametrize("meaning", [False, True])
async def test_notes_are_found(tmp_path: Path, meaning: bool) -> None:
    application = produce_application(tmp_path, meaning=meaning, limit=2)
    assert "[Nothing was found.]" in (await call(application, "search_notes", query="tea")).text
    for path, text in (("a", "black tea"), ("project/b", "green tea"), ("tags/c/d", "coffee")):
        await call(application, "write_note", path=path, text=text)

    outcome = await call(application, "search_notes", query="green tea")

    assert outcome.text.startswith("[1] project/b.md:1\ngreen tea")
    assert outcome.text.count(".md:1") <= 2
    assert (await call(application, "search_notes", query=" ")).is_error
    await call(application, "delete_note", path="project/b")
    assert "green" not in (await call(application, "search_notes", query="green tea")).text
    await application.close()


async def test_without_an_embedder_words_are_compared(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    await call(application, "write_note", path="a", text="black tea")
    other = produce_application(tmp_path, embedder="nowhere:none")

    outcome = await call(other, "search_notes", query="TEA")

    assert outcome.text.startswith("[1] a.md:1\nblack tea\n\n[Searched for words only: ")


async def test_the_vendors_tool_has_the_same_notes(tmp_path: Path) -> None:
    application = produce_application(tmp_path)
    await call(application, "write_note", path="tea", text="Green.")
    vendors = produce_application(tmp_path, vendor_tool=True)

    arguments = {"command": "insert", "path": "/memories/tea.md", "insert_line": 1}
    await call(vendors, "memory", **arguments, insert_text="Hot.")
    missing = await call(vendors, "memory", command="view", path="/memories/none.md")

    assert (await call(application, "read_notes", path="tea")).text == "Green.\nHot.\n"
    assert missing.is_error
    assert json.loads(json.dumps(missing.text))


@pytest.mark.parametrize(
    "setting", [{"notes": 0}, {"note_bytes": 10**7}, {"project": "a/b"}, {"wrong": 1}]
)
async def test_invalid_settings_are_named(tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        await produce_application(tmp_path, **setting).produce_ensembles(["memory"])
