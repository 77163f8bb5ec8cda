"""Steps of a run, as clients of other protocols see it: the input of each face's writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from vibe_llms.events.stream import ContentKind
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, ResultCanister, Usage
from vibe_llms.messages.contents import AnyContent
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.waiting import Waiting

Outcome: TypeAlias = Literal["completed", "waiting", "stopped", "failed"]


@frozen(kw_only=True)
class ShownCall:
    """A tool call.

    Attributes:
        id: Id for clients, unique in the conversation; the vendor's own ids may repeat.
        name: Name of the tool.
        arguments: Arguments as the model wrote them; empty until the call is complete.
        is_vendors: Whether the vendor executes it.
    """

    id: str
    name: str
    arguments: str = ""
    is_vendors: bool = False


@frozen(kw_only=True)
class StepBegun:
    """A model is asked, or a node of a flow is visited.

    Attributes:
        name: Name of the step, unique in the run.
    """

    name: str


@frozen(kw_only=True)
class StepEnded:
    """The step is over.

    Attributes:
        name: Name of the step.
    """

    name: str


@frozen(kw_only=True)
class PartBegun:
    """A part of an answer begins.

    Attributes:
        id: Id of the part, unique in the conversation and equal each time that it is sent.
        kind: Kind of the part.
        call: The call, for an invocation.
    """

    id: str
    kind: ContentKind
    call: ShownCall | None = None


@frozen(kw_only=True)
class PartGrown:
    """A part continues.

    Attributes:
        id: Id of the part.
        kind: Kind of the part.
        text: The piece to append.
    """

    id: str
    kind: ContentKind
    text: str


@frozen(kw_only=True)
class PartEnded:
    """A part is complete.

    Attributes:
        id: Id of the part.
        kind: Kind of the part.
        content: The content; ``None`` for an invocation.
        call: The call, for an invocation.
    """

    id: str
    kind: ContentKind
    content: AnyContent | None = None
    call: ShownCall | None = None


@frozen(kw_only=True)
class PartsWithdrawn:
    """Pieces were lost on the way: the step's parts so far are void, and follow again.

    Attributes:
        conversation: The stored messages.
    """

    conversation: Sequence[AnyCanister] = ()


@frozen(kw_only=True)
class CallEnded:
    """A call has a result.

    Attributes:
        call: The call.
        result: The result.
        is_denied: Whether a user denied the call.
    """

    call: ShownCall
    result: ResultCanister
    is_denied: bool = False


@frozen(kw_only=True)
class ApprovalAsked:
    """A call waits for an approval.

    Attributes:
        call: The call.
        approval_id: Id of the request for approval.
        in_doubt: Whether an earlier execution may have taken effect.
    """

    call: ShownCall
    approval_id: str
    in_doubt: bool = False


@frozen(kw_only=True)
class ApprovalGiven:
    """A request for an approval was answered.

    Attributes:
        call: The call.
        approval_id: Id of the request for approval.
        is_allowed: Whether the call may be executed.
        reason: Reason; may be empty.
    """

    call: ShownCall
    approval_id: str
    is_allowed: bool
    reason: str = ""


@frozen(kw_only=True)
class Noted:
    """An event that the protocols have no word for.

    Attributes:
        word: Type of the event, as in the daemon's own event stream.
        event: The event as plain data.
    """

    word: str
    event: Mapping[str, JsonValue]


@frozen(kw_only=True)
class KeepAlive:
    """Nothing has happened for a while."""


@frozen(kw_only=True)
class ModelUsage:
    """Usage of one model in the part of the run that was sent.

    Attributes:
        provider: Name of the provider.
        model: Name of the model.
        usage: The usage.
    """

    provider: str
    model: str
    usage: Usage


@frozen(kw_only=True)
class Settled:
    """The run has ended, was stopped, or waits for approvals; the last step.

    Attributes:
        outcome: Whether it completed, failed, was stopped or waits.
        summary: Summary of the run.
        detail: The reason in a sentence; may be empty.
        waiting: Calls that wait for an approval.
        calls: The run's calls, by the ids of their canisters.
        usages: Usage by model.
    """

    outcome: Outcome
    summary: RunSummary
    detail: str = ""
    waiting: Sequence[Waiting] = ()
    calls: Mapping[str, ShownCall] = attrs.field(factory=dict)
    usages: Sequence[ModelUsage] = ()


Step: TypeAlias = (
    StepBegun
    | StepEnded
    | PartBegun
    | PartGrown
    | PartEnded
    | PartsWithdrawn
    | CallEnded
    | ApprovalAsked
    | ApprovalGiven
    | Noted
    | KeepAlive
    | Settled
)


def identify_approval(key: str, digest: str) -> str:
    """Return the id of a request for an approval, for clients."""
    return f"{key}:{digest}"


def read_approval_id(identity: str) -> tuple[str, str]:
    """Return key and digest of a request for an approval; the digest is empty if it is invalid."""
    key, _, digest = identity.rpartition(":")
    return key, digest if key else ""
