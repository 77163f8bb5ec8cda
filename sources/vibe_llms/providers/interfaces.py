"""Interfaces of providers: the protocols that every vendor's folder implements.

A :class:`Provider` makes a :class:`Client`, which owns connections or loaded weights and gives
access to a :class:`ConverserModel`, which answers requests. Four stateless processors
(:mod:`vibe_llms.dialects.processors`) translate between our values and the vendor's. A client with
models of other genera, each a :class:`CallModel`, is a :class:`GenusClient`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from vibe_llms.dialects.processors import ControlsProcessor as ControlsProcessor
from vibe_llms.dialects.processors import ConversationTokenizer as ConversationTokenizer
from vibe_llms.dialects.processors import InvocationsProcessor as InvocationsProcessor
from vibe_llms.dialects.processors import MessagesProcessor as MessagesProcessor
from vibe_llms.dialects.processors import Processors as Processors
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Translation as Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.descriptors import ModelDescriptor as ModelDescriptor
from vibe_llms.models.tokens import TokenCount as TokenCount

if TYPE_CHECKING:  # a program without reactors imports none of their events
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.models.genera import Genus


In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class AsyncStream(AbstractAsyncContextManager["AsyncStream"], Protocol):
    """A response that is being received. Use it as an asynchronous context manager.

    Iterating yields the events in order. The last one is a ``ResponseFinishedEvent`` with the
    response, or a ``ResponseFailedEvent`` with the canisters received so far, after which the
    iteration raises the error. Leaving the context, or cancelling the task that iterates, closes
    the upstream connection at once.

    Iterate over ``text`` for the text of the answer only. Events and texts come from one stream: an
    item received by one iteration is not received by another.
    """

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """The canisters received so far, marked as interrupted until the response is complete."""

    @property
    def text(self) -> AsyncIterator[str]:
        """The text of the answer as it arrives, without reasoning and tool calls.

        Joined, the pieces are the ``text`` of the response. The iteration raises a
        ``ConverseError`` if the response fails.
        """
        from vibe_llms.providers.answer_texts import iterate_text

        return iterate_text(self)

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    async def response(self) -> Response:
        """Receive the remaining events and return the response.

        Raises:
            ConverseError: The response failed.
        """

    async def close(self) -> None:
        """Stop the response. May be called again."""


class ConverserModel(Protocol):
    """A model that answers requests: returned by ``Client.access_model``."""

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """The model's tokenizer."""

    def check(self, request: Request) -> None:
        """Reject a request that cannot be sent; sends and loads nothing.

        Raises:
            RequestError: The model does not support it.
            TranslationLossError: There are losses, and the request is strict.
        """

    async def converse(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        stream: bool = True,
    ) -> Response:
        """Answer a request.

        Args:
            request: The request.
            reactors: Receive the events of its progress.
            stream: False requests the response in one piece.

        Raises:
            ConverseError: There is no answer, or it is incomplete.
        """

    def stream(self, request: Request, reactors: ConversationReactors | None = None) -> AsyncStream:
        """Stream the answer to a request. Nothing is sent before the stream is entered."""


class CallModel(Protocol[In, Out]):
    """A model that answers each call in one piece: returned by ``GenusClient.access``.

    The genus determines the types of the request and of the result.
    """

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""

    @property
    def max_inputs(self) -> int:
        """Maximum inputs of one call, such as texts."""

    @property
    def max_bytes(self) -> int:
        """Maximum size of the inputs of one call, in UTF-8."""

    async def call(self, request: In) -> Out:
        """Return the result of a call.

        A model that also streams results has the method ``stream(request)``, which returns a
        :class:`.PieceStream`.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
            ConverseError: The call failed, or its answer is invalid.
        """


GenusModel: TypeAlias = ConverserModel | CallModel[Any, Any]
"""A model of any genus."""


class Client(Protocol):
    """Connections, or loaded weights, and the models that use them."""

    @property
    def provider(self) -> Provider:
        """The provider that made this client."""

    async def access_model(self, name: str = "") -> ConverserModel:
        """Return a model by name; the provider's default model for an empty name.

        Raises:
            UnknownNameError: The provider is sure that it does not have this model.
        """

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """List the models that are available now.

        Args:
            refresh: Ask the vendor, however young the cached list is.
        """

    async def close(self) -> None:
        """Release all resources. May be called again."""


@runtime_checkable
class GenusClient(Client, Protocol):
    """A client with models of several genera."""

    async def access(self, name: str, genus: Genus) -> GenusModel:
        """Return a model of a genus by name; the provider's default one for an empty name.

        Raises:
            UnknownNameError: The provider has no models of the genus, or not this one.
        """


class Provider(Protocol):
    """A source of models: a vendor, a server, this process.

    One whose models can be files of this machine has ``names_file(name)``, which returns whether a
    name is the path of one: clients of a daemon may not choose files.
    """

    @property
    def name(self) -> str:
        """The provider's name in the configuration, as in ``[providers.NAME]``."""

    def produce_client(self) -> Client:
        """Make a client. Does not connect or load anything yet."""
