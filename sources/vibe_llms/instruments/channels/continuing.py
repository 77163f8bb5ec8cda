"""Conversation that continues with each answer of an engine, and the parser of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.engine.generating import EventListener
from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.channels.reply_following import ReplyFollowing
from vibe_llms.instruments.inputs import Input, gather_canisters
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.options import EngineOptions
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.instruments.parsers.dialogue import Repair
from vibe_llms.instruments.parsers.modes import Mode, ModeChoice
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.approvals import Approval
from vibe_llms.invocables.ensembles import Ensemble, FunctionsEnsemble
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ConverserModel

T = TypeVar("T")
_Engine = TypeVar("_Engine", bound="ParsingEngine")


class PreparedRun(Protocol):
    """Run of a conversation; see :class:`.Run`."""

    conversation: Conversation

    async def perform(self) -> RunOutcome:
        """Run the conversation until nothing is left to do."""


class ParsingEngine(Protocol):
    """Members of :class:`.Engine` that parsed answers need."""

    @property
    def model(self) -> Model | ConverserModel:
        """The model that is asked."""

    @property
    def ensembles(self) -> Sequence[Ensemble]:
        """The tools."""

    def vary(self, tools: Iterable[Ensemble], options: EngineOptions) -> Self:
        """Derive an engine with further tools and other options."""

    def prepare(
        self,
        conversation: Input,
        approvals: Sequence[Approval] = (),
        *,
        on_event: EventListener | None = None,
        waits: bool = False,
    ) -> PreparedRun:
        """Create a run of a conversation."""


async def add_parser(engine: _Engine, parser: Parser[Any]) -> tuple[_Engine, ModeChoice]:
    """Derive an engine whose answers a parser can read, and return it with the mode.

    Raises:
        CapabilityError: The model is known to lack the mode that the parser requires.
    """
    model = engine.model
    converser = await model.access() if isinstance(model, Model) else model
    has_tools = bool(engine.ensembles)
    choice = parser.choose(converser.descriptor.attributes, has_tools=has_tools)
    options: EngineOptions = {}
    answering: tuple[Ensemble, ...] = ()
    if choice.mode is Mode.NATIVE:
        options["schema"] = parser.kind.asked
    elif choice.mode is Mode.TOOL:
        # With tools, the model may call others first; without, it can only give the answer.
        options["invocation_choice"] = "required" if has_tools else parser.name
        answering = (FunctionsEnsemble("answer", (parser.produce_invoker(),)),)
    return engine.vary(answering, options), choice


class ContinuedConversation(Generic[T]):
    """Conversation that continues with each answer of an engine.

    Args:
        conversation: The start.
        parser: Reads the answers; ``None`` for their text.

    Attributes:
        conversation: Its current state.
        waits: Whether to wait while the disk is full instead of failing.
    """

    waits: bool = False

    def __init__(self, conversation: Conversation, parser: Parser[T] | None) -> None:
        self.conversation = conversation
        self.parser = parser

    def _list_instructions(self, choice: ModeChoice | None) -> tuple[AnyCanister, ...]:
        if self.parser is None or choice is None or choice.mode is not Mode.PROMPT:
            return ()
        return (SupervisorCanister(self.parser.instructions),)

    async def _ask_by(
        self,
        engine: ParsingEngine,
        choice: ModeChoice | None,
        composed: Sequence[AnyCanister],
        on_event: EventListener | None = None,
    ) -> Reply[T]:
        """Add the parser's instructions and a question, and let an engine answer them.

        Args:
            choice: The mode of structured output; ``None`` without a parser.
            on_event: Receives each event of the answers.

        Raises:
            ParseError: The answer is invalid and was not corrected.
            ConverseError: The request failed.
        """
        # Here, and not before: the previous question may have added the same instructions.
        said = _leave_out_known(self.conversation, (*self._list_instructions(choice), *composed))
        return await self._answer_by(engine, choice, said, on_event=on_event)

    async def _answer_by(
        self,
        engine: ParsingEngine,
        choice: ModeChoice | None,
        said: Sequence[AnyCanister],
        approvals: Sequence[Approval] = (),
        on_event: EventListener | None = None,
    ) -> Reply[T]:
        """Let an engine answer the conversation with further canisters, as ``_ask_by`` does.

        Args:
            approvals: Answers to open approval requests.
        """

        async def answer(said: Sequence[AnyCanister]) -> RunOutcome:
            # Approvals are for the suspended run, not for later requests to correct an answer.
            return await self._say(engine, said, () if said else approvals, on_event)

        if self.parser is None or choice is None:
            outcome = await answer(said)
            value: Any = outcome.text if outcome.is_answered else ABSENT
            return Reply(outcomes=(outcome,), value=value)
        repair: Repair[Any, RunOutcome] = Repair(parser=self.parser, choice=choice)
        try:
            await repair.answer(answer, said)
        except ParseError:
            if not repair.outcomes or repair.outcomes[-1].is_answered:
                raise  # else no answer can be valid yet, and the caller gets the error
        return Reply(outcomes=tuple(repair.outcomes), choice=choice, value=repair.value)

    async def _say(
        self,
        engine: ParsingEngine,
        said: Sequence[AnyCanister],
        approvals: Sequence[Approval],
        on_event: EventListener | None,
    ) -> RunOutcome:
        """Run the conversation; keep what it has gained, even after an error."""
        conversation = self.conversation
        if said:
            # A copy, so that the channel is unchanged if no run can be prepared.
            conversation = conversation.copy()
            conversation.add_canisters(said)
        run = engine.prepare(conversation, approvals, on_event=on_event, waits=self.waits)
        try:
            outcome = await run.perform()
        finally:
            self.conversation = run.conversation
        if outcome.error is not None:
            raise outcome.error
        return outcome


def follow_engine(engine: ParsingEngine, conversation: Input, kind: Any) -> ReplyFollowing[Any]:
    """Follow an engine's answer to a conversation; see :meth:`.Engine.follow`."""
    parser = kind if isinstance(kind, Parser) else Parser[Any](kind)
    said: Sequence[AnyCanister] = ()
    if isinstance(conversation, Conversation):
        continued = ContinuedConversation(conversation.copy(), parser)
    else:
        continued = ContinuedConversation(Conversation(), parser)
        said = gather_canisters(conversation)

    async def answer(on_event: EventListener) -> Reply[Any]:
        varied, choice = await add_parser(engine, parser)
        return await continued._ask_by(varied, choice, said, on_event=on_event)

    return ReplyFollowing(parser, answer)


def _leave_out_known(
    conversation: Conversation, canisters: Iterable[AnyCanister]
) -> list[AnyCanister]:
    """Leave out instructions that the conversation already contains."""
    known = {
        text_of(canister)
        for canister in conversation.canisters
        if isinstance(canister, SupervisorCanister)
    }
    return [
        canister
        for canister in canisters
        if not isinstance(canister, SupervisorCanister) or text_of(canister) not in known
    ]
