"""What happens in one response, in the same words for every vendor.

A decoder yields these events, the assembler completes them, and the consumers of a stream
receive them. Contents are told apart by an index which counts them in the order in which
they began. Exactly one :class:`ResponseFinishedEvent` or :class:`ResponseFailedEvent` is last.
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
"""Which part of a content a delta continues: its main ``text``, a ``summary`` or the ``signature``
of reasoning, the ``arguments`` of an invocation, the ``transcript`` of sound, or ``data``: the
bytes of a medium, in base 64."""
FinishedItem: TypeAlias = AnyContent | InvocationCanister | ResultCanister | None


@frozen(kw_only=True, slots=False)
class ResponseStartedEvent:
    """The vendor has begun to answer.

    Attributes:
        response_id: The vendor's name for the response, where it said one.
        model: The model that answers, in the vendor's words.
        request_id: The vendor's name for the exchange, for its support.
        native: What it said of the response beyond the common words as it began, likewise for
            whoever passes the stream on.
    """

    type: Literal["response.started"] = attrs.field(default="response.started", init=False)
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    native: Native | None = None


@frozen(kw_only=True, slots=False)
class ContentStartedEvent:
    """A content begins. An invocation says at once what is called and under which id.

    Attributes:
        index: Which content of the response, counted from 0 in the order of their beginnings.
        kind: The stable word of its kind, such as ``text``, ``reasoning`` or ``invocation``.
        invocation_id: Of an invocation, the vendor's id of the call.
        name: Of an invocation, what is called.
        owner: Of an invocation, who executes it.
        group: Contents of the assistant share a canister only with neighbours of their group:
            that keeps apart what the vendor sent as several messages.
        form: Of an invocation, what its arguments are meant to be.
        native: What the vendor said of it beyond the common words as it began, for whoever passes
            the stream on; what counts comes with the end.
        group_native: The same for the message that the vendor had around it.
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
    """A content goes on. Signatures replace what came before on their channel, all else appends.

    The words of the answer are the events whose ``kind`` is ``text``: reasoning and the arguments
    of calls come in events of this class, too.

    Attributes:
        index: Which content goes on.
        text: The piece that has arrived.
        channel: Which part of the content it belongs to.
        kind: The kind of the content, such as ``text``, ``reasoning`` or ``invocation``. A decoder
            need not say it: the assembler fills it in.
    """

    type: Literal["content.delta"] = attrs.field(default="content.delta", init=False)
    index: int
    text: str
    channel: Channel = "text"
    kind: ContentKind = "text"

    def __init__(
        self, index: int, text: str, channel: Channel = "text", kind: ContentKind = "text"
    ) -> None:
        # By hand: one is made for each piece of a text, and what attrs makes takes twice as long.
        fields = self.__dict__
        fields["type"] = "content.delta"
        fields["index"] = index
        fields["text"] = text
        fields["channel"] = channel
        fields["kind"] = kind


@frozen(slots=False)
class ContentCitedEvent:
    """A text rests on a source.

    Attributes:
        index: Which content is the text.
        citation: Joins the citations that the text has already.
    """

    type: Literal["content.cited"] = attrs.field(default="content.cited", init=False)
    index: int
    citation: Citation


@frozen(kw_only=True, slots=False)
class ContentFinishedEvent:
    """A content is complete.

    Attributes:
        index: Which content is complete.
        item: The content, invocation or result itself. From a decoder: only where the vendor
            sends a final copy that counts, or where there were no deltas; the assembler
            fills it in otherwise.
        native: What the vendor said of it beyond the common words; for the assembler, which
            puts it on an item that it makes itself.
        group_native: The same for the message that the vendor had around it; it comes to the
            canister of the content's group.
    """

    type: Literal["content.finished"] = attrs.field(default="content.finished", init=False)
    index: int
    item: FinishedItem = None
    native: Native | None = None
    group_native: Native | None = None


@frozen(kw_only=True, slots=False)
class NativeEvent:
    """Something of the vendor's that has no common word: it passes through.

    Attributes:
        kind: The vendor's word for it, such as ``response.web_search_call.searching``.
        native: The event itself.
        index: Of the content that it is about, where it is about one.
    """

    type: Literal["native"] = attrs.field(default="native", init=False)
    kind: str
    native: Native
    index: int | None = None


@frozen(kw_only=True, slots=False)
class UsageEvent:
    """The vendor has told what the response has used.

    Attributes:
        usage: All tokens so far; it replaces that of the event before.
    """

    type: Literal["usage"] = attrs.field(default="usage", init=False)
    usage: Usage


@frozen(kw_only=True, slots=False)
class RetryEvent:
    """The request will be sent again.

    Attributes:
        attempt: The number of the attempt that comes, counted from 2: the first is no retry.
        after_seconds: How long is waited before.
        error: What the attempt before failed of.
    """

    type: Literal["retry"] = attrs.field(default="retry", init=False)
    attempt: int
    after_seconds: float
    error: ConverseError


@frozen(kw_only=True, slots=False)
class LossEvent:
    """A translation changed something, left it out, made it up or kept it back.

    Attributes:
        loss: What, where and why.
    """

    type: Literal["loss"] = attrs.field(default="loss", init=False)
    loss: Loss


@frozen(kw_only=True, slots=False)
class ResponseFinishedEvent:
    """The response is complete; the last event of a stream that did not fail.

    Attributes:
        stop_reason: Why the model stopped.
        native_stop_reason: The same in the vendor's words.
        response: All of it; ``None`` in the event of a decoder, before the assembler fills it in.
        native: What else the vendor said about the response.
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
        error: Why.
        canisters: What had arrived, marked as interrupted.
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
