"""What a visit of a node does: it asks a model or invokes a tool, each as the run of an engine.

Each visit has a conversation of its own beside that of the flow. There the engine keeps what is
said and what was begun, so that a visit which was cut off goes on where it was, and nothing is
paid for twice: a visit that is taken up finds its conversation, and asks only what is not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.engine.states import Reason, State
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError, Stage, UnknownConversationError
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.engines import Engine, RunOutcome, price_in_cents
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.registry import Registry
from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.views import add_usages, text_of
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.values import frozen

Listener = Callable[[LogEvent | StreamEvent], object]

_CUT = "max_tokens"

TAG = "flow"
"""What the conversations of flows are tagged with, and their visits with whose part they are."""


@frozen(kw_only=True)
class Spending:
    """What answers of models have used.

    Attributes:
        requests: How many there were.
        usage: ``None`` where no vendor said.
        cost_cents: In US cents; ``None`` where no price is known.
    """

    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None

    def __add__(self, other: Spending) -> Spending:
        costs = [each for each in (self.cost_cents, other.cost_cents) if each is not None]
        return Spending(
            requests=self.requests + other.requests,
            usage=add_usages((self.usage, other.usage)),
            cost_cents=sum(costs) if costs else None,
        )


@frozen(kw_only=True)
class VisitOutcome:
    """What came of a visit.

    Attributes:
        response: What was said; ``None`` where nothing new was.
        failure: Why it failed; empty where it did not.
        limit: The name of the limit that was reached, where that is why.
        error: The same as an error, where there is one.
        waits: What it waits for, in a sentence; then all else is open.
        spending: What it has used, also before it was cut off.
    """

    response: str | None = None
    failure: str = ""
    limit: str = ""
    error: ConverseError | None = None
    waits: str = ""
    spending: Spending = Spending()


@frozen(kw_only=True, eq=False)
class Visitor:
    """Performs visits, for one run of a flow.

    Attributes:
        model: Who is asked.
        registry: What may be invoked; connected.
        store: Where the conversations of visits are kept; ``None`` for nowhere.
        approver: Is asked about invocations that need it; without one the flow waits.
        limits: What bounds each visit.
        flow_id: The conversation of the flow.
    """

    model: Model
    registry: Registry
    store: ConversationStore | None
    approver: Approver | None
    limits: Limits
    flow_id: str

    async def ask(
        self, conversation_id: str, said: str, instructions: str, listener: Listener
    ) -> VisitOutcome:
        """Asks the model, which may invoke what there is."""
        canisters: list[AnyCanister] = [SupervisorCanister(instructions)] if instructions else []
        conversation = await self._open(conversation_id, [*canisters, UserCanister(said)])
        outcome = await self._engage(listener, self.limits).answer(conversation)
        return _conclude(outcome)

    async def invoke(
        self, conversation_id: str, tool: str, arguments: JsonObject, listener: Listener
    ) -> VisitOutcome:
        """Invokes a tool; its result is what was said. One that failed before is tried again."""
        conversation = await self._open(conversation_id, [UserCanister(f"Invoke {tool}.")])
        last = conversation.last_message
        if isinstance(last, UserCanister) or (isinstance(last, ResultCanister) and last.is_error):
            call = InvocationCanister(
                invocation_id=produce_identity(),
                name=tool,
                arguments=encode_document(arguments).decode(),
            )
            conversation.add_canister(call)
        # The model is not asked what to make of the result: that is for the diagram to say.
        engine = self._engage(listener, attrs.evolve(self.limits, run_steps=0))
        outcome = await engine.answer(conversation)
        found = next((each for each in _reverse(outcome) if isinstance(each, ResultCanister)), None)
        if found is None:
            return _conclude(outcome)
        if found.is_error:
            return VisitOutcome(failure=f"{tool} failed: {text_of(found)}")
        return VisitOutcome(response=text_of(found))

    async def judge(
        self, conversation_id: str, question: str, schema: JsonObject, listener: Listener
    ) -> tuple[JsonValue, Spending]:
        """Asks the model for an answer of a form; tools it has none.

        Raises:
            ConverseError: No answer came, or none that fits.
        """
        conversation = await self._open(conversation_id, [])
        channel: AsyncChannel[JsonValue] = AsyncChannel(
            self.model,
            parser=Parser(schema),
            conversation=conversation,
            store=self.store,
            limits=self.limits,
            listener=listener,
        )
        reply = await (channel.resume() if len(conversation) else channel.ask(question))
        return reply.value, measure(channel.conversation.canisters)

    def _engage(self, listener: Listener, limits: Limits) -> Engine:
        return Engine(
            self.model,
            self.registry,
            approver=self.approver,
            limits=limits,
            store=self.store,
            listener=listener,
        )

    async def _open(self, identity: str, canisters: Iterable[AnyCanister]) -> Conversation:
        """Returns the conversation of a visit as far as it has come; else a new one."""
        if self.store is not None:
            with suppress(UnknownConversationError):
                found = await asyncio.to_thread(Conversation.restore, self.store, identity)
                if not len(found):  # begun, and cut off before anything was said
                    found.add_canisters(canisters)
                return found
        tags = (TAG, PART_TAG + self.flow_id)
        metadata = ConversationMetadata(tags=tags, model=self.model.address)
        return Conversation(id=identity, canisters=canisters, metadata=metadata)


def measure(canisters: Sequence[AnyCanister]) -> Spending:
    """Adds up what the answers in a conversation used."""
    origins: dict[str, Origin] = {}
    for canister in canisters:
        origin = getattr(canister, "origin", None)
        if origin is not None:
            origins.setdefault(getattr(canister, "turn_id", None) or canister.id, origin)
    costs = [cost for each in origins.values() if (cost := price_in_cents(each)) is not None]
    return Spending(
        requests=len(origins),
        usage=add_usages(each.usage for each in origins.values()),
        cost_cents=sum(costs) if costs else None,
    )


def _conclude(outcome: RunOutcome) -> VisitOutcome:
    spending = measure(outcome.conversation.canisters)
    if outcome.state is State.AWAIT:
        names = ", ".join(dict.fromkeys(request.name for request in outcome.requests))
        return VisitOutcome(waits=f"{names} waits for an approval.", spending=spending)
    if outcome.reason is Reason.ANSWERED:
        return VisitOutcome(response=outcome.text, spending=spending)
    if outcome.limit == _CUT and outcome.text:  # half an answer is one, and the flow may say so
        return VisitOutcome(response=outcome.text, limit=_CUT, spending=spending)
    detail = outcome.detail or "There was no answer."
    error = outcome.error or ConverseError(detail=detail, stage=Stage.EXECUTE)
    return VisitOutcome(failure=detail, limit=outcome.limit, error=error, spending=spending)


def _reverse(outcome: RunOutcome) -> Iterable[AnyCanister]:
    return reversed(outcome.conversation.canisters)
