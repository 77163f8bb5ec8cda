"""Decoder of ``ollama``: the dialect's, which also tells when the server cut the conversation."""

from __future__ import annotations

from vibe_llms.dialects.ollama_chat.calling.decoder import Decoder
from vibe_llms.events.stream import LossEvent, StreamEvent, UsageEvent
from vibe_llms.messages.losses import Loss, LossKind


class OllamaDecoder:
    """Turns lines into events, and compares what the server read with what it was sent.

    Args:
        least_tokens: What the request is at least; below it, something was left out.
    """

    def __init__(self, *, provider: str, model: str, least_tokens: int) -> None:
        self._decoder = Decoder(provider=provider, model=model)
        self._least_tokens = least_tokens

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Returns the events of one line. Raises ConverseError."""
        return self._check(self._decoder.decode(data))

    @property
    def is_complete(self) -> bool:
        """Whether the server has said that the response is complete."""
        return self._decoder.is_complete

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Returns all events of a whole response. Raises ConverseError."""
        return self._check(self._decoder.decode_response(body))

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. Raises StreamTruncatedError."""
        return self._decoder.finish()

    def _check(self, events: list[StreamEvent]) -> list[StreamEvent]:
        for index, event in enumerate(events):
            if isinstance(event, UsageEvent):
                read = event.usage.input_tokens
                if read is not None and read < self._least_tokens:
                    events.insert(index + 1, LossEvent(loss=self._tell(read)))
                break
        return events

    def _tell(self, read: int) -> Loss:
        reason = (
            f"the server read {read} tokens of at least {self._least_tokens}: it left out the "
            "beginning without saying so (or counted only what it had not read before)"
        )
        return Loss(kind=LossKind.DROPPED, path="canisters", reason=reason)
