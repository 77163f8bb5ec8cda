"""Runs under daemons that are killed: the actions of their clients, and the checks at the end.

Each run has a job of some steps (``three_daemons.play``). Meanwhile several watchers disconnect,
and resume after their last event; clients send messages, stop and resume the run, and answer
approval requests. At the end, its log, its conversation, the effects of its tools, and the requests
to the vendor have to agree.
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
from support.gateways.gateways import wait_until
from vibe_llms.dialects.history import NOT_BEGUN
from vibe_llms.foundation.limits import Limits

WATCHERS: Final = 2
END_SECONDS: Final = 90.0
"""The time within which a run has to end after the last trouble."""

_AT_REST: Final = ("ended", "stopped")
_BEGINS: Final = ("step.started", "tool.started")
_GOES_ON: Final = ("message.received", "run.requested", "run.resumed")


@attrs.define(eq=False)
class WatchedRun:
    """One run and its clients.

    Attributes:
        trio: The daemons.
        dice: The source of randomness.
        job: The name of its job.
        steps: How many steps the job has.
        more: More fields of the request that starts it.
        run_id: Its id.
        watched: The events of each watcher: number, type, and content of each.
        notes: From the messages sent to it to whether they were acknowledged.
        faults: The faults so far.
    """

    trio: Trio
    dice: random.Random
    job: str
    steps: int
    more: Mapping[str, Any] = attrs.field(factory=dict)
    run_id: str = ""
    watched: list[list[Any]] = attrs.field(factory=lambda: [[] for _ in range(WATCHERS)])
    notes: dict[str, bool] = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)

    async def perform(self) -> None:
        """Start the run, and act as its clients until all watchers have its last event."""
        self.run_id = await self.trio.begin(self.job, self.steps, **self.more)
        watchers = [asyncio.create_task(self._watch(each)) for each in self.watched]
        try:
            last = await self._act()
            await wait_until(
                lambda: all(each and each[-1][0] >= last for each in self.watched), END_SECONDS
            )
        except TimeoutError:
            self.faults.append(f"watchers lack events after {END_SECONDS:g} s")
        finally:
            for each in watchers:
                each.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    async def _watch(self, events: list[Any]) -> None:
        """Watch the run; disconnect at random, and resume after the last event."""
        url = f"{self.trio.url}/runs/{self.run_id}/events"
        while True:
            headers = {"Last-Event-ID": str(events[-1][0])} if events else {}
            query = self.dice.choice(("", "?follow=false"))
            with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                async with (
                    asyncio.timeout(self.dice.choice((0.3, 1, 10))),
                    self.trio.session.get(url + query, headers=headers) as answer,
                ):
                    if answer.status == 200:
                        await read_frames(answer.content, events)
                    elif answer.status != 503:
                        self.faults.append(f"a watcher got {answer.status}: {await answer.text()}")
            await asyncio.sleep(0.02)

    async def _act(self) -> int:
        """Act at random until the run ends; return the number of its last event."""
        stops = int(self.dice.random() < 0.2)
        notes = self.dice.randint(0, 2)
        while True:
            summary = await self.trio.ask("GET", f"/runs/{self.run_id}")
            match summary["state"]:
                case "ended":
                    return int(summary["sequence"])
                case "stopped":
                    await self._post("resume")
                case "waiting":
                    await self._answer()
                case _ if stops and self.dice.random() < 0.1:
                    stops -= 1
                    await self._post("stop", {"reason": "for a while"})
                case _ if len(self.notes) < notes and self.dice.random() < 0.2:
                    note = f"Note {self.job} {len(self.notes)}."
                    self.notes[note] = False
                    self.notes[note] = await self._post("messages", {"content": note})
            await asyncio.sleep(self.dice.random() * 0.3)

    async def _answer(self) -> None:
        """Allow the pending calls; allow or deny those that may have taken effect already."""
        for each in (await self.trio.ask("GET", f"/runs/{self.run_id}/approvals"))["data"]:
            request = each["request"]
            decision = "allow"
            if request["in_doubt"]:
                decision = self.dice.choice(("allow", "deny"))
            approval = {"digest": request["digest"], "key": each["key"], "decision": decision}
            await self._post("approvals", approval)

    async def _post(self, action: str, body: Any = None) -> bool:
        """Send a request once; return whether it was acknowledged."""
        url, was_full = f"{self.trio.url}/runs/{self.run_id}/{action}", self.trio.is_full
        with suppress(aiohttp.ClientError, ConnectionError):
            async with self.trio.session.post(url, json=body or {}) as answer:
                if answer.status < 300:
                    return True
                # The approval has been answered, or the daemon is not ready or cannot write.
                if answer.status not in (
                    404,
                    409,
                    503,
                    *((500,) if was_full or self.trio.is_full else ()),
                ):
                    self.faults.append(f"{action} got {answer.status}: {await answer.text()}")
        return False

    # --- checks ----------------------------------------------------------------------------------

    async def judge(
        self, log: list[Any], requests: Mapping[str, int], effects: Mapping[str, int]
    ) -> list[str]:
        """Return the faults of the run.

        Args:
            log: All events of the run.
            requests: How many requests the vendor has had for each step of each job.
            effects: How often each call of each job has taken effect.
        """
        path = f"/conversations/{self.run_id}?limit=500"
        canisters = (await self.trio.ask("GET", path))["data"]
        faults = [*self.faults, *self._judge_watchers(log), *self._judge_order(log)]
        faults += self._judge_conversation(canisters, log)
        faults += self._judge_calls(log, effects)
        faults += self._judge_bill(log, sum(_choose(requests, self.job).values()))
        return [f"{self.job} ({self.run_id}): {each}" for each in faults]

    def _judge_watchers(self, log: list[Any]) -> Iterator[str]:
        for events in (log, *self.watched):
            numbers = [number for number, _, _ in events]
            if numbers != [*range(1, len(events) + 1)]:
                yield f"a watcher received the events {numbers}"
            elif events != log[: len(events)]:
                yield "a watcher received other events than those in the log"

    def _judge_order(self, log: list[Any]) -> Iterator[str]:
        """Check that a stopped run starts nothing, and that the run ends with its answer."""
        is_stopped = False
        for number, word, _ in log:
            is_stopped = word == "run.stop_requested" or (is_stopped and word not in _GOES_ON)
            if is_stopped and word in _BEGINS:
                yield f"event {number}, {word}, came while the run was stopped"
        last_event = log[-1][2]["event"]
        if (log[-1][1], last_event.get("reason")) != ("run.completed", "answered"):
            yield f"it ended with {log[-1]}"

    def _judge_conversation(self, canisters: list[Any], log: list[Any]) -> Iterator[str]:
        texts = Counter(_read_text(each) for each in canisters)
        received = Counter(
            _read_text(line["event"]["canister"])
            for _, word, line in log
            if word == "message.received"
        )
        for note, is_certain in self.notes.items():
            if texts[note] != received[note] or not is_certain <= texts[note] <= 1:
                yield f"{note!r} was received {received[note]} times, stored {texts[note]} times"
        calls = Counter(each["invocation_id"] for each in canisters if each["role"] == "invocation")
        results = Counter(
            each["invocation_id"]
            for each in canisters
            if each["role"] == "result" and _read_text(each) != NOT_BEGUN
        )
        expected = {f"{self.job}-{step}": 1 for step in range(self.steps)}
        # The calls include those of interrupted answers, which were not executed.
        if set(calls) != set(expected) or results != expected:
            yield f"expected the calls {sorted(expected)}, got {calls} with the results {results}"

    def _judge_calls(self, log: list[Any], effects: Mapping[str, int]) -> Iterator[str]:
        """Check that each call takes effect once, but for those that were allowed again."""
        starts: Counter[str] = Counter()
        allowed: Counter[str] = Counter()
        successes: set[str] = set()
        doubts = set()
        for _, word, line in log:
            event = line["event"]
            match word:
                case "tool.started":
                    starts[event["invocation_id"]] += 1
                case "approval.requested" if event.get("in_doubt"):
                    doubts.add((event["key"], event["digest"]))
                case "approval.answered" if event["decision"] == "allow":
                    if (event["key"], event["digest"]) in doubts:
                        allowed[event["key"]] += 1
                case "tool.completed" if _is_success(event["result"]):
                    successes.add(event["invocation_id"])
        for _, word, line in log:
            if word == "tool.started":
                name, key = line["event"]["invocation_id"], line["event"]["key"]
                if starts[name] > 1 + allowed[key]:
                    yield f"{name} started {starts[name]} times, allowed again {allowed[key]} times"
        for name, count in _choose(effects, self.job).items():
            if count > starts[name]:
                yield f"{name} took effect {count} times, and was started {starts[name]} times"
        if lost := [name for name in successes if not effects.get(name)]:
            yield f"{lost} succeeded without an effect"

    def _judge_bill(self, log: list[Any], requests: int) -> Iterator[str]:
        """Check that the log explains each request to the vendor, also those without an answer."""
        answers = sum(word == "step.completed" for _, word, _ in log)
        max_requests = 0
        for _, word, line in log:
            event = line["event"]
            if word == "step.completed" or (word == "step.failed" and event.get("error")):
                max_requests += event.get("attempts", 1)
            elif word in ("step.failed", "generation.doubted"):  # without a count
                max_requests += Limits().attempts
        if not answers <= requests <= max_requests:
            yield (
                f"the vendor had {requests} requests, but the log has {answers} answers"
                f" and at most {max_requests} requests"
            )


def _choose(counts: Mapping[str, int], job: str) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name.rpartition("-")[0] == job}


def _is_success(result: Mapping[str, Any]) -> bool:
    """Return whether a command has taken effect; a full disk is a failure in its output."""
    return not result.get("is_error") and "[exit code" not in _read_text(result)


def _read_text(canister: Mapping[str, Any]) -> str:
    return "".join(each.get("text", "") for each in canister.get("content") or ())


@attrs.define(eq=False)
class Crowd:
    """Many runs, some of them concurrent.

    Attributes:
        trio: The daemons.
        dice: The source of randomness.
        is_ending: Whether to start no more runs.
        runs: All runs so far.
        event_counts: How many events of each type all of them had.
    """

    trio: Trio
    dice: random.Random
    is_ending: bool = False
    runs: list[WatchedRun] = attrs.field(factory=list)
    event_counts: Counter[str] = attrs.field(factory=Counter)

    def count_events(self) -> int:
        """Count the events that the watchers have received."""
        return sum(len(events) for each in self.runs for events in each.watched)

    async def perform_runs(self, *, servers: tuple[str, ...]) -> None:
        """Perform one run after the other until the end."""
        while not self.is_ending:
            job = f"j{len(self.runs)}"
            more = {"ensembles": [self.dice.choice(servers)]}
            dice = random.Random(self.dice.random())
            run = WatchedRun(self.trio, dice, job, self.dice.randint(2, 6), more)
            self.runs.append(run)
            await run.perform()

    async def judge(self) -> list[str]:
        """Return the faults of all runs."""
        requests, effects = read_jobs(self.trio.simulator), self.trio.count_effects()
        faults = []
        for each in self.runs:
            log: list[Any] = []
            await self.trio.watch(each.run_id, log)
            self.event_counts.update(word for _, word, _ in log)
            self.event_counts["in doubt"] += sum(
                bool(line["event"].get("in_doubt")) for *_, line in log
            )
            if found := await each.judge(log, requests, effects):
                faults += [*found, _print(log)]
        return faults


def _print(log: list[Any]) -> str:
    """Return a log as text."""
    return "\n".join(f"{number:4} {word} {json.dumps(line)[:600]}" for number, word, line in log)
