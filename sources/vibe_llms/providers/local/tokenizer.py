"""Tokens of ``local``: counted by llama.cpp itself, and so exact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount
from vibe_llms.providers.local.errors import produce_error
from vibe_llms.providers.local.inference import EngineFault, LoadedModel


class LocalTokenizer:
    """Counts with the loaded model, which is loaded when something is first counted.

    Args:
        use: Asks the loaded model.
        nativize: Translates a request as it would be sent.
    """

    def __init__(
        self,
        use: Callable[[Callable[[LoadedModel], Awaitable[int]]], Awaitable[int]],
        nativize: Callable[[Request], JsonObject],
    ) -> None:
        self._use = use
        self._nativize = nativize

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself. Raises WeightsError."""
        return TokenCount(tokens=await self._use(lambda server: server.count_text(text)))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts what the request would occupy as input, with the model's template.

        Raises:
            RequestError: The request cannot be sent to this model.
        """
        native = self._nativize(request)
        try:
            return TokenCount(tokens=await self._use(lambda server: server.count_request(native)))
        except EngineFault as fault:
            raise produce_error(fault, model) from fault
