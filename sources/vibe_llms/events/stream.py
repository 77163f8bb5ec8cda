"""Events of one response, the same for every vendor.

A decoder yields these events, the assembler completes them, and the consumers of a stream receive
them. Contents have an index, which counts them in the order in which they began. The last event is
always exactly one :class:`ResponseFinishedEvent` or :class:`ResponseFailedEvent`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import AnyContent, Citation, Native
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
Channel: TypeAlias = Literal["text", "summary", "signature", "arguments", "transcript", "data"]
"""The part of a content that a delta continues: its main ``text``, a ``summary`` or the
``signature`` of reasoning, the ``arguments`` of an invocation, the ``transcript`` of audio, or
``data``: the bytes of media, in Base64.
"""
FinishedItem: TypeAlias = AnyContent | InvocationCanister | ResultCanister | None


@frozen(kw_only=True, slots=False)
class ResponseStartedEvent:
    """The vendor has begun to answer.

    Attributes:
        response_id: The vendor's id of the response, if known.
        model: The model that answers, as the vendor names it.
        request_id: The vendor's id of the request, for its support.
        native: Other vendor data about the response at its beginning, for callers that pass the
            stream on.
    """

    type: Literal["response.started"] = attrs.field(default="response.started", init=False)
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    native: Native | None = None


@frozen(kw_only=True, slots=False)
class ContentStartedEvent:
    """A content begins. An invocation has its tool and id from the beginning.

    Attributes:
        index: The index of the content in the response, from 0 in the order of their beginnings.
        kind: Its kind, such as ``text``, ``reasoning`` or ``invocation``.
        invocation_id: For an invocation, the vendor's id of the call.
        name: For an invocation, the name of the tool.
        owner: For an invocation, its executor.
        group: Contents of the assistant share a canister only with adjacent ones of their group:
            that keeps the vendor's messages apart.
        form: For an invocation, the intended format of its arguments.
        native: Other vendor data at its beginning, for callers that pass the stream on; the
            authoritative data come with the end.
        group_native: Other vendor data of the message that contains the content.
    """

    type: Literal["content.started"] = attrs.field(default="content.started", init=False)
    index: int
    kind: ContentKind
    group: int = 0
    invocation_id: str | None = None
    name: str | None = None
    form: Literal["json", "text"] = "json"
    owner: Owner = Owner.OURS
    native: Native | None = None
    group_native: Native | None = None


@frozen(slots=False)
class ContentDeltaEvent:
    """A content continues. Signatures replace earlier ones on their channel, all else is appended.

    The text of the answer consists of the events whose ``kind`` is ``text``: reasoning and the
    arguments of calls come in events of this class, too.

    Attributes:
        index: The index of the content.
        text: The piece that has arrived.
        channel: The part of the content that it belongs to.
        kind: The kind of the content, such as ``text``, ``reasoning`` or ``invocation``. Decoders
            may leave it out: the assembler fills it in.
    """

    type: Literal["content.delta"] = attrs.field(default="content.delta", init=False)
    index: int
    text: str
    channel: Channel = "text"
    kind: ContentKind = "text"

    def __init__(
        self, index: int, text: str, channel: Channel = "text", kind: ContentKind = "text"
    ) -> None:
        # Written by hand: one is made for each piece of text, and one by attrs takes twice as long.
        fields = self.__dict__
        fields["type"] = "content.delta"
        fields["index"] = index
        fields["text"] = text
        fields["channel"] = channel
        fields["kind"] = kind


@frozen(slots=False)
class ContentCitedEvent:
    """A text cites a source.

    Attributes:
        index: The index of the text.
        citation: Added to the citations of the text.
    """

    type: Literal["content.cited"] = attrs.field(default="content.cited", init=False)
    index: int
    citation: Citation


@frozen(kw_only=True, slots=False)
class ContentFinishedEvent:
    """A content is complete.

    Attributes:
        index: The index of the content.
        item: The content, invocation or result itself. Decoders set it only if the vendor sends an
            authoritative final copy, or if there were no deltas; otherwise the assembler fills it
            in.
        native: Other vendor data about the item; the assembler adds them to an item that it
            creates.
        group_native: Other vendor data of the message that contains the item; they are put on the
            canister of the content's group.
    """

    type: Literal["content.finished"] = attrs.field(default="content.finished", init=False)
    index: int
    item: FinishedItem = None
    native: Native | None = None
    group_native: Native | None = None


@frozen(kw_only=True, slots=False)
class NativeEvent:
    """A vendor's event without a common counterpart, passed through.

    Attributes:
        kind: The vendor's name of it, such as ``response.web_search_call.searching``.
        native: The event itself.
        index: The index of the content that it is about, if any.
    """

    type: Literal["native"] = attrs.field(default="native", init=False)
    kind: str
    native: Native
    index: int | None = None


@frozen(kw_only=True, slots=False)
class UsageEvent:
    """The vendor has reported the usage of the response.

    Attributes:
        usage: All tokens so far; replaces that of the event before.
    """

    type: Literal["usage"] = attrs.field(default="usage", init=False)
    usage: Usage


@frozen(kw_only=True, slots=False)
class RetryEvent:
    """The request will be sent again; or the connection to a response that continues is reopened.

    Attributes:
        attempt: The number of the next attempt, from 2, as the first is not a retry.
        after_seconds: The wait before it.
        error: The error of the attempt before.
        resumes: Whether the vendor still answers the request in the background, so that it is not
            sent again.
    """

    type: Literal["retry"] = attrs.field(default="retry", init=False)
    attempt: int
    after_seconds: float
    error: ConverseError
    resumes: bool = False


@frozen(kw_only=True, slots=False)
class LossEvent:
    """A translation has changed, omitted, invented or withheld something.

    Attributes:
        loss: The loss.
    """

    type: Literal["loss"] = attrs.field(default="loss", init=False)
    loss: Loss


@frozen(kw_only=True, slots=False)
class ResponseFinishedEvent:
    """The response is complete; the last event of a stream that did not fail.

    Attributes:
        stop_reason: Why the model stopped.
        native_stop_reason: The vendor's own reason.
        response: The response; ``None`` in the event of a decoder, before the assembler fills it
        in.
        native: Other vendor data about the response.
    """

    type: Literal["response.finished"] = attrs.field(default="response.finished", init=False)
    stop_reason: StopReason
    native_stop_reason: str | None = None
    native: Native | None = None
    response: Response | None = None


@frozen(kw_only=True, slots=False)
class ResponseFailedEvent:
    """The response broke off; the last event of a stream that failed.

    Attributes:
        error: The error.
        canisters: The canisters received before, marked as interrupted.
    """

    type: Literal["response.failed"] = attrs.field(default="response.failed", init=False)
    error: ConverseError
    canisters: tuple[AnyCanister, ...] = ()


StreamEvent: TypeAlias = (
    ResponseStartedEvent
    | ContentStartedEvent
    | ContentDeltaEvent
    | ContentCitedEvent
    | ContentFinishedEvent
    | NativeEvent
    | UsageEvent
    | RetryEvent
    | LossEvent
    | ResponseFinishedEvent
    | ResponseFailedEvent
)
