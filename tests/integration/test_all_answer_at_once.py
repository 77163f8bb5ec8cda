"""A page, a command, a screen and a request answer one call at once: one counts, all are told."""

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

from support.daemons.run_daemons import serving
from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from support.screens.browsers import Tab, open_browser
from support.screens.pseudoterminals import Terminal
from vibe_llms.conversations import DirectoryStore
from vibe_llms.daemons.agents.viewing import produce_view
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.events.engine import ApprovalAnsweredEvent
from vibe_llms.invocables import produce_invoker

pytestmark = [pytest.mark.browser, pytest.mark.terminal]

_KEY = "key"
_DECISIONS = {"page": "allow", "command": "deny", "screen": "allow", "request": "edit"}
_TOLD = {"allow": "Allowed", "deny": "Denied", "edit": "Allowed with other arguments"}
_LATE = re.compile("another answer for|no longer awaits approval")


@attrs.define
class Race:
    """A run in which several calls wait, and those who answer them.

    Attributes:
        command: ``vibe runs approve``.
        screen: ``vibe top``.
    """

    premises: Premises
    session: aiohttp.ClientSession
    tab: Tab
    command: Terminal
    screen: Terminal
    run_id: str
    dice: random.Random

    async def answer(self, number: int) -> str:
        """Has a call answered by all; returns who counts, by what each is told."""
        name = f"pay{number}"
        call = f"Array.from(document.querySelectorAll('.approval'))[{number}]"
        await self.tab.wait_for(f"{call}?.querySelector('button.main:enabled')")
        await self._read(r"or Enter to deny\?", number)
        await self._show(name)
        ways = [
            self._click(call),
            self._type(self.command, "\r"),
            self._type(self.screen, "o"),
            self._post(await self._compose(number)),
        ]
        self.dice.shuffle(ways)
        if number % 3 == 1:  # the screen takes longest to send what is typed
            await self._type(self.screen, "o")
            await self._leave("o Once")
        done = await asyncio.gather(*(asyncio.ensure_future(each) for each in ways))
        status = next(each for each in done if each is not None)
        await self.tab.wait_for(f"{call}.dataset.settled")
        told = await self.tab.evaluate(f"{call}.querySelector('.outcome').textContent")
        said = await self._read("Denied: pay|Too late:", number)
        noticed = await self._notice(name)
        counts = [
            who
            for who, is_so in (
                ("page", told == f"Allowed: {name}."),
                ("command", said == "Denied: pay"),
                ("screen", noticed == f"Allowed: {name}"),
                ("request", status == 200),
            )
            if is_so
        ]
        assert len(counts) == 1, (told, said, noticed, status)
        assert counts == ["screen"] or _LATE.search(noticed)
        assert status in (200, 409)
        if counts != ["page"]:  # it names what counts
            assert f"{_TOLD[_DECISIONS[counts[0]]]} by another user: {name}." in told
        return counts[0]

    async def _read(self, pattern: str, number: int) -> str:
        """Waits until the command shows something for so many times, from 0; returns it."""
        async with asyncio.timeout(60):
            while len(found := re.findall(pattern, self.command.read_text())) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # only the screen says so
        return str(found[number])

    async def _click(self, call: str) -> None:
        await self.tab.evaluate(f"{call}.querySelector('button.main')?.click()")

    async def _type(self, terminal: Terminal, key: str) -> None:
        terminal.type(key)

    async def _show(self, name: str) -> None:
        """Has the screen show a call, as soon as it is the first that waits."""
        await asyncio.to_thread(self.screen.wait_for, rf"press a\W+{name} ")
        self.screen.type("a")
        await asyncio.to_thread(self.screen.wait_for, rf"{name} asks to be executed[^$]*o Once")

    async def _leave(self, text: str) -> None:
        """Waits until the screen shows something no more."""
        async with asyncio.timeout(60):
            while text in self.screen.read_text():  # noqa: ASYNC110  # only the screen says so
                await asyncio.sleep(0)

    async def _notice(self, name: str) -> str:
        """Waits until the screen tells what became of a call; returns that.

        A screen may be read while it is painted: a line may end as the one before it did.
        """
        late = rf"Too late: another answer for {name} .*"
        closed = rf"{name} no longer awaits approval.*"  # before it had read the key
        whole = re.compile(rf"Allowed: {name}|{late}|{closed}")
        async with asyncio.timeout(60):
            while not whole.fullmatch(notice := self.screen.read_lines()[-2].strip()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return notice

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
    tmp_path: Path, tools: list[Any], spec: list[Any]
) -> AsyncIterator[tuple[Premises, str, str, list[str], str]]:
    async with serving(tmp_path, *tools, seconds=120) as daemon:
        run_id = await daemon.start(spec, [say("Done.")])
        there = ["--address", daemon.url]
        yield daemon.premises, run_id, daemon.url, there, f"{daemon.url}/page/"


@asynccontextmanager
async def over_store(
    tmp_path: Path, tools: list[Any], spec: list[Any]
) -> AsyncIterator[tuple[Premises, str, str, list[str], str]]:
    store = DirectoryStore(tmp_path / ".local/share/vibe-llms")
    async with Premises(tmp_path, tools, shared=store) as premises:
        run_id = await premises.start(premises.spec(spec, [say("Done.")]))
        hosts = find_hosts("127.0.0.1", ()) or ()
        view = produce_view(premises.runs.application, store, key=_KEY, hosts=hosts)
        async with Server(view, ServerSettings(port=0)) as server:
            (url, *_) = server.urls
            yield premises, run_id, url, [], f"{url}/page/#key={_KEY}"


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("serve", [over_daemon, over_store])
async def test_of_all_who_answer_at_once_one_counts_and_the_others_are_told(
    tmp_path: Path, serve: Any, rounds: int
) -> None:
    """On the page, in terminals and by HTTP, of a daemon and of this machine's own store."""
    performed = []

    def pay(number: int, by: str = "page") -> str:
        """Pays."""
        performed.append((number, by))
        return "paid"

    tools = [
        produce_invoker(pay, name=f"pay{number}", effect="once", needs_approval=True)
        for number in range(rounds)
    ]
    calls = [invoke(f"pay{number}", f"call-{number}", number=number) for number in range(rounds)]
    headers = {"Authorization": f"Bearer {_KEY}"}
    async with serve(tmp_path, tools, calls) as (premises, run_id, url, there, page):
        await premises.wait(run_id, "waiting")
        command = Terminal(tmp_path, "runs", "approve", run_id, *there, rows=50)
        screen = Terminal(tmp_path, "top", *there, columns=100, rows=40)
        try:
            async with (
                aiohttp.ClientSession(url, headers=headers) as session,
                open_browser(tmp_path) as tab,
            ):
                await tab.visit(page)
                await tab.evaluate(f"location.hash = '#/runs/{run_id}'")
                dice = random.Random(rounds)
                race = Race(premises, session, tab, command, screen, run_id, dice)
                counted = [await race.answer(number) for number in range(rounds)]
            await asyncio.to_thread(command.wait_for_end)
            screen.type("q")
            assert await asyncio.to_thread(screen.wait_for_end) == 0
        finally:
            command.close()
            screen.close()
        await premises.wait(run_id, "ended")
        events = [each.event for each in premises.store.open_log(run_id).read()]
    answered = {each.key: each for each in events if isinstance(each, ApprovalAnsweredEvent)}
    given = [each.decision for each in answered.values()]
    assert len(given) == rounds == sum(isinstance(e, ApprovalAnsweredEvent) for e in events)
    assert sorted(given) == sorted(_DECISIONS[who] for who in counted)
    assert sorted(performed) == [
        (number, "request" if who == "request" else "page")
        for number, who in enumerate(counted)
        if who != "command"
    ]
