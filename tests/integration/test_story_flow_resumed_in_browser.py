"""A flow is watched while it works, stopped, resumed, and followed to its verdict."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.runs.scripting import hold_slow_answers, write_script
from support.screens.browsers import Tab, open_browser

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

DIAGRAM = """START --> P0["Draft<br/>it"] --> C{good?}
    C -->|good| P1[Say it well] --> END
    C -->|bad| P0"""
STEP = "Array.from(document.querySelectorAll('[role=treeitem]'))"


@pytest_asyncio.fixture(loop_scope="module")
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with open_browser(tmp_path / "browser") as opened:
        yield opened


async def press(tab: Tab, role: str, name: str) -> None:
    """Press a button or a link that a screen reader announces with this name."""
    found = f"Array.from(document.querySelectorAll({json.dumps(role)}))"
    named = f"each.textContent.trim() === {json.dumps(name)}"
    wanted = f"{found}.find((each) => each.offsetParent && {named})"
    await tab.wait_for(wanted)
    await tab.evaluate(f"{wanted}.click()")


async def wait_for_step(tab: Tab, *words: str) -> None:
    """Wait until a step is told with all of these words."""
    told = f"{STEP}.map((each) => each.getAttribute('aria-label'))"
    await tab.wait_for(
        f"{told}.some((name) => {json.dumps(words)}.every((word) => name.includes(word)))"
    )


async def test_a_flow_is_watched_stopped_resumed_and_judged(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing: set[str | None] = set()
    hold_slow_answers(monkeypatch, passing.__contains__)
    script = write_script(
        tmp_path,
        {"match": "Draft", "contents": [{"text": "A good one: 42."}]},
        {"match": "Polish", "contents": [{"text": "It is **42**."}], "delay_seconds": 1.0},
        {"match": "Polish", "contents": [{"text": "It is **42**."}], "delay_seconds": 1.0},
    )
    conditions = [
        {"evaluation_type": "CONTAINS", "expected_value": each, "description": f"Says {each}"}
        for each in ("42", "43")
    ]
    task = compose_task(DIAGRAM, "Draft it.", "Polish it.", script=script, conditions=conditions)
    task["goal"]["description"] = "Six times nine, said well"
    async with serving(tmp_path) as daemon:
        _, run = await daemon.ask("POST", "/runs", {"task": task})
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for_text("working", ".rows .mark.working")
        await press(tab, "a", "Six times nine, said well")

        # the first box is done, the second is being worked at, and its question is beside it
        await wait_for_step(tab, "Visit Draft it (P0)", "begins after")
        await wait_for_step(tab, "Visit Say it well (P1)", "in progress")
        await tab.wait_for_text("running", ".nodes .mark.working")
        await tab.wait_for_text("Polish it.", ".speech .message.user")
        await tab.wait_for("document.querySelector('.diagram').style.height")  # it is drawn

        await press(tab, "button", "Stop")
        await tab.wait_for_text("stopped", ".summary .mark")
        assert "answer" in await tab.evaluate("document.querySelector('.summary').innerText")
        await press(tab, "button", "Resume")
        await tab.wait_for_text("working", ".summary .mark.working")
        await wait_for_step(tab, "Visit Say it well (P1)", "in progress")
        passing.add("Polish")

        # the goal was missed: in words and not in green
        await tab.wait_for_text("goal not met", ".summary .mark.failed")
        await tab.wait_for_text("It is 42.", ".final")
        await tab.wait_for_text("! not met", ".verdicts")
        assert await tab.evaluate("document.querySelectorAll('.verdicts .mark.ended').length") == 1
        await tab.wait_for(
            f"!{STEP}.some((each) => each.getAttribute('aria-label').includes('in progress'))"
        )

        # by keyboard from the last model request to its answer
        await tab.evaluate("document.querySelector('[role=tree]').focus()")
        await tab.press("End")
        active = (
            "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        )
        for _ in range(8):
            if "Model request" in str(await tab.evaluate(f"{active}.getAttribute('aria-label')")):
                break
            await tab.press("ArrowUp")
        await tab.press("Enter")
        await tab.wait_for("document.activeElement.matches('article.message.assistant.chosen')")
        assert "It is 42." in await tab.evaluate("document.activeElement.textContent")

        # a shared link leads to the same step
        address = await tab.evaluate("location.href")
        assert "step=" in address
        await tab.visit("about:blank")
        await tab.visit(address)
        await tab.wait_for_text("It is 42.", "article.message.assistant.chosen")
        # a visit that has just begun has no messages yet
        assert [each for each in tab.complaints if "404" not in each] == []
        assert run["id"] in address
