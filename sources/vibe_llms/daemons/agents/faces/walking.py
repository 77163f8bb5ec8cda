"""Walk over a run: events of its log, and pieces of answers, as the steps that faces write.

Pieces of an answer that is being generated are in no log, and a slow client may miss some. The
answer in the conversation is authoritative: at the end of each generation, the walk adds what the
pieces lacked, and withdraws pieces that do not agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import msgspec

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.daemons.agents.faces.answers import AnswerFold, Item
from vibe_llms.daemons.agents.faces.steps import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    ModelUsage,
    Noted,
    PartBegun,
    PartEnded,
    PartGrown,
    ShownCall,
    Step,
    StepBegun,
    StepEnded,
    identify_approval,
)
from vibe_llms.events.codec import encode_event
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, ResultCanister, Usage
from vibe_llms.messages.contents import TextualContent

_IMPLIED: Final = (
    FlowEndedEvent,
    FlowStartedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunRequestedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
"""Events that follow from the steps around them."""


@define(eq=False)
class Walk:
    """Walk over the events of one run.

    Args:
        run_id: Id of the run, and of its conversation.

    Attributes:
        calls: Calls by the ids of their canisters.
    """

    run_id: str
    calls: dict[str, ShownCall] = attrs.field(factory=dict)
    _answer: AnswerFold | None = None
    _step: str = ""
    _denied: set[str] = attrs.field(factory=set)
    _usages: dict[tuple[str, str], Usage] = attrs.field(factory=dict)

    @property
    def usages(self) -> tuple[ModelUsage, ...]:
        """Usage by model."""
        return tuple(
            ModelUsage(provider=provider, model=model, usage=usage)
            for (provider, model), usage in self._usages.items()
        )

    def feed_piece(self, event: StreamEvent) -> Iterator[Step]:
        """Yield the steps of a piece of an answer."""
        if self._answer is not None:
            yield from self._answer.feed(event)

    def feed(self, logged: LoggedEvent, answer: Sequence[AnyCanister] = ()) -> Iterator[Step]:
        """Yield the steps of an event of the log.

        Args:
            answer: For the end of a generation, the canisters of the answer.
        """
        event = logged.event
        match event:
            case GenerationStartedEvent():
                yield from self._end_answer(())  # of a generation that a crash ended
                self._answer = AnswerFold(f"{self.run_id}.{logged.sequence}")
                yield from self._begin_step(f"step {logged.sequence}")
            case GenerationFinishedEvent():
                yield from self._end_answer(answer)
                self._count(event)
            case GenerationFailedEvent():
                yield from self._end_answer(event.canisters)
                yield _note(event)
            case ApprovalRequestedEvent():
                yield from self._introduce(event)
                yield ApprovalAsked(
                    call=self.calls[event.key],
                    approval_id=identify_approval(event.key, event.digest),
                    in_doubt=event.in_doubt,
                )
            case ApprovalAnsweredEvent():
                yield from self._answer_approval(event)
            case InvocationStartedEvent():
                yield from self._introduce(event)
            case InvocationFinishedEvent():
                yield from self._introduce(event)
                yield CallEnded(
                    call=self.calls[event.key],
                    result=event.result,
                    is_denied=event.key in self._denied,
                )
            case NodeStartedEvent():
                yield from self._begin_step(f"{event.node}, visit {event.visit}.{event.branch}")
                yield _note(event)
            case NodeFinishedEvent():
                yield from self._end_node(logged.sequence, event)
            case _ if not isinstance(event, _IMPLIED):
                yield _note(event)
        if isinstance(event, (RunEndedEvent, RunSuspendedEvent, FlowEndedEvent)):
            yield from self._end_answer(())
            yield from self._end_step()

    def _begin_step(self, name: str) -> Iterator[Step]:
        yield from self._end_step()
        self._step = name
        yield StepBegun(name=name)

    def _end_step(self) -> Iterator[Step]:
        if self._step:
            yield StepEnded(name=self._step)
            self._step = ""

    def _end_answer(self, canisters: Sequence[AnyCanister]) -> Iterator[Step]:
        """Yield what the pieces of an answer lacked, and remember its calls."""
        fold, self._answer = self._answer, None
        if fold is None:
            return
        yield from fold.end([*_list_items(canisters)])
        self.calls.update(fold.calls)

    def _end_node(self, sequence: int, event: NodeFinishedEvent) -> Iterator[Step]:
        if event.response is not None:
            part_id = f"{self.run_id}.{sequence}"
            yield PartBegun(id=part_id, kind="text")
            yield PartGrown(id=part_id, kind="text", text=event.response)
            yield PartEnded(id=part_id, kind="text", content=TextualContent(event.response))
        yield _note(event)
        yield from self._end_step()

    def _introduce(
        self, event: ApprovalRequestedEvent | InvocationStartedEvent | InvocationFinishedEvent
    ) -> Iterator[Step]:
        """Yield a call of an answer that was given before this walk began."""
        if event.key in self.calls:
            return
        arguments = "" if isinstance(event, InvocationFinishedEvent) else event.arguments
        call = ShownCall(id=f"{self.run_id}.{event.key}", name=event.name, arguments=arguments)
        self.calls[event.key] = call
        yield PartBegun(id=call.id, kind="invocation", call=attrs.evolve(call, arguments=""))
        yield PartEnded(id=call.id, kind="invocation", call=call)

    def _answer_approval(self, event: ApprovalAnsweredEvent) -> Iterator[Step]:
        if event.decision == "deny":
            self._denied.add(event.key)
        if event.decision == "edit":
            yield _note(event)  # with the new arguments, which the protocols cannot express
        if event.key in self.calls:
            yield ApprovalGiven(
                call=self.calls[event.key],
                approval_id=identify_approval(event.key, event.digest),
                is_allowed=event.decision != "deny",
                reason=event.reason,
            )

    def _count(self, event: GenerationFinishedEvent) -> None:
        if event.usage is not None:
            key = (event.provider, event.model)
            known = self._usages.get(key)
            self._usages[key] = event.usage if known is None else known + event.usage


def _list_items(canisters: Sequence[AnyCanister]) -> Iterator[Item]:
    """Yield contents, calls and results of an answer, in the order of their beginnings."""
    for canister in canisters:
        if isinstance(canister, (InvocationCanister, ResultCanister)):
            yield canister
        else:
            yield from canister.content


def _note(event: LogEvent) -> Noted:
    return Noted(word=event.type, event=msgspec.json.decode(encode_event(event)))
