"""A memory is found, traced to its conversation, corrected, and deleted on the page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.daemons.run_daemons import Daemon, serving
from support.screens.browsers import Tab, open_browser
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.memory.books import NoteBook, open_book
from vibe_llms.memory.notes import NoteOrigin

pytestmark = pytest.mark.browser

HOSTILE = (
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>alert(1)</script> "
    "![x](http://evil.example/x.png) \u202eevil"
)


def open_notes(daemon: Daemon) -> NoteBook:
    """Open the notes of the daemon's store."""
    configuration = daemon.premises.runs.application.configuration
    return open_book(daemon.premises.store, configuration, is_whole=True)


async def press(tab: Tab, name: str) -> None:
    """Press the button, or follow the link, of this name."""
    found = (
        "Array.from(document.querySelectorAll('button, a')).find((each) => each.offsetParent && "
        f"(each.getAttribute('aria-label') ?? each.textContent).trim() === {json.dumps(name)})"
    )
    await tab.wait_for(f"{found} && !{found}.disabled")
    await tab.evaluate(f"{found}.click()")


async def fill(tab: Tab, selector: str, text: str) -> None:
    """Replace the text of a field, as a person does."""
    await tab.wait_for(f"document.querySelector({json.dumps(selector)})")
    await tab.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
    await tab.type(text)


async def test_a_memory_is_corrected(tmp_path: Path) -> None:
    """Searched, traced, edited while a model changes it, created anew, and deleted."""
    async with serving(tmp_path, memory=True) as daemon, open_browser(tmp_path) as tab:
        talk = Conversation(metadata=ConversationMetadata(name="About tea"))
        talk.add_user_message("I like black tea.")
        talk.save(daemon.premises.store)
        notes = open_notes(daemon)
        origin = NoteOrigin(conversation=talk.id, turn=1, time=datetime(2026, 11, 29, tzinfo=UTC))
        notes.write("drinks/tea.md", "Likes **green** tea.\n", origin)
        notes.write("projects/site/plan.md", "Ship on Friday.\n")
        notes.write("tags/cooking/rice.md", "Rinse it.\n")

        await tab.visit(f"{daemon.url}/page/#/talk")
        await press(tab, "Memory")
        for text in ("About you", "Project site", "Tag cooking", "plan.md"):
            await tab.wait_for_text(text)
        await fill(tab, "#query", "tea")
        await press(tab, "Search")
        await tab.wait_for_text("Found")
        await press(tab, "drinks/tea.md")
        await tab.wait_for("document.querySelector('.note strong')?.textContent === 'green'")
        await tab.wait_for_text("About tea", ".origins")  # the name of the conversation
        await tab.wait_for_text("turn 1", ".origins")

        await press(tab, "Edit")
        await fill(tab, "#text", "Likes black tea.")
        notes.add("drinks/tea.md", "No sugar.")  # a model, at the same time
        await press(tab, "Save")
        await tab.wait_for_text("This note has changed")
        await tab.wait_for_text("No sugar.", ".conflict")
        assert notes.read("drinks/tea.md").text == "Likes **green** tea.\nNo sugar.\n"
        await fill(tab, "#text", "Likes black tea.\nNo sugar.\n")
        await press(tab, "Replace it by mine")
        await tab.wait_for("document.querySelector('#edit')?.offsetParent")
        corrected = notes.read("drinks/tea.md")
        assert corrected.text == "Likes black tea.\nNo sugar.\n"
        assert [each.conversation for each in corrected.origins] == [talk.id]

        await press(tab, "About tea")
        await tab.wait_for_text("I like black tea.")
        await press(tab, "Memory")
        await press(tab, "+ New note")
        await tab.wait_for("document.querySelector('#new-name')")
        await tab.evaluate(
            "document.querySelector('#new-scope').value = 'tag';"
            "document.querySelector('#new-scope').dispatchEvent(new Event('change'))"
        )
        await fill(tab, "#new-owner", "cooking")
        await fill(tab, "#new-name", "noodles")
        await fill(tab, "#text", HOSTILE)
        await press(tab, "Create")
        await tab.wait_for("location.hash.endsWith('noodles.md')")
        await tab.wait_for_text("onerror")
        assert await tab.evaluate("document.querySelectorAll('main :is(img, script)').length") == 0
        links = "Array.from(document.querySelectorAll('main a')).map((each) => each.href)"
        assert not [each for each in await tab.evaluate(links) if each.startswith("javascript")]

        await press(tab, "Delete")
        await press(tab, "Delete")
        await tab.wait_for("location.hash === '#/memory'")
        assert [each.path for each in notes.list("tags")] == ["tags/cooking/rice.md"]
        ignored = ("404", "412")  # no run yet; the conflict
        complaints = [each for each in tab.complaints if not any(code in each for code in ignored)]
        assert complaints == []


async def test_memory_is_hidden_unless_it_is_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon, open_browser(tmp_path) as tab:
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for_text("There are no runs yet.")
        assert not await tab.evaluate("document.querySelector('#memory').offsetParent")


async def test_a_draft_of_an_older_text_overwrites_nothing(tmp_path: Path) -> None:
    """It is kept over a reload, with the version on which it is based."""
    async with serving(tmp_path, memory=True) as daemon, open_browser(tmp_path) as tab:
        notes = open_notes(daemon)
        notes.write("tea.md", "Green.\n")
        await tab.visit(f"{daemon.url}/page/#/memory/tea.md")
        await press(tab, "Edit")
        await fill(tab, "#text", "Black.")
        notes.write("tea.md", "White.\n")
        await tab.evaluate("location.reload()")
        await tab.wait_for("document.querySelector('#text')?.value === 'Black.'")
        await press(tab, "Save")
        await tab.wait_for_text("White.", ".conflict")
        assert notes.read("tea.md").text == "White.\n"
        await press(tab, "Use the stored text")
        await tab.wait_for_text("White.", ".note .text")


@pytest.mark.slow
async def test_many_notes_with_hostile_names_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, memory=True) as daemon, open_browser(tmp_path) as tab:
        notes = open_notes(daemon)
        notes.write("first.md", "x")
        (folder,) = (each.parent for each in tmp_path.rglob("first.md"))
        for number in range(10_000):  # as another program writes them
            (folder / f"n{number:05}.md").write_text(HOSTILE, encoding="utf-8")
        name = "<img src=x onerror=alert(1)>.md"
        (folder / f"a {name}").write_text("x")
        await tab.visit(f"{daemon.url}/page/#/memory")
        await tab.wait_for_text("n00197.md")
        await press(tab, "Show more")
        await tab.wait_for_text("n00397.md")
        await press(tab, f"a {name}")
        await tab.wait_for(
            f"document.querySelector('.note h1')?.textContent === {json.dumps('a ' + name)}"
        )
        assert await tab.evaluate("document.querySelectorAll('main img').length") == 0
