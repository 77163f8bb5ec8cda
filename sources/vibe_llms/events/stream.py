"""What happens in one response, in the same words for every vendor.

A decoder yields these events, the assembler completes them, and the consumers of a stream
receive them. Contents are told apart by an index which counts them in the order in which
they began. Exactly one :class:`ResponseFinishedEvent` or :class:`ResponseFailedEvent` is last.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import AnyContent
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Response

ContentKind: TypeAlias = Literal[
    "text",
    "image",
    "audio",
    "video",
    "file",
    "reasoning",
    "refusal",
    "native",
    "invocation",
    "result",
]
Channel: TypeAlias = Literal["text", "summary", "seal", "arguments", "transcript"]
"""Which part of a content a delta continues: its main text, or one of the others."""
FinishedItem: TypeAlias = AnyContent | InvocationCanister | ResultCanister | None


@attrs.frozen(kw_only=True, slots=False)
class ResponseStartedEvent:
    """The vendor has begun to answer."""

    type: Literal["response.started"] = attrs.field(default="response.started", init=False)
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None


@attrs.frozen(kw_only=True, slots=False)
class ContentStartedEvent:
    """A content begins. An invocation says at once what is called and under which id."""

    type: Literal["content.started"] = attrs.field(default="content.started", init=False)
    index: int
    kind: ContentKind
    invocation_id: str | None = None
    name: str | None = None
    owner: Owner = Owner.OURS


@attrs.frozen(slots=False)
class ContentDeltaEvent:
    """A content goes on. Seals replace what came before on their channel, all else appends."""

    type: Literal["content.delta"] = attrs.field(default="content.delta", init=False)
    index: int
    text: str
    channel: Channel = "text"


@attrs.frozen(kw_only=True, slots=False)
class ContentFinishedEvent:
    """A content is complete.

    Attributes:
        item: The content, invocation or result itself. From a decoder: only where the vendor
            sends a final copy that counts, or where there were no deltas; the assembler
            fills it in otherwise.
    """

    type: Literal["content.finished"] = attrs.field(default="content.finished", init=False)
    index: int
    item: FinishedItem = None


@attrs.frozen(kw_only=True, slots=False)
class UsageEvent:
    """What the response has used so far; each replaces the one before."""

    type: Literal["usage"] = attrs.field(default="usage", init=False)
    usage: Usage


@attrs.frozen(kw_only=True, slots=False)
class RetryEvent:
    """The request will be sent again. ``attempt`` counts from 2: the first was no retry."""

    type: Literal["retry"] = attrs.field(default="retry", init=False)
    attempt: int
    after_seconds: float
    error: ConverseError


@attrs.frozen(kw_only=True, slots=False)
class LossEvent:
    """A translation changed something or left it out."""

    type: Literal["loss"] = attrs.field(default="loss", init=False)
    loss: Loss


@attrs.frozen(kw_only=True, slots=False)
class ResponseFinishedEvent:
    """The response is complete. The assembler fills in ``response``."""

    type: Literal["response.finished"] = attrs.field(default="response.finished", init=False)
    stop_reason: StopReason
    native_stop_reason: str | None = None
    response: Response | None = None


@attrs.frozen(kw_only=True, slots=False)
class ResponseFailedEvent:
    """The response broke off. ``canisters`` are what had arrived, marked as interrupted."""

    type: Literal["response.failed"] = attrs.field(default="response.failed", init=False)
    error: ConverseError
    canisters: tuple[AnyCanister, ...] = ()


StreamEvent: TypeAlias = (
    ResponseStartedEvent
    | ContentStartedEvent
    | ContentDeltaEvent
    | ContentFinishedEvent
    | UsageEvent
    | RetryEvent
    | LossEvent
    | ResponseFinishedEvent
    | ResponseFailedEvent
)
