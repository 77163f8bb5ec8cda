"""Tokens of ``openai_responses``: texts are counted here, requests by the vendor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, Stage
from vibe_llms.messages.requests import Request
from vibe_llms.models.counting import estimate_request
from vibe_llms.models.tokens import count_text
from vibe_llms.plain import JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount

if TYPE_CHECKING:
    from vibe_llms.providers.remote import RemoteClient

_COUNTED: Final = (
    "conversation",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)
"""What of a request counts, and is taken by the call (``input_token_count_params`` of openai)."""


class OpenAIResponsesTokenizer:
    """Asks ``/responses/input_tokens``, which is exact; estimates where a service lacks it."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself, offline."""
        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a request, overhead included. Raises ConverseError."""
        native = self._client.nativize(request, model).value
        body = {name: native[name] for name in _COUNTED if name in native}
        try:
            answer: JsonValue = await self._client.request_json(
                "POST", "/responses/input_tokens", body
            )
        except ProviderError as error:
            if error.fault is not ProviderFault.NOT_FOUND and error.status not in (404, 405, 501):
                raise
            return estimate_request(request, model.attributes)
        tokens = answer.get("input_tokens") if isinstance(answer, Mapping) else None
        if not isinstance(tokens, int):
            raise ConverseError(
                detail=f"{model.provider} did not say how many tokens there are.",
                stage=Stage.DECODE,
            )
        return TokenCount(tokens=tokens)
