"""What a provider is: the protocols that every vendor's folder fulfils.

A :class:`Provider` makes a :class:`Client`, which owns connections or loaded weights and gives
access to a :class:`ConverserModel`, which answers requests. Four stateless processors
(:mod:`vibe_llms.dialects.processors`) translate between our words and the vendor's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from vibe_llms.dialects.processors import ControlsProcessor as ControlsProcessor
from vibe_llms.dialects.processors import ConversationTokenizer as ConversationTokenizer
from vibe_llms.dialects.processors import InvocationsProcessor as InvocationsProcessor
from vibe_llms.dialects.processors import MessagesProcessor as MessagesProcessor
from vibe_llms.dialects.processors import Processors as Processors
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Translation as Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.descriptors import ModelDescriptor as ModelDescriptor
from vibe_llms.models.tokens import TokenCount as TokenCount
from vibe_llms.providers.words import iterate_words


class AsyncStream(AbstractAsyncContextManager["AsyncStream"], Protocol):
    """A response on its way. Use it as an asynchronous context manager.

    Iterating yields the events in order. The last one is a ``ResponseFinishedEvent`` with the
    response, or a ``ResponseFailedEvent`` with what had arrived, after which the iteration
    raises the error. Leaving the context, or cancelling the task that iterates, closes what is
    upstream at once.

    Iterate over ``text`` for the words of the answer alone. Events and words come from one
    stream: what one iteration has received, another does not receive again.
    """

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """What has arrived so far, marked as interrupted until the response is complete."""

    @property
    def text(self) -> AsyncIterator[str]:
        """The words of the answer as they arrive, without reasoning and without calls.

        Joined, they are the ``text`` of the response. The iteration raises a ``ConverseError``
        where the response fails.
        """
        return iterate_words(self)

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    async def response(self) -> Response:
        """Receives the remaining events and returns the response.

        Raises:
            ConverseError: The response failed.
        """

    async def close(self) -> None:
        """Stops the response where it is. May be called again."""


class ConverserModel(Protocol):
    """A model that answers: what ``Client.access_model`` returns."""

    @property
    def descriptor(self) -> ModelDescriptor:
        """Which model it is, and what is known of it."""

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """What counts this model's tokens."""

    def check(self, request: Request) -> None:
        """Refuses what could not be sent; sends nothing and loads nothing.

        Raises:
            RequestError: The model cannot take it.
            TranslationLossError: Something would be lost, and the request is strict.
        """

    async def converse(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        stream: bool = True,
    ) -> Response:
        """Answers a request.

        Args:
            request: What is asked.
            reactors: Hear of the progress on the way.
            stream: False asks the vendor for the response in one piece.

        Raises:
            ConverseError: No answer, or not to its end.
        """

    def stream(self, request: Request, reactors: ConversationReactors | None = None) -> AsyncStream:
        """Answers a request piece by piece. Nothing is sent before the stream is entered."""


class Client(Protocol):
    """Connections, or loaded weights, and the models behind them."""

    @property
    def provider(self) -> Provider:
        """The provider that made this client."""

    async def access_model(self, name: str = "") -> ConverserModel:
        """Returns a model by name; the provider's default where the name is empty.

        Raises:
            UnknownNameError: The provider is sure that it has no such model.
        """

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """Lists the models which can be accessed now.

        Args:
            refresh: Ask the vendor, however young the list is that is kept here.
        """

    async def close(self) -> None:
        """Frees what the client holds. May be called again."""


class Provider(Protocol):
    """Something that has models: a vendor, a server, this process.

    One whose models can be files of this machine has ``names_file(name)``, which tells whether a
    name is the path of one: clients of a daemon may not choose files.
    """

    @property
    def name(self) -> str:
        """The provider's name in the configuration, as in ``[providers.NAME]``."""

    def produce_client(self) -> Client:
        """Makes a client. Connects to nothing and loads nothing yet."""
