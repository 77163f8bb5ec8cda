"""Runs with chosen times, tokens and prices, written into a store without executing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from vibe_llms.conversations import ConversationStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@attrs.define
class Planting:
    """A run that is being composed: its conversation and its log, with a clock that is set by hand.

    Attributes:
        identity: Id of its conversation.
        now: Time of the next event.
    """

    identity: str
    now: datetime = NOON
    model: str = "scripted:echo"
    canisters: list[AnyCanister] = attrs.field(factory=list)
    lines: list[bytes] = attrs.field(factory=list)
    turns: int = 0

    def pass_time(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.now += timedelta(seconds=seconds)

    def note(self, event: LogEvent) -> None:
        """Add an event to the log."""
        self.lines.append(write_line(len(self.lines) + 1, self.now, self.identity, event))

    def ask(self, text: str) -> None:
        """Add a message of the user, and start."""
        self.canisters.append(UserCanister(text, timestamp=self.now))
        started = RunStartedEvent(
            run_id=self.identity, conversation_id=self.identity, length=1, model=self.model
        )
        self.note(started)

    def request(self) -> str:
        """Start a request to the model; return its key."""
        key = self.canisters[-1].id
        self.turns += 1
        self.note(GenerationStartedEvent(key=key, turn=self.turns, model=self.model))
        return key

    def answer(
        self,
        *canisters: AnyCanister,
        seconds: float = 1.0,
        tokens: int = 30,
        cents: float | None = None,
    ) -> None:
        """Ask the model, which answers with these canisters after a while."""
        key = self.request()
        self.pass_time(seconds)
        self.canisters += canisters
        self.note(
            GenerationFinishedEvent(
                key=key,
                turn=self.turns,
                model=self.model,
                provider=self.model.partition(":")[0],
                canisters=len(canisters),
                stop_reason=StopReason.ANSWERED,
                usage=Usage(input_tokens=tokens // 3, output_tokens=tokens - tokens // 3),
                cents=cents,
                seconds=seconds,
            )
        )

    def say(self, text: str, **more: Any) -> None:
        """Have the model answer with a text."""
        self.answer(AssistantCanister(text), **more)

    def call(
        self,
        name: str,
        result: str,
        *,
        seconds: float = 0.5,
        arguments: str = "{}",
        is_fault: bool = False,
        approved_after: float | None = None,
    ) -> None:
        """Have the model call a tool; with ``approved_after``, a person allows it first."""
        call = InvocationCanister(
            invocation_id=f"c{len(self.lines)}", name=name, arguments=arguments
        )
        self.answer(call)
        if approved_after is not None:
            self.wait_for_approval(call)
            self.pass_time(approved_after)
            self.allow(call)
        self.start_call(call)
        self.pass_time(seconds)
        whole = ResultCanister(
            result, invocation_id=call.invocation_id, name=name, is_error=is_fault
        )
        self.canisters.append(whole)
        self.note(
            InvocationFinishedEvent(
                key=call.id,
                invocation_id=call.invocation_id,
                name=name,
                result=whole,
                seconds=seconds,
                is_fault=is_fault,
            )
        )

    def start_call(self, call: InvocationCanister) -> None:
        """Start a call."""
        self.note(
            InvocationStartedEvent(
                key=call.id,
                invocation_id=call.invocation_id,
                name=call.name,
                arguments=call.arguments,
                effect="once",
                idempotency_key=call.id,
            )
        )

    def wait_for_approval(self, call: InvocationCanister) -> None:
        """Request an approval, and suspend."""
        self.note(
            ApprovalRequestedEvent(
                key=call.id,
                invocation_id=call.invocation_id,
                name=call.name,
                arguments=call.arguments,
                digest=call.id,
            )
        )
        self.note(RunSuspendedEvent(run_id=self.identity, digests=(call.id,)))

    def allow(self, call: InvocationCanister) -> None:
        """Allow a call, and start again."""
        self.note(
            ApprovalAnsweredEvent(key=call.id, name=call.name, digest=call.id, decision="allow")
        )
        started = RunStartedEvent(
            run_id=self.identity,
            conversation_id=self.identity,
            length=len(self.canisters),
            model=self.model,
        )
        self.note(started)

    def end(self, reason: Any = "answered", **more: Any) -> None:
        """End the run."""
        self.note(RunEndedEvent(run_id=self.identity, reason=reason, settles=True, **more))

    def plant(
        self, store: ConversationStore, name: str | None = None, tags: Sequence[str] = ()
    ) -> str:
        """Write the run into a store; return its id."""
        metadata = ConversationMetadata(name=name, tags=tags, created=NOON)
        store.plant(self.identity, metadata, self.canisters, events=self.lines)
        return self.identity


def plant_many(store: ConversationStore, count: int) -> Iterator[str]:
    """Plant runs one minute apart, the newest last; yield their ids.

    Every seventh failed, every hundredth is about a *heron*.
    """
    for number in range(count):
        run = Planting(
            f"{number:032x}",
            NOON + timedelta(minutes=number),
            model=("anthropic:claude", "openai:gpt", "scripted:echo")[number % 3],
        )
        subject = "a heron" if number % 100 == 42 else f"question {number}"
        run.ask(f"Tell me about {subject}, please.")
        run.say("It is known.", seconds=1 + number % 9, cents=None if number % 3 == 2 else 0.25)
        if number % 7 == 3:
            run.end("failed", detail="The vendor was out of order.")
        else:
            run.end()
        yield run.plant(store, tags=["blue"] if number % 50 == 7 else ())
