"""The four processors, each of which translates one part of requests, in both directions.

Their output is sent unchanged, so that replacing a processor changes only its part. A dialect
provides all four (``produce_processors``); vendors and plugins replace those that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs

from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.tokens import TokenCount

_Part = TypeVar("_Part")


class Processor(Protocol[_Part]):
    """Translates one part of a request. Stateless."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Return the fields of the vendor's request for this part.

        Raises:
            RequestError: The vendor does not support it.
        """

    def normalize(self, native: JsonObject, model: ModelDescriptor, /) -> Translation[_Part]:
        """Return this part of a vendor's request. Raises RequestError."""


@frozen
class FunctionProcessor(Generic[_Part]):
    """A processor made from two functions; see :class:`Processor`.

    Attributes:
        nativize: The implementation of :meth:`Processor.nativize`.
        normalize: The implementation of :meth:`Processor.normalize`.
        is_additive: For messages: whether a conversation that is split between any two turns has
            the messages of the first part, followed by those of the second. If so, earlier
            translations are reused, and must not be changed in place.
        is_verbatim: Whether texts are copied unchanged, and affect nothing else. If so, requests
            that differ only in their texts are translated once.
    """

    nativize: Callable[[Request, ModelDescriptor], Translation[JsonObject]]
    normalize: Callable[[JsonObject, ModelDescriptor], Translation[_Part]]
    is_additive: bool = False
    is_verbatim: bool = False


ControlsProcessor: TypeAlias = Processor[Mapping[str, JsonValue]]
"""Translates controls; rejects invalid values."""

MessagesProcessor: TypeAlias = Processor[tuple[AnyCanister, ...]]
"""Translates canisters; rejects contents that the model is known not to support."""

InvocationsProcessor: TypeAlias = Processor[tuple[tuple[InvocableDescription, ...], str]]
"""Translates descriptions of invocables, and the tool choice."""


class ConversationTokenizer(Protocol):
    """Counts tokens."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a text alone."""

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the input tokens of a request, including overhead."""


class EstimatingTokenizer:
    """Counts tokens locally: exactly if the model's encoding is public, else with an estimate."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a text alone."""
        from vibe_llms.models.tokens import count_text

        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Estimate the input tokens of a request, including overhead."""
        from vibe_llms.models.counting import estimate_request  # imported when first needed

        return estimate_request(request, model.attributes)


@frozen(kw_only=True)
class Processors:
    """The four processors of a vendor. To replace one: ``attrs.evolve(processors, messages=…)``.

    Attributes:
        controls: Translates controls.
        messages: Translates canisters.
        invocations: Translates descriptions of invocables, and the tool choice.
        tokenizer: Counts tokens; by default it estimates.
    """

    controls: ControlsProcessor
    messages: MessagesProcessor
    invocations: InvocationsProcessor
    tokenizer: ConversationTokenizer = attrs.field(factory=EstimatingTokenizer)


@frozen(kw_only=True)
class Parts:
    """A request as translated by the processors.

    Attributes:
        controls, messages, invocations: The fields that each processor returned.
        losses: The losses of all of them.
    """

    controls: JsonObject
    messages: JsonObject
    invocations: JsonObject
    losses: tuple[Loss, ...]


def nativize_parts(request: Request, model: ModelDescriptor, processors: Processors) -> Parts:
    """Let each processor translate its part of a request. Raises RequestError."""
    controls = processors.controls.nativize(request, model)
    invocations = processors.invocations.nativize(request, model)
    messages = processors.messages.nativize(request, model)
    return Parts(
        controls=controls.value,
        messages=messages.value,
        invocations=invocations.value,
        losses=(*messages.losses, *controls.losses, *invocations.losses),
    )


class Decoder(Protocol):
    """Decodes a vendor's frames, or a complete response, to events; used for one response.

    It may have an attribute ``is_complete``: whether the vendor has completed the response. Once it
    is true, the rest of the stream is not read. Without this attribute, only the end of the stream
    ends the response.
    """

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one frame. Raises ConverseError."""

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Return all events of a complete response. Raises ConverseError."""

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError if the response is incomplete."""


class Dialect(Protocol):
    """The part of the interface of a package in ``dialects`` that is needed to call vendors."""

    @property
    def PROTOCOL(self) -> str:  # noqa: N802  # the name in all packages
        """The dialect's name, in origins and native data."""

    @property
    def Decoder(self) -> Callable[..., Decoder]:  # noqa: N802  # it is a class
        """Makes the decoder of one response, from provider and model, for errors."""

    def nativize_request(
        self,
        request: Request,
        attributes: ModelAttributes,
        quirks: Any,  # an instance of the dialect's class
        *,
        provider: str = "",
        streaming: bool = False,
        processors: Processors | None = None,
    ) -> Translation[JsonObject]:
        """Return the body of a request, composed from the output of the processors.

        Raises:
            RequestError: The vendor does not support it.
        """

    def produce_processors(self, quirks: Any) -> Processors:
        """Make the processors for a vendor with these quirks."""

    def produce_error(
        self,
        body: object,
        *,
        provider: str,
        model: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ConverseError:
        """Make the exception for an error of the vendor."""
