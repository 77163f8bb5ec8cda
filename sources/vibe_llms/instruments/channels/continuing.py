"""Conversation that continues with each answer of an engine, and the parser of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from vibe_llms.conversations.compaction import find_summary
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.engine.generating import EventListener
from vibe_llms.engine.limits import Readings
from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.channels.reply_following import ReplyFollowing
from vibe_llms.instruments.inputs import Input, gather_canisters
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.options import EngineOptions
from vibe_llms.instruments.outcomes import RunOutcome, price_in_cents
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
    """The members of :class:`.Engine` that are needed to parse its answers."""

    @property
    def model(self) -> Model | ConverserModel:
        """The model that answers."""

    @property
    def ensembles(self) -> Sequence[Ensemble]:
        """The tools."""

    def vary(self, tools: Iterable[Ensemble], options: EngineOptions) -> Self:
        """Derive an engine with further tools and other options."""

    async def make_room(self, conversation: Conversation) -> Conversation:
        """Return a compacted fork if the model's window is full, or the conversation itself."""

    def prepare(
        self,
        conversation: Input,
        approvals: Sequence[Approval] = (),
        *,
        spent: Readings | None = None,
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
    answer_tools: tuple[Ensemble, ...] = ()
    if choice.mode is Mode.NATIVE:
        options["schema"] = parser.kind.sent_schema
    elif choice.mode is Mode.TOOL:
        # With other tools, the model may call these tools first; otherwise it can only answer.
        options["invocation_choice"] = "required" if has_tools else parser.name
        answer_tools = (FunctionsEnsemble("answer", (parser.produce_invoker(),)),)
    return engine.vary(answer_tools, options), choice


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

    async def _ask_with(
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
        # Checked only now: the previous question may have added the same instructions.
        instructions = self._list_instructions(choice)
        canisters = _omit_known_instructions(self.conversation, (*instructions, *composed))
        return await self._answer_with(engine, choice, canisters, on_event=on_event)

    async def _answer_with(
        self,
        engine: ParsingEngine,
        choice: ModeChoice | None,
        canisters: Sequence[AnyCanister],
        approvals: Sequence[Approval] = (),
        on_event: EventListener | None = None,
    ) -> Reply[T]:
        """Add canisters to the conversation, and let an engine answer it, as ``_ask_with`` does.

        Args:
            approvals: Answers to open approval requests.
        """

        async def answer(added: Sequence[AnyCanister]) -> RunOutcome:
            # Approvals are for the suspended run, not for later requests to correct an answer.
            return await self._run(engine, added, () if added else approvals, on_event)

        if self.parser is None or choice is None:
            outcome = await answer(canisters)
            value: Any = outcome.text if outcome.is_answered else ABSENT
            return Reply(outcomes=(outcome,), value=value)
        repair: Repair[Any, RunOutcome] = Repair(parser=self.parser, choice=choice)
        try:
            await repair.answer(answer, canisters)
        except ParseError:
            if not repair.outcomes or repair.outcomes[-1].is_answered:
                raise
            # Else the run has stopped without an answer: the reply has no value.
        return Reply(outcomes=tuple(repair.outcomes), choice=choice, value=repair.value)

    async def _run(
        self,
        engine: ParsingEngine,
        canisters: Sequence[AnyCanister],
        approvals: Sequence[Approval],
        on_event: EventListener | None,
    ) -> RunOutcome:
        """Run the conversation with further canisters; keep its new state, even after an error."""
        conversation = self.conversation
        spent: Readings | None = None
        if canisters:
            # A copy, so that the channel is unchanged if no run can be prepared.
            conversation = conversation.copy()
            conversation.add_canisters(canisters)
            compacted = await engine.make_room(conversation)
            if compacted is not conversation:
                conversation, spent = compacted, _count_summary(compacted)
        run = engine.prepare(
            conversation, approvals, spent=spent, on_event=on_event, waits=self.waits
        )
        try:
            outcome = await run.perform()
        finally:
            self.conversation = run.conversation
        if outcome.error is not None:
            raise outcome.error
        return outcome


def _count_summary(compacted: Conversation) -> Readings:
    """Return the usage of a new summary, which counts towards the limits of the next run."""
    spent = Readings()
    summary = find_summary(compacted.canisters)
    for origin in summary.summarizes.origins if summary and summary.summarizes else ():
        spent.count(origin.usage, price_in_cents(origin))
    return spent


def follow_engine(engine: ParsingEngine, conversation: Input, kind: Any) -> ReplyFollowing[Any]:
    """Follow an engine's answer to a conversation; see :meth:`.Engine.follow`."""
    parser = kind if isinstance(kind, Parser) else Parser[Any](kind)
    question: Sequence[AnyCanister] = ()
    if isinstance(conversation, Conversation):
        continued = ContinuedConversation(conversation.copy(), parser)
    else:
        continued = ContinuedConversation(Conversation(), parser)
        question = gather_canisters(conversation)

    async def answer(on_event: EventListener) -> Reply[Any]:
        parsing_engine, choice = await add_parser(engine, parser)
        return await continued._ask_with(parsing_engine, choice, question, on_event=on_event)

    return ReplyFollowing(parser, answer)


def _omit_known_instructions(
    conversation: Conversation, canisters: Iterable[AnyCanister]
) -> list[AnyCanister]:
    """Omit instructions that the conversation already contains."""
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
