"""Mistral's call for the text between a prompt and a suffix, as a model that converses.

Its answer is that of a chat, so that only the path and the body differ.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.providers.attempts import Attempt
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.retries import RetryingSource, RetryPolicy
from vibe_llms.providers.streams import EventSource

if TYPE_CHECKING:
    from vibe_llms.providers.remote_models import RemoteModel
    from vibe_llms.wire.exchanges import Exchange


class FillingModel(ModelBase[JsonObject]):
    """A vendor's model that answers a prompt with the text before a suffix.

    The prompt is the last message of a request.

    Args:
        model: The vendor's model.
        path: The vendor's path of the call.
        suffix: The text after the answer.
    """

    def __init__(self, model: RemoteModel, path: str, suffix: str) -> None:
        super().__init__(model.descriptor, model.tokenizer, model.limits)
        self.protocol = model.protocol  # type: ignore[misc]  # depends on the vendor
        self._model = model
        self._path = path
        self._suffix = suffix

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError."""
        chat = self._model.nativize(request, streaming=streaming)
        body: dict[str, Any] = {
            name: value for name, value in chat.value.items() if name != "messages"
        }
        body |= {"prompt": text_of(request.canisters[-1]), "suffix": self._suffix}
        return Translation(body, chat.losses)

    async def send(self, native: JsonObject, request: Request, *, streaming: bool) -> EventSource:
        """Return a source that sends the request when it is first read."""
        client = self._model.client
        attempt = _FillingAttempt(client, self._descriptor, native, request, streaming)
        attempt.path = self._path
        context = client.vendor.context
        return RetryingSource(
            attempt.repeat,
            RetryPolicy.of(context.limits),
            clock=context.clock,
            source=attempt.produce_source(),
        )


class _FillingAttempt(Attempt):
    """An attempt at another path than that of conversations."""

    path = ""

    def repeat(self) -> EventSource:
        """Return a source that repeats a request."""
        attempt = _FillingAttempt(
            self._client, self._model, self._native, self._request, self._streaming
        )
        attempt.path = self.path
        return attempt.produce_source()

    def open_exchange(self) -> Awaitable[Exchange]:
        """Send the request when the rate limiter allows it."""
        return self._client.send(
            "POST", self.path, self._native, model=self._model.name, ticket=self._ticket
        )
