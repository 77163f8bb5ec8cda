"""That a real browser shows runs and conversations, answers for a person, and runs nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acting import invoke, say
from browsers import Tab, open_browser
from doormen import Doorman
from run_daemons import Daemon, serving
from vibe_llms.invocables import produce_invoker

pytestmark = pytest.mark.browser

ATTACK = (
    "</script><img src=x onerror='document.title=1'><b onclick=x>bold</b>\u202e <script>x</script>"
)
DONE = [say(f"Done. {ATTACK}")]


def pay(to: str, amount: int) -> str:
    """Pays somebody. <img src=x onerror='document.title=1'>"""
    return f"paid {amount} to {to}"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@asynccontextmanager
async def looking(
    tmp_path: Path, *tools: Any, **settings: Any
) -> AsyncIterator[tuple[Daemon, Tab]]:
    """Serves runs, and opens a browser without a page."""
    async with serving(tmp_path, *tools, **settings) as daemon, open_browser(tmp_path) as tab:
        await tab.look()
        yield daemon, tab


def has(text: str, place: str = "main") -> str:
    """An expression: a place shows a text."""
    return f"document.querySelector({json.dumps(place)})?.textContent.includes({json.dumps(text)})"


async def click(tab: Tab, selector: str) -> None:
    """Clicks what is found first, when it can be seen."""
    found = f"document.querySelector({json.dumps(selector)})"
    await tab.wait_for(f"{found}?.offsetParent && !{found}.disabled")
    await tab.evaluate(f"{found}.click()")


async def test_an_approval_is_given_and_the_run_is_seen_to_end(tmp_path: Path) -> None:
    async with looking(tmp_path, PAY) as (daemon, tab):
        number = 12345678901234567890
        run_id = await daemon.start([invoke("pay", to=ATTACK, amount=number)], DONE)
        await tab.visit(f"{daemon.url}/page")
        await tab.wait_for(has("waiting", ".rows"))
        await tab.wait_for("document.querySelector('#waiting').textContent === '1'")
        await click(tab, f"#run-{run_id}")
        await tab.wait_for("document.querySelector('.approval .arguments')")
        shown = await tab.evaluate("document.querySelector('.approval .arguments').textContent")
        assert json.loads(shown) == {"to": ATTACK, "amount": number}
        assert "\u202e" not in shown  # what turns the direction of words is seen
        await click(tab, ".approval button.main")
        await tab.wait_for(has("Allowed: pay.", ".approval .outcome"))
        await tab.wait_for(has("ended", ".summary"))
        await tab.wait_for(has(f"Done. {ATTACK}", ".messages"))
        await tab.wait_for(has("A call is done", ".log"))
        # all that was said by strangers is text
        marks = "document.querySelectorAll('main img, main script, main b[onclick]').length"
        assert await tab.evaluate(marks) == 0
        assert tab.complaints == []
        assert all(url.startswith(daemon.url) for url in tab.requests)


async def test_who_is_slower_is_told_who_was_faster(tmp_path: Path) -> None:
    async with looking(tmp_path, PAY) as (daemon, tab):
        run_id = await daemon.start([invoke("pay", to="Ann", amount=1)], DONE)
        await tab.visit(f"{daemon.url}/page/#/runs/{run_id}")
        await tab.wait_for("document.querySelector('.approval button.main')")
        _, told = await daemon.ask("GET", f"/runs/{run_id}/approvals")
        request = told["data"][0]["request"]
        path = f"/runs/{run_id}/approvals"
        said = {"digest": request["digest"], "decision": "deny", "reason": "No."}
        status, _ = await daemon.ask("POST", path, said)
        assert status == 200
        await tab.evaluate("document.querySelector('.approval button.main')?.click()")
        await tab.wait_for(has("Refused by somebody else: pay.", ".approval .outcome"))


async def test_a_conversation_is_found_named_forked_and_written_out(tmp_path: Path) -> None:
    async with looking(tmp_path) as (daemon, tab):
        run_id = await daemon.start(DONE)
        await daemon.watch(run_id)
        downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
        await tab.call("Page.setDownloadBehavior", **downloads)
        await tab.visit(f"{daemon.url}/page/#/conversations")
        await tab.wait_for(has("Do it.", ".rows"))
        await tab.evaluate("document.querySelector('#query').value = 'bold'")
        await click(tab, ".search button")
        await tab.wait_for("document.querySelector('.snippet mark')?.textContent === 'bold'")
        await click(tab, ".rows a")
        await tab.wait_for(has(ATTACK, ".message.assistant"))
        await click(tab, "#rename")
        await tab.wait_for("document.activeElement.id === 'asked-name'")
        await tab.evaluate(f"document.activeElement.value = {json.dumps(ATTACK)}")
        await tab.press("Enter")
        await tab.wait_for(f"document.querySelector('h1').textContent === {json.dumps(ATTACK)}")
        await click(tab, "#export")
        await tab.wait_for(has(f"Written to {run_id}.md", "#said"))
        await click(tab, "#message-0 button")
        await tab.wait_for(f"!location.hash.endsWith('{run_id}') && {has('1 message')}")
        # a fork that has not run is none; nothing else was amiss, such as the policy
        assert {each for each in tab.complaints if "404" not in each} == set()


async def test_a_key_is_asked_for_and_the_keyboard_is_enough(tmp_path: Path) -> None:
    async with looking(tmp_path, PAY, authorizer=Doorman()) as (daemon, tab):
        ann = {"Authorization": "Bearer ann"}
        run_id = await daemon.start([invoke("pay", to="Ann", amount=1)], DONE, **ann)
        await tab.visit(f"{daemon.url}/page/#key=ann")
        await tab.wait_for("location.hash === '#/runs'")
        await tab.wait_for(has("waiting", ".rows"))
        await tab.wait_for("document.activeElement.tagName === 'H1'")
        for _ in range(12):
            if await tab.evaluate("document.activeElement.className") == "title":
                break
            await tab.press("Tab")
        await tab.press("Enter")
        await tab.wait_for(f"location.hash.endsWith('{run_id}')")
        await tab.wait_for("document.querySelector('.approval button.main')")
        for _ in range(12):
            if (await tab.evaluate("document.activeElement.textContent")) == "Allow":
                break
            await tab.press("Tab")
        await tab.press("Enter")
        await tab.wait_for(has("Allowed: pay.", ".outcome"))
        assert await tab.evaluate("document.activeElement.className") == "outcome"
