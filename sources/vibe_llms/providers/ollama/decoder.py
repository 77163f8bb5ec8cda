"""Decoder of ``ollama``: the dialect's, which also tells when the server cut the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.ollama_chat.calling.decoder import Decoder
from vibe_llms.events.stream import LossEvent, UsageEvent
from vibe_llms.messages.losses import Loss, LossKind


class OllamaDecoder(Decoder):
    """Turns lines into events, and compares what the server read with what it was sent.

    Args:
        least_tokens: What the request is at least; below it, something was left out.
    """

    def __init__(self, *, provider: str, model: str, least_tokens: int) -> None:
        super().__init__(provider=provider, model=model)
        self._least_tokens = least_tokens

    def _read_ending(self, data: Mapping[str, Any]) -> None:
        super()._read_ending(data)
        last = self._events[-1] if self._events else None
        read = last.usage.input_tokens if isinstance(last, UsageEvent) else None
        if read is None or read >= self._least_tokens:
            return
        reason = (
            f"the server read {read} tokens of at least {self._least_tokens}: it left out the "
            "beginning without saying so (or counted only what it had not read before)"
        )
        loss = Loss(kind=LossKind.DROPPED, path="canisters", reason=reason)
        self._events.append(LossEvent(loss=loss))
