"""Tokens of ``google``: the vendor counts them itself, for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount

if TYPE_CHECKING:
    from vibe_llms.providers.remote import RemoteClient


class Counting(Protocol):
    """What the counting needs to know of the vendor."""

    def compose_method(self, model: ModelDescriptor, method: str) -> str:
        """Returns the path of one of the model's methods."""

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> JsonObject:
        """Returns what is asked in order to count a request."""


class GoogleTokenizer:
    """Asks ``:countTokens``, instructions and tools included; what it answers is exact."""

    def __init__(self, client: RemoteClient, vendor: Counting) -> None:
        self._client = client
        self._vendor = vendor

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text as a user's message. Raises ConverseError."""
        return await self._count(
            {"contents": [{"role": "user", "parts": [{"text": text}]}]} if text else {}, model
        )

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a request. Raises ConverseError."""
        native = self._client.nativize(request, model).value
        return await self._count(self._vendor.compose_count(native, model), model)

    async def _count(self, body: JsonObject, model: ModelDescriptor) -> TokenCount:
        if not body:
            return TokenCount(tokens=0)
        path = self._vendor.compose_method(model, "countTokens")
        answer: JsonValue = await self._client.request_json("POST", path, body)
        tokens = answer.get("totalTokens", 0) if isinstance(answer, Mapping) else None
        if not isinstance(tokens, int):
            raise ConverseError(
                detail=f"{model.provider} did not say how many tokens there are.",
                stage=Stage.DECODE,
            )
        return TokenCount(tokens=tokens)
