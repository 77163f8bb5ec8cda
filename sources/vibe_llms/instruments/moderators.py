"""A moderator by its name: verdicts about texts that may be harmful.

``Moderator`` is for asynchronous code; ``SyncModerator`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.instruments.genera import CONCURRENCY, CallInstrument, call_in_parts
from vibe_llms.messages.moderations import Moderation, ModerationRequest, join_moderations
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import CallModel


class Moderator(CallInstrument):
    """A model that classifies texts by the kinds of harm in them.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:omni-moderation-latest``.
        settings: ``application``, ``strict``, ``concurrency``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.MODERATOR

    async def moderate(self, texts: str | Iterable[str]) -> Moderation:
        """Return a verdict about each text, in their order.

        Raises:
            RequestError: There are no texts, or a text is blank.
            ConfigurationError: The moderator has no address.
            ConverseError: A request failed.
        """
        return await moderate_with(await self.access(), self.compose(texts), self.concurrency)

    def compose(self, texts: str | Iterable[str]) -> ModerationRequest:
        """Return the request for verdicts about texts. Raises RequestError."""
        return ModerationRequest(texts=texts, strict=self.strict)


async def moderate_with(
    model: CallModel[ModerationRequest, Moderation],
    request: ModerationRequest,
    concurrency: int = CONCURRENCY,
) -> Moderation:
    """Moderate texts with a provider's model. Raises ConverseError."""
    return join_moderations(await call_in_parts(model, request, concurrency))


class SyncModerator(SyncFace[Moderator]):
    """A moderator for synchronous code, with the arguments of :class:`Moderator`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Moderator)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Moderator(*arguments, **settings))

    moderate = blocking(Moderator.moderate)
    close = blocking(Moderator.close)
