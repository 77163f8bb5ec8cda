"""The gateway's page in a real browser: harmless, readable without eyes, and at every width."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.gateways.key_holders import create_key
from support.gateways.operated import operate
from support.screens.browsers import Tab, open_browser
from vibe_llms.daemons.gateway.operate.history import BUCKET_SECONDS
from vibe_llms.daemons.records import CallRecord, UpstreamAttempt
from vibe_llms.foundation.package_data import access_data
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.testing.simulator import Say, Simulator

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

EVIL = "<img src=x onerror='window.executed=1'>\"'`<script>window.executed=1</script>\u202e"
VIEWS = ("traffic", "requests", "spending", "keys", "routing")
UNSAFE = """Array.from(document.querySelectorAll('body *')).filter((each) =>
  ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'META', 'STYLE', 'IMG'].includes(each.tagName)
  || (each.tagName === 'FORM' && each.hasAttribute('action'))
  || (each.tagName === 'A' && !each.getAttribute('href').startsWith('#'))
  || Array.from(each.attributes).some(({ name }) =>
    name.startsWith('on') || name === 'srcdoc' || name === 'style')
).map((each) => each.outerHTML.slice(0, 200))"""
OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"
TABLES = f"""
[models.{json.dumps(EVIL, ensure_ascii=False)}]
targets = ["openai_conversations:gpt-5.5"]
circuit = {{ failures = 1, window_seconds = 60, pause_seconds = 30 }}
[models.paid]
targets = [{json.dumps("anthropic:" + EVIL, ensure_ascii=False)}]
"""


@pytest_asyncio.fixture(loop_scope="module")
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    """A page."""
    async with open_browser(tmp_path / "browser") as tab:
        await tab.look()
        yield tab


async def show(tab: Tab, view: str) -> None:
    """Go to a view, and wait for its data."""
    await tab.evaluate(f"location.hash = '#/{view}'")
    await tab.wait_for(f"document.querySelector('nav [aria-current]').hash === '#/{view}'")
    await tab.wait_for("document.querySelector('main table, main .hint, main .none:not([hidden])')")


async def answer_evil(request: web.Request) -> web.Response:
    if request.path == "/v1/messages":
        usage = {"input_tokens": 9, "output_tokens": 9}
        content = [{"type": "text", "text": EVIL}]
        message = {"id": EVIL, "type": "message", "role": "assistant", "model": EVIL}
        return web.json_response({**message, "content": content, "usage": usage})
    body = {"error": {"message": EVIL, "type": EVIL, "code": EVIL, "param": EVIL}}
    return web.json_response(body, status=500, headers={"x-request-id": "<b>1</b>"})


async def test_nothing_that_a_client_or_a_vendor_says_is_executed(tab: Tab, tmp_path: Path) -> None:
    """Names of keys and models, errors of vendors, and headers of clients are only text."""
    vendor = web.Application()
    vendor.router.add_route("*", "/{path:.*}", answer_evil)
    async with TestServer(vendor) as server:
        upstream = str(server.make_url("")).rstrip("/")
        async with operate(tmp_path, upstream, tables=TABLES) as gateway:
            evil = EVIL.replace("\u202e", "")  # the name of a key is visible text
            key = create_key(gateway.keys, evil, models=(EVIL, "*"))
            headers = {"User-Agent": EVIL.replace("\u202e", "").replace("\n", "")}
            for model in (EVIL, EVIL, f"unknown:{EVIL}", "paid"):
                await gateway.converse(key, model, headers=headers)
            record = CallRecord(
                request_id="req_1", method="POST", path=EVIL, started=0, face="messages",
                way="translate", model=EVIL, address=EVIL, status=200, error=EVIL, detail=EVIL,
                subject=EVIL, client=EVIL, cache=EVIL, attempts=(
                    UpstreamAttempt(address=EVIL, error=EVIL, detail=EVIL, seconds=1),
                    UpstreamAttempt(address=EVIL),
                ),
                losses=(Loss(kind=LossKind.DROPPED, path=EVIL, reason=EVIL),),
            )  # fmt: skip
            record.started = asyncio.get_running_loop().time()
            gateway.service.report(record)
            await tab.visit(f"{gateway.url}/page/#key={gateway.key}")
            await tab.wait_for_text("onerror", "main table")
            for view in VIEWS:
                await show(tab, view)
                if view == "requests":
                    await tab.click("#show-req_1")
                    await tab.wait_for("document.querySelector('.inner')")
                await tab.evaluate(
                    "for (const e of document.querySelectorAll('details')) e.open = 1"
                )
                await tab.wait_for_text("onerror")
                assert await tab.evaluate(UNSAFE) == [], view
            await tab.evaluate("location.hash = '#/keys'")
            await tab.click(f"#limit-{key[3:11]}")
            await tab.wait_for("document.querySelector('#asking').open")
            assert await tab.evaluate(UNSAFE) == []
            assert await tab.evaluate("window.executed") is None
            assert tab.complaints == []
            assert all(url.startswith(gateway.url) for url in tab.requests)
            # A broken policy would be noticed: this element is unsafe, and blocked.
            await tab.evaluate("document.body.append(document.createElement('img'))")
            assert await tab.evaluate(UNSAFE) != []


async def test_a_key_is_added_and_shown_once(tab: Tab, tmp_path: Path) -> None:
    async with Simulator() as simulator, operate(tmp_path, simulator.url) as gateway:
        await tab.visit(f"{gateway.url}/page/#key={gateway.key}")
        await show(tab, "keys")
        assert gateway.key not in await tab.evaluate("location.href")
        await tab.click("#add")
        await tab.wait_for("document.activeElement?.id === 'asked-name'")
        await tab.type("ada")
        for name, text in (("cents_per_day", "500"), ("models", "gpt-*, claude-*")):
            await tab.evaluate(f"document.querySelector('#asked-{name}').focus()")
            await tab.type(text)
        await tab.press("Enter")
        await tab.wait_for_text("shown only here", ".created")
        key = await tab.evaluate("document.querySelector('.secret').textContent")
        simulator.enqueue(Say("The North Sea."))
        assert (await gateway.converse(key))[0] == 403  # the model has another name
        await tab.wait_for_text("gpt-*, claude-*; $5.00 a day")
        await tab.evaluate("document.querySelector('.created > button').click()")
        await tab.wait_for("!document.querySelector('.secret')")
        await show(tab, "traffic")
        await show(tab, "keys")
        assert key not in await tab.evaluate("document.documentElement.outerHTML")
        stored = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"
        assert key not in await tab.evaluate(stored)
        # The same name again is refused in one line.
        await tab.click("#add")
        await tab.wait_for("document.activeElement?.id === 'asked-name'")
        await tab.type("ada")
        await tab.press("Enter")
        await tab.wait_for_text("already exists", "#trouble")


async def test_own_keys_unchanged_limits_and_long_names(tab: Tab, tmp_path: Path) -> None:
    """The own key is revoked knowingly, limits of others stay, and rows stay low."""
    async with Simulator() as simulator, operate(tmp_path, simulator.url) as gateway:
        key = create_key(gateway.keys, "ada", operator=True)
        await gateway.converse(key, "nonsense-" * 33)
        await tab.visit(f"{gateway.url}/page/#key={gateway.key}")
        # The step of the request may be over by now.
        words = "/in the present step|in the last five minutes/"
        await tab.wait_for(f"{words}.test(document.querySelector('#rate')?.textContent)")
        await show(tab, "keys")
        await tab.click(f"#limit-{key[3:11]}")
        await tab.wait_for("document.querySelector('#asking').open")
        await gateway.ask("PATCH", f"/operate/keys/{key[3:11]}", {"models": ["gpt-*"]})
        await tab.evaluate("document.querySelector('#asked-cents_per_day').value = '7'")
        await tab.evaluate("document.querySelector('#asking form').requestSubmit()")
        await tab.wait_for_text("gpt-*; 7 ¢ a day")
        for own, words in ((gateway.key, "this page will refuse you"), (key, "It may operate")):
            await tab.click(f"#revoke-{own[3:11]}")
            await tab.wait_for_text(words, "#asking")
            await tab.press("Escape")
            await tab.wait_for("!document.querySelector('#asking').open")
        await show(tab, "requests")
        assert await tab.evaluate("document.querySelector('main tbody tr').offsetHeight") < 60


async def test_a_clients_key_sees_nothing_but_why(tab: Tab, tmp_path: Path) -> None:
    async with Simulator() as simulator, operate(tmp_path, simulator.url) as gateway:
        client = create_key(gateway.keys, "ada")
        await tab.visit(f"{gateway.url}/page/#key={client}")
        await tab.wait_for_text("'ada' may not operate this gateway", "#trouble")
        await tab.wait_for("!document.querySelector('.tiles dd')")


async def test_charts_have_words_and_tables_and_follow_the_keyboard(
    tab: Tab, tmp_path: Path
) -> None:
    async with Simulator() as simulator, operate(tmp_path, simulator.url) as gateway:
        remaining = BUCKET_SECONDS - time.time() % BUCKET_SECONDS
        if remaining < BUCKET_SECONDS / 2:
            await asyncio.sleep(remaining)  # so that all requests are in one step
        for _ in range(3):
            simulator.enqueue(Say("The North Sea."))
            await gateway.converse(gateway.key)
        [history] = [
            each for each in gateway.service.listeners if type(each).__name__ == "TrafficHistory"
        ]
        # As if it was a minute ago: the present ten seconds are not in the charts yet.
        buckets = history.buckets  # type: ignore[attr-defined]
        for number in list(buckets):
            buckets[number - 6] = buckets.pop(number)
        await tab.visit(f"{gateway.url}/page/#key={gateway.key}")
        await tab.wait_for_text("most 0.3 at", "#rate")
        tree = await tab.survey_tree()
        figures = [name for role, name, _ in tree if role in ("image", "img", "graphics-document")]
        assert "Requests a second" in figures
        assert ("heading", "Traffic") in [(role, name) for role, name, _ in tree]
        await tab.evaluate("document.querySelector('#rate .plot').focus()")
        await tab.press("ArrowLeft")
        await tab.wait_for_text("all 0 · failed 0", "#rate .at")
        async with asyncio.timeout(60):
            while "all 0.3" not in await tab.evaluate(
                "document.querySelector('#rate .at').textContent"
            ):
                await tab.press("ArrowLeft")
        await tab.wait_for_text("all 0.3", "#said")
        await tab.click("#rate summary")
        await tab.wait_for_text("0.3", "#rate table")
        rows = await tab.evaluate("document.querySelectorAll('#rate tbody tr').length")
        assert rows == 1


@pytest.mark.parametrize("width", [380, 768, 1280, 1920])
async def test_no_view_is_wider_than_the_window(tab: Tab, tmp_path: Path, width: int) -> None:
    async with Simulator() as simulator, operate(tmp_path, simulator.url) as gateway:
        create_key(gateway.keys, "a-name-of-many-letters-" * 6, models=("m" * 80, "n" * 80))
        simulator.enqueue(Say("The North Sea."))
        await gateway.converse(gateway.key)
        await tab.look(width=width)
        await tab.visit(f"{gateway.url}/page/#key={gateway.key}")
        for view in VIEWS:
            await show(tab, view)
            wider = await tab.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, (view, width)


async def test_the_first_view_loads_little() -> None:
    """Without the views that are loaded later."""
    names = ("operate.html", "page.css", "operate.css", "operate.js", "operate-traffic.js")
    names += ("operate-words.js", "charts.js", "shell.js", "service.js", "elements.js", "words.js")
    assert sum(len((access_data("page") / name).read_bytes()) for name in names) < 120_000
