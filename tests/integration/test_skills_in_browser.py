"""System prompt and skills of a new conversation, on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.screens.browsers import Tab
from support.screens.talking import open_talk, read_id, send
from vibe_llms import Conversation
from vibe_llms.messages.views import text_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SYSTEM = "document.querySelector('#system').value"
BOXES = "Array.from(document.querySelectorAll('.skills input[type=checkbox]'))"
ATTACK = "<img src=x onerror='document.title=1'>"


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's skills."""
    folder = tmp_path / ".agents" / "skills"
    folder.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return folder


def write(folder: Path, name: str, prompt: str, description: str) -> None:
    text = f"description = {description!r}\nprompt = {prompt!r}\n"
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")


async def test_ticked_skills_are_given_to_the_run(tab: Tab, tmp_path: Path, skills: Path) -> None:
    write(skills, "pirate", "Talk like a pirate.", ATTACK)
    write(skills, "<b>bold<", "Be bold.", "The name is invalid.")
    (skills / "broken.toml").write_text("x", encoding="utf-8")
    async with serving(tmp_path) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.click(".system summary")
        await tab.wait_for(f"{BOXES}.length === 5")
        await tab.wait_for_text("built-in", ".skills")
        assert await tab.evaluate("document.querySelector('.skills :is(b b, img)')") is None
        names = [name for role, name, _ in await tab.survey_tree() if role == "checkbox"]
        assert names[0] == "pirate"  # those that cannot be used come last
        assert names[3] == "<b>bold<"
        await tab.wait_for_text("vibe skills validate broken", ".skills li:last-child")
        assert await tab.evaluate(f"{BOXES}[4].disabled")
        await tab.evaluate("document.querySelector('#system').focus()")
        await tab.type("Be brief.")
        await tab.evaluate(f"{BOXES}[0].focus()")
        await tab.press(" ")
        await tab.wait_for_text("1 skill", ".system summary")

        # both survive a reload, as the message does
        await tab.evaluate("window.isOld = true, location.reload()")
        await tab.wait_for(f"!window.isOld && {BOXES}[0]?.checked")
        assert await tab.evaluate(SYSTEM) == "Be brief."
        await send(tab, "Hello")
        await tab.wait_for_text("You said: Hello", ".message.assistant")
        identity = await read_id(tab)
        found = Conversation.restore(daemon.premises.store, identity).canisters
        assert [text_of(each) for each in found[:3]] == [
            "Talk like a pirate.",
            "Be brief.",
            "Hello",
        ]

        # another message of the conversation does not repeat them, nor does the next conversation
        await tab.click("#tools")
        await tab.wait_for("document.activeElement.id === 'choice'")
        for key in ("Enter", "ArrowDown", "Enter", "Escape"):
            await tab.press(key)
        await tab.wait_for("document.activeElement.id === 'tools'")
        await send(tab, "Again")
        await tab.wait_for_text("You said: Again", ".messages > article:last-of-type")
        found = Conversation.restore(daemon.premises.store, identity).canisters
        assert [each.role for each in found].count("supervisor") == 2
        await tab.evaluate("location.hash = '#/talk'")
        await tab.wait_for("document.querySelector('#system')")
        assert await tab.evaluate(SYSTEM) == ""
        assert not await tab.evaluate("document.querySelector('.system').open")
        assert tab.complaints == []


async def test_many_skills_are_searched(tab: Tab, tmp_path: Path, skills: Path) -> None:
    for number in range(120):
        write(skills, f"skill-{number:03}", "Help.", f"Helps with case {number}. {ATTACK}")
    async with serving(tmp_path) as daemon:
        await open_talk(tab, daemon, tmp_path)
        await tab.look(width=380)
        await tab.click(".system summary")
        await tab.wait_for(f"{BOXES}.length === 122")
        await tab.evaluate("document.querySelector('#skill').focus()")
        await tab.type("case 77")
        shown = f"{BOXES}.filter((each) => each.offsetParent).length"
        assert await tab.evaluate(shown) == 1
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 380
        assert await tab.evaluate("document.querySelector('.skills img')") is None
        await tab.type(" none")
        await tab.wait_for_text("No matches.", ".skills")
