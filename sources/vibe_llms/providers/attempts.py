"""One attempt of a request to a vendor."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from vibe_llms.dialects.processors import Decoder
from vibe_llms.events.stream import NativeEvent
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.lowering import LoweringDecoder, find_lowered
from vibe_llms.providers.names import NamingDecoder, find_aliases
from vibe_llms.providers.rates import SettlingSource, Ticket
from vibe_llms.providers.sources import WireSource
from vibe_llms.providers.streams import EventSource
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.frames import Framer

if TYPE_CHECKING:
    from vibe_llms.providers.sanitization import EventCleaner
    from vibe_llms.providers.vendors import VendorClient

CONTENT_TYPES: Final = {
    "aws": "application/vnd.amazon.eventstream",
    "ndjson": "application/x-ndjson",
    "sse": "text/event-stream",
}


class Attempt:
    """One attempt: waits for the rate limiter, sends the request, and reads the answer."""

    def __init__(
        self,
        client: VendorClient,
        model: ModelDescriptor,
        native: JsonObject,
        request: Request,
        streaming: bool,
    ) -> None:
        self._client, self._model = client, model
        self._native, self._request, self._streaming = native, request, streaming
        self._ticket = Ticket(client.limiter)
        self._cleaner: EventCleaner | None = None

    @property
    def model_name(self) -> str:
        """The name of the model, for errors."""
        return self._model.name

    def produce_source(self) -> EventSource:
        """Return a source that sends the request when it is first read."""
        client, vendor = self._client, self._client.vendor
        content_type = CONTENT_TYPES[vendor.framing] if self._streaming else "application/json"
        source = WireSource(self, content_type, vendor.request_id_headers)
        return SettlingSource(source, self._ticket) if client.limiter.counts_tokens else source

    def repeat(self) -> EventSource:
        """Return a source that repeats a request."""
        next_attempt = Attempt(
            self._client, self._model, self._native, self._request, self._streaming
        )
        return next_attempt.produce_source()

    def open_exchange(self) -> Awaitable[Exchange]:
        """Send the request when the rate limiter allows it."""
        path = self._client.vendor.compose_path(self._model, streaming=self._streaming)
        return self._client.send(
            "POST", path, self._native, model=self._model.name, ticket=self._ticket
        )

    def produce_decoder(self) -> Decoder:
        """Make the vendor's decoder, with the original names and kinds of invocables."""
        vendor = self._client.vendor
        decoder = vendor.produce_decoder(self._model, self._request)
        if aliases := find_aliases(self._request, vendor.quirks):
            decoder = NamingDecoder(decoder, aliases)
        if custom := find_lowered(self._request, vendor.dialect.PROTOCOL, vendor.quirks):
            decoder = LoweringDecoder(decoder, custom)
        return decoder

    def scrub(self, event: NativeEvent) -> NativeEvent:
        """Remove secrets from an event, in case the vendor sent them back."""
        if self._cleaner is None:  # most answers have no unknown events
            from vibe_llms.providers.sanitization import EventCleaner

            self._cleaner = EventCleaner(self._client.list_secrets)
        return self._cleaner.clean(event)

    def clean(self, error: ConverseError) -> ConverseError:
        """Remove secrets from an error, and report it to the rate limiter."""
        self._ticket.report(error)
        if isinstance(error, ProviderError) and error.fault is ProviderFault.NOT_FOUND:
            _advise_of_successor(error, self._model)
        return self._client.clean(error)

    def produce_framer(self) -> Framer:
        """Make the framer for the vendor's stream format."""
        limits, framing = self._client.vendor.context.limits, self._client.vendor.framing
        if framing == "ndjson":
            from vibe_llms.wire.ndjson import NdjsonFramer

            return NdjsonFramer(limits)
        if framing == "aws":
            from vibe_llms.wire.event_stream import EventStreamFramer

            return EventStreamFramer(limits)
        from vibe_llms.wire.sse import SseFramer

        return SseFramer(limits)


def _advise_of_successor(error: ProviderError, model: ModelDescriptor) -> None:
    """If an unknown model is retired, add this fact to the error."""
    from vibe_llms.models.retirement import find_retirement

    retirement = find_retirement(model.attributes)
    today = access_now().date()
    if retirement is not None and retirement.is_over(today):
        error.remedy = retirement.describe(today)


class AnsweredAttempt(Attempt):
    """An attempt whose answer has already arrived: sends nothing, and reads the answer as usual."""

    def __init__(
        self, client: VendorClient, model: ModelDescriptor, request: Request, body: bytes
    ) -> None:
        super().__init__(client, model, {}, request, False)
        self._body = body

    def open_exchange(self) -> Awaitable[Exchange]:
        """Return the answer."""
        from vibe_llms.wire.memory import produce_stored_exchange

        return produce_stored_exchange(self._body, self._client.vendor.context.limits)
