"""Story: a person without a key opens the page and has a first chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.runs.scripting import write_script
from support.screens.browsers import Tab
from support.screens.talking import FIELD, SCRIPT

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


async def test_a_first_chat_needs_no_key(tab: Tab, tmp_path: Path) -> None:
    write_script(tmp_path, *SCRIPT)
    (tmp_path / "none.toml").write_text('model = "play"\n', encoding="utf-8")
    async with serving(tmp_path) as daemon:
        # The address alone leads to the page, which asks for no key and has chosen a model.
        await tab.visit(f"{daemon.url}/page/")
        await tab.wait_for("location.hash === '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        assert not await tab.evaluate("document.querySelector('dialog[open]')")
        await tab.wait_for("document.querySelector('#model')")
        names = {node[:2] for node in await tab.survey_tree()}
        assert ("heading", "Start a conversation") in names
        assert ("textbox", "Message") in names
        assert ("button", "Attach files") in names
        assert any(role == "button" and name.startswith("Model: ") for role, name in names)

        # By keyboard alone: choose the alias, write, send, and read the answer.
        await tab.evaluate("document.querySelector('#model').focus()")
        await tab.press("Enter")
        await tab.wait_for("document.activeElement.id === 'choice'")
        await tab.type("play")
        await tab.press("Enter")
        await tab.wait_for_text("play", "#model")
        await tab.wait_for("document.activeElement.id === 'model'")
        await tab.evaluate("document.querySelector('#prompt').focus()")
        await tab.type("Hello there")
        await tab.evaluate("window.isOld = true, location.reload()")
        await tab.wait_for(f"!window.isOld && {FIELD} === 'Hello there'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.press("Enter")
        await tab.wait_for_text("You said: Hello there", ".message.assistant")
        await tab.wait_for_text("Hello there", ".recent [aria-current=page]")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.type("And again")
        await tab.press("Enter")
        await tab.wait_for_text("You said: And again", "#message-3")
        articles = [name for role, name, _ in await tab.survey_tree() if role == "article"]
        assert articles == ["You 1", "Assistant 2", "You 3", "Assistant 4"]
        assert [each for each in tab.complaints if "404" not in each] == []
        assert all(url.startswith(daemon.url) for url in tab.requests if url != "about:blank")
