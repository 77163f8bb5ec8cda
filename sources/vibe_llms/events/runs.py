"""What is asked of a run from outside: that there be one, messages, answers, a stop.

Whoever performs a run writes its log alone. Others put such an event into its inbox, where it is
safe; the log has it as soon as whoever has the log has seen it. ``letter`` is its name there:
what the log names is not taken twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister


@frozen(kw_only=True, slots=False)
class RunRequestedEvent:
    """Somebody wants a run; what is wanted holds until the next such event.

    Attributes:
        order: What is to be run, and how: the fields of a ``RunSpec``, as plain data.
        canisters: What is said first; those that the conversation lacks are added to it.
        subject: On whose behalf.
    """

    type: Literal["run.requested"] = attrs.field(default="run.requested", init=False)
    order: Mapping[str, JsonValue] = attrs.field(factory=dict)
    canisters: tuple[AnyCanister, ...] = ()
    subject: str = ""


@frozen(kw_only=True, slots=False)
class MessageReceivedEvent:
    """Somebody says something to a run; the model hears it when its turn has come.

    Attributes:
        canister: What is said.
        letter: Its name in the inbox.
        subject: Who says it.
    """

    type: Literal["message.received"] = attrs.field(default="message.received", init=False)
    canister: AnyCanister
    letter: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunResumedEvent:
    """A run that was stopped, or has ended, is to go on; its limits begin anew.

    Attributes:
        letter: Its name in the inbox.
        subject: Who wants it.
    """

    type: Literal["run.resumed"] = attrs.field(default="run.resumed", init=False)
    letter: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunDetachedEvent:
    """A run goes on although nobody watches it.

    Attributes:
        letter: Its name in the inbox.
        subject: Who wants it.
    """

    type: Literal["run.detached"] = attrs.field(default="run.detached", init=False)
    letter: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class StopRequestedEvent:
    """A run is to end where it is.

    Attributes:
        letter: Its name in the inbox.
        subject: Who wants it.
        reason: Why; may be empty.
    """

    type: Literal["run.stop_requested"] = attrs.field(default="run.stop_requested", init=False)
    letter: str = ""
    subject: str = ""
    reason: str = ""


@frozen(kw_only=True, slots=False)
class ApprovalRefusedEvent:
    """An answer to a request for an approval came too late: another one counts.

    Attributes:
        key: The id of the invocation's canister.
        digest: The SHA-256 of name and arguments.
        letter: Its name in the inbox.
        subject: Who gave it.
    """

    type: Literal["approval.refused"] = attrs.field(default="approval.refused", init=False)
    key: str
    digest: str
    letter: str = ""
    subject: str = ""


@frozen(kw_only=True, slots=False)
class RunRetriedEvent:
    """What a run needs cannot be reached, or its host has left it; it is tried again later.

    Attributes:
        detail: What cannot be reached, and why.
        attempt: How often that has been the case, one after the other; 0 where its host has left.
        seconds: How long is waited.
    """

    type: Literal["run.retried"] = attrs.field(default="run.retried", init=False)
    detail: str
    attempt: int
    seconds: float


OutsideEvent: TypeAlias = (
    RunRequestedEvent
    | MessageReceivedEvent
    | RunResumedEvent
    | RunDetachedEvent
    | StopRequestedEvent
    | ApprovalRefusedEvent
    | RunRetriedEvent
)
