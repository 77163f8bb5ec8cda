"""Story: a person edits a question, walks the branches, and compares two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.screens.browsers import Tab
from support.screens.talking import open_talk, read_id, send
from vibe_llms import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FOCUSED = "document.activeElement.textContent"


async def test_a_fork_is_walked_to_and_compared(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.look(width=1280)
        await send(tab, "Hello sun")
        await tab.wait_for_text("You said: Hello sun", ".message.assistant")
        first = await read_id(tab)
        assert await tab.evaluate("document.querySelector('.branches').hidden")
        await tab.click("#message-0 .edit")
        await tab.wait_for("document.activeElement.closest('.editing')")
        await tab.evaluate("document.activeElement.value = 'Hello moon'")
        await tab.click(".editing button.main")
        await tab.wait_for_text("You said: Hello moon", ".message.assistant")
        second = await read_id(tab)

        # The tree beside the conversation says where they part, and the keys go through it.
        await tab.wait_for_text("2 branches", ".branches summary")
        await tab.wait_for_text("From the beginning", f"#branch-{second}")
        await tab.wait_for_text("You: Hello moon", f"#branch-{second}")
        await tab.evaluate(f"document.querySelector('#branch-{second}').focus()")
        await tab.press("ArrowLeft")
        await tab.wait_for(f"document.activeElement.id === 'branch-{first}'")
        await tab.press("Enter")
        await tab.wait_for(f"location.hash.startsWith('#/talk/{first}')")
        await tab.wait_for_text("You said: Hello sun", ".message.assistant")

        # The message that has two versions leads from one to the other.
        await tab.click("#message-0 .switch button:last-child")
        await tab.wait_for(f"location.hash === '#/talk/{second}/0'")
        await tab.wait_for_text("2 of 2", "#message-0 .switch")
        await tab.wait_for("document.activeElement.id === 'message-0'")

        await tab.click(f"#branch-{first} + .compare")
        await tab.wait_for(f"location.hash === '#/compare/{second}/{first}'")
        await tab.wait_for_text("Turn 1: changed", ".turn")
        words = "Array.from(document.querySelectorAll('{0}'), (each) => each.textContent)"
        assert await tab.evaluate(words.format(".side del")) == ["moon", "moon"]
        assert await tab.evaluate(words.format(".side ins")) == ["sun", "sun"]
        names = [name for role, name, _ in await tab.survey_tree() if role == "article"]
        sides = ("First: You", "Second: You", "First: Assistant", "Second: Assistant")
        assert names == [f"{side}, message {2 if 'Ass' in side else 1}" for side in sides]
        await tab.click(".sides.titles p:last-child a")
        await tab.wait_for_text("You said: Hello sun", ".message.assistant")
        assert [each for each in tab.complaints if "404" not in each] == []


async def test_branches_of_branches_keep_their_places(tab: Tab, tmp_path: Path) -> None:
    """Three versions of one message, one of them in a fork of a fork, and a deleted ancestor."""
    async with serving(tmp_path) as daemon:
        store = daemon.premises.store

        def add(parent: Conversation, at: int, *texts: str) -> Conversation:
            child = parent.fork(from_index=at)
            for text in texts:
                child.add_user_message(text)
            child.save(store)
            return child

        root = Conversation(metadata=ConversationMetadata(name="<b>Roots</b>"))
        for text in ("one", "two", "three"):
            root.add_user_message(text)
        root.save(store)
        left = add(root, 1, "two <img src=x>", "three")
        low = add(left, 1, "two again")
        deep = add(low, 2, "deeper")
        await tab.visit(f"{daemon.url}/page/#/talk/{deep.id}")
        await tab.wait_for_text("3 of 3", "#message-1 .switch")
        levels = "Array.from(document.querySelectorAll('.branches li'), (each) => each.ariaLevel)"
        assert await tab.evaluate(levels) == ["1", "2", "3", "4"]
        assert await tab.evaluate("document.querySelector('.branches :is(b, img)')") is None
        for other in (left, root):
            await tab.click("#message-1 .switch button")
            await tab.wait_for(f"location.hash === '#/talk/{other.id}/1'")
            await tab.wait_for("document.querySelector('#message-1 .switch')")
        store.delete(left.id)
        await tab.evaluate(f"location.hash = '#/talk/{deep.id}'")
        await tab.wait_for_text("deeper", "#message-2")
        await tab.wait_for_text("3 branches", ".branches summary")
        await tab.evaluate(f"location.hash = '#/compare/{deep.id}/{left.id}'")
        await tab.wait_for("!document.querySelector('#trouble').hidden")
