"""Runs under daemons that are killed: what their clients do meanwhile, and what has to hold.

Each run has a job of some steps (``three_daemons.play``). While it goes on, several watch it, who
leave and come back by the number that they know; it is told something, stopped and resumed, and
what waits for an approval is answered. In the end its log, its conversation, the marks of its tools
and what the vendor was asked are held against each other.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import aiohttp
import attrs

from support.daemons.three_daemons import Trio, read_frames, read_jobs
from support.gateways.gateways import become
from vibe_llms.dialects.history import NOT_BEGUN
from vibe_llms.foundation.limits import Limits

WATCHERS: Final = 2
LONGEST_SECONDS: Final = 90.0
"""Behind which a run that nobody kills any more has ended."""

_AT_REST: Final = ("ended", "stopped")
_BEGINS: Final = ("step.started", "tool.started")
_GOES_ON: Final = ("message.received", "run.requested", "run.resumed")


@attrs.define(eq=False)
class Life:
    """One run, as its clients have it.

    Attributes:
        told: What each watcher was told: number, word and line of each event.
        notes: What was said to it, and whether it was acknowledged.
        faults: What has been found wrong with it.
    """

    trio: Trio
    dice: random.Random
    job: str
    steps: int
    more: Mapping[str, Any] = attrs.field(factory=dict)
    run_id: str = ""
    told: list[list[Any]] = attrs.field(factory=lambda: [[] for _ in range(WATCHERS)])
    notes: dict[str, bool] = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)

    async def live(self) -> None:
        """Asks for the run, and goes along until it has ended and all was told."""
        self.run_id = await self.trio.begin(self.job, self.steps, **self.more)
        watching = [asyncio.create_task(self._watch(each)) for each in self.told]
        try:
            last = await self._speak()
            await become(
                lambda: all(each and each[-1][0] >= last for each in self.told), LONGEST_SECONDS
            )
        except TimeoutError:
            self.faults.append(f"not all was told by {LONGEST_SECONDS:g} s")
        finally:
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _watch(self, told: list[Any]) -> None:
        """Watches, and leaves at any time; comes back by the last number that it knows."""
        url = f"{self.trio.url}/runs/{self.run_id}/events"
        while True:
            headers = {"Last-Event-ID": str(told[-1][0])} if told else {}
            query = self.dice.choice(("", "?follow=false"))
            with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                async with (
                    asyncio.timeout(self.dice.choice((0.3, 1, 10))),
                    self.trio.session.get(url + query, headers=headers) as answer,
                ):
                    if answer.status == 200:
                        await read_frames(answer.content, told)
                    elif answer.status != 503:
                        self.faults.append(f"a watcher got {answer.status}: {await answer.text()}")
            await asyncio.sleep(0.02)

    async def _speak(self) -> int:
        """Says things to it until it has ended; returns the number of its last event."""
        stops = int(self.dice.random() < 0.2)
        notes = self.dice.randint(0, 2)
        while True:
            summary = await self.trio.ask("GET", f"/runs/{self.run_id}")
            match summary["state"]:
                case "ended":
                    return int(summary["sequence"])
                case "stopped":
                    await self._say("resume")
                case "waiting":
                    await self._answer()
                case _ if stops and self.dice.random() < 0.1:
                    stops -= 1
                    await self._say("stop", {"reason": "for a while"})
                case _ if len(self.notes) < notes and self.dice.random() < 0.2:
                    note = f"Note {self.job} {len(self.notes)}."
                    self.notes[note] = False
                    self.notes[note] = await self._say("messages", {"content": note})
            await asyncio.sleep(self.dice.random() * 0.3)

    async def _answer(self) -> None:
        """Answers what waits; of what may have happened already, either way."""
        for each in (await self.trio.ask("GET", f"/runs/{self.run_id}/approvals"))["data"]:
            request = each["request"]
            decision = "allow"
            if request["in_doubt"]:
                decision = self.dice.choice(("allow", "deny"))
            said = {"digest": request["digest"], "key": each["key"], "decision": decision}
            await self._say("approvals", said)

    async def _say(self, verb: str, body: Any = None) -> bool:
        """Says something once; returns whether it was acknowledged."""
        url, was_full = f"{self.trio.url}/runs/{self.run_id}/{verb}", self.trio.is_full
        with suppress(aiohttp.ClientError, ConnectionError):
            async with self.trio.session.post(url, json=body or {}) as answer:
                if answer.status < 300:
                    return True
                # What is answered already, and a daemon that is not ready or cannot write.
                if answer.status not in (
                    404,
                    409,
                    503,
                    *((500,) if was_full or self.trio.is_full else ()),
                ):
                    self.faults.append(f"{verb} got {answer.status}: {await answer.text()}")
        return False

    # --- what has to hold ------------------------------------------------------------------------

    async def judge(
        self, log: list[Any], asked: Mapping[str, int], noted: Mapping[str, int]
    ) -> list[str]:
        """Returns what does not hold of the run.

        Args:
            log: What is told to one who watches it from its beginning.
            asked: How often the vendor was asked for each step of each job.
            noted: How often each call of each job has taken effect.
        """
        path = f"/conversations/{self.run_id}?limit=500"
        said = (await self.trio.ask("GET", path))["data"]
        faults = [*self.faults, *self._judge_told(log), *self._judge_order(log)]
        faults += self._judge_conversation(said, log)
        faults += self._judge_calls(log, noted)
        faults += self._judge_bill(log, sum(_choose(asked, self.job).values()))
        return [f"{self.job} ({self.run_id}): {each}" for each in faults]

    def _judge_told(self, log: list[Any]) -> Iterator[str]:
        for told in (log, *self.told):
            numbers = [number for number, _, _ in told]
            if numbers != [*range(1, len(told) + 1)]:
                yield f"a watcher was told {numbers}"
            elif told != log[: len(told)]:
                yield "a watcher was told something else than what stands in the log"

    def _judge_order(self, log: list[Any]) -> Iterator[str]:
        """Nothing begins in a run that is stopped, nor before it is asked for."""
        is_stopped = False
        for number, word, _ in log:
            is_stopped = word == "run.stop_requested" or (is_stopped and word not in _GOES_ON)
            if is_stopped and word in _BEGINS:
                yield f"event {number}, {word}, came after the run was stopped"
        ended = log[-1][2]["event"]
        if (log[-1][1], ended.get("reason")) != ("run.completed", "answered"):
            yield f"it ended with {log[-1]}"

    def _judge_conversation(self, said: list[Any], log: list[Any]) -> Iterator[str]:
        texts = Counter(_read_text(each) for each in said)
        heard = Counter(
            _read_text(line["event"]["canister"])
            for _, word, line in log
            if word == "message.received"
        )
        for note, is_certain in self.notes.items():
            if texts[note] != heard[note] or not is_certain <= texts[note] <= 1:
                yield f"{note!r} was heard {heard[note]} times, and is there {texts[note]} times"
        calls = Counter(each["invocation_id"] for each in said if each["role"] == "invocation")
        results = Counter(
            each["invocation_id"]
            for each in said
            if each["role"] == "result" and _read_text(each) != NOT_BEGUN
        )
        wanted = {f"{self.job}-{step}": 1 for step in range(self.steps)}
        # A call that an answer had which broke off is there, too; it was not executed.
        if set(calls) != set(wanted) or results != wanted:
            yield f"it was to call {sorted(wanted)}, called {calls}, and had results {results}"

    def _judge_calls(self, log: list[Any], noted: Mapping[str, int]) -> Iterator[str]:
        """Each takes effect once, but for one that somebody was asked about and allowed again."""
        begun: Counter[str] = Counter()
        allowed: Counter[str] = Counter()
        well: set[str] = set()
        doubts = set()
        for _, word, line in log:
            event = line["event"]
            match word:
                case "tool.started":
                    begun[event["invocation_id"]] += 1
                case "approval.requested" if event.get("in_doubt"):
                    doubts.add((event["key"], event["digest"]))
                case "approval.answered" if event["decision"] == "allow":
                    if (event["key"], event["digest"]) in doubts:
                        allowed[event["key"]] += 1
                case "tool.completed" if _went_well(event["result"]):
                    well.add(event["invocation_id"])
        for _, word, line in log:
            if word == "tool.started":
                name, key = line["event"]["invocation_id"], line["event"]["key"]
                if begun[name] > 1 + allowed[key]:
                    yield f"{name} was begun {begun[name]} times, and allowed again {allowed[key]}"
        for name, count in _choose(noted, self.job).items():
            if count > begun[name]:
                yield f"{name} has taken effect {count} times, and was begun {begun[name]} times"
        if lost := [name for name in well if not noted.get(name)]:
            yield f"{lost} went well, and have not taken effect"

    def _judge_bill(self, log: list[Any], asked: int) -> Iterator[str]:
        """Whatever the vendor was asked is said in the log, what was for nothing as well."""
        finished = sum(word == "step.completed" for _, word, _ in log)
        most = 0
        for _, word, line in log:
            event = line["event"]
            if word == "step.completed" or (word == "step.failed" and event.get("error")):
                most += event.get("attempts", 1)
            elif word in ("step.failed", "generation.doubted"):  # of these nobody could count
                most += Limits().attempts
        if not finished <= asked <= most:
            yield (
                f"the vendor was asked {asked} times, which the log says of {finished} answers"
                f" and of {most} requests at most"
            )


def _choose(counts: Mapping[str, int], job: str) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.rpartition("-")[0] == job}


def _went_well(result: Mapping[str, Any]) -> bool:
    """Tells whether a command has taken effect: it says so where its disk was full."""
    return not result.get("is_error") and "[exit code" not in _read_text(result)


def _read_text(canister: Mapping[str, Any]) -> str:
    return "".join(each.get("text", "") for each in canister.get("content") or ())


@attrs.define(eq=False)
class Crowd:
    """Many lives, one after the other and at once.

    Attributes:
        lives: All that have begun.
        words: How often what has happened in all of them.
    """

    trio: Trio
    dice: random.Random
    is_over: bool = False
    lives: list[Life] = attrs.field(factory=list)
    words: Counter[str] = attrs.field(factory=Counter)

    def count_told(self) -> int:
        """Counts the events that all watchers were told."""
        return sum(len(told) for each in self.lives for told in each.told)

    async def go_on(self, *, servers: tuple[str, ...]) -> None:
        """Lives one life after the other until it is over."""
        while not self.is_over:
            job = f"j{len(self.lives)}"
            more = {"ensembles": [self.dice.choice(servers)]}
            dice = random.Random(self.dice.random())
            life = Life(self.trio, dice, job, self.dice.randint(2, 6), more)
            self.lives.append(life)
            await life.live()

    async def judge(self) -> list[str]:
        """Returns what does not hold of all of them."""
        asked, noted = read_jobs(self.trio.simulator), self.trio.read_noted()
        faults = []
        for each in self.lives:
            log: list[Any] = []
            await self.trio.watch(each.run_id, log)
            self.words.update(word for _, word, _ in log)
            self.words["in doubt"] += sum(bool(line["event"].get("in_doubt")) for *_, line in log)
            if found := await each.judge(log, asked, noted):
                faults += [*found, _print(log)]
        return faults


def _print(log: list[Any]) -> str:
    """Writes a log for people."""
    return "\n".join(f"{number:4} {word} {json.dumps(line)[:600]}" for number, word, line in log)
