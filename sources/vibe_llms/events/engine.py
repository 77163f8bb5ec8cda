"""What happens in a run: a conversation that acts until it ends.

A run's log holds these events in their order, and is what remains beside the conversation: an
invocation that has started and not finished may have taken effect, a generation that has
started and not ended may have been billed, and what was answered to a request for an approval
is found here again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, ResultCanister, StopReason, Usage

StateWord: TypeAlias = Literal["generate", "await", "execute", "terminate"]
ReasonWord: TypeAlias = Literal["answered", "limit", "cancelled", "refused", "failed"]


@frozen(kw_only=True, slots=False)
class RunStartedEvent:
    """A run takes a conversation up.

    Attributes:
        run_id: Of the run.
        conversation_id: Of the conversation.
        length: How many canisters the conversation has by now.
        model: The address of the model that will be asked.
        limits: Those of the run, by their names.
    """

    type: Literal["run.started"] = attrs.field(default="run.started", init=False)
    run_id: str
    conversation_id: str
    length: int
    model: str = ""
    limits: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class StateEnteredEvent:
    """The run is in another state.

    Attributes:
        state: The stable word of the state, such as ``generate`` or ``execute``.
        turn: How often the model was asked in this run so far.
    """

    type: Literal["run.state"] = attrs.field(default="run.state", init=False)
    state: StateWord
    turn: int


@frozen(kw_only=True, slots=False)
class GenerationStartedEvent:
    """A model is about to be asked; written before anything is sent.

    Attributes:
        key: The place in the conversation: the id of the last canister that is sent.
        turn: The number of the generation in its run, from 1.
        model: Its address.
        pattern: Digests of what is sent besides the conversation: ``tools`` and ``settings``;
            empty where they are as they were at the generation before.
    """

    type: Literal["generation.started"] = attrs.field(default="generation.started", init=False)
    key: str
    turn: int
    model: str
    pattern: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class GenerationFinishedEvent:
    """The model has answered, and what it said is in the conversation.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: The address of who has answered, as it called itself.
        provider: The name of the provider, by which prices are asked for.
        stop_reason: Why the model stopped.
        usage: What the answer used; ``None`` where the vendor did not say.
        canisters: How many it brought.
        cents: What it cost, in US cents; ``None`` where no price is known.
        seconds: From sending to the end.
        attempts: How often it was sent; those before the last may have been billed, too.
        tier: Which of the vendor's prices holds: ``batch`` for one that was parked; empty for the
            usual.
    """

    type: Literal["generation.finished"] = attrs.field(default="generation.finished", init=False)
    key: str
    turn: int
    model: str
    provider: str
    canisters: int
    stop_reason: StopReason
    usage: Usage | None = None
    cents: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    tier: str = ""


@frozen(kw_only=True, slots=False)
class GenerationFailedEvent:
    """The model did not answer, or not to its end.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model.
        error: Why; ``None`` where it was cancelled.
        canisters: What had arrived; it is in the conversation, too.
        seconds: From sending to the failure.
        attempts: How often it was sent, as far as is known; each may have been billed.
    """

    type: Literal["generation.failed"] = attrs.field(default="generation.failed", init=False)
    key: str
    turn: int
    model: str
    error: ConverseError | None = None
    canisters: tuple[AnyCanister, ...] = ()
    seconds: float = 0.0
    attempts: int = 1


@frozen(kw_only=True, slots=False)
class GenerationDoubtedEvent:
    """An earlier run broke off while a model was asked: that may have been billed.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model.
    """

    type: Literal["generation.doubted"] = attrs.field(default="generation.doubted", init=False)
    key: str
    turn: int
    model: str


@frozen(kw_only=True, slots=False)
class GenerationParkedEvent:
    """A request was handed over, to be answered by a vendor's batch; the run rests until it is.

    Attributes:
        key: The place in the conversation: the id of the last canister that is sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model.
        desk: Who submits it, and puts the answer into the run's inbox.
    """

    type: Literal["generation.parked"] = attrs.field(default="generation.parked", init=False)
    key: str
    turn: int
    model: str
    desk: str


@frozen(kw_only=True, slots=False)
class GenerationAnsweredEvent:
    """What came of a request that was parked; the run goes on with it.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        fate: What became of it, in a word: ``answered``, ``failed``, ``expired``, ``cancelled`` or
            ``lost``; or ``unsent``, after which it has to be parked again.
        body: The answer, or what the vendor said in its place, in the vendor's words; empty where
            the conversation has it by now.
        status: The HTTP status that it would have had; ``None`` where that is not told.
        seconds: From submitting to reading.
        letter: Its name in the inbox.
    """

    type: Literal["generation.answered"] = attrs.field(default="generation.answered", init=False)
    key: str
    fate: str
    body: str = ""
    status: int | None = None
    seconds: float = 0.0
    letter: str = ""


@frozen(kw_only=True, slots=False)
class ApprovalRequestedEvent:
    """A call waits for somebody's approval.

    Attributes:
        key: Of the invocation: the id of its canister.
        invocation_id: The vendor's id of the call.
        name: What is to be called.
        description: What it is for, as the model was told.
        effect: What executing it does to the world, as a stable word.
        arguments: With which it is to be called, as canonical JSON.
        digest: The SHA-256 of name and arguments: what an answer refers to.
        in_doubt: The call was begun before, and it is not known whether it took effect.
    """

    type: Literal["approval.requested"] = attrs.field(default="approval.requested", init=False)
    key: str
    invocation_id: str
    name: str
    arguments: str
    digest: str
    description: str = ""
    effect: str = "once"
    in_doubt: bool = False


@frozen(kw_only=True, slots=False)
class ApprovalAnsweredEvent:
    """Somebody has answered a request for an approval.

    Attributes:
        key: The id of the invocation's canister.
        name: What is to be called.
        digest: The SHA-256 of name and arguments, as they were shown.
        decision: ``allow``, ``deny`` or ``edit``.
        arguments: Of an edit, those to execute the call with, as canonical JSON.
        reason: Of a refusal, what the model is told; may be empty.
        scope: Whether the answer holds ``once``, for each identical ``call`` of the run, or
            ``always`` in the run for what is called.
        letter: Its name in the inbox of the run, where it came from outside.
        subject: Who has answered, where that is known.
    """

    type: Literal["approval.answered"] = attrs.field(default="approval.answered", init=False)
    key: str
    name: str
    digest: str
    decision: Literal["allow", "deny", "edit"]
    arguments: str | None = None
    reason: str = ""
    scope: Literal["once", "call", "always"] = "once"
    letter: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class InvocationStartedEvent:
    """A call begins; written before it does anything.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: What is called.
        effect: What executing it does to the world, as a stable word.
        arguments: With which it is executed, as canonical JSON.
        idempotency_key: The same whenever this call is attempted again.
    """

    type: Literal["invocation.started"] = attrs.field(default="invocation.started", init=False)
    key: str
    invocation_id: str
    name: str
    arguments: str
    effect: str
    idempotency_key: str


@frozen(kw_only=True, slots=False)
class InvocationProgressEvent:
    """A call says how far it is. Not written to the log.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: What is called.
        text: What it says.
    """

    type: Literal["invocation.progress"] = attrs.field(default="invocation.progress", init=False)
    key: str
    invocation_id: str
    name: str
    text: str


@frozen(kw_only=True, slots=False)
class InvocationFinishedEvent:
    """A call has a result, which is or soon will be in the conversation.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: What was called.
        result: What the model is told.
        seconds: How long the call took.
        is_fault: The call could not be executed, or failed: it counts against the limit of those.
    """

    type: Literal["invocation.finished"] = attrs.field(default="invocation.finished", init=False)
    key: str
    invocation_id: str
    name: str
    result: ResultCanister
    is_fault: bool = False
    seconds: float = 0.0


@frozen(kw_only=True, slots=False)
class RunSuspendedEvent:
    """The run waits for approvals that nobody here can give, or for an answer that is parked.

    Attributes:
        run_id: Of the run.
        digests: Those of the approvals that are waited for: the SHA-256 of name and arguments.
    """

    type: Literal["run.suspended"] = attrs.field(default="run.suspended", init=False)
    run_id: str
    digests: tuple[str, ...]


@frozen(kw_only=True, slots=False)
class RunEndedEvent:
    """The run is over, and why; the last event of each run.

    Attributes:
        run_id: Of the run.
        reason: Why it ended, as a stable word.
        detail: The same in a sentence; may be empty.
        error: What it failed of, where it failed.
        limit: The name of the limit that was reached, where one was.
        readings: What the run used, by the names of its limits.
        settles: Nothing that the log says before this matters to runs to come: no call is open,
            nothing was said that the conversation lacks, and no answer holds for calls to come.
    """

    type: Literal["run.ended"] = attrs.field(default="run.ended", init=False)
    run_id: str
    reason: ReasonWord
    detail: str = ""
    limit: str = ""
    error: ConverseError | None = None
    readings: Mapping[str, JsonValue] = attrs.field(factory=dict)
    settles: bool = False


EngineEvent: TypeAlias = (
    RunStartedEvent
    | StateEnteredEvent
    | GenerationStartedEvent
    | GenerationFinishedEvent
    | GenerationFailedEvent
    | GenerationDoubtedEvent
    | GenerationParkedEvent
    | GenerationAnsweredEvent
    | ApprovalRequestedEvent
    | ApprovalAnsweredEvent
    | InvocationStartedEvent
    | InvocationProgressEvent
    | InvocationFinishedEvent
    | RunSuspendedEvent
    | RunEndedEvent
)
