"""Tokenizer of ``local``. llama.cpp counts the tokens, so counts are exact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount
from vibe_llms.providers.local.errors import produce_error
from vibe_llms.providers.local.inference import EngineFault, LoadedModel


class LocalTokenizer:
    """Counts with the loaded model, which is loaded at the first count.

    Args:
        use: Calls a function with the loaded model.
        nativize: Translates a request as for sending.
    """

    def __init__(
        self,
        use: Callable[[Callable[[LoadedModel], Awaitable[int]]], Awaitable[int]],
        nativize: Callable[[Request], JsonObject],
    ) -> None:
        self._use = use
        self._nativize = nativize

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a text alone. Raises WeightsError."""
        return TokenCount(tokens=await self._use(lambda server: server.count_text(text)))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the input tokens of the request, with the model's template.

        Raises:
            RequestError: The model does not support the request.
        """
        native = self._nativize(request)
        try:
            return TokenCount(tokens=await self._use(lambda server: server.count_request(native)))
        except EngineFault as fault:
            raise produce_error(fault, model) from fault
