"""Events for reactors about one answer, streamed or complete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from vibe_llms.events.conversation import (
    ConversationCompletedEvent,
    ConversationEndedEvent,
    ConversationEvent,
    ConversationFailedEvent,
    ConversationProgressEvent,
    ConversationStartedEvent,
    ConversationUpdatedEvent,
    Ending,
)
from vibe_llms.events.reactors import ConversationReactors, ReactorsDispatcher
from vibe_llms.events.stream import ContentDeltaEvent, StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.requests import Response
from vibe_llms.messages.trusting import trusted

_make_start: Final = trusted(ConversationStartedEvent)
_make_update: Final = trusted(ConversationUpdatedEvent)
_make_progress: Final = trusted(ConversationProgressEvent)
_make_success: Final = trusted(ConversationCompletedEvent)
_make_failure: Final = trusted(ConversationFailedEvent)
_make_end: Final = trusted(ConversationEndedEvent)


class AnswerEventDispatcher(ReactorsDispatcher):
    """Makes the events of an answer for reactors.

    It makes only events that have listeners. The events are not validated, as their values are
    already valid.

    Args:
        reactors: Receive the events.
        conversation_id: The conversation of the answer.
        limits: ``reactor_queue_events`` applies.

    Attributes:
        moment: The time of the next events. All events of one read have one time.
    """

    __slots__ = ("_conversation_id", "_metadata", "moment")

    def __init__(
        self, reactors: ConversationReactors, conversation_id: str, limits: Limits | None = None
    ) -> None:
        super().__init__(reactors, limits=limits)
        self._conversation_id = conversation_id
        self.moment = access_now()
        self._metadata: dict[tuple[int, str], dict[str, JsonValue]] = {}

    @property
    def wants_progress(self) -> bool:
        """True if there are listeners for pieces of text."""
        return self.wants(ConversationProgressEvent)

    def dispatch_start(self, *, provider: str, model: str, streaming: bool) -> None:
        """Report that a request is about to be sent.

        Args:
            streaming: Whether the answer is requested as a stream.
        """
        if self.wants(ConversationStartedEvent):
            self.dispatch(
                _make_start(
                    conversation_id=self._conversation_id,
                    timestamp=self.moment,
                    metadata={"provider": provider, "model": model, "streaming": streaming},
                )
            )

    def dispatch_update(self, event: StreamEvent) -> None:
        """Report any event except a piece of text."""
        if self.wants(ConversationUpdatedEvent):
            self.dispatch(
                _make_update(
                    conversation_id=self._conversation_id,
                    timestamp=self.moment,
                    event=event,
                    metadata={},
                )
            )

    def dispatch_progress(self, event: ContentDeltaEvent) -> None:
        """Report a piece of text; see :attr:`wants_progress`."""
        place = self._metadata.get((event.index, event.channel))
        if place is None:
            # All pieces of a text share one dictionary, by which the dispatcher recognizes the
            # text.
            place = {"index": event.index, "kind": event.kind, "channel": event.channel}
            self._metadata[event.index, event.channel] = place
        self.dispatch(
            _make_progress(
                conversation_id=self._conversation_id,
                timestamp=self.moment,
                chunk=event.text,
                metadata=place,
            )
        )

    def dispatch_text(self, events: Sequence[StreamEvent], arrived: datetime) -> None:
        """Report a complete answer of one text.

        Args:
            arrived: When the answer arrived.
        """
        name = self._conversation_id
        wants_progress, wants_updates = self.wants_progress, self.wants(ConversationUpdatedEvent)
        place: dict[str, JsonValue] = {"index": 0, "kind": "text", "channel": "text"}
        events_to_send: list[ConversationEvent] = []
        for event in events:
            if event.__class__ is ContentDeltaEvent:
                if wants_progress:
                    events_to_send.append(
                        _make_progress(
                            conversation_id=name,
                            timestamp=arrived,
                            chunk=event.text,
                            metadata=place,
                        )
                    )
            elif wants_updates:
                events_to_send.append(
                    _make_update(conversation_id=name, timestamp=arrived, event=event, metadata={})
                )
        self.dispatch(*events_to_send)

    def list_last(
        self,
        outcome: Ending,
        canisters: tuple[AnyCanister, ...],
        *,
        response: Response | None = None,
        error: ConverseError | None = None,
    ) -> list[ConversationEvent]:
        """Return the final events.

        Args:
            canisters: The canisters received so far.
            response: The response, if it is complete.
            error: The error, if it failed.
        """
        name, moment = self._conversation_id, access_now()
        end: ConversationEvent = _make_end(
            conversation_id=name,
            timestamp=moment,
            outcome=outcome,
            canisters=canisters,
            metadata={},
        )
        if response is not None:
            done: ConversationEvent = _make_success(
                conversation_id=name, timestamp=moment, response=response, metadata={}
            )
        elif error is not None:
            done = _make_failure(
                conversation_id=name,
                timestamp=moment,
                error=error,
                canisters=canisters,
                metadata={},
            )
        else:
            return [end]
        return [done, end]
