"""Runs of the engine with models that play a script, in memory."""

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
    """Says in a script that the model invokes something."""
    written = json.dumps(arguments)
    return {"invocation": {"id": identity or f"call-{name}", "name": name, "arguments": written}}


def say(text: str) -> dict[str, Any]:
    """Says in a script that the model says something."""
    return {"text": text}


def script(*turns: Sequence[dict[str, Any]], **settings: Any) -> ConverserModel:
    """Makes a model of what it says turn by turn."""
    return produce_model(*({"contents": list(turn), **settings} for turn in turns))


@attrs.define
class Acted:
    """What came of a run."""

    ending: RunEnding
    canisters: Sequence[AnyCanister]
    events: list[EngineEvent]

    @property
    def words(self) -> list[str]:
        """One word for each canister: what it says, or calls, or brings."""
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
    """A conversation, its log, and a model: what may run several times."""

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
    ) -> Acted:
        """Performs one run; raises what the run raises."""
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
        return Acted(driver.ending, self.conversation.canisters, events)


async def act(model: ConverserModel, *tools: Any, **settings: Any) -> Acted:
    """Performs one run of a new conversation."""
    return await Stage(model, tools).act(**settings)


class Clock:
    """The time of everything here, which passes where it is said to, and nowhere else."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def read(self) -> float:
        """Returns the seconds that it shows."""
        return self.now

    async def pass_by(self, seconds: float) -> None:
        """Lets time pass, and whatever has become due happen."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


class WatchedLog(MemoryLog):
    """Remembers of which events it was waited for that they reach the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.secured: set[int] = set()

    async def secure(self, sequence: int) -> None:
        self.secured.add(sequence)
