"""Visits of nodes: each asks a model or invokes a tool, as the run of an engine.

Each visit has a conversation of its own, with a log. An interrupted visit resumes there and repeats
only unanswered requests, so that nothing is billed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import FLOW_TAG, PART_TAG
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError, LimitError, Stage, UnknownConversationError
from vibe_llms.flows.budgets import Budget, measure
from vibe_llms.flows.tasks import Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.views import text_of

Listener = Callable[[LogEvent | StreamEvent], object]

_CUT = "max_tokens"


def begin_conversation(
    task: Task, run_id: str | None = None, enclosing_run_id: str | None = None
) -> Conversation:
    """Create the conversation of a flow: the goal, and at the end the last response.

    Args:
        run_id: Id of the run; a new one by default.
        enclosing_run_id: Id of the enclosing run, if this one is a subflow.
    """
    return Conversation(
        id=run_id,
        canisters=[UserCanister(task.goal.description)],
        metadata=ConversationMetadata(
            tags=(FLOW_TAG,)
            if enclosing_run_id is None
            else (FLOW_TAG, PART_TAG + enclosing_run_id)
        ),
    )


@frozen(kw_only=True)
class VisitOutcome:
    """Outcome of a visit.

    Attributes:
        response: Response or result; ``None`` without a new one.
        failure: Reason of a failure; empty for a success.
        limit: Name of the limit that was reached, if that is the reason.
        error: The failure as an error, if there is one.
        waits: Description of what it waits for; the other fields are empty then.
    """

    response: str | None = None
    failure: str = ""
    limit: str = ""
    error: ConverseError | None = None
    waits: str = ""


@frozen(kw_only=True, eq=False)
class Visitor:
    """Client of the model and the tools, for the visits of one run of a flow.

    Attributes:
        model: Model that is asked.
        registry: Connected tools that may be invoked.
        store: Store of the visits' conversations; ``None`` to store nothing.
        approver: Decides about invocations that need approval; without one the flow waits.
        limits: Limits of each visit.
        flow_id: Id of the flow's conversation.
        budget: Budget of the run, with its usage.
        waits: Whether to wait while the disk is full, rather than fail.
    """

    model: Model
    registry: Registry
    store: ConversationStore | None
    approver: Approver | None
    limits: Limits
    flow_id: str
    budget: Budget
    waits: bool = False

    async def ask(
        self,
        conversation_id: str,
        message: str,
        instructions: str,
        listener: Listener,
        *,
        is_resumed: bool,
    ) -> VisitOutcome:
        """Ask the model, with all tools.

        Args:
            is_resumed: Whether an earlier run was suspended at this visit; its last response does
                not count, and the message is sent again.
        """
        canisters: list[AnyCanister] = [SupervisorCanister(instructions)] if instructions else []
        conversation = await self._open(conversation_id, [*canisters, UserCanister(message)])
        if is_resumed and read_tail(conversation.canisters).ends_with_assistant:
            conversation.add_canister(UserCanister(message))
        with self.budget.grant(self.limits) as grant:
            outcome = await self._answer(conversation, grant.limits, listener)
        return _conclude(outcome, grant.find_error(outcome.limit))

    async def invoke(
        self, conversation_id: str, tool: str, arguments: JsonObject, listener: Listener
    ) -> VisitOutcome:
        """Invoke a tool; its result is the response. A call that failed before is tried again."""
        conversation = await self._open(conversation_id, [UserCanister(f"Invoke {tool}.")])
        last = conversation.last_message
        if isinstance(last, UserCanister) or (isinstance(last, ResultCanister) and last.is_error):
            call = InvocationCanister(
                invocation_id=produce_identity(),
                name=tool,
                arguments=encode_document(arguments).decode(),
            )
            conversation.add_canister(call)
        # The diagram, not the model, decides what follows the result.
        limits = attrs.evolve(self.limits, run_steps=0)
        outcome = await self._answer(conversation, limits, listener)
        result = outcome.conversation.last_message
        if outcome.state is State.AWAIT or not isinstance(result, ResultCanister):
            return _conclude(outcome)
        if result.is_error:
            return VisitOutcome(failure=f"{tool} failed: {text_of(result)}")
        return VisitOutcome(response=text_of(result))

    async def judge(
        self, conversation_id: str, question: str, schema: JsonObject, listener: Listener
    ) -> JsonValue:
        """Ask the model for an answer that fits a schema, without tools.

        Raises:
            LimitError: A budget is exhausted.
            ConverseError: The answer is missing, or does not conform to the schema.
        """
        conversation = await self._open(conversation_id, [])
        with self.budget.grant(self.limits) as grant:
            channel: AsyncChannel[JsonValue] = AsyncChannel(
                self.model,
                parser=Parser(schema),
                conversation=conversation,
                store=self.store,
                limits=grant.limits,
                listener=listener,
            )
            channel.waits = self.waits
            try:
                reply = await (channel.resume() if len(conversation) else channel.ask(question))
            finally:
                self.budget.note(conversation_id, measure(channel.conversation.canisters))
        if not reply.has_value and (error := grant.find_error(reply.outcomes[-1].limit)):
            raise error
        return reply.value

    async def _answer(
        self, conversation: Conversation, limits: Limits, listener: Listener
    ) -> RunOutcome:
        engine = Engine(
            self.model,
            self.registry,
            approver=self.approver,
            limits=limits,
            store=self.store,
            listener=listener,
        )
        run = engine.prepare(conversation, waits=self.waits)
        try:
            return await run.perform()
        finally:  # also if it is cancelled
            self.budget.note(conversation.id, measure(run.conversation.canisters))

    async def _open(self, identity: str, canisters: Iterable[AnyCanister]) -> Conversation:
        """Return the stored conversation of a visit, or a new one."""
        if self.store is not None:
            with suppress(UnknownConversationError):
                result = await asyncio.to_thread(Conversation.restore, self.store, identity)
                if not len(result):  # interrupted before the first canister was stored
                    result.add_canisters(canisters)
                return result
        tags = (FLOW_TAG, PART_TAG + self.flow_id)
        metadata = ConversationMetadata(tags=tags, model=self.model.address)
        return Conversation(id=identity, canisters=canisters, metadata=metadata)


def _conclude(outcome: RunOutcome, error: LimitError | None = None) -> VisitOutcome:
    """Return the outcome of a visit.

    Args:
        error: Error of an exhausted budget, if one is the reason.
    """
    if outcome.state is State.AWAIT:
        names = ", ".join(dict.fromkeys(request.name for request in outcome.requests))
        return VisitOutcome(waits=f"{names} awaits approval.")
    if error is not None:
        return VisitOutcome(failure=str(error), limit=error.limit, error=error)
    # A distinct name: a run has a budget `max_tokens`, and ends when that is used up.
    limit = "resource_llm.max_tokens" if outcome.limit == _CUT else outcome.limit
    if outcome.text and (outcome.reason is Reason.ANSWERED or outcome.limit == _CUT):
        # an incomplete answer counts, and the flow may branch on it
        return VisitOutcome(response=outcome.text, limit=limit)
    silence = "The model returned nothing." if outcome.reason is Reason.ANSWERED else ""
    detail = silence or outcome.detail or "There is no answer."
    failure = outcome.error or ConverseError(detail=detail, stage=Stage.EXECUTE)
    return VisitOutcome(failure=detail, limit=limit, error=failure)
