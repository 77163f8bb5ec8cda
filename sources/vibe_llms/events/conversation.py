"""Events of a conversation while it is answered, for reactors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast

import attrs

from vibe_llms.events.stream import ContentKind, StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now, ensure_utc
from vibe_llms.messages.requests import Response

Ending: TypeAlias = Literal["completed", "failed", "interrupted"]


@frozen(kw_only=True, slots=False)
class ConversationStartedEvent:
    """A request is about to be sent.

    Attributes:
        metadata: ``provider`` and ``model``, and whether the answer is streamed (``streaming``).
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
    """

    type: Literal["conversation.started"] = attrs.field(default="conversation.started", init=False)
    conversation_id: str
    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class ConversationProgressEvent:
    """A piece of text has arrived: of the answer, its reasoning, or an invocation's arguments.

    The text of the answer consists of the events whose ``kind`` is ``text``.

    Attributes:
        chunk: The piece; several may have been joined into one for a slow listener.
        metadata: ``index`` and ``kind`` of the content, and its ``channel``.
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
    """

    type: Literal["conversation.progress"] = attrs.field(
        default="conversation.progress", init=False
    )
    conversation_id: str
    timestamp: datetime
    chunk: str
    metadata: Mapping[str, JsonValue]

    def __init__(
        self,
        *,
        conversation_id: str,
        chunk: str,
        timestamp: datetime | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        # Written by hand, like the event of the stream: a constructor by attrs takes twice as long.
        fields = self.__dict__
        fields["type"] = "conversation.progress"
        fields["conversation_id"] = conversation_id
        is_settled = timestamp.__class__ is datetime and timestamp.tzinfo is UTC
        if not is_settled:
            timestamp = access_now() if timestamp is None else ensure_utc(timestamp)
        fields["timestamp"] = timestamp
        fields["chunk"] = chunk
        fields["metadata"] = {} if metadata is None else metadata

    @property
    def kind(self) -> ContentKind:
        """The kind of the content that the piece belongs to, such as ``text`` or ``reasoning``."""
        return cast("ContentKind", self.metadata.get("kind", "text"))


@frozen(kw_only=True, slots=False)
class ConversationUpdatedEvent:
    """Something other than a piece of text has arrived.

    A content began or completed, usage was reported, a retry is due, or something was lost.

    Attributes:
        event: The event of the stream.
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
        metadata: Further data; may be empty.
    """

    type: Literal["conversation.updated"] = attrs.field(default="conversation.updated", init=False)
    conversation_id: str
    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    event: StreamEvent
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class ConversationCompletedEvent:
    """The request was answered.

    Attributes:
        response: The response.
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
        metadata: Further data; may be empty.
    """

    type: Literal["conversation.completed"] = attrs.field(
        default="conversation.completed", init=False
    )
    conversation_id: str
    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    response: Response
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class ConversationFailedEvent:
    """The request was not answered, or the answer is incomplete.

    Attributes:
        error: The error.
        canisters: The canisters received before.
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
        metadata: Further data; may be empty.
    """

    type: Literal["conversation.failed"] = attrs.field(default="conversation.failed", init=False)
    conversation_id: str
    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    error: ConverseError
    canisters: tuple[AnyCanister, ...] = ()
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict)


@frozen(kw_only=True, slots=False)
class ConversationEndedEvent:
    """No more events follow; always the last one, for any outcome.

    Attributes:
        outcome: ``completed``, ``failed`` or ``interrupted``.
        canisters: The received canisters: all of the answer, or its beginning.
        conversation_id: Id of the conversation.
        timestamp: Time of the event, in UTC.
        metadata: Further data; may be empty.
    """

    type: Literal["conversation.ended"] = attrs.field(default="conversation.ended", init=False)
    conversation_id: str
    timestamp: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    outcome: Ending
    canisters: tuple[AnyCanister, ...] = ()
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict)


ConversationEvent: TypeAlias = (
    ConversationStartedEvent
    | ConversationProgressEvent
    | ConversationUpdatedEvent
    | ConversationCompletedEvent
    | ConversationFailedEvent
    | ConversationEndedEvent
)
