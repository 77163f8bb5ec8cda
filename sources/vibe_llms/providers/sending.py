"""Translation and sending of requests: the part of a model in which vendors differ."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final, Generic, TypeVar, cast

import attrs

from vibe_llms.exceptions import CapabilityError, RequestError
from vibe_llms.foundation.collector import perform_uncollected
from vibe_llms.foundation.json_types import JsonValue, is_integer
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.portal import IS_LARGE_REQUEST, run_outside_loop
from vibe_llms.messages.losses import Loss, refuse_losses
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import is_input_blank
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import ConversationTokenizer, ModelDescriptor, Translation
from vibe_llms.providers.streams import EventSource

_Native = TypeVar("_Native")

_SEVERAL_CANISTERS: Final = 32
"""From this number on, a conversation is translated without the garbage collector."""

_MANY_CANISTERS: Final = 1_000
_MANY_INVOCABLES: Final = 1_000
"""Beyond these numbers, translation would block the event loop for too long: some 5 to 10
milliseconds at the first turn. The tools of later turns are already translated.
"""


class SendingModel(abc.ABC, Generic[_Native]):
    """Model that translates and sends requests; :class:`.conversing.ModelBase` receives answers.

    Args:
        descriptor: The model's name and attributes.
        tokenizer: Counts its tokens.
        limits: Limits of the model's answers, from the provider's context.
    """

    protocol: ClassVar[str]
    """Name of the dialect, such as ``chat_completions``."""

    compacts: bool = False
    """True if the vendor can compact conversations itself."""

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
        """The model's name and attributes."""
        return self._descriptor

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """The tokenizer."""
        return self._tokenizer

    @property
    def limits(self) -> Limits:
        """The limits of its answers."""
        return self._limits

    @abc.abstractmethod
    def nativize(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translate a request. Does no I/O.

        Raises:
            RequestError: The model does not support the request; nothing was sent.
        """

    @abc.abstractmethod
    async def send(self, native: _Native, request: Request, *, streaming: bool) -> EventSource:
        """Send a native request, and return the source of the answer's events.

        Without streaming, one read returns all events of the response.
        """

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Return the controls of a request, with the defaults of the model's attributes.

        These defaults are sent, so that they override the vendor's defaults. If the requested
        reasoning could use up the whole answer, the maximum length is raised by the reasoning
        budget.
        """
        attributes, controls = self._descriptor.attributes, request.controls
        defaults = attributes.control_defaults
        tokens, budget = defaults.get("max_tokens"), controls.get("reasoning_budget_tokens")
        if isinstance(tokens, int) and isinstance(budget, int) and budget >= tokens:
            limit = attributes.access_value("output_limit_tokens")
            tokens += budget
            defaults = {
                **defaults,
                "max_tokens": min(tokens, limit) if is_integer(limit) else tokens,
            }
        return {**defaults, **controls}

    def translate(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translate a request, and check ``strict``.

        Raises:
            RequestError: The prompt is blank, or the model does not support the request.
            TranslationLossError: There are losses, and the request is strict.
        """
        refuse_blank_prompt(request)
        if request.window == "vendor" and not self.compacts:
            raise _refuse_compaction(self._descriptor)
        nativize = partial(self._nativize_adapted, request, streaming=streaming)
        is_long = len(request.canisters) >= _SEVERAL_CANISTERS
        translation = perform_uncollected(nativize) if is_long else nativize()
        if request.strict:
            refuse_losses(translation.losses)
        return translation

    async def translate_without_blocking(
        self, request: Request, *, streaming: bool
    ) -> Translation[_Native]:
        """Translate like :meth:`translate`, but large requests in a thread.

        A model over the network first uploads large media, if its vendor has files.
        """
        if not is_large(request):
            return self.translate(request, streaming=streaming)
        return await run_outside_loop(partial(self.translate, request, streaming=streaming))

    def _nativize_adapted(self, request: Request, *, streaming: bool) -> Translation[_Native]:
        """Translate a request; adapt controls if it is lenient, and add native parameters."""
        # Native parameters without a protocol are for any vendor.
        has_native_for_any = request.native is not None and not request.native.protocol
        if not (has_native_for_any or (request.lenient and request.controls)):
            return self.nativize(request, streaming=streaming)
        from vibe_llms.providers.parameters import add_native, leave_out_controls

        losses: tuple[Loss, ...] = ()
        supported = attrs.evolve(request, native=None) if has_native_for_any else request
        if request.lenient:
            supported, losses = leave_out_controls(supported, self._descriptor.attributes)
        translation = self.nativize(supported, streaming=streaming)
        native = translation.value
        if has_native_for_any:
            body, override_losses = add_native(
                request, native, lambda default: self.nativize(default, streaming=streaming).value
            )
            native, losses = cast(_Native, body), (*losses, *override_losses)
        return Translation(native, (*losses, *translation.losses))

    async def open(self, request: Request, *, streaming: bool) -> Translation[EventSource]:
        """Translate and send an unchanged request. Raises ConverseError."""
        translation = await self.translate_without_blocking(request, streaming=streaming)
        source = await self.send(translation.value, request, streaming=streaming)
        return Translation(source, translation.losses)

    def produce_assembler(self) -> Assembler:
        """Make the assembler of one response."""
        descriptor = self._descriptor
        return Assembler(
            provider=descriptor.provider,
            model=descriptor.name,
            protocol=self.protocol,
            limits=self._limits,
        )


def _refuse_compaction(model: ModelDescriptor) -> CapabilityError:
    return CapabilityError(
        path="window",
        model=str(model),
        capability="compaction",
        detail=f"{model} cannot compact conversations itself.",
        remedy='Set window = "summarize", so that the model writes a summary.',
    )


def is_large(request: Request) -> bool:
    """Return whether encoding a request may take noticeably long."""
    is_long = len(request.canisters) > _MANY_CANISTERS
    return is_long or len(request.invocables) > _MANY_INVOCABLES or IS_LARGE_REQUEST.get()


def refuse_blank_prompt(request: Request) -> None:
    """Reject a request with only blank texts after the last answer.

    Vendors differ: some reject it, some answer at random, and Ollama loads the model and answers
    nothing. The result of a tool may be empty, however.

    Raises:
        RequestError: There is no text that is not blank, and no other content.
    """
    if is_input_blank(request.canisters) and not request.continuation:
        raise RequestError(
            path=f"canisters[{len(request.canisters) - 1}]",
            detail="The prompt is empty or blank.",
            remedy="Add a text or a file.",
        )
