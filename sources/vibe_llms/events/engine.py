"""Events of a run: a conversation that calls models and tools until it ends.

A run's log has these events in order; only the log and the conversation outlive a crash. An
invocation that started and did not finish may have taken effect, and a generation that started and
did not end may have been billed. Answers to requests for approvals are in the log, too.
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
ReasonWord: TypeAlias = Literal["answered", "limit", "cancelled", "refused", "failed", "continued"]


@frozen(kw_only=True, slots=False)
class RunStartedEvent:
    """A run starts or resumes a conversation.

    Attributes:
        run_id: Id of the run.
        conversation_id: Id of the conversation.
        length: Number of canisters that the conversation has.
        model: The address of the model.
        limits: Limits of the run, by name.
    """

    type: Literal["run.started"] = attrs.field(default="run.started", init=False)
    run_id: str
    conversation_id: str
    length: int
    model: str = ""
    limits: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class StateEnteredEvent:
    """The run has entered another state.

    Attributes:
        state: The name of the state, such as ``generate`` or ``execute``.
        turn: Number of generations in this run so far.
    """

    type: Literal["run.state"] = attrs.field(default="run.state", init=False)
    state: StateWord
    turn: int


@frozen(kw_only=True, slots=False)
class GenerationStartedEvent:
    """A request is about to be sent to a model; written before anything is sent.

    Attributes:
        key: The place in the conversation: the id of the last canister that is sent.
        turn: The number of the generation in its run, from 1.
        model: Address of the model.
        pattern: Digests of the other parts of the request: ``tools`` and ``settings``; empty if
            they are the same as for the generation before.
    """

    type: Literal["generation.started"] = attrs.field(default="generation.started", init=False)
    key: str
    turn: int
    model: str
    pattern: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class GenerationQueuedEvent:
    """The vendor answers in the background; written before the answer is awaited.

    After a crash, the next run receives this response, and does not ask again.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: Address of the model.
        response_id: The vendor's id of the response.
    """

    type: Literal["generation.queued"] = attrs.field(default="generation.queued", init=False)
    key: str
    turn: int
    model: str
    response_id: str


@frozen(kw_only=True, slots=False)
class GenerationFinishedEvent:
    """The model has answered, and its answer is in the conversation.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model that answered, as it reports it.
        provider: The name of the provider, under which prices are listed.
        stop_reason: Why the model stopped.
        usage: Usage of the answer; ``None`` if the vendor did not report it.
        canisters: The number of its canisters.
        cents: Its cost, in US cents; ``None`` if no price is known.
        seconds: Duration from sending to the end.
        attempts: How often it was sent; those before the last may have been billed, too.
        tier: The vendor's price tier: ``batch`` for a deferred request; empty for the standard one.
        omitted: How many earlier messages and results were left out of the request.
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
    omitted: int = 0


@frozen(kw_only=True, slots=False)
class GenerationFailedEvent:
    """The model did not answer, or the answer is incomplete.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model.
        error: The error; ``None`` if it was cancelled.
        canisters: The canisters received before; they are in the conversation, too.
        seconds: Duration from sending to the failure.
        attempts: How often it was sent, as far as is known; each may have been billed.
        response_id: Id of the response in the background that the vendor may still complete; the
            next run receives it. Empty if there is none.
    """

    type: Literal["generation.failed"] = attrs.field(default="generation.failed", init=False)
    key: str
    turn: int
    model: str
    error: ConverseError | None = None
    canisters: tuple[AnyCanister, ...] = ()
    seconds: float = 0.0
    attempts: int = 1
    response_id: str = ""


@frozen(kw_only=True, slots=False)
class GenerationDoubtedEvent:
    """An earlier run broke off during a generation, which may have been billed.

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
class GenerationDeferredEvent:
    """A request was deferred to a vendor's batch; the run is suspended until it is answered.

    Attributes:
        key: The place in the conversation: the id of the last canister that is sent.
        turn: The number of the generation in its run, from 1.
        model: The address of the model.
        backend: Name of the service that submits it, and puts the answer into the run's inbox.
    """

    type: Literal["generation.deferred"] = attrs.field(default="generation.deferred", init=False)
    key: str
    turn: int
    model: str
    backend: str


@frozen(kw_only=True, slots=False)
class GenerationAnsweredEvent:
    """The outcome of a deferred request; the run continues with it.

    Attributes:
        key: The place in the conversation: the id of the last canister that was sent.
        fate: The outcome: ``answered``, ``failed``, ``expired``, ``cancelled`` or ``lost``; or
            ``unsent``, after which it must be deferred again.
        body: The answer or the vendor's error, in the vendor's format; empty if the conversation
            has it already.
        status: The HTTP status for the body; ``None`` if unknown.
        seconds: Duration from submitting to reading.
        message_id: Its id in the inbox.
    """

    type: Literal["generation.answered"] = attrs.field(default="generation.answered", init=False)
    key: str
    fate: str
    body: str = ""
    status: int | None = None
    seconds: float = 0.0
    message_id: str = ""


@frozen(kw_only=True, slots=False)
class ApprovalRequestedEvent:
    """A call waits for an approval.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: The name of the tool.
        description: The tool's description for the model.
        effect: The effect of executing it, as a stable word.
        arguments: The arguments, as canonical JSON.
        digest: The SHA-256 of name and arguments, to which an answer refers.
        in_doubt: Whether the call was started before, and may have taken effect.
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
    """A request for an approval was answered.

    Attributes:
        key: The id of the invocation's canister.
        name: The name of the tool.
        digest: The SHA-256 of name and arguments, as they were shown.
        decision: ``allow``, ``deny`` or ``edit``.
        arguments: For an edit, the arguments to execute the call with, as canonical JSON.
        reason: For a denial, the message to the model; may be empty.
        scope: Whether the answer holds ``once``, for each identical ``call`` of the run, or
            ``always`` in the run for this tool.
        message_id: Its id in the inbox of the run, if it came from outside.
        subject: The user who answered, if known.
    """

    type: Literal["approval.answered"] = attrs.field(default="approval.answered", init=False)
    key: str
    name: str
    digest: str
    decision: Literal["allow", "deny", "edit"]
    arguments: str | None = None
    reason: str = ""
    scope: Literal["once", "call", "always"] = "once"
    message_id: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class InvocationStartedEvent:
    """A call begins; written before it has any effect.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: The name of the tool.
        effect: The effect of executing it, as a stable word.
        arguments: The arguments, as canonical JSON.
        idempotency_key: A key that is equal for all attempts of this call.
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
    """A call reports progress. Not written to the log.

    Attributes:
        key: The id of the invocation's canister.
        invocation_id: The vendor's id of the call.
        name: The name of the tool.
        text: The message.
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
        name: The name of the tool.
        result: The result for the model.
        seconds: Duration of the call.
        is_fault: Whether the call could not be executed, or failed: it counts against the limit of
            faults.
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
    """The run waits for approvals that this process cannot give, or for a deferred answer.

    Attributes:
        run_id: Id of the run.
        digests: The SHA-256 of name and arguments of each call that waits for an approval.
    """

    type: Literal["run.suspended"] = attrs.field(default="run.suspended", init=False)
    run_id: str
    digests: tuple[str, ...]


@frozen(kw_only=True, slots=False)
class RunEndedEvent:
    """The run has ended; the last event of each run.

    Attributes:
        run_id: Id of the run.
        reason: Why it ended, as a stable word.
        detail: The reason in a sentence; may be empty.
        error: The error, if it failed.
        limit: The name of the limit that was reached, if any.
        readings: Usage of the run, by the names of its limits.
        settles: Whether later runs can ignore all earlier events of the log: no call is open, no
            message is missing from the conversation, and no approval applies to later calls.
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
    | GenerationQueuedEvent
    | GenerationFinishedEvent
    | GenerationFailedEvent
    | GenerationDoubtedEvent
    | GenerationDeferredEvent
    | GenerationAnsweredEvent
    | ApprovalRequestedEvent
    | ApprovalAnsweredEvent
    | InvocationStartedEvent
    | InvocationProgressEvent
    | InvocationFinishedEvent
    | RunSuspendedEvent
    | RunEndedEvent
)
