"""Events that are sent to a run from outside: its request, messages, approvals, a stop.

Only the worker of a run writes its log. Other processes put these events into its inbox, where they
are stored; the worker copies them to the log when it reads them. ``message_id`` is the event's id
in the inbox: an id that the log has is not processed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, Usage


@frozen(kw_only=True, slots=False)
class RunRequestedEvent:
    """A run was requested; its specification is valid until the next such event.

    Attributes:
        spec: The model, the tools and the settings: the fields of a ``RunSpec``, as plain data.
        canisters: The first messages; those that the conversation lacks are added to it.
        subject: The user on whose behalf it runs.
    """

    type: Literal["run.requested"] = attrs.field(default="run.requested", init=False)
    spec: Mapping[str, JsonValue] = attrs.field(factory=dict)
    canisters: tuple[AnyCanister, ...] = ()
    subject: str = ""


@frozen(kw_only=True, slots=False)
class MessageReceivedEvent:
    """A message to a run; it is sent to the model with the next request.

    Attributes:
        canister: The message.
        message_id: Its id in the inbox.
        subject: The sender.
    """

    type: Literal["message.received"] = attrs.field(default="message.received", init=False)
    canister: AnyCanister
    message_id: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunResumedEvent:
    """A user has resumed a stopped or ended run; its limits are reset.

    Attributes:
        message_id: Its id in the inbox.
        subject: The user who asked for it.
    """

    type: Literal["run.resumed"] = attrs.field(default="run.resumed", init=False)
    message_id: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunDetachedEvent:
    """A user has detached a run, so that it continues without watchers.

    Attributes:
        message_id: Its id in the inbox.
        subject: The user who asked for it.
    """

    type: Literal["run.detached"] = attrs.field(default="run.detached", init=False)
    message_id: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class StopRequestedEvent:
    """A user has requested that a run stops.

    Attributes:
        message_id: Its id in the inbox.
        subject: The user who asked for it.
        reason: The reason; may be empty.
    """

    type: Literal["run.stop_requested"] = attrs.field(default="run.stop_requested", init=False)
    message_id: str = ""
    subject: str = ""
    reason: str = ""


@frozen(kw_only=True, slots=False)
class ApprovalRefusedEvent:
    """An answer to a request for an approval was too late: another one counts.

    Attributes:
        key: The id of the invocation's canister.
        digest: The SHA-256 of name and arguments.
        message_id: Its id in the inbox.
        subject: The user who gave it.
    """

    type: Literal["approval.refused"] = attrs.field(default="approval.refused", init=False)
    key: str
    digest: str
    message_id: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunRetriedEvent:
    """A requirement of a run is unreachable, or its worker has left it; it is retried later.

    Attributes:
        detail: The unreachable requirement, and the error.
        attempt: The number of consecutive failures; 0 if its worker has left.
        seconds: The wait.
    """

    type: Literal["run.retried"] = attrs.field(default="run.retried", init=False)
    detail: str
    attempt: int
    seconds: float


@frozen(kw_only=True, slots=False)
class RunContinuedEvent:
    """A run continues in a compacted fork, which begins with a summary of the oldest turns.

    The logs of both conversations have this event. That of the parent has its end behind it.

    Attributes:
        conversation: The fork, in which the run continues.
        continues: The parent, which keeps all messages.
        usage: Usage of the summary, which counts towards the limits of the fork's run.
        cents: Cost of the summary, in US cents; ``None`` if no price is known.
    """

    type: Literal["run.continued"] = attrs.field(default="run.continued", init=False)
    conversation: str
    continues: str
    usage: Usage | None = None
    cents: float | None = None


OutsideEvent: TypeAlias = (
    RunRequestedEvent
    | MessageReceivedEvent
    | RunResumedEvent
    | RunDetachedEvent
    | StopRequestedEvent
    | ApprovalRefusedEvent
    | RunRetriedEvent
    | RunContinuedEvent
)
