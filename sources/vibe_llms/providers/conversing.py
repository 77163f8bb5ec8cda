"""Base class of all providers' models: from a request to its response."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.messages.requests import SHORTENED_WINDOWS, Request, Response
from vibe_llms.models.attributes import Capability
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.complete_responses import receive_complete, receive_with_reactors
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.sending import SendingModel
from vibe_llms.providers.streams import EventSource, ResponseStream

if TYPE_CHECKING:
    from vibe_llms.events.reactors import ConversationReactors

_Native = TypeVar("_Native")


class ModelBase(SendingModel[_Native]):
    """A ``ConverserModel`` for which a provider only implements translation and sending.

    Args:
        descriptor: The model's name and attributes.
        tokenizer: Counts its tokens.
        limits: Limits of the model's answers, from the provider's context.
    """

    def check(self, request: Request) -> None:
        """Reject an invalid request; sends nothing."""
        if request.window in SHORTENED_WINDOWS:
            from vibe_llms.providers.windows import cut_request

            # Only check the turns that would be sent.
            request = cut_request(request, self)
        self.translate(request, streaming=True)

    def stream(
        self, request: Request, reactors: ConversationReactors | None = None
    ) -> ResponseStream:
        """Stream the answer to a request. Nothing is sent before the stream is used."""
        return self.answer(request, reactors)

    async def converse(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        stream: bool = True,
    ) -> Response:
        """Answer a request; see :class:`vibe_llms.providers.interfaces.ConverserModel`."""
        if request.window in SHORTENED_WINDOWS:
            return await self.answer(request, reactors, streaming=stream).receive_complete()
        streaming = stream and self._can_stream
        if reactors is None:
            return await receive_complete(self, request, streaming=streaming)
        return await receive_with_reactors(self, request, reactors, streaming=streaming)

    @property
    def _can_stream(self) -> bool:
        capability = self._descriptor.attributes.access_capability("supports_streaming")
        return capability is not Capability.NO

    def open_within_window(
        self, request: Request, assembler: Assembler, *, streaming: bool
    ) -> Awaitable[Translation[EventSource]]:
        """Translate and send a request like :meth:`open`, but shorten it to the model's window.

        Args:
            assembler: Records the summaries that were requested.
        """
        if request.window not in SHORTENED_WINDOWS or request.resume:
            return self.open(request, streaming=streaming)
        from vibe_llms.providers.windows import WindowFitter

        return WindowFitter(self, request, assembler, streaming=streaming).open()

    def answer(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        streaming: bool = True,
    ) -> ResponseStream:
        """Return the events of an answer; false for ``streaming`` requests it in one piece."""
        streaming = streaming and self._can_stream
        assembler = self.produce_assembler()
        open_source = partial(self.open_within_window, request, assembler, streaming=streaming)
        return ResponseStream(
            request=request,
            assembler=assembler,
            open_source=open_source,
            reactors=reactors,
            limits=self._limits,
            streaming=streaming,
        )
