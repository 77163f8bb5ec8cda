"""A page, a terminal and a request answer one call at once: one counts, the others are told."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest

from acting import invoke, say
from browsers import Tab, open_browser
from hosted import Premises
from pseudoterminals import Terminal
from run_daemons import serving
from vibe_llms.conversations import DirectoryStore
from vibe_llms.daemons.agents.viewing import produce_view
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.events.engine import ApprovalAnsweredEvent
from vibe_llms.invocables import produce_invoker
from vibe_llms.runs import produce_log

pytestmark = [pytest.mark.browser, pytest.mark.terminal]

_KEY = "key"
_DECISIONS = {"page": "allow", "terminal": "deny", "request": "edit"}
_TOLD = {"allow": "Allowed", "deny": "Refused", "edit": "Allowed with other arguments"}


@attrs.define
class Race:
    """A run in which several calls wait, and the three who answer them."""

    premises: Premises
    session: aiohttp.ClientSession
    tab: Tab
    terminal: Terminal
    run_id: str
    dice: random.Random

    async def answer(self, number: int) -> str:
        """Has a call answered by all three; returns who counts, by what each is told."""
        call = f"Array.from(document.querySelectorAll('.approval'))[{number}]"
        await self.tab.wait_for(f"{call}?.querySelector('button.main:enabled')")
        await self._read(r"refuse this time\?", number)
        ways = [self._click(call), self._type(), self._post(await self._compose(number))]
        self.dice.shuffle(ways)
        done = await asyncio.gather(*(asyncio.ensure_future(each) for each in ways))
        status = next(each for each in done if each is not None)
        await self.tab.wait_for(f"{call}.dataset.settled")
        told = await self.tab.evaluate(f"{call}.querySelector('.outcome').textContent")
        said = await self._read("Denied: pay|Too late:", number)
        counts = [
            who
            for who, is_so in (
                ("page", told == "Allowed: pay."),
                ("terminal", said == "Denied: pay"),
                ("request", status == 200),
            )
            if is_so
        ]
        assert len(counts) == 1, (told, said, status)
        assert status in (200, 409)
        if counts != ["page"]:  # it names what counts
            assert f"{_TOLD[_DECISIONS[counts[0]]]} by somebody else: pay." in told
        return counts[0]

    async def _read(self, pattern: str, number: int) -> str:
        """Waits until the terminal shows something for so many times, from 0; returns it."""
        async with asyncio.timeout(20):
            while len(found := re.findall(pattern, self.terminal.read_text())) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # only the screen says so
        return str(found[number])

    async def _click(self, call: str) -> None:
        await self.tab.evaluate(f"{call}.querySelector('button.main')?.click()")

    async def _type(self) -> None:
        self.terminal.type("\r")

    async def _compose(self, number: int) -> dict[str, str]:
        """Composes the answer of the request, which needs to know what is asked."""
        async with self.session.get(f"/runs/{self.run_id}/approvals") as answer:
            data = (await answer.json())["data"]
        (asked,) = (
            each for each in data if json.loads(each["request"]["arguments"])["number"] == number
        )
        arguments = json.dumps({"number": number, "by": "request"})
        digest, key = asked["request"]["digest"], asked["key"]
        return {"decision": "edit", "arguments": arguments, "digest": digest, "key": key}

    async def _post(self, said: dict[str, str]) -> int:
        async with self.session.post(f"/runs/{self.run_id}/approvals", json=said) as answer:
            return answer.status


@asynccontextmanager
async def over_daemon(
    tmp_path: Path, tool: Any, order: list[Any]
) -> AsyncIterator[tuple[Premises, str, str, list[str], str]]:
    async with serving(tmp_path, tool) as daemon:
        run_id = await daemon.start(order, [say("Done.")])
        there = ["--address", daemon.url]
        yield daemon.premises, run_id, daemon.url, there, f"{daemon.url}/page/"


@asynccontextmanager
async def over_store(
    tmp_path: Path, tool: Any, order: list[Any]
) -> AsyncIterator[tuple[Premises, str, str, list[str], str]]:
    store = DirectoryStore(tmp_path / ".local/share/vibe-llms")
    async with Premises(tmp_path, (tool,), shared=store) as premises:
        run_id = await premises.start(premises.order(order, [say("Done.")]))
        hosts = find_hosts("127.0.0.1", ()) or ()
        view = produce_view(premises.runs.application, store, key=_KEY, hosts=hosts)
        async with Server(view, ServerSettings(port=0)) as server:
            (url, *_) = server.urls
            yield premises, run_id, url, [], f"{url}/page/#key={_KEY}"


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("serve", [over_daemon, over_store])
async def test_of_three_who_answer_at_once_one_counts_and_the_others_are_told(
    tmp_path: Path, serve: Any, rounds: int
) -> None:
    """On the page, in a terminal and by HTTP, of a daemon and of this machine's own store."""
    performed = []

    def pay(number: int, by: str = "page") -> str:
        """Pays."""
        performed.append((number, by))
        return "paid"

    tool = produce_invoker(pay, effect="once", needs_approval=True)
    calls = [invoke("pay", f"call-{number}", number=number) for number in range(rounds)]
    headers = {"Authorization": f"Bearer {_KEY}"}
    async with serve(tmp_path, tool, calls) as (premises, run_id, url, there, page):
        await premises.wait(run_id, "waiting")
        terminal = Terminal(tmp_path, "runs", "approve", run_id, *there, rows=50)
        try:
            async with (
                aiohttp.ClientSession(url, headers=headers) as session,
                open_browser(tmp_path) as tab,
            ):
                await tab.visit(page)
                await tab.evaluate(f"location.hash = '#/runs/{run_id}'")
                race = Race(premises, session, tab, terminal, run_id, random.Random(rounds))
                counted = [await race.answer(number) for number in range(rounds)]
            await asyncio.to_thread(terminal.wait_for_end)
        finally:
            terminal.close()
        await premises.wait(run_id, "ended")
        events = [each.event for each in produce_log(premises.store, run_id).read()]
    answered = {each.key: each for each in events if isinstance(each, ApprovalAnsweredEvent)}
    given = [each.decision for each in answered.values()]
    assert len(given) == rounds == sum(isinstance(e, ApprovalAnsweredEvent) for e in events)
    assert sorted(given) == sorted(_DECISIONS[who] for who in counted)
    assert sorted(performed) == [
        (number, who) for number, who in enumerate(counted) if who != "terminal"
    ]
