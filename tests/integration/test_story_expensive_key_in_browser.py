"""A key that spends too much is found on the gateway's page, limited and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.gateways.key_holders import create_key
from support.gateways.operated import OperatedGateway, operate
from support.screens.browsers import Tab, open_browser
from vibe_llms.testing.simulator import Say, Simulator

pytestmark = pytest.mark.browser


def find_button(name: str) -> str:
    """Return an expression for a visible button or link, by the name that a screen reader says."""
    return (
        f"Array.from(document.querySelectorAll('button, a')).find((each) => each.offsetParent"
        f" && (each.getAttribute('aria-label') ?? each.textContent).trim() === {json.dumps(name)})"
    )


async def press(tab: Tab, name: str) -> None:
    """Press a button or a link when it is there."""
    await tab.wait_for(find_button(name))
    await tab.evaluate(f"{find_button(name)}.click()")


async def ask_for_an_answer(gateway: OperatedGateway, simulator: Simulator, key: str) -> str:
    """Ask as a client; return the error in one line, or nothing."""
    simulator.enqueue(Say("The North Sea."))
    status, body = await gateway.converse(key, max_completion_tokens=99)
    return "" if status == 200 else str(json.loads(body)["error"]["message"])


async def test_a_key_that_spends_too_much_is_found(tmp_path: Path) -> None:
    async with (
        Simulator() as simulator,
        operate(tmp_path, simulator.url) as gateway,
        open_browser(tmp_path / "browser") as tab,
    ):
        keys = {name: create_key(gateway.keys, name) for name in ("ada", "nightly job", "bob")}
        for name, count in (("ada", 1), ("nightly job", 6), ("bob", 2)):
            for _ in range(count):
                assert await ask_for_an_answer(gateway, simulator, keys[name]) == ""

        # The operator opens the page, which asks for a key.
        await tab.look()
        await tab.visit(f"{gateway.url}/page/")
        await tab.wait_for("document.querySelector('#asked-key')")
        await tab.type(gateway.key)
        await tab.press("Enter")
        await tab.wait_for_text("Requests a second", ".tiles")

        # Spending by key has the most expensive first; its page has the same by model.
        await press(tab, "Spending")
        await tab.wait_for_text("The most by the key nightly job", "#by-key")
        first = await tab.evaluate("document.querySelector('[aria-label=Keys] tbody th').innerText")
        assert first == "nightly job"
        await press(tab, "nightly job")
        await tab.wait_for_text("Spending of nightly job", "h1")
        await tab.wait_for_text("gpt-5.5", "[aria-label=Models]")

        # Its limit is set: the next request is refused with one line.
        await press(tab, "Limit nightly job")
        await tab.wait_for("document.activeElement?.id === 'asked-cents_per_day'")
        await tab.type("0")
        await tab.press("Enter")
        await tab.wait_for_text("0 ¢ a day", ".about")
        refusal = await ask_for_an_answer(gateway, simulator, keys["nightly job"])
        assert "'nightly job'" in refusal
        assert "0 cents" in refusal
        assert "\n" not in refusal
        assert await ask_for_an_answer(gateway, simulator, keys["bob"]) == ""

        # It is revoked: so is the next one.
        await press(tab, "Revoke nightly job")
        await tab.wait_for_text("Revoke the key of nightly job?", "dialog")
        await press(tab, "Revoke")
        await tab.wait_for_text("revoked", ".about")
        refusal = await ask_for_an_answer(gateway, simulator, keys["nightly job"])
        assert "was revoked" in refusal
        assert "\n" not in refusal

        # The requests show what happened, with the name and never the key.
        await press(tab, "Requests")
        await tab.wait_for_text("429")
        await tab.wait_for_text("401")
        text = await tab.evaluate("document.documentElement.outerHTML")
        assert not any(key in text for key in (*keys.values(), gateway.key))
        # The browser logs the one request without a key.
        assert [each for each in tab.complaints if "401" not in each] == []
