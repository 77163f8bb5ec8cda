"""Random flows, and a visitor with random answers in place of models and stores.

The answer of a visit depends only on a seed, its node and the number of the visit, so a run that
is resumed anywhere must have the same end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

import attrs

from support.flows.flow_tasks import compose_task
from vibe_llms.conversations.run_logs.log import read_events
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.events.flow import FlowStartedEvent, LogEvent, NodeStartedEvent
from vibe_llms.flows.budgets import Budget, Spending
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.driving import FlowDriver
from vibe_llms.flows.registry_contents import RegistryContents
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.flows.visit_execution import VisitPerformer
from vibe_llms.flows.visiting import Listener, VisitOutcome
from vibe_llms.invocables.pages.getting import PageBounds
from vibe_llms.runs.local import LocalRunContext

WORDS = ("red", "green", "blue")


class _Drawing:
    """Writer of nested parts: prompts, rows, splits, choices, loops, edges back and on error."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.prompts = 0
        self.names = iter(range(10_000))

    def name(self, kind: str = "n") -> str:
        return f"{kind}{next(self.names)}"

    def prompt(self) -> str:
        self.prompts += 1
        return f"P{self.prompts - 1}"

    def link(self, source: str, target: str, label: str = "") -> None:
        arrow = f"-->|{label}|" if label else "-->"
        self.lines.append(f"{source} {arrow} {target}")

    def grow(self, depth: int) -> tuple[str, str]:
        """Draw a part with one entry and one exit."""
        kinds = ["prompt"] * 2 + ["row", "split", "choice", "loop", "back", "error"]
        kind = "prompt" if depth > 2 else self.chance.choice(kinds)
        return cast("tuple[str, str]", getattr(self, f"grow_{kind}")(depth + 1))

    def grow_prompt(self, depth: int) -> tuple[str, str]:
        name = self.prompt()
        return name, name

    def grow_row(self, depth: int) -> tuple[str, str]:
        (a, b), (c, d) = self.grow(depth), self.grow(depth)
        self.link(b, c)
        return a, d

    def grow_split(self, depth: int) -> tuple[str, str]:
        first, last = self.name(), self.name()
        for _ in range(self.chance.randint(2, 3)):
            way_in, way_out = self.grow(depth)
            self.link(first, way_in)
            self.link(way_out, last)
        return first, last

    def grow_choice(self, depth: int) -> tuple[str, str]:
        first, asks, last = self.prompt(), self.name("c"), self.name()
        self.lines.append(f"{first} --> {asks}{{which?}}")
        for label in ("", *WORDS[: self.chance.randint(1, 2)]):
            way_in, way_out = self.grow(depth)
            self.link(asks, way_in, label)
            self.link(way_out, last)
        return first, last

    def grow_loop(self, depth: int) -> tuple[str, str]:
        head, last = self.name("l"), self.name()
        way_in, way_out = self.grow(depth)
        self.lines.append(f"{head}([round x{self.chance.randint(1, 3)}]) --> {way_in}")
        self.link(way_out, head)
        self.link(head, last)
        if self.chance.random() < 0.5:
            other = self.prompt()
            self.link(head, other, "on limit")
            self.link(other, last)
        return head, last

    def grow_back(self, depth: int) -> tuple[str, str]:
        way_in, out = self.grow(depth)
        first, asks, last = self.name(), self.name("c"), self.name()
        self.link(first, way_in)  # if it began a loop, the edge back would be a round
        self.lines.append(f"{out} --> {asks}{{again?}}")
        self.link(asks, first, "red")
        self.link(asks, last)
        return first, last

    def grow_error(self, depth: int) -> tuple[str, str]:
        first, last = self.prompt(), self.name()
        way_in, way_out = self.grow(depth)
        self.link(first, last)
        self.link(first, way_in, "on error")
        self.link(way_out, last)
        return first, last


def check_flow(diagram: str, prompts: int, **parts: Any) -> TaskCheck:
    """Check a task whose prompts are their own names."""
    texts = [f"P{number}" for number in range(prompts)]
    reading = examine_task(compose_task(diagram, *texts, **parts), strict=False)
    return check_task(reading)


def draw_nested(chance: random.Random) -> TaskCheck:
    """Draw a flow of nested parts, as people do."""
    drawing = _Drawing(chance)
    way_in, way_out = drawing.grow(0)
    drawing.link("START", way_in)
    drawing.link(way_out, "END")
    return check_flow("\n".join(drawing.lines), drawing.prompts)


def draw_wild(chance: random.Random) -> TaskCheck | None:
    """Draw random edges; return ``None`` if the flow is invalid."""
    prompts = chance.randint(1, 4)
    names = [f"P{number}" for number in range(prompts)]
    names += [f"n{number}" for number in range(chance.randint(0, 3))]
    loops = [f"l{number}" for number in range(chance.randint(0, 2))]
    drawing = _Drawing(chance)
    drawing.lines += [f"{name}([round x{chance.randint(1, 3)}])" for name in loops]
    places = [*names, *loops]
    for name in places:
        for _ in range(chance.choice((1, 1, 2, 3))):
            labels = ["", "", ""] if name in loops else ["", "", "", "red", "green", "on error"]
            drawing.link(name, chance.choice([*places, "END"]), chance.choice(labels))
    drawing.link("START", chance.choice(places))
    drawing.link(chance.choice(places), "END")
    check = check_flow("\n".join(drawing.lines), prompts)
    return None if check.errors else check


@attrs.define(slots=False)
class Player:
    """Visitor of flows whose answers take some turns of the event loop; some fail.

    Attributes:
        seed: Determines all answers.
        known: The visits that have started: prompt, and number of the visit.
        failing: Probability that a visit fails.
        asked: The conversation of each request.
    """

    seed: int
    known: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    failing: float = 0.1
    counts: Counter[str] = attrs.field(factory=Counter)
    asked: list[str] = attrs.field(factory=list)
    budget: Budget = attrs.field(factory=lambda: Budget(AdapterConfig()))

    @classmethod
    def remember(cls, seed: int, events: Iterable[object], failing: float = 0.1) -> Player:
        """Create one that knows the visits that a run started before it was interrupted."""
        player = cls(seed, failing=failing)
        for event in events:
            if isinstance(event, NodeStartedEvent):
                player.note(event.conversation_id, event.node)
        return player

    def note(self, identity: str, name: str) -> tuple[str, int]:
        """Record a visit; return its prompt and number."""
        if identity not in self.known:
            self.known[identity] = (name, self.counts[name])
            self.counts[name] += 1
        return self.known[identity]

    async def ask(
        self, identity: str, text: str, instructions: str, listener: Listener, **_: Any
    ) -> VisitOutcome:
        """Return the answer of a visit, after some turns of the event loop."""
        name, number = self.note(identity, text)
        self.asked.append(identity)
        chance = random.Random(f"{self.seed} {name} {number}")
        for _turn in range(chance.randint(0, 4)):
            await asyncio.sleep(0)
        self.budget.note(identity, Spending(requests=1, cost_cents=1.0))
        if chance.random() < self.failing:
            return VisitOutcome(failure="It failed.")
        return VisitOutcome(response=f"{name} {chance.choice(WORDS)}")


@attrs.define
class PlayedRun:
    """A run that has ended or is suspended: its state, events and visitor."""

    state: FlowState
    events: Sequence[LogEvent]
    player: Player


async def play(
    check: TaskCheck,
    player: Player,
    events: Iterable[LogEvent] = (),
    *,
    config: AdapterConfig | None = None,
    log: MemoryLog | None = None,
    before: Sequence[Any] = (),
    listener: Any = None,
) -> PlayedRun:
    """Run a flow, resumed after these events, until it ends or is suspended."""
    log = MemoryLog() if log is None else log
    for event in events:
        log.append("run", event)
    context = LocalRunContext("run", log, listener=listener)
    state = FlowState.fold(check.access_flow(), context.survey())
    config = config or AdapterConfig(max_iterations=200)
    performer = VisitPerformer(
        check=check,
        state=state,
        visitor=cast("Any", player),
        run_subflow=cast("Any", None),
        config=config,
        variables={},
        contents=RegistryContents(
            registry=check.task.resource_registry, folder=None, bounds=PageBounds()
        ),
        predicates={},
    )

    async def skip_answer() -> None:
        """Do nothing: these tests do not read the conversation."""

    driver = FlowDriver(
        state=state, context=context, performer=performer, config=config, answer=skip_answer
    )
    await driver.drive(FlowStartedEvent(run_id="run"), before)
    return PlayedRun(state, read_events(log), player)
