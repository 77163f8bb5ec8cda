"""``vibe top`` as somebody sits before it: the keys, and what stands on the screen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from support.screens.terminals import Terminals
from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.exceptions import TransportError
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow, deny
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs.summaries import RunSummary

pytest.importorskip("textual")

from textual.widgets import Static, TextArea

from vibe_llms.interfaces.cli.top.approval_dialogs import ApprovalScreen
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

    async def watch(self, run_id: str, **asked: Any) -> AsyncGenerator[WatchedEvent]:
        async for event in self.runs.watch(run_id, **asked):
            self._check()
            yield event


def read(app: TopApp) -> str:
    """Returns what stands on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def wait_for(app: TopApp, is_so: Callable[[str], bool]) -> str:
    async with asyncio.timeout(60):
        while not is_so(text := read(app)):  # noqa: ASYNC110  # only the screen says so
            await asyncio.sleep(0.02)
        return text


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path, tools=[produce_invoker(pay, effect="once", needs_approval=True)])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_000_runs_are_seen_with_what_happens_in_them(
    premises: Premises, size: tuple[int, int]
) -> None:
    """A connection that breaks is told of, and joined again; keys choose which runs are seen."""
    runs = Flaky(premises.runs)
    app = TopApp(runs, "[b]here")
    async with premises, app.run_test(size=size) as pilot:
        await wait_for(app, lambda text: "There are no runs yet." in text)
        spec = premises.spec([invoke("pay")], [say("Done.")])
        for _ in range(2):
            run_id = await premises.start(spec)
            await premises.wait(run_id, "waiting")
        app.feed.poll_now()
        await wait_for(app, lambda text: "2 runs · 2 approvals requested" in text)
        assert "vibe top [b]here" in read(app)
        await pilot.press("home")
        text = await wait_for(app, lambda text: "awaits 1 approval" in text)
        assert "1 call to approve: press a" in text

        runs.is_broken = True
        text = await wait_for(app, lambda text: "The connection [b]broke." in text)
        assert run_id[:8] in text
        runs.is_broken = False
        await wait_for(app, lambda text: "Not reachable" not in text)

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


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_005_calls_are_answered_with_their_arguments_whole(
    premises: Premises, size: tuple[int, int]
) -> None:
    """Also with others; what somebody else has answered meanwhile is taken away."""
    purpose = "\n".join(f"[b]line {number}\u202e" for number in range(400))
    app = TopApp(premises.runs)
    async with premises, app.run_test(size=size) as pilot:
        spec = premises.spec(
            [invoke("pay", "a", purpose=purpose), invoke("pay", "b"), invoke("pay", "c")],
            [say("Done.")],
        )
        run_id = await premises.start(spec)
        await premises.wait(run_id, "waiting")
        app.feed.poll_now()
        await wait_for(app, lambda text: "3 calls to approve: press a" in text)
        await pilot.press("a")
        text = await wait_for(app, lambda text: "pay asks to be executed: Pays." in text)
        assert "Effect: once · 2 more" in text
        whole = str(app.screen.query_one("#arguments Static", Static).content)
        assert json.loads(whole) == {"purpose": purpose}
        assert "\u202e" not in whole
        await pilot.press("end")  # of what is longer than the screen
        await wait_for(app, lambda text: "399\\u202e" in text)
        await pilot.press("e")
        await wait_for(app, lambda text: "Allow this instead" in text)
        app.screen.query_one(TextArea).text = "[1"
        await pilot.press("ctrl+s")
        await wait_for(app, lambda text: "Invalid JSON" in text)
        app.screen.query_one(TextArea).text = '{"purpose": "less"}'
        await pilot.press("ctrl+s")
        await wait_for(app, lambda text: "Allowed with other arguments: pay" in text)

        await wait_for(app, lambda text: "2 calls to approve" in text)
        await pilot.press("a")
        await wait_for(app, lambda text: "1 more" in text)
        await pilot.press("r")
        await wait_for(app, lambda text: "Reason for the model" in text)
        await pilot.press(*"late", "enter")
        await wait_for(app, lambda text: "Denied: pay" in text)

        await wait_for(app, lambda text: "1 call to approve" in text)
        await pilot.press("a")
        await wait_for(app, lambda text: "asks to be executed" in text)
        await pilot.press("n")
        await wait_for(app, lambda text: "Reason for the model" in text)
        (waiting,) = await premises.runs.survey_approvals(run_id)
        await premises.runs.approve(run_id, allow(waiting.request), key=waiting.key)
        app.feed.poll_now()
        await wait_for(app, lambda text: "pay no longer awaits approval" in text)
        assert len(app.screen_stack) == 1
        await premises.wait(run_id, "ended")
        results = [
            each
            for each in premises.store.read(run_id).canisters
            if isinstance(each, ResultCanister)
        ]
        assert ["late" in text_of(each) for each in results] == [False, True, False]


@pytest.mark.slow
async def test_008_a_small_terminal_tells_all_keys_and_no_half_of_a_number(
    premises: Premises,
) -> None:
    """A footer is one line, and a cost that is cut is another one."""
    app = TopApp(premises.runs)
    async with premises, app.run_test(size=(40, 20)) as pilot:
        run_id = await premises.start(premises.spec([invoke("pay")], [say("Done.")]))
        await premises.wait(run_id, "waiting")
        app.feed.poll_now()
        text = await wait_for(app, lambda text: "press a" in text and "q Quit" in text)
        assert "cos" not in text
        await pilot.press("a")
        text = " ".join(
            (await wait_for(app, lambda text: "Leave" in text)).replace("│", "").split()
        )
        assert "o Once a Always this call r Refuse n Never e Edit esc Leave" in text
        await pilot.resize_terminal(100, 20)
        text = await wait_for(app, lambda text: "esc Leave" in text)
        assert text.count("o Once") == 1
        await pilot.press("escape", "q")


@pytest.mark.slow
async def test_006_who_is_too_late_is_told(premises: Premises) -> None:
    app = TopApp(premises.runs)
    async with premises, app.run_test(size=(80, 24)) as pilot:
        run_id = await premises.start(premises.spec([invoke("pay")], [say("Done.")]))
        await premises.wait(run_id, "waiting")
        app.feed.poll_now()
        await wait_for(app, lambda text: "press a" in text)
        await pilot.press("a")
        await wait_for(app, lambda text: "asks to be executed" in text)
        app.feed.runs = Flaky(premises.runs)  # it reads no more, so that the call stays there
        app.feed.runs.is_broken = True
        (waiting,) = await premises.runs.survey_approvals(run_id)
        unseen = ApprovalScreen(waiting)
        assert not unseen.check_action("allow", ("once",))  # what was typed ahead is no answer
        await premises.runs.approve(run_id, deny(waiting.request, "No."), key=waiting.key)
        await pilot.press("o")
        await wait_for(app, lambda text: "Too late: another answer for pay" in text)


@pytest.mark.slow
async def test_007_a_run_is_told_something_and_stopped(premises: Premises) -> None:
    app = TopApp(premises.runs)
    async with premises, app.run_test(size=(80, 24)) as pilot:
        spec = premises.spec([invoke("pay")], [say("Done.")])
        run_id = (await premises.runs.start(spec, [UserCanister("a [b]title")])).id
        await premises.wait(run_id, "waiting")
        app.feed.poll_now()
        await wait_for(app, lambda text: "press a" in text)
        await pilot.press("m")
        await wait_for(app, lambda text: f"Message to {run_id[:8]}" in text)
        await pilot.press(*"Wait", "enter")
        text = await wait_for(app, lambda text: "receives: Wait" in text)
        assert text.count("a [b]title") == 2  # in the list, and above what happens
        await pilot.press("s")
        await wait_for(app, lambda text: f"Reason to stop {run_id[:8]}" in text)
        await pilot.press("escape", "s", *"why", "enter")
        await premises.wait(run_id, "stopped")
        await wait_for(app, lambda text: "stop requested: why" in text)
        text = await wait_for(app, lambda text: f"vibe runs resume {run_id}" in text)
        assert "press a" not in text  # a run that was stopped asks no more
        await pilot.press("s", "a")  # there is nothing to stop or to answer any more
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert await premises.runs.survey_approvals(run_id) == []


@pytest.mark.terminal
def test_010_it_draws_on_a_terminal_and_gives_it_back(open_terminal: Terminals) -> None:
    terminal = open_terminal(80, 24, "top", afterwards="echo it is over; cat")
    terminal.wait_for("There are no runs yet.")
    terminal.press("q")
    screen = terminal.wait_for("it is over")
    assert "State" not in screen


@pytest.mark.terminal
def test_011_a_daemon_that_is_not_there_is_no_empty_screen(open_terminal: Terminals) -> None:
    terminal = open_terminal(
        80, 24, "top", "--address", "http://127.0.0.1:1", afterwards="echo it is over: $?; cat"
    )
    screen = terminal.wait_for("it is over")
    assert "127.0.0.1:1 cannot be reached" in screen
    assert "it is over: 6" in screen
