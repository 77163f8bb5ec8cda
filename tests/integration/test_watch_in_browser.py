"""Runs are watched: as lines with conditions, and as steps on a time axis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.runs.acting import invoke, say
from support.runs.planted import NOON, Planting
from support.screens.browsers import Tab, open_browser
from vibe_llms.invocables import produce_invoker

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

EVIL = "<img src=x onerror='window.executed=1'>\u202e<script>window.executed=1</script>" + "x" * 900
NAMES = (
    "Array.from(document.querySelectorAll('[role=treeitem]'),"
    " (each) => each.getAttribute('aria-label'))"
)


def pay(to: str) -> str:
    """Pays."""
    return f"paid {to}"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """One browser for all tests."""
    async with open_browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Tab) -> Tab:
    """An empty page."""
    await browser.look()
    await browser.visit("about:blank")
    browser.forget()
    return browser


async def measure(tab: Tab, steps: list[dict[str, Any]], moments: list[float]) -> dict[str, Any]:
    """Return places of moments on the axis of steps, its pauses and its ticks."""
    script = f"""import(new URL('time-axis.js', document.baseURI)).then(({{ composeScale }}) => {{
        const scale = composeScale({json.dumps(steps)}, 0);
        return {{ places: {json.dumps(moments)}.map(scale.place), pauses: scale.pauses.length,
          ticks: scale.survey(0, 1) }};
    }})"""
    found: dict[str, Any] = await tab.evaluate(script)
    return found


def step(begin: float, seconds: float, **more: Any) -> dict[str, Any]:
    """Return a step as the daemon describes it, as far as the axis needs it."""
    started = (NOON + timedelta(seconds=begin)).isoformat()
    fields = {"kind": "model", "state": "done", "conversations": [], "started": started}
    return {**fields, "seconds": seconds, **more}


async def test_a_long_wait_leaves_room_for_the_work(tab: Tab, tmp_path: Path) -> None:
    noon = NOON.timestamp()
    async with serving(tmp_path) as daemon:
        await tab.visit(f"{daemon.url}/page/#/runs")
        told = await measure(
            tab,
            [step(0, 4), step(4, 7200, kind="approval", state="waiting"), step(7204, 5)],
            [noon, noon + 4, noon + 3600, noon + 7204, noon + 7209, noon - 9, noon + 9e9],
        )
        places = told["places"]
        assert places[0] == 0
        assert places[1] > 0.4  # four of nine seconds of work
        assert places == [*sorted(places[:5]), 0, 1]
        assert places[4] == 1
        assert told["pauses"] == 1
        assert [text for _, text in told["ticks"]][:2] == ["0", "2 s"]
        assert not [at for at, _ in told["ticks"] if places[1] <= at < places[3]]
        assert told["ticks"][-1][1].startswith("2:00:")
        # whatever the clocks say, places are on the axis and in order
        for steps in (
            [step(0, 0)],
            [step(500, 2), step(0, 1), step(-9e8, 0.001)],
            [step(60 * n, 0.01) for n in range(2_000)],
            [],
        ):
            told = await measure(tab, steps, [noon + each for each in range(-100, 9_000, 50)])
            assert told["places"] == sorted(told["places"])
            assert all(0 <= each <= 1 for each in told["places"])
            assert told["pauses"] <= 12
            assert len(told["ticks"]) < 12


async def test_thousands_of_steps_are_few_elements(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        run = Planting("a" * 32)
        run.ask("Look around.")
        for number in range(2_000):
            run.call(f"look{number}", "seen", seconds=0.5)
        run.end("limit", limit="run_steps")
        run.plant(daemon.premises.store)
        await tab.visit(f"{daemon.url}/page/#/runs/{run.identity}")
        await tab.wait_for(f"{NAMES}.some((name) => name.includes('Call look3'))")
        assert await tab.evaluate(f"{NAMES}.length") < 60
        size = "document.querySelector('[role=treeitem]').getAttribute('aria-setsize')"
        assert await tab.evaluate(size) == "4000"
        await tab.evaluate("document.querySelector('[role=tree]').focus()")
        await tab.press("End")
        await tab.wait_for(f"{NAMES}.some((name) => name.includes('Call look1999'))")
        assert await tab.evaluate(f"{NAMES}.length") < 60
        await tab.press("Enter")
        active = "document.activeElement"
        await tab.wait_for(f"{active}.matches('article') && {active}.textContent.includes('1999')")
        assert await tab.evaluate("document.querySelector('h1').textContent") == "Look around."


async def test_no_name_of_a_step_is_executed_and_none_breaks_the_page(
    tab: Tab, tmp_path: Path
) -> None:
    """Also with clocks that go back, without an end, on a phone, and in the list."""
    async with serving(tmp_path) as daemon:
        run = Planting("a" * 32, model=EVIL)
        run.ask(EVIL)
        run.call(EVIL, EVIL, arguments=json.dumps({"x": EVIL}))
        run.pass_time(-500)
        run.call("back", "in time")
        run.request()  # without an end
        run.plant(daemon.premises.store, name=EVIL[:200], tags=[EVIL])
        await tab.look(width=380)
        for place, shown in (
            (f"#/runs/{run.identity}", "document.querySelector('.step')"),
            (
                f"#/runs?query=IMG&tag={EVIL[:9]}&state={EVIL[:9]}",
                "document.querySelector('#tag')",
            ),
            ("#/runs?query=IMG", "document.querySelector('.rows .title')"),
        ):
            await tab.visit("about:blank")
            await tab.visit(f"{daemon.url}/page/{place}")
            await tab.wait_for(shown)
            assert await tab.evaluate("window.executed") is None
            assert await tab.evaluate("document.querySelector('main img, main script')") is None
            assert await tab.evaluate("document.documentElement.scrollWidth") <= 380
        assert not [each for each in tab.complaints if "status of 4" not in each]
        await tab.look()


async def test_a_run_says_when_how_long_and_what_it_cost(tab: Tab, tmp_path: Path) -> None:
    """Not a price that nobody asks, and not a time without its day."""
    async with serving(tmp_path) as daemon:
        for letter, cents in (("a", 0.0), ("b", 2.5)):
            run = Planting(letter * 32)
            run.ask(f"Question {letter}")
            run.say("Yes.", seconds=75, tokens=1_200, cents=cents)
            run.end()
            run.plant(daemon.premises.store, tags=["birds"])
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for_text("Question a", ".rows")
        lines = await tab.evaluate(
            "Array.from(document.querySelectorAll('.rows li'), (each) => each.innerText)"
        )
        assert all("1 min 15 s" in each and "1,200 tokens" in each for each in lines)
        assert all("birds" in each and "20" in each and "Nov" in each for each in lines)
        assert [("¢" in each) for each in lines] == ["Question b" in each for each in lines]
        await tab.click(f"#run-{'b' * 32}")
        await tab.wait_for(f"{NAMES}.some((name) => name.includes('2.5 ¢'))")


async def test_an_approval_is_a_bar_until_it_is_given(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        run_id = await daemon.start([invoke("pay", to="Ann")], [say("Done.")])
        await tab.visit(f"{daemon.url}/page/#/runs/{run_id}")
        await tab.wait_for(f"{NAMES}.some((name) => /Approval of pay, waiting/.test(name))")
        await tab.click(".approval button.main")
        await tab.wait_for(f"{NAMES}.some((name) => /Approval of pay, .*allow/.test(name))")
        await tab.wait_for(f"{NAMES}.some((name) => /^Call pay, /.test(name))")
        await tab.wait_for(f"{NAMES}.filter((name) => /^Model request/.test(name)).length === 2")


async def test_visits_of_a_flow_open_and_close_by_keyboard(tab: Tab, tmp_path: Path) -> None:
    diagram = 'START --> P0["Draft<br/>it"] --> P1[Mend it] --> END'
    async with serving(tmp_path) as daemon:
        task = compose_task(diagram, "first words", "last words")
        _, run = await daemon.ask("POST", "/runs", {"task": task})
        await daemon.watch(run["id"])
        await tab.visit(f"{daemon.url}/page/#/runs/{run['id']}")
        inner = f"{NAMES}.filter((name) => name.startsWith('Model request')).length"
        await tab.wait_for(f"{inner} === 2")
        await tab.evaluate("document.querySelector('[role=tree]').focus()")
        for key, count in (("ArrowDown", 2), ("ArrowLeft", 1), ("ArrowRight", 2)):
            await tab.press(key)
            await tab.wait_for(f"{inner} === {count}")
        await tab.press("Enter")
        await tab.wait_for_text("first words", ".speech .message.assistant")
        await tab.wait_for_text("Draft it (P0)", ".speech .about")


async def test_leaving_a_page_that_is_loading_shows_the_next_one(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        await tab.visit(f"{daemon.url}/page/#/approvals")
        await tab.wait_for_text("Approvals", "main h1")
        slow = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        await tab.call("Network.emulateNetworkConditions", latency=150, **slow)
        await tab.evaluate(
            "new Promise((go) => {"
            " addEventListener('hashchange', go, { once: true }); location.hash = '#/runs' })"
        )
        await tab.evaluate("location.hash = '#/conversations'")
        await tab.wait_for_text("Conversations", "main h1")
        await asyncio.sleep(0.5)
        await tab.call("Network.emulateNetworkConditions", latency=0, **slow)
        assert (
            await tab.evaluate("document.querySelector('main h1').textContent") == "Conversations"
        )
