"""A conversation of 5,000 messages on the page: few of them are in the document at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.screens.browsers import Tab
from support.screens.talking import open_talk, save_long, send

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

COUNT = 5_000
MOST = 3_000  # elements of the document
TOP = "document.querySelector('#message-{0}')?.getBoundingClientRect().top"


async def count_elements(tab: Tab) -> int:
    return int(await tab.evaluate("document.getElementsByTagName('*').length"))


async def test_few_of_its_messages_are_in_the_document(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        identity = save_long(daemon.premises.store, COUNT)
        await open_talk(tab, daemon, tmp_path)
        tab.forget()
        await tab.evaluate(f"location.hash = '#/talk/{identity}'")
        await tab.wait_for_text("Question 2499", "#message-4998")
        await tab.wait_for_text("Question 0", "h1")
        reads = [url for url in tab.requests if f"/conversations/{identity}?" in url]
        assert len(reads) == 2  # the beginning, for the title, and the end
        assert await count_elements(tab) < MOST
        middle = "scrollTo(0, document.documentElement.scrollHeight / 2)"
        for scroll, index in ((middle, None), ("scrollTo(0, 0)", 0)):
            await tab.evaluate(scroll)
            shown = f"{TOP.format(index)} >= 0" if index is not None else "true"
            there = "Array.from(document.querySelectorAll('.drawn > article')).some((each) => "
            there += "each.getBoundingClientRect().top > 0 && each.offsetTop < scrollY + 900)"
            await tab.wait_for(f"{shown} && {there}")
            assert await count_elements(tab) < MOST
        article = ("article", "You 1")
        assert article in [node[:2] for node in await tab.survey_tree()]
        properties = "['role', 'ariaPosInSet', 'ariaSetSize'].map((name) => {0}[name] ?? {0}.role)"
        found = await tab.evaluate(properties.format("document.querySelector('#message-0')"))
        assert found[1:] == ["1", str(COUNT)]
        assert [each for each in tab.complaints if "404" not in each] == []


async def test_what_is_seen_stays_in_its_place(tab: Tab, tmp_path: Path) -> None:
    """While messages are drawn before it and removed behind it."""
    async with serving(tmp_path) as daemon:
        identity = save_long(daemon.premises.store, COUNT)
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(f"location.hash = '#/talk/{identity}/2500'")
        await tab.wait_for("document.activeElement.id === 'message-2500'")
        top = await settle(tab, 2500)
        assert 0 < top < 900
        for number in range(1, 11):
            await tab.evaluate("scrollBy(0, -150)")
            moved = await settle(tab, 2500) - top
            assert abs(moved - 150 * number) < 2 * number + 1  # positions are whole pixels
        assert await tab.evaluate("document.querySelector('#message-2490')")
        for _ in range(60):
            await tab.evaluate("scrollBy(0, -150)")
            await settle(tab)
        assert await tab.evaluate("document.querySelector('#message-2500')") is None


async def settle(tab: Tab, index: int | None = None) -> float:
    """Let three frames pass; return the place of a message."""
    frames = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => "
    await tab.evaluate(frames + "requestAnimationFrame(go))))")
    return 0.0 if index is None else float(await tab.evaluate(TOP.format(index)))


async def test_an_edit_and_an_answer_survive_a_look_elsewhere(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        identity = save_long(daemon.premises.store, 1_000)
        await open_talk(tab, daemon, tmp_path)
        await tab.evaluate(f"location.hash = '#/talk/{identity}/100'")
        await tab.click("#message-100 .edit")
        await tab.wait_for("document.activeElement.closest('.editing')")
        await tab.evaluate("document.activeElement.value = 'Another question'")
        await tab.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        await tab.wait_for_text("Question 499", "#message-998")
        await tab.wait_for("!document.querySelector('#message-100')")
        await send(tab, "One more")
        await tab.wait_for_text("One more", "#message-1000")
        await tab.wait_for_text("You said: One more", "#message-1001")
        await tab.wait_for("document.querySelector('.pending').childElementCount === 0")
        end = "innerHeight + scrollY > document.documentElement.scrollHeight - 5"
        await tab.wait_for(end)
        await tab.evaluate("scrollTo(0, 0)")
        await tab.wait_for(f"{TOP.format(0)} > 0")
        while await tab.evaluate("!document.querySelector('#message-100')"):
            await tab.evaluate("scrollBy(0, 800)")
            await asyncio.sleep(0.02)
        field = "document.querySelector('#message-100 .editing textarea')?.value"
        await tab.wait_for(f"{field} === 'Another question'")
        await tab.click(".editing button.main")
        await tab.wait_for(f"!location.hash.includes('{identity}')")
        await tab.wait_for_text("You said: Another question", "#message-101")
