"""Tokens of ``anthropic``: the vendor counts them itself; offline they are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    TransportError,
)
from vibe_llms.messages.requests import Request
from vibe_llms.models.counting import estimate_request
from vibe_llms.models.tokens import count_text
from vibe_llms.plain import JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount

if TYPE_CHECKING:
    from vibe_llms.providers.remote import RemoteClient

_UNCOUNTED: Final = frozenset(
    {
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "metadata",
        "service_tier",
        "stop_sequences",
        "stream",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Parameters of a request that the call for counting does not have, and that count nothing."""


class AnthropicTokenizer:
    """Asks ``count_tokens``, which is exact; where nobody can be asked, it estimates."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Estimates the tokens of a text by itself: the vendor counts whole requests only."""
        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a request. Raises ConverseError."""
        native = self._client.nativize(request, model).value
        body = {name: value for name, value in native.items() if name not in _UNCOUNTED}
        try:
            answer: JsonValue = await self._client.request_json(
                "POST", "/v1/messages/count_tokens", body
            )
        except TransportError:
            return estimate_request(request, model.attributes)
        except ProviderError as error:
            if error.fault is not ProviderFault.NOT_FOUND:
                raise
            return estimate_request(request, model.attributes)  # not every server counts
        tokens = answer.get("input_tokens") if isinstance(answer, Mapping) else None
        if not isinstance(tokens, int):
            raise ConverseError(
                detail=f"{model.provider} did not say how many tokens there are.",
                stage=Stage.DECODE,
            )
        return TokenCount(tokens=tokens)
