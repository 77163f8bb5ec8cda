"""``vibe top`` as somebody sits before it: the keys, and what stands on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from acting import invoke, say
from hosted import Premises
from terminals import Terminals
from vibe_llms.agents.interfaces import ToldEvent
from vibe_llms.exceptions import TransportError
from vibe_llms.invocables import produce_invoker
from vibe_llms.runs.summaries import RunSummary

pytest.importorskip("textual")

from vibe_llms.interfaces.cli.top.screen import TopApp


def pay(purpose: str = "") -> str:
    """Pays."""
    return "paid"


class Flaky:
    """Runs of which the connection breaks when a test wants that."""

    def __init__(self, runs: Any) -> None:
        self.runs = runs
        self.is_broken = False
        self.is_open = asyncio.Event()
        self.is_open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runs, name)

    def _check(self) -> None:
        if self.is_broken:
            raise TransportError(detail="The connection [b]broke.")

    async def survey(self, **asked: Any) -> Sequence[RunSummary]:
        self._check()
        await self.is_open.wait()
        found: Sequence[RunSummary] = await self.runs.survey(**asked)
        return found

    async def watch(self, run_id: str, **asked: Any) -> AsyncGenerator[ToldEvent]:
        async for event in self.runs.watch(run_id, **asked):
            self._check()
            yield event


def read(app: TopApp) -> str:
    """Returns what stands on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def wait_for(app: TopApp, is_so: Callable[[str], bool]) -> str:
    async with asyncio.timeout(20):
        while not is_so(text := read(app)):  # noqa: ASYNC110  # only the screen says so
            await asyncio.sleep(0.02)
        return text


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path, tools=[produce_invoker(pay, effect="once", needs_approval=True)])


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_000_runs_are_seen_with_what_happens_in_them(
    premises: Premises, size: tuple[int, int]
) -> None:
    """A connection that breaks is told of, and joined again; keys choose which runs are seen."""
    runs = Flaky(premises.runs)
    app = TopApp(runs, "[b]here")
    async with premises, app.run_test(size=size) as pilot:
        await wait_for(app, lambda text: "There is no run yet." in text)
        order = premises.order([invoke("pay")], [say("Done.")])
        for _ in range(2):
            run_id = await premises.start(order)
            await premises.wait(run_id, "waiting")
        app.feed.hurry()
        await wait_for(app, lambda text: "2 runs · 2 approvals wanted" in text)
        assert "vibe top [b]here" in read(app)
        await pilot.press("home")
        text = await wait_for(app, lambda text: "waits for 1 approval" in text)
        assert f"vibe runs approve {run_id[:8]}" in text

        runs.is_broken = True
        text = await wait_for(app, lambda text: "The connection [b]broke." in text)
        assert run_id[:8] in text
        runs.is_broken = False
        await wait_for(app, lambda text: "Not reached" not in text)

        runs.is_open.clear()
        await pilot.press("t")
        await wait_for(app, lambda text: "· waiting" in text and "2 runs" not in text)
        runs.is_open.set()
        await wait_for(app, lambda text: "· waiting · 2 runs" in text)
        await pilot.press("T", "slash", *"nowhere", "enter")
        await wait_for(app, lambda text: "0 of 2 runs" in text)
        await pilot.press("slash", *["backspace"] * 7, "enter")
        await wait_for(app, lambda text: "· 2 runs" in text)
        await pilot.press("q")
    assert app.return_code == 0


@pytest.mark.terminal
def test_010_it_draws_on_a_terminal_and_gives_it_back(open_terminal: Terminals) -> None:
    terminal = open_terminal(80, 24, "top", afterwards="echo it is over; cat")
    terminal.wait_for("There is no run yet.")
    terminal.press("q")
    screen = terminal.wait_for("it is over")
    assert "State" not in screen
