"""Fast path for complete text-only responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from vibe_llms.dialects.simple_responses import SimpleResponse
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.messages.canisters import AssistantCanister, Origin
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.messages.trusting import trusted

# Without validation: the typed decoder has validated its fields, and this function sets all others.
_make_text: Final = trusted(TextualContent)
_make_origin: Final = trusted(Origin)
_make_canister: Final = trusted(AssistantCanister)
_make_metadata: Final = trusted(ResponseMetadata)
_make_response: Final = trusted(Response)
_make_start: Final = trusted(ResponseStartedEvent)
_make_content_end: Final = trusted(ContentFinishedEvent)
_make_account: Final = trusted(UsageEvent)
_make_end: Final = trusted(ResponseFinishedEvent)

_TEXT_STARTED: Final = ContentStartedEvent(index=0, kind="text")
"""First event of every simple response."""


class SimpleResponseSource:
    """Event source of a complete response, which can also be read without events.

    Args:
        simple: The complete response.
        provider: Provider, for the origin of the canister.
        protocol: Dialect of the response.
        request_id: The vendor's id of the HTTP request.
    """

    is_spent = True

    def __init__(
        self, simple: SimpleResponse, *, provider: str, protocol: str, request_id: str | None
    ) -> None:
        self._simple = simple
        self._provider = provider
        self._protocol = protocol
        self._request_id = request_id
        self._is_read = False

    def produce_response(
        self, request: Request, losses: Sequence[Loss], seconds: float
    ) -> Response:
        """Return the response that the events would produce.

        Args:
            losses: Losses of the request.
            seconds: Duration.
        """
        simple = self._simple
        text = _make_text(text=simple.text)
        origin = _make_origin(
            provider=self._provider,
            model=simple.model,
            protocol=self._protocol,
            response_id=simple.response_id,
            stop_reason=simple.stop_reason,
            native_stop_reason=simple.native_stop_reason,
            usage=simple.usage,
            seconds=round(seconds, 6),
        )
        canister = _make_canister(
            timestamp=access_now(),
            content=(text,),
            id=produce_identity(),
            origin=origin,
            turn_id=produce_identity(),
            native=simple.group_native,
        )
        metadata = _make_metadata(
            origin=origin,
            duration_seconds=seconds,
            first_seconds=seconds,
            request_id=self._request_id,
            native=simple.native,
        )
        return _make_response(
            request=request,
            canisters=(canister,),
            metadata=metadata,
            losses=tuple(losses),
        )

    def list_events(
        self, response: Response | None = None, losses: Iterable[Loss] = ()
    ) -> list[StreamEvent]:
        """Return the events of the response, as a stream would.

        Args:
            response: The response, if it was produced before.
            losses: Losses of the request.
        """
        simple = self._simple
        text = None if response is None else response.canisters[0].content[0]
        return [
            *[LossEvent(loss=loss) for loss in losses],
            _make_start(
                response_id=simple.response_id,
                model=simple.model,
                request_id=self._request_id,
            ),
            _TEXT_STARTED,
            *[ContentDeltaEvent(0, piece) for piece in simple.pieces or (simple.text,)],
            _make_content_end(index=0, item=text, group_native=simple.group_native),
            *([] if simple.usage is None else [_make_account(usage=simple.usage)]),
            _make_end(
                stop_reason=simple.stop_reason,
                native_stop_reason=simple.native_stop_reason,
                native=simple.native,
                response=response,
            ),
        ]

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return all events, then ``None``."""
        if self._is_read:
            return None
        self._is_read = True
        return self.list_events()

    async def close(self) -> None:
        """Do nothing: the connection is already released."""
