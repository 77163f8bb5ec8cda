"""Tokens of ``local``: counted by llama.cpp itself, and so exact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount
from vibe_llms.providers.local.errors import produce_error
from vibe_llms.providers.local.inference import EngineFault, LoadedModel


class LocalTokenizer:
    """Counts with the loaded model, which is loaded when something is first counted.

    Args:
        acquire: Gives the loaded model.
        nativize: Translates a request as it would be sent.
    """

    def __init__(
        self,
        acquire: Callable[[], Awaitable[LoadedModel]],
        nativize: Callable[[Request], JsonObject],
    ) -> None:
        self._acquire = acquire
        self._nativize = nativize

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself. Raises WeightsError."""
        server = await self._acquire()
        return TokenCount(tokens=await server.count_text(text))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts what the request would occupy as input, with the model's template.

        Raises:
            RequestError: The request cannot be sent to this model.
        """
        native = self._nativize(request)
        server = await self._acquire()
        try:
            return TokenCount(tokens=await server.count_request(native))
        except EngineFault as fault:
            raise produce_error(fault, model) from fault
