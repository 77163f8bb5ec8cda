"""Guarded models: wrap a model so that guards examine its requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.exceptions import CapabilityError
from vibe_llms.guards.active import ActiveGuard
from vibe_llms.guards.requests import guard_request
from vibe_llms.guards.streams import GuardedSource, watch_stream
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.tokens import TokenCount
from vibe_llms.plugins.specification.guards import Inspection
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import (
    AsyncStream,
    ConversationTokenizer,
    ConverserModel,
    Translation,
)
from vibe_llms.providers.streams import EventSource, ResponseStream


class GuardedModel:
    """A model whose requests and answers guards examine, each in the order of the configuration.

    Args:
        model: The model.
        guards: Its guards.

    Attributes:
        unguarded: The model.
    """

    def __init__(self, model: ConverserModel, guards: Sequence[ActiveGuard]) -> None:
        self.unguarded = model
        self._guards = tuple(guards)
        self._address = str(model.descriptor)
        self._tokenizer = GuardedTokenizer(model.tokenizer, self._guards, self._address)

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self.unguarded.descriptor

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """The model's tokenizer; a request is examined before a vendor counts it."""
        return self._tokenizer

    def check(self, request: Request) -> None:
        """Reject a request that cannot be sent; sends nothing, and asks no guard."""
        self.unguarded.check(request)

    async def converse(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        stream: bool = True,
    ) -> Response:
        """Answer a request; see :class:`vibe_llms.providers.interfaces.ConverserModel`."""
        return await self._answer(request, reactors, streaming=stream).receive_complete()

    def stream(
        self, request: Request, reactors: ConversationReactors | None = None
    ) -> ResponseStream:
        """Stream the answer to a request. Nothing is sent before the stream is used."""
        return self._answer(request, reactors, streaming=True)

    def produce_batches(self) -> NoReturn:
        """Refuse a vendor's batch: its requests and answers would pass by the guards.

        Raises:
            CapabilityError: Always.
        """
        raise refuse_batches(self._address)

    def _answer(
        self, request: Request, reactors: ConversationReactors | None, *, streaming: bool
    ) -> ResponseStream:
        descriptor = self.unguarded.descriptor
        assembler = Assembler(
            provider=descriptor.provider,
            model=descriptor.name,
            protocol=getattr(self.unguarded, "protocol", None),
            limits=getattr(self.unguarded, "limits", None),
        )

        async def open_source() -> Translation[EventSource]:
            guarded = await guard_request(self._guards, request, self._address)
            answer.adopt_request(guarded.value)  # also for reactors, which may log it
            inspection = Inspection(
                part="answer", texts=(), model=self._address, request=guarded.value
            )
            watches = [
                watch_stream(each, inspection) for each in self._guards if "answer" in each.parts
            ]
            notes = [each.note for each in watches] if streaming else []
            inner = _open(self.unguarded, guarded.value, streaming=streaming)
            source = GuardedSource(inner, watches, assembler)
            return Translation(source, (*guarded.losses, *notes))

        answer = ResponseStream(
            request=request,
            assembler=assembler,
            open_source=open_source,
            reactors=reactors,
            limits=getattr(self.unguarded, "limits", None),
            streaming=streaming,
        )
        return answer


def _open(model: ConverserModel, request: Request, *, streaming: bool) -> AsyncStream:
    if isinstance(model, ModelBase):
        return model.answer(request, streaming=streaming)
    return model.stream(request)


def refuse_batches(address: str) -> CapabilityError:
    """Return the error of a vendor's batch, whose requests and answers no guard would examine."""
    return CapabilityError(
        model=address,
        capability="batches",
        detail=f"Guards examine the requests of {address}, which a vendor's batch does not allow.",
        remedy="Remove --channel to ask one by one, or except the model in the guards' models.",
    )


class GuardedTokenizer:
    """A tokenizer that counts what the guards let pass.

    Args:
        tokenizer: The tokenizer.
        guards: The guards of the model.
        model: Address of the model.
    """

    def __init__(
        self, tokenizer: ConversationTokenizer, guards: Sequence[ActiveGuard], model: str
    ) -> None:
        self._tokenizer = tokenizer
        self._guards = guards
        self._address = model

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a text alone."""
        return await self._tokenizer.count_text(text, model)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the input tokens of a request, after the guards' changes. Raises ConverseError."""
        guarded = await guard_request(self._guards, request, self._address)
        return await self._tokenizer.count_request(guarded.value, model)
