"""Token counts by the vendor if it supports that; otherwise estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from vibe_llms.dialects.processors import EstimatingTokenizer
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    TransportError,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount

if TYPE_CHECKING:
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.messages.losses import Translation
    from vibe_llms.providers.request_encoding import EncodedBody

ComposeCount: TypeAlias = Callable[[JsonObject, ModelDescriptor], tuple[str, JsonObject]]
"""Returns the path and the body of a request that counts tokens."""

_UNSUPPORTED_STATUSES: Final = (404, 405, 501)
"""Statuses of servers that implement a protocol without token counting."""


class CountingClient(Protocol):
    """A client that translates a request and lets the vendor count its tokens."""

    def nativize(
        self, request: Request, model: ModelDescriptor, *, streaming: bool = False
    ) -> Translation[JsonObject]:
        """Return the body of a request. Raises RequestError."""

    async def request_json(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        encoded: EncodedBody | None = None,
    ) -> JsonValue:
        """Request JSON, such as a count of tokens. Raises ConverseError."""


class VendorTokenizer(EstimatingTokenizer):
    """Tokenizer that lets the vendor count requests, which is exact; estimates if that fails."""

    def __init__(self, client: CountingClient, compose: ComposeCount, field: str) -> None:
        self._client = client
        self._compose = compose
        self._field = field

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a request, including overhead. Raises ConverseError."""
        native = self._client.nativize(request, model).value
        path, body = self._compose(native, model)
        try:
            return await self._request_count(path, body, model)
        except (ProviderError, TransportError) as error:
            # If the vendor is unreachable or does not count, an estimate is better than an error.
            if isinstance(error, ProviderError) and not _is_unsupported(error):
                raise
            return await super().count_request(request, model)

    async def _request_count(
        self, path: str, body: JsonObject, model: ModelDescriptor
    ) -> TokenCount:
        answer = await self._client.request_json("POST", path, body)
        tokens = answer.get(self._field) if isinstance(answer, Mapping) else None
        if not isinstance(tokens, int):
            raise ConverseError(
                detail=f"{model.provider} did not return a token count.",
                stage=Stage.DECODE,
            )
        return TokenCount(tokens=tokens)


def _is_unsupported(error: ProviderError) -> bool:
    return error.fault is ProviderFault.NOT_FOUND or error.status in _UNSUPPORTED_STATUSES
