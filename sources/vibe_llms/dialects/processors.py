"""The four processors: between them they write a request, each its part, and read one back.

They are the road: what they return is what is sent, so that replacing one changes its part and
nothing else. A dialect supplies all four (``produce_processors``); a vendor puts its own in the
place of one where it differs, and so may anybody's plugin.
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
        """Returns the fields of the vendor's request that hold this part.

        Raises:
            RequestError: The vendor cannot be told that.
        """

    def normalize(self, native: JsonObject, model: ModelDescriptor, /) -> Translation[_Part]:
        """Returns this part of a request that is in the vendor's words. Raises RequestError."""


@frozen
class FunctionProcessor(Generic[_Part]):
    """A processor that is two functions; see :class:`Processor`.

    Attributes:
        nativize: What :meth:`Processor.nativize` calls.
        normalize: What :meth:`Processor.normalize` calls.
        is_additive: Of messages: those of a conversation are those of its two parts, wherever it
            is cut between turns. Then what was written once is not translated again; nobody may
            change it in place.
        is_verbatim: Words go into its part as they are, and decide nothing else of it. Then of
            requests that differ in their words alone only the first are translated.
    """

    nativize: Callable[[Request, ModelDescriptor], Translation[JsonObject]]
    normalize: Callable[[JsonObject, ModelDescriptor], Translation[_Part]]
    is_additive: bool = False
    is_verbatim: bool = False


ControlsProcessor: TypeAlias = Processor[Mapping[str, JsonValue]]
"""Translates control values; refuses those outside the domain of their control."""

MessagesProcessor: TypeAlias = Processor[tuple[AnyCanister, ...]]
"""Translates canisters; refuses what the model is known not to take."""

InvocationsProcessor: TypeAlias = Processor[tuple[tuple[InvocableDescription, ...], str]]
"""Translates descriptions of invocables, and the choice among them."""


class ConversationTokenizer(Protocol):
    """Counts tokens."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself."""

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens that a request would occupy as input, overhead included."""


class EstimatingTokenizer:
    """Counts here: exactly where the model's encoding is public, else with a bound of the error."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself."""
        from vibe_llms.models.tokens import count_text

        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Estimates what a request would occupy as input, overhead included."""
        from vibe_llms.models.counting import estimate_request  # few requests are counted

        return estimate_request(request, model.attributes)


@frozen(kw_only=True)
class Processors:
    """The four of a vendor. To replace one: ``attrs.evolve(processors, messages=…)``.

    Attributes:
        controls: Writes and reads the values of controls.
        messages: Writes and reads the canisters.
        invocations: Writes and reads what the model may invoke, and the choice among it.
        tokenizer: Counts tokens; by default it estimates.
    """

    controls: ControlsProcessor
    messages: MessagesProcessor
    invocations: InvocationsProcessor
    tokenizer: ConversationTokenizer = attrs.field(factory=EstimatingTokenizer)


@frozen(kw_only=True)
class Parts:
    """What the processors made of a request, in the vendor's words.

    Attributes:
        losses: Of all three, in their order.
    """

    controls: JsonObject
    messages: JsonObject
    invocations: JsonObject
    losses: tuple[Loss, ...]


def nativize_parts(request: Request, model: ModelDescriptor, processors: Processors) -> Parts:
    """Lets each processor write its part of a request. Raises RequestError."""
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
    """A vendor's frames, or a whole response, as events: a machine for one response.

    It may have an attribute ``is_complete`` besides: whether the vendor has said that nothing of
    the response is to come. Then nobody waits for the end of the stream, and what else is in it
    is not read. Without it, the end of the stream is the only end.
    """

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Returns the events of one frame. Raises ConverseError."""

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Returns all events of a whole response. Raises ConverseError."""

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. Raises StreamTruncatedError where the vendor had not ended."""


class Dialect(Protocol):
    """What a package in ``dialects`` has, as far as calling a vendor goes."""

    @property
    def PROTOCOL(self) -> str:  # noqa: N802  # so all packages call it
        """The dialect's stable word, in origins and beside native blocks."""

    @property
    def Decoder(self) -> Callable[..., Decoder]:  # noqa: N802  # it is a class
        """Makes the decoder of one response, of the names of provider and model, for errors."""

    def nativize_request(
        self,
        request: Request,
        attributes: ModelAttributes,
        quirks: Any,  # of the dialect's own class
        *,
        provider: str = "",
        streaming: bool = False,
        processors: Processors | None = None,
    ) -> Translation[JsonObject]:
        """Returns the body of a request, composed of what the processors make of it.

        Raises:
            RequestError: The vendor cannot be told that.
        """

    def produce_processors(self, quirks: Any) -> Processors:
        """Makes the processors for a vendor with these quirks."""

    def produce_error(
        self,
        body: object,
        *,
        provider: str,
        model: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ConverseError:
        """Makes the exception for an error in the vendor's words."""
