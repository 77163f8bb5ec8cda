"""Plays runs that are killed: started by the test beside it, in a process of its own.

A run is a child of this process. It counts all that it does to the disk and to the world, and
kills itself with SIGKILL before the n-th of these steps, or in the middle of it where it is a
write. What comes after a step comes before the next, so that nothing is left out.
Then the run is taken up again, in another child, until it is answered.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the tests themselves have it

from support.runs.acting import invoke, say, script
from support.runs.killing import World, cut_power, read_synchronized, run_child
from vibe_llms.conversations import Conversation, DirectoryStore, verify
from vibe_llms.engine.states import Reason, State
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationProgressEvent,
    InvocationStartedEvent,
)
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import InvocationContext, produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow, deny
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister

TURNS = (
    [
        say("I send both."),
        invoke("send", "a", to="a"),  # has to wait for the others
        invoke("look", "b", place="b"),
        invoke("send", "c", to="c"),
    ],
    [invoke("pay", "d", cents=500)],  # needs an approval
    [invoke("send", "e", to="e"), invoke("send", "f", to="e")],  # twice the same: both count
    [say("Done.")],
)
ONCE = ("a", "c", "d", "e", "f")
IDENTITY = "acting"


class KeyAuthorizer:
    """Approves whatever is asked for, except what has taken effect already."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Looks at the world where it is in doubt."""
        if request.in_doubt:
            effects = [line.split()[1] for line in self.world.read("effects")]
            if request.invocation_id in effects:
                return deny(request, "It took effect.")
        return allow(request)


def produce_engine(world: World, store: DirectoryStore) -> Engine:
    """Makes the engine: a model and tools that count, and a listener that notes."""
    model = script(*TURNS, chunk_characters=0)
    play = model.send

    async def send_counted(native: Any, request: Any, *, streaming: bool) -> Any:
        turns = {getattr(each, "turn_id", None) for each in request.canisters} - {None}
        world.add("generations", str(len(turns)))
        return await play(native, request, streaming=streaming)

    model.send = send_counted

    async def send(to: str, context: InvocationContext) -> str:
        """Sends a message."""
        for _ in range(3 if to == "a" else 0):  # the others overtake it
            await asyncio.sleep(0.001)
        world.add("effects", f"{context.idempotency_key} {context.invocation_id}")
        return f"sent to {to}"

    async def pay(cents: int, context: InvocationContext) -> str:
        """Pays."""
        world.add("effects", f"{context.idempotency_key} {context.invocation_id}")
        return f"paid {cents}"

    async def look(place: str) -> str:
        """Looks."""
        return f"nothing at {place}"

    def note(event: Any) -> None:
        if hasattr(event, "type") and event.type.split(".")[0] in HEARD:
            world.note("heard", encode_event(event))

    tools = [
        produce_invoker(send, effect="once"),
        produce_invoker(look, effect="pure"),
        produce_invoker(pay, effect="once", needs_approval=True),
    ]
    return Engine(model, tools, approver=KeyAuthorizer(world), store=store, listener=note)


HEARD = ("run", "generation", "approval", "invocation")


async def act(world: World, store: DirectoryStore) -> None:
    """Performs one run to its end."""
    conversation = Conversation.restore(store, IDENTITY)
    outcome = await produce_engine(world, store).answer(conversation)
    assert outcome.state is State.TERMINATE, outcome
    assert outcome.reason is Reason.ANSWERED, outcome
    assert outcome.text == "Done.", outcome


def live(world: World, at: int, *, tears: bool) -> int | None:
    """Lets a child run; returns the number of its steps, or ``None`` where it was killed."""
    return run_child(
        world, at, lambda: act(world, DirectoryStore(world.root / "store")), tears=tears
    )


class Judge:
    """Looks at the store after each death: nothing that was there before may be missing.

    Args:
        loses_power: Events that were not durable may be lost, too.
    """

    def __init__(self, world: World, *, loses_power: bool) -> None:
        self.world, self.loses_power = world, loses_power
        self.store = DirectoryStore(world.root / "store")
        self.events: list[Any] = []
        self.canisters: Sequence[Any] = self.store.read(IDENTITY).canisters
        self.generations = self.held = 0

    def read_log(self) -> list[Any]:
        """Returns all events, which proves that each line reads and is numbered."""
        return [each.event for each in self.store.open_log(IDENTITY).read()]

    def look(self) -> None:
        """Judges what a death has left."""
        events, history = self.read_log(), self.store.read(IDENTITY, tolerant=True)
        kept = len(self.canisters)
        assert list(history.canisters[:kept]) == list(self.canisters), "something said is lost"
        heard = [decode_event(line) for line in self.world.read("heard")]
        heard = [event for event in heard if not isinstance(event, InvocationProgressEvent)]
        if not self.loses_power:
            assert encode(events[: len(self.events)]) == encode(self.events), "an event is lost"
            there = iter(encode(events))
            assert all(event in there for event in encode(heard)), "an event was told and is lost"
        self.held += count_held(events, history.canisters)
        self.judge_intents(events)
        self.judge_generations(history.canisters)
        self.events = events
        self.canisters = history.canisters[: self.count_durable()]

    def count_durable(self) -> int | None:
        """Counts the canisters that a later loss of power may not take away; ``None`` for all.

        What was written and never acknowledged may be there after one death, and gone after the
        next.
        """
        if not self.loses_power:
            return None
        path = Path(self.store.locate(IDENTITY), "messages.jsonl")
        size = read_synchronized(self.world).get(str(path), 0)
        return path.read_bytes()[:size].count(b"\n")

    def judge_intents(self, events: Sequence[Any]) -> None:
        """Nothing was done to the world of which the log does not say that it was begun."""
        begun = {event.idempotency_key for event in events if is_intent(event)}
        assert {line.split()[0] for line in self.world.read("effects")} <= begun
        asked = sum(isinstance(event, GenerationStartedEvent) for event in events)
        assert len(self.world.read("generations")) <= asked

    def judge_generations(self, canisters: Sequence[Any]) -> None:
        """What had been stored when the run was taken up was not generated again."""
        before = len({each.turn_id for each in self.canisters if getattr(each, "turn_id", None)})
        generations = [int(line) for line in self.world.read("generations") if line]
        assert all(turn >= before for turn in generations[self.generations :])
        self.generations = len(generations)

    def conclude(self) -> Counter[str]:
        """Judges the end; returns how often what happened."""
        self.look()
        self.judge_effects()
        self.judge_results()
        self.judge_reports()
        assert verify(self.store).findings == ()
        folder = Path(self.store.locate(IDENTITY))
        seen = Counter(event.type for event in self.events)
        seen["in doubt"] = sum(
            isinstance(event, ApprovalRequestedEvent) and event.in_doubt for event in self.events
        )
        seen["torn"] = len([*folder.glob("*.torn-*")])
        seen["held"] = self.held
        return seen

    def judge_effects(self) -> None:
        """One side effect a call, no more and no less."""
        effects = [line.split() for line in self.world.read("effects")]
        assert sorted(invocation_id for _, invocation_id in effects) == sorted(ONCE), effects
        assert len({key for key, _ in effects}) == len(ONCE)

    def judge_results(self) -> None:
        """Each call has one result, in the order of the calls."""
        calls = [each for each in self.canisters if isinstance(each, InvocationCanister)]
        results = [each for each in self.canisters if isinstance(each, ResultCanister)]
        wanted = ["a", "b", "c", "d", "e", "f"]
        assert [each.invocation_id for each in calls] == wanted
        assert [each.invocation_id for each in results] == wanted

    def judge_reports(self) -> None:
        """Each generation that was begun has ended, or is reported as possibly billed."""
        count = Counter(type(event) for event in self.events)
        doubted = count[GenerationDoubtedEvent]
        ended = count[GenerationFinishedEvent] + count[GenerationFailedEvent] + doubted
        assert count[GenerationStartedEvent] == ended
        asked = len(self.world.read("generations"))
        assert asked - len(TURNS) <= doubted, "a generation was repeated and not reported"
        self.judge_approvals()

    def judge_approvals(self) -> None:
        """What was answered is not asked again, unless it has begun since."""
        answered: set[str] = set()
        for event in self.events:
            match event:
                case ApprovalRequestedEvent():
                    assert event.key not in answered
                case ApprovalAnsweredEvent():
                    answered.add(event.key)
                case InvocationStartedEvent():
                    answered.discard(event.key)


def is_intent(event: Any) -> bool:
    """Tells whether an event says that something begins which must happen once."""
    return isinstance(event, InvocationStartedEvent) and event.effect == "once"


def count_held(events: Sequence[Any], canisters: Sequence[Any]) -> int:
    """Counts the results that are in the log and not yet in the conversation."""
    results = [each for each in canisters if isinstance(each, ResultCanister)]
    brought = {each.invocation_id for each in results}
    ended = [event for event in events if isinstance(event, InvocationFinishedEvent)]
    return sum(event.invocation_id not in brought for event in ended)


def encode(events: Sequence[Any]) -> list[bytes]:
    return [encode_event(event) for event in events]


def begin(root: Path) -> World:
    """Makes a new world with a conversation in which something is to be done."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    conversation = Conversation(id=IDENTITY)
    conversation.add_user_message("Do it all.")
    conversation.save(DirectoryStore(root / "store"))
    world = World(root)
    for path in (root / "store").rglob("*.jsonl"):
        world.note("synchronized", f"{path.stat().st_size} {path}".encode())
    return world


def play_once_killed(root: Path, at: int, *, tears: bool, loses_power: bool) -> Counter[str] | None:
    """Kills the first run at a step, and leaves the second alone; ``None`` after the last step."""
    world = begin(root)
    judge = Judge(world, loses_power=loses_power)
    if live(world, at, tears=tears) is not None:
        return None
    if loses_power:
        cut_power(world, random.Random(at))
    judge.look()
    assert live(world, 0, tears=False) is not None
    return judge.conclude()


def play_often_killed(root: Path, dice: random.Random) -> Counter[str]:
    """Kills each run at some step, with loss of power or without, until one comes through."""
    world = begin(root)
    judge = Judge(world, loses_power=True)
    deaths = 0
    while live(world, dice.randint(1, 60), tears=dice.random() < 0.5) is None:
        deaths += 1
        if dice.random() < 0.5:
            cut_power(world, dice)
        judge.look()
    return judge.conclude() + Counter(deaths=deaths)


def play_twice_killed(root: Path, at: int, dice: random.Random) -> Counter[str] | None:
    """Kills the first run at a step and, a little later, the second; then all power is lost.

    What the first had written and not synchronized is there for the second to act upon.
    """
    world = begin(root)
    judge = Judge(world, loses_power=True)
    if live(world, at, tears=False) is not None:
        return None
    judge.look()
    if live(world, dice.randint(1, 12), tears=False) is None:
        cut_power(world)
        judge.look()
        assert live(world, 0, tears=False) is not None
    return judge.conclude()


def main(path: str, kind: str, rounds: int, first: int = 1, stride: int = 1) -> None:
    """Plays.

    Args:
        rounds: Of runs that are often killed.
        first, stride: Which steps the others are killed at.
    """
    root = Path(path, "world")
    world = begin(root)  # one that nobody disturbs: loads whatever is loaded when it is needed
    asyncio.run(act(world, DirectoryStore(root / "store")))
    gc.freeze()
    seen: Counter[str] = Counter()
    if kind == "often":
        for number in range(rounds):
            seen += play_often_killed(root, random.Random(number))
        print(json.dumps(seen))
        return
    settings = {"tears": kind == "torn", "loses_power": kind == "powerless"}

    def play(at: int) -> Counter[str] | None:
        if kind == "twice":
            return play_twice_killed(root, at, random.Random(at))
        return play_once_killed(root, at, **settings)

    at = first
    while (more := play(at)) is not None:
        seen += more + Counter(steps=1)
        at += stride
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
