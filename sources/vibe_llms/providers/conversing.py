"""What the models of all providers share: the walk from a request to its response."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, Generic, TypeGuard, TypeVar, cast

import attrs

from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.exceptions import RequestError, TranslationLossError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.portal import LENGTHY, perform_apart
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import asks_nothing
from vibe_llms.models.attributes import Capability
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import ConversationTokenizer, ModelDescriptor, Translation
from vibe_llms.providers.streams import EventSource, ResponseStream
from vibe_llms.providers.telling import Teller
from vibe_llms.providers.wholes import receive_heard, receive_whole

_Native = TypeVar("_Native")

_MANY_CANISTERS: Final = 1_000
_MANY_INVOCABLES: Final = 200
"""More take longer to write than others should wait: some 20 milliseconds."""


class ModelBase(abc.ABC, Generic[_Native]):
    """A ``ConverserModel`` whose provider says only how it translates and how it sends.

    Args:
        descriptor: Which model it is, and what is known of it.
        tokenizer: What counts its tokens.
        limits: Bound its answers; the provider's context has them.
    """

    protocol: ClassVar[str]
    """The dialect that is spoken, such as ``chat_completions``."""

    def __init__(
        self,
        descriptor: ModelDescriptor,
        tokenizer: ConversationTokenizer,
        limits: Limits | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._tokenizer = tokenizer
        self._limits = limits or Limits()

    @property
    def descriptor(self) -> ModelDescriptor:
        """Which model it is, and what is known of it."""
        return self._descriptor

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """What counts its tokens."""
        return self._tokenizer

    @property
    def limits(self) -> Limits:
        """What bounds its answers."""
        return self._limits

    @abc.abstractmethod
    def nativize(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translates a request. Pure.

        Raises:
            RequestError: The model cannot do what is asked; nothing was sent.
        """

    @abc.abstractmethod
    async def send(self, native: _Native, request: Request, *, streaming: bool) -> EventSource:
        """Sends a native request, and returns the source of what comes back.

        Without streaming, one read brings the whole response, as the same events.
        """

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Returns the control values of a request on top of the defaults of the model's data.

        What the data call a default is sent, so that it holds whatever the vendor's is. Where all
        of an answer would go for reasoning that is asked for, it may be longer by that.
        """
        attributes, controls = self._descriptor.attributes, request.controls
        defaults = attributes.control_defaults
        usual, budget = defaults.get("max_tokens"), controls.get("reasoning_budget_tokens")
        if isinstance(usual, int) and isinstance(budget, int) and budget >= usual:
            most = attributes.access_value("output_limit_tokens")
            longer = usual + budget
            defaults = {**defaults, "max_tokens": min(longer, most) if _is_count(most) else longer}
        return {**defaults, **controls}

    def check(self, request: Request) -> None:
        """Refuses what could not be sent, and sends nothing."""
        if request.window != "stop":
            from vibe_llms.providers.windows import cut_request

            # What would be left out need not be such as can be translated.
            request = cut_request(request, self)
        self.translate(request, streaming=True)

    def stream(
        self, request: Request, reactors: ConversationReactors | None = None
    ) -> ResponseStream:
        """Answers a request piece by piece. Nothing is sent before the stream is used."""
        return self._answer(request, reactors, streaming=self._can_stream)

    async def converse(
        self,
        request: Request,
        reactors: ConversationReactors | None = None,
        *,
        stream: bool = True,
    ) -> Response:
        """Answers a request; see :class:`vibe_llms.providers.interfaces.ConverserModel`."""
        streaming = stream and self._can_stream
        if reactors is None:
            return await receive_whole(self, request, streaming=streaming)
        if request.window == "stop":
            return await receive_heard(self, request, reactors, streaming=streaming)
        return await self._answer(request, reactors, streaming=streaming).receive_whole()

    @property
    def _can_stream(self) -> bool:
        told = self._descriptor.attributes.access_capability("supports_streaming")
        return told is not Capability.NO

    def translate(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translates a request, and holds it to being strict.

        Raises:
            RequestError: Nothing is asked, or the model cannot do it.
            TranslationLossError: Something would be lost, and the request is strict.
        """
        ensure_asked(request)
        translation = self._nativize_wishes(request, streaming=streaming)
        if request.strict:
            refuse_losses(translation.losses)
        return translation

    async def translate_apart(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Do what :meth:`translate` does, for a large request beside the event loop."""
        if not is_large(request):
            return self.translate(request, streaming=streaming)
        return await perform_apart(partial(self.translate, request, streaming=streaming))

    def _nativize_wishes(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translates a request, without what the model does not take where that is allowed."""
        # What names no protocol is the caller's own, for whichever vendor is asked.
        is_spoken = request.native is not None and not request.native.protocol
        if not (request.lenient or is_spoken):
            return self.nativize(request, streaming=streaming)
        from vibe_llms.providers.wishes import add_native, leave_out_controls

        losses: tuple[Loss, ...] = ()
        fitting = attrs.evolve(request, native=None) if is_spoken else request
        if request.lenient:
            fitting, losses = leave_out_controls(fitting, self._descriptor.attributes)
        translation = self.nativize(fitting, streaming=streaming)
        native = translation.value
        if is_spoken:
            body, overruled = add_native(
                request, native, lambda usual: self.nativize(usual, streaming=streaming).value
            )
            native, losses = cast(_Native, body), (*losses, *overruled)
        return Translation(native, (*losses, *translation.losses))

    def open_fitting(
        self, request: Request, assembler: Assembler, *, streaming: bool
    ) -> Awaitable[Translation[EventSource]]:
        """Does what :meth:`open` does with what fits into the model's window.

        Args:
            assembler: Learns of what was asked for to make it fit.
        """
        if request.window == "stop":
            return self.open(request, streaming=streaming)
        from vibe_llms.providers.windows import Fitting

        return Fitting(self, request, assembler, streaming=streaming).open()

    async def open(self, request: Request, *, streaming: bool) -> Translation[EventSource]:
        """Translates and sends a request as it is. Raises ConverseError."""
        translation = await self.translate_apart(request, streaming=streaming)
        source = await self.send(translation.value, request, streaming=streaming)
        return Translation(source, translation.losses)

    def produce_assembler(self) -> Assembler:
        """Makes what puts one response together."""
        descriptor = self._descriptor
        return Assembler(
            provider=descriptor.provider,
            model=descriptor.name,
            protocol=self.protocol,
            limits=self._limits,
        )

    def _answer(
        self, request: Request, reactors: ConversationReactors | None, *, streaming: bool
    ) -> ResponseStream:
        assembler = self.produce_assembler()
        open_source = partial(self.open_fitting, request, assembler, streaming=streaming)
        return ResponseStream(
            request=request,
            assembler=assembler,
            open_source=open_source,
            reactors=reactors,
            limits=self._limits,
            streaming=streaming,
        )

    def resume(
        self,
        request: Request,
        teller: Teller,
        open_source: Callable[[], Awaitable[Translation[EventSource]]],
        *,
        started: float,
    ) -> ResponseStream:
        """Makes a stream of an answer of whose beginning reactors have been told.

        Args:
            open_source: Returns what has come of sending the request, or raises it.
            started: When that was, by ``time.perf_counter``.
        """
        return ResponseStream(
            request=request,
            assembler=self.produce_assembler(),
            open_source=open_source,
            limits=self._limits,
            teller=teller,
            started=started,
        )


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_large(request: Request) -> bool:
    """Tell whether writing a request may take so long that others would notice it."""
    is_long = len(request.canisters) > _MANY_CANISTERS
    return is_long or len(request.invocables) > _MANY_INVOCABLES or LENGTHY.get()


def refuse_losses(losses: Sequence[Loss]) -> None:
    """Raises TranslationLossError where there are any."""
    if losses:
        raise TranslationLossError(
            losses=tuple(str(loss) for loss in losses),
            remedy="Change the request, or do without strict.",
        )


def ensure_asked(request: Request) -> None:
    """Refuses a request in which nothing is asked: blank texts alone, since the model has spoken.

    Vendors differ: some refuse them, some answer at random, Ollama loads the model and says
    nothing. A result may be empty: a tool may have nothing to say.

    Raises:
        RequestError: Neither a text that is not blank, nor any other content, is there.
    """
    if asks_nothing(request.canisters) and not request.continuation:
        raise RequestError(
            path=f"canisters[{len(request.canisters) - 1}]",
            detail="The prompt is empty: nothing but blanks is asked.",
            remedy="Say something, or give a file with it.",
        )
