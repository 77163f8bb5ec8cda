"""Base class of providers whose models only exchange text; a plugin author only writes the answer.

This module does everything else that the contract requires: unsupported input is rejected or
reported as a loss, the conversation is repaired, pieces of text become events, and tokens are
estimated.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from vibe_llms.dialects.cache_hints import omit_request_hints
from vibe_llms.dialects.history import HistoryEntry, HistoryRules, repair_history
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import EstimatingTokenizer
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import CapabilityError, ConverseError, Stage, UnknownNameError
from vibe_llms.messages.canisters import InvocationCanister, StopReason
from vibe_llms.messages.contents import CacheHint, NativeContent, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.models.controls import check_controls
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import ModelDescriptor, Translation

_UNSUPPORTED: Final = dict.fromkeys(
    (
        "supports_images",
        "supports_audio",
        "supports_video",
        "supports_files",
        "supports_invocations",
        "supports_schema",
        "supports_reasoning",
    ),
    False,
)
_PROTOCOL: Final = "text"


class Utterance(NamedTuple):
    """A message as text.

    Attributes:
        role: ``supervisor``, ``user``, ``assistant``, ``document``, ``invocation`` or ``result``.
        text: The text.
    """

    role: str
    text: str


class TextProvider(abc.ABC):
    """A provider of models that only exchange text. Derive from it, and implement ``answer``.

    Attributes:
        models: Names of the models; the default model is first. Others are rejected; without any
            names, every name is accepted.
        context: The provider's settings, directories and more.
    """

    models: ClassVar[Sequence[str]] = ()

    def __init__(self, context: ProviderContext) -> None:
        self.context = context

    @abc.abstractmethod
    def answer(self, messages: Sequence[Utterance], model: str) -> AsyncIterator[str]:
        """Yield the answer piece by piece: an asynchronous generator of texts.

        Args:
            messages: The whole conversation, oldest first.
            model: The name of the model.
        """

    @property
    def name(self) -> str:
        """The provider's name in the configuration, as in ``[providers.NAME]``."""
        return self.context.name

    def produce_client(self) -> TextClient:
        """Make a client. Does not connect to anything."""
        return TextClient(self)


class TextClient:
    """Client of a :class:`TextProvider`."""

    def __init__(self, provider: TextProvider) -> None:
        self.provider = provider

    async def access_model(self, name: str = "") -> TextModel:
        """Return a model, by default the first. Raises UnknownNameError."""
        models = self.provider.models
        if name and models and name not in models:
            raise UnknownNameError(kind="model", name=name, known=tuple(models))
        return TextModel(self._describe(name or next(iter(models), "default")), self.provider)

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """List all models."""
        return [self._describe(name) for name in self.provider.models]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _describe(self, name: str) -> ModelDescriptor:
        context = self.provider.context
        attributes = context.produce_attributes().integrate(
            name, facts=_UNSUPPORTED, facts_source="the provider only supports text"
        )
        return ModelDescriptor(provider=context.name, name=name, attributes=attributes)


class TextModel(ModelBase[Sequence[Utterance]]):
    """Model of a :class:`TextProvider`."""

    protocol = _PROTOCOL

    def __init__(self, descriptor: ModelDescriptor, provider: TextProvider) -> None:
        super().__init__(descriptor, EstimatingTokenizer(), provider.context.limits)
        self._provider = provider

    def nativize(self, request: Request, *, streaming: bool) -> Translation[Sequence[Utterance]]:
        """Return the messages as text. Raises RequestError for unsupported contents."""
        check_controls(request.controls, self.descriptor.attributes.controls)
        ledger = Ledger(protocol=_PROTOCOL, provider=self.descriptor.provider)
        ledger.omit_native(request.native, "request")
        omit_request_hints(request, ledger)
        for name in ("invocables", "schema", "continuation"):
            if getattr(request, name):
                ledger.drop(name, "this model supports only text")
        history = repair_history(request.canisters, HistoryRules(), ledger)
        return Translation([_read(entry, ledger) for entry in history], ledger.losses)

    async def send(
        self, native: Sequence[Utterance], request: Request, *, streaming: bool
    ) -> TextSource:
        """Start the provider's answer."""
        return TextSource(
            self._provider.answer(native, self.descriptor.name),
            self.descriptor.provider,
            streaming=streaming,
        )


def _read(entry: HistoryEntry, ledger: Ledger) -> Utterance:
    """Convert a canister. Losses have its path in the original conversation."""
    canister, path = entry.canister, entry.path
    ledger.omit_native(canister.native, path)
    for name in ("title", "is_error"):
        if getattr(canister, name, None):
            ledger.drop(f"{path}.{name}", "only the text is sent to this model")
    texts = list(filter(None, _read_texts(entry, ledger)))
    if isinstance(canister, InvocationCanister):
        ledger.coerce(path, "an invocation is sent as its name and arguments")
        texts.insert(0, f"{canister.name} {canister.arguments}")
    return Utterance(canister.role, BOUNDARY.join(texts))


def _read_texts(entry: HistoryEntry, ledger: Ledger) -> Iterator[str]:
    for index, content in enumerate(entry.canister.content):
        place = f"{entry.path}.content[{index}]"
        match content:
            case CacheHint():
                ledger.omit_hint(place)
            case ReasoningContent() | NativeContent():
                ledger.withhold(place, "only the model that produced it can read it")
            case TextualContent(text=text):
                ledger.omit_native(content.native, place)
                if content.citations:
                    ledger.drop(f"{place}.citations", "only the text is sent to this model")
                yield text
            case _ if hasattr(content, "text"):
                ledger.omit_native(content.native, place)
                yield content.text
            case _:
                raise CapabilityError(
                    path=place,
                    detail=f"This model does not accept images, audio or documents: see {place}.",
                    remedy="Remove it, or use another model.",
                )


class TextSource:
    """Converts pieces of text to events; without streaming, one read returns all events."""

    def __init__(self, pieces: AsyncIterator[str], provider: str, *, streaming: bool) -> None:
        self._pieces = pieces
        self._provider = provider
        self._streaming = streaming
        self._is_begun = self._is_ended = False

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events; ``None`` at the end. Raises ConverseError."""
        events: list[StreamEvent] = []
        while not self._is_ended and not (events and self._streaming):
            events += await self._advance()
        return events or None

    async def close(self) -> None:
        """Stop the generator."""
        self._is_ended = True
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()

    async def _advance(self) -> Sequence[StreamEvent]:
        try:
            piece = await anext(self._pieces, None)
        except ConverseError:
            raise
        except Exception as error:
            raise self._blame(f"{type(error).__name__}: {error}") from error
        if not isinstance(piece, str | None):
            raise self._blame(f"it yields {type(piece).__name__}, not texts")
        beginning = () if self._is_begun else (ContentStartedEvent(index=0, kind="text"),)
        self._is_begun = True
        if piece is not None:
            return (*beginning, ContentDeltaEvent(0, piece))
        self._is_ended = True
        ending = (
            ContentFinishedEvent(index=0),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
        )
        return (*beginning, *ending)  # an empty answer is valid, too

    def _blame(self, reason: str) -> ConverseError:
        return ConverseError(
            detail=f"The provider {self._provider!r} failed: {reason}.",
            remedy="Report it to the author of its plugin.",
            stage=Stage.SEND,
        )
