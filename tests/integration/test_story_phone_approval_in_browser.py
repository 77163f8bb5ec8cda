"""Story: a tool is approved from a phone, with touches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.daemons.run_daemons import serving
from support.runs.acting import invoke, say
from support.screens.browsers import Tab
from support.screens.talking import PAY
from vibe_llms import Conversation
from vibe_llms.messages.views import text_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

WIDTH, HEIGHT = 380, 700
SMALLEST = 24  # pixels of a target, by WCAG 2.2


@pytest_asyncio.fixture(loop_scope="module")
async def phone(tab: Tab) -> AsyncIterator[Tab]:
    """The browser as a phone: narrow, with a finger in place of a mouse."""
    await tab.look(width=WIDTH, height=HEIGHT)
    await tab.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=1)
    await tab.call("Emulation.setEmitTouchEventsForMouse", enabled=False)
    yield tab
    await tab.call("Emulation.setTouchEmulationEnabled", enabled=False)


async def tap(tab: Tab, selector: str) -> None:
    """Touch the middle of an element, which has to be seen and large enough."""
    found = f"document.querySelector({json.dumps(selector)})"
    await tab.wait_for(f"{found}?.offsetParent && !{found}.disabled")
    await tab.evaluate(f"{found}.scrollIntoView({{ block: 'center' }})")
    place = await tab.evaluate(f"{found}.getBoundingClientRect().toJSON()")
    assert place["height"] >= SMALLEST
    assert place["width"] >= SMALLEST
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    assert 0 < x < WIDTH
    assert 0 < y < HEIGHT
    assert await tab.evaluate(f"{found}.contains(document.elementFromPoint({x}, {y}))"), selector
    await tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    await tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


async def test_a_tool_is_approved_with_a_touch(phone: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        long = "a-very-long-name-without-a-space-" * 8
        run_id = await daemon.start([invoke("pay", to=long)], [say("It is paid.")])
        await daemon.premises.wait(run_id, "waiting")
        await phone.visit(f"{daemon.url}/page/")
        await phone.wait_for("document.querySelector('#waiting').textContent === '1'")
        await tap(phone, "nav a[href='#/approvals']")
        await phone.wait_for_text("pay awaits approval", ".approval")
        assert await phone.evaluate("document.documentElement.scrollWidth") <= WIDTH
        shown = await phone.evaluate("document.querySelector('.arguments').textContent")
        assert json.loads(shown) == {"to": long}

        # The conversation shows the call in its place, where it is approved.
        await phone.evaluate(f"location.hash = '#/talk/{run_id}'")
        await phone.wait_for_text("pay awaits approval", ".thread .approval")
        assert await phone.evaluate("document.documentElement.scrollWidth") <= WIDTH
        await tap(phone, ".thread .approval button.main")
        await phone.wait_for_text("Allowed: pay.", ".approval .outcome")
        await phone.wait_for_text("It is paid.", ".message.assistant:last-of-type")
        await phone.wait_for("document.querySelector('#waiting').hidden")
        found = Conversation.restore(daemon.premises.store, run_id).canisters
        assert f"paid {long}" in [text_of(each) for each in found]

        # Calls are folded, and a touch unfolds what was called and what came back.
        await tap(phone, ".message.invocation summary")
        await phone.wait_for_text(long, ".message.invocation details[open]")
        await tap(phone, ".message.result summary")
        await phone.wait_for_text(f"paid {long}", ".message.result details[open]")
        assert await phone.evaluate("document.documentElement.scrollWidth") <= WIDTH
        assert [each for each in phone.complaints if "404" not in each] == []
