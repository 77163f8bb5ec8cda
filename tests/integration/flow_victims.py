"""Plays flows that are killed: started by the test beside it, in a process of its own.

The flow is one of the examples that ship, or one that asks, splits, goes round, lets a model
choose, and does once what must be done once. It is killed at one of its steps and taken up again
by another child, until it has ended.
Prints what it saw, as JSON; whatever is wrong is an assertion that fails.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the tests themselves have it

from support.flows.flow_tasks import compose_task
from support.runs.killing import World, cut_power, run_child
from support.runs.scripting import write_script
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.events.engine import GenerationDoubtedEvent, GenerationFailedEvent
from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent, NodeStartedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.flows import AdapterConfig, UniversalAdapter
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.foundation.package_data import access_data
from vibe_llms.invocables import InvocationContext, produce_invoker
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.scripted.client import ScriptedModel

DIAGRAM = """
    START --> P0 --> S[both ways]
    S --> P1 --> J[together]
    S --> P2 --> J
    J --> L([Refine x2])
    L --> P3 --> L
    L --> C{mood?}
    C -->|glad| T[/"send to=me"/] --> END
    C -->|sad| END
    C --> END
"""
PROMPTS = ("first", "left of {{response:P0}}", "right of {{response:P0}}", "round {{loop.index}}")
GLAD = json.dumps({"reason": "It does.", "category": "glad", "confidence": 1})
real_send = ScriptedModel.send

OWN = ""
"""In place of the name of an example: the flow that is written here."""


def compose(root: Path, example: str) -> Any:
    """Makes the task, or finds the example."""
    if example != OWN:
        (path,) = Path(str(access_data("tasks"))).glob(f"{example}.*")
        return path
    script = write_script(
        root,
        {"match": "categories", "contents": [{"text": GLAD}], "chunk_characters": 0},
        {"contents": [{"text": "{input}"}], "chunk_characters": 0},
    )
    return compose_task(
        DIAGRAM,
        *PROMPTS,
        script=script,
        categories={"glad": {"description": "hopeful"}, "sad": {"description": "gloomy"}},
        conditions=[
            {"description": "sent", "evaluation_type": "CONTAINS", "expected_value": "sent to me"}
        ],
    )


def produce_adapter(world: World, store: DirectoryStore, example: str) -> UniversalAdapter:
    """Makes the adapter: its tool leaves a trace in the world, as every question does."""

    async def send_counted(self: Any, native: Any, request: Any, *, streaming: bool) -> Any:
        said = [text_of(each) for each in request.canisters if isinstance(each, UserCanister)]
        world.add("questions", said[-1].split("\n")[0][:60])  # whole, where longer lines are torn
        return await real_send(self, native, request, streaming=streaming)

    ScriptedModel.send = send_counted  # type: ignore[method-assign, assignment]

    async def send(to: str, context: InvocationContext) -> str:
        """Sends a message."""
        world.add("effects", context.idempotency_key)
        return f"sent to {to}"

    config = AdapterConfig() if example == OWN else AdapterConfig(model="scripted:echo")
    tools = [produce_invoker(send, effect="idempotent")]
    return UniversalAdapter(config, store=store, tools=tools)


async def act(world: World, example: str) -> None:
    """Runs the flow, or what is left of it."""
    store = DirectoryStore(world.root / "store")
    adapter = produce_adapter(world, store, example)
    record = find_run(store)
    if record is None:
        result = await adapter.execute(compose(world.root, example))
    else:
        result = await adapter.resume(record.run_id)
    assert result.success, result.errors
    assert result.goal_met, result.verification
    world.note(
        "results", json.dumps([result.final_response, result.responses], sort_keys=True).encode()
    )


def find_run(store: DirectoryStore) -> FlowRecord | None:
    """Finds the run that an earlier child has begun."""
    for identity in store.survey():
        try:
            return read_record(store, identity)
        except StoreError:  # a visit; or killed before there was anything to take up
            continue
    return None


class Judge:
    """Looks at the store after each death, and at the end."""

    def __init__(self, world: World, wanted: World) -> None:
        self.world = world
        self.result, self.questions = wanted.read("results")[-1], wanted.read("questions")
        self.effects = wanted.read("effects")
        self.store = DirectoryStore(world.root / "store")
        self.finished: list[NodeFinishedEvent] = []

    def look(self) -> None:
        """Nothing that was written down is gone, and what was over is not begun again."""
        record = find_run(self.store)
        events = () if record is None else record.events
        finished = [each for each in events if isinstance(each, NodeFinishedEvent)]
        assert finished[: len(self.finished)] == self.finished, "a visit is lost"
        self.finished = finished
        visits = [(each.node, each.visit) for each in finished]
        assert len(set(visits)) == len(visits), "a visit was made twice"

    def conclude(self) -> Counter[str]:
        """The same came of it as of the run that nobody disturbed, and nothing was paid twice."""
        self.look()
        assert self.world.read("results")[-1] == self.result
        effects = set(self.world.read("effects"))
        assert len(effects) == len(self.effects), "the message was sent twice"
        seen = self.count_events()
        questions = self.world.read("questions")
        assert set(questions) == set(self.questions)
        # What was in flight when the power went may have been billed; that is told, and no more.
        repeated = len(questions) - len(self.questions)
        assert 0 <= repeated <= seen["doubted"], "a question was paid for again in silence"
        self.prove_store()
        return seen + Counter(repeated=repeated, runs=1)

    def prove_store(self) -> None:
        """Nothing is wrong with what the run has; one that was killed before it had begun has a
        line that is torn, and nobody takes it up."""
        record = find_run(self.store)
        assert record is not None
        begun = (each for each in record.events if isinstance(each, NodeStartedEvent))
        known = {record.run_id, *(each.conversation_id for each in begun)}
        findings = verify(self.store).findings
        assert [each for each in findings if any(name in each.place for name in known)] == []

    def count_events(self) -> Counter[str]:
        """Counts what happened in the flow and in its visits."""
        seen: Counter[str] = Counter()
        begun = set()
        for identity in self.store.survey():
            for logged in self.store.open_log(identity).read():
                event = logged.event
                seen[event.type] += 1
                seen["doubted"] += isinstance(event, GenerationDoubtedEvent | GenerationFailedEvent)
                if isinstance(event, NodeStartedEvent):
                    begun.add((event.node, event.visit, event.purpose, event.conversation_id))
                if isinstance(event, FlowEndedEvent):
                    assert event.reason == "ended"
        assert len(begun) == len({each[:3] for each in begun}), "a visit has two conversations"
        return seen


def begin(root: Path) -> World:
    """Makes a new world."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return World(root)


def play_once_killed(
    root: Path, example: str, wanted: World, at: int, *, tears: bool, loses_power: bool
) -> Counter[str] | None:
    """Kills the first run at a step, and leaves the second alone; ``None`` after the last step."""
    world = begin(root)
    judge = Judge(world, wanted)
    if run_child(world, at, lambda: act(world, example), tears=tears) is not None:
        return None
    if loses_power:
        cut_power(world, random.Random(at))
    else:
        judge.look()
    assert run_child(world, 0, lambda: act(world, example), tears=False) is not None
    return judge.conclude()


def play_often_killed(root: Path, example: str, wanted: World, dice: random.Random) -> Counter[str]:
    """Kills each run at some step until one comes through."""
    world = begin(root)
    judge = Judge(world, wanted)
    deaths = 0
    while True:
        at, tears = dice.randint(1, 90), dice.random() < 0.5
        if run_child(world, at, lambda: act(world, example), tears=tears) is not None:
            break
        deaths += 1
        judge.look()
    return judge.conclude() + Counter(deaths=deaths)


def main(path: str, kind: str, rounds: int, first: int, stride: int, example: str = OWN) -> None:
    """Plays; see ``run_victims``."""
    root = Path(path, "world")
    wanted = begin(Path(path, "undisturbed"))
    asyncio.run(act(wanted, example))  # which loads whatever is loaded when it is needed
    gc.freeze()
    seen: Counter[str] = Counter()
    if kind == "often":
        for number in range(rounds):
            seen += play_often_killed(root, example, wanted, random.Random(number))
        print(json.dumps(seen))
        return
    settings = {"tears": kind == "torn", "loses_power": kind == "powerless"}
    at = first
    while (more := play_once_killed(root, example, wanted, at, **settings)) is not None:
        seen += more + Counter(steps=1)
        at += stride
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), *sys.argv[6:])
