"""A long conversation is compacted on the page, and its parent is read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.runs.acting import say
from support.runs.scripting import write_script
from support.screens.browsers import Tab, open_browser
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import AssistantCanister

pytestmark = pytest.mark.browser

WINDOW = """
[[models]]
provider = "scripted"
pattern = ".*"
context_window_tokens = 1400
"""
SCRIPT = (
    {
        "match": "user: |assistant: |Summary so far",
        "contents": [say("The cat is called Mia. <img src=x onerror=alert(1)>")],
    },
    {"contents": [say("You said: {input}")]},
)


def list_complaints(tab: Tab) -> list[str]:
    """Return the errors of the console, without that a conversation has no run yet."""
    return [each for each in tab.complaints if "404" not in each]


async def find(tab: Tab, role: str, name: str) -> None:
    """Wait until a screen reader finds an element."""
    async with asyncio.timeout(60):
        while True:
            if any(each[:2] == (role, name) for each in await tab.survey_tree()):
                return
            await asyncio.sleep(0.05)


async def press(tab: Tab, name: str) -> None:
    """Press the button, or follow the link, of this name."""
    found = (
        "Array.from(document.querySelectorAll('button, a')).find((each) => each.offsetParent && "
        f"(each.getAttribute('aria-label') ?? each.textContent).trim() === {json.dumps(name)})"
    )
    await tab.wait_for(f"{found} && !{found}.disabled")
    await tab.evaluate(f"{found}.click()")


async def test_a_long_conversation_is_compacted_and_its_parent_read(tmp_path: Path) -> None:
    """A person pins a message, compacts, follows the fork, goes on, and reads the whole."""
    (tmp_path / "none.toml").write_text(WINDOW)
    model = f"scripted:{write_script(tmp_path, *SCRIPT)}"
    async with serving(tmp_path) as daemon, open_browser(tmp_path) as tab:
        talk = Conversation(metadata=ConversationMetadata(name="Cats", model=model))
        for number in range(12):
            talk.add_user_message(f"Question {number} " + "word " * 40)
            talk.add_canister(AssistantCanister(f"Answer {number}.", turn_id=f"t{number}"))
        talk.save(daemon.premises.store)
        await tab.call("Accessibility.enable")
        await tab.visit(f"{daemon.url}/page/#/talk/{talk.id}")
        await tab.wait_for_text("Answer 11.")

        await tab.evaluate("scrollTo(0, 0)")
        await press(tab, "Pin message 3")
        await tab.wait_for("document.querySelector('#message-2 .pin[aria-pressed=true]')")
        await press(tab, "Compact")
        await tab.wait_for("document.querySelector('#asked-keep')")
        await tab.evaluate("document.querySelector('#asked-keep').value = '2'")
        await tab.click("#asking button[type=submit]")
        await tab.wait_for(f"location.hash !== '#/talk/{talk.id}'")
        await tab.wait_for_text("A summary stands for earlier messages.")
        await tab.wait_for_text("Question 1 ")  # the pinned one
        assert not await tab.evaluate(
            "document.querySelector('main').textContent.includes('Answer 3.')"
        )
        await find(tab, "article", "Summary of earlier messages")
        assert await tab.evaluate("document.querySelectorAll('main img').length") == 0

        fork = await tab.evaluate("location.hash")
        await tab.wait_for("document.querySelector('#prompt')")
        await tab.evaluate("document.querySelector('#prompt').focus()")
        await tab.type("And now?")
        await tab.press("Enter")
        await tab.wait_for_text("You said: And now?")
        assert await tab.evaluate("location.hash") == fork

        await tab.evaluate("scrollTo(0, 0)")
        await press(tab, "Read the whole")
        await tab.wait_for_text("Answer 11.")
        await tab.evaluate("scrollTo(0, 0)")
        await tab.wait_for_text("Answer 3.")
        await press(tab, "Continues after a summary")
        await tab.wait_for(f"location.hash === {json.dumps(fork)}")
        assert list_complaints(tab) == []


async def test_a_message_that_no_longer_fits_is_followed(tmp_path: Path) -> None:
    """The page opens the fork by itself, in which the answer appears."""
    (tmp_path / "none.toml").write_text('window = "summarize"\n' + WINDOW)
    model = f"scripted:{write_script(tmp_path, *SCRIPT)}"
    async with serving(tmp_path) as daemon, open_browser(tmp_path) as tab:
        talk = Conversation(metadata=ConversationMetadata(name="Cats", model=model))
        for number in range(30):
            talk.add_user_message(f"Question {number} " + "word " * 40)
            talk.add_canister(AssistantCanister(f"Answer {number}.", turn_id=f"t{number}"))
        talk.save(daemon.premises.store)
        await tab.visit(f"{daemon.url}/page/#/talk/{talk.id}")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.type("And now?")
        await tab.press("Enter")
        await tab.wait_for(f"location.hash !== '#/talk/{talk.id}'")
        await tab.wait_for_text("You said: And now?")
        await tab.wait_for_text("A summary stands for earlier messages.")
        assert list_complaints(tab) == []
