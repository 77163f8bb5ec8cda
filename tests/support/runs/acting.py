"""Runs of the engine in memory, with scripted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from support.runs.scripting import produce_model
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.engine.deferral import DeferralBackend
from vibe_llms.engine.driver import Driver, RunEnding
from vibe_llms.engine.generating import ModelCall
from vibe_llms.events.engine import EngineEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import Registry
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Origin, UserCanister
from vibe_llms.messages.requests import RequestFields
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.runs.journals import ConversationJournal
from vibe_llms.runs.local import LocalRunContext


def invoke(name: str, identity: str = "", /, **arguments: Any) -> dict[str, Any]:
    """Return the content of a script in which the model invokes a tool."""
    text = json.dumps(arguments)
    return {"invocation": {"id": identity or f"call-{name}", "name": name, "arguments": text}}


def say(text: str) -> dict[str, Any]:
    """Return the content of a script in which the model writes text."""
    return {"text": text}


def script(*turns: Sequence[dict[str, Any]], **settings: Any) -> ConverserModel:
    """Return a model with the contents of each turn."""
    return produce_model(*({"contents": list(turn), **settings} for turn in turns))


@attrs.define
class FinishedRun:
    """The ending of a run, its canisters and events."""

    ending: RunEnding
    canisters: Sequence[AnyCanister]
    events: list[EngineEvent]

    @property
    def words(self) -> list[str]:
        """A text for each canister: its own, or the name of the tool with ``()``."""
        return [
            f"{each.name}()" if isinstance(each, InvocationCanister) else text_of(each)
            for each in self.canisters
        ]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events."""
        return [event.type for event in self.events]


@attrs.define
class Stage:
    """A conversation, its log, and a model, for one run or several."""

    model: ConverserModel
    tools: Iterable[Any] = ()
    conversation: Conversation = attrs.field(factory=Conversation)
    log: MemoryLog = attrs.field(factory=MemoryLog)
    heard: list[object] = attrs.field(factory=list)
    runs: int = 0
    price: Callable[[Origin], float | None] | None = None
    reactors: ConversationReactors | None = None
    deferral_backend: DeferralBackend | None = None

    def __attrs_post_init__(self) -> None:
        if not len(self.conversation):
            self.conversation.add_canister(UserCanister("Hello"))

    async def act(
        self,
        *,
        stream: bool = False,
        choice: str = "auto",
        limits: Limits | None = None,
        **settings: Any,
    ) -> FinishedRun:
        """Perform one run; pass its errors on."""
        fields: RequestFields = {"model": "scripted:test"}
        if choice:
            fields["invocation_choice"] = choice
        self.runs += 1
        start = len(self.log.read())
        context = LocalRunContext(f"run-{self.runs}", self.log, listener=self.heard.append)
        async with Registry(gather_ensembles(self.tools)) as registry:
            driver = Driver(
                ModelCall(
                    model=self.model,
                    fields=fields,
                    reactors=self.reactors,
                    deferral_backend=self.deferral_backend,
                    stream=stream,
                    price=self.price,
                ),
                registry,
                ConversationJournal(self.conversation),
                context,
                limits=limits,
                **settings,
            )
            await driver.drive()
        assert driver.ending is not None
        events = [logged.event for logged in self.log.read(after=start)]
        return FinishedRun(driver.ending, self.conversation.canisters, events)


async def act(model: ConverserModel, *tools: Any, **settings: Any) -> FinishedRun:
    """Perform one run of a new conversation."""
    return await Stage(model, tools).act(**settings)


class Clock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def read(self) -> float:
        """Return its time in seconds."""
        return self.now

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and let due tasks run."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


class WatchedLog(MemoryLog):
    """A log that keeps the numbers of the events that its users secured."""

    def __init__(self) -> None:
        super().__init__()
        self.secured: set[int] = set()

    async def secure(self, sequence: int) -> None:
        self.secured.add(sequence)
