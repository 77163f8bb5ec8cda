"""Models over the network that answer calls outside of a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import attrs

from vibe_llms.dialects.calls import (
    CallFormat,
    CallRequest,
    LiveFormat,
    NativeCall,
    NativeTranslation,
    Piece,
    PieceDecoder,
)
from vibe_llms.exceptions import ConverseError, RequestError, Stage
from vibe_llms.foundation.forms import EncodedBody
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss, Translation, refuse_losses
from vibe_llms.messages.transcripts import InterimText
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.call_observing import report_retry
from vibe_llms.providers.piece_streams import PieceStream, stream_call
from vibe_llms.providers.rates import Ticket
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.vendors import VendorClient
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.sse import SseFramer

if TYPE_CHECKING:
    from vibe_llms.providers.batching import ModelBatches
    from vibe_llms.wire.sockets import Socket

In = TypeVar("In", bound=CallRequest)
Out = TypeVar("Out", bound=CallResult)
_COUNT_DIGITS: Final = 15


class RemoteCallModel(Generic[In, Out]):
    """A vendor's model of any genus that answers calls, such as an embedder.

    Args:
        call_format: Translates the calls to and from the vendor's format.
    """

    def __init__(
        self, descriptor: ModelDescriptor, client: VendorClient, call_format: CallFormat[In, Out]
    ) -> None:
        self._descriptor = descriptor
        self._client = self.client = client
        self._call_format = call_format

    @property
    def protocol(self) -> str:
        """The protocol whose bodies the vendor accepts unchanged; empty if there is none."""
        return self._call_format.protocol

    def compose_path(self, *, streaming: bool = False) -> str:
        """Return the path after the base URL."""
        return self._call_format.path

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    @property
    def max_inputs(self) -> int:
        """Maximum inputs of one call."""
        return self._call_format.max_inputs

    @property
    def max_bytes(self) -> int:
        """Maximum size of the inputs of one call."""
        return self._call_format.max_bytes

    async def call(self, request: In) -> Out:
        """Translate a request, send it with retries, and read the answer.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
            ConverseError: The call failed, or its answer is invalid.
        """
        translation = self._write(request)

        async def send() -> tuple[bytes, Usage | None, Ticket]:
            return await self._send(translation.value)

        body, usage, ticket = await self._repeat(send)
        result = self._read(body, request)
        if usage is not None and result.usage is None:
            origin = attrs.evolve(result.origin, usage=usage)
            result = cast(Out, attrs.evolve(cast(Any, result), origin=origin))
        return _complete(result, translation.losses, ticket)

    def translate(self, request: In, *, streaming: bool = False) -> Translation[JsonObject]:
        """Translate a request for the vendor's batches.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
            RequestError: The request is not a JSON object, so that no batch can contain it.
        """
        translation = self._write(request)
        native = translation.value
        if isinstance(native, NativeCall):
            if native.path or isinstance(native.body, EncodedBody):
                detail = f"{self._descriptor} has no requests for batches of its vendor."
                raise RequestError(path="request", detail=detail, remedy="Send it alone.")
            native = native.body
        return Translation(native, translation.losses)

    async def read_whole(self, body: bytes, request: In, losses: Sequence[Loss]) -> Out:
        """Read an answer from another channel, such as a batch. Raises ConverseError."""
        result = self._read(body, request)
        return _add_losses(result, tuple(losses))

    def produce_batches(self) -> ModelBatches[In, Out] | None:
        """Return the model's batches; ``None`` if the vendor has none."""
        vendor_batches = self._client.vendor.produce_batches(self._client, self._call_format.path)
        if vendor_batches is None:
            return None
        from vibe_llms.providers.batching import ModelBatches

        return ModelBatches(self, vendor_batches)

    def _write(self, request: In) -> NativeTranslation:
        translation = self._call_format.write(request, self._descriptor)
        if request.strict:
            refuse_losses(translation.losses)
        return translation

    def _read(self, body: bytes, request: In) -> Out:
        try:
            return self._call_format.read(body, request, self._descriptor)
        except ValueError as error:
            raise self._refuse_answer(error) from None

    def stream(self, request: In) -> PieceStream[Out]:
        """Make a call, and return the pieces of the result as they arrive.

        Nothing is sent before the stream is entered. A failed request is only repeated before the
        first piece.
        """
        stream_format = self._call_format.stream
        if stream_format is None:
            return PieceStream(stream_call(self, request))
        translation = stream_format.write(request, self._descriptor)
        if request.strict:
            refuse_losses(translation.losses)
        decoder = stream_format.produce_decoder(request, self._descriptor)
        return PieceStream(
            self._receive(translation, decoder, is_framed=stream_format.framing == "sse")
        )

    def stream_live(self, request: Any, pieces: AsyncIterable[Piece]) -> PieceStream[Out]:
        """Make a call whose input is still arriving, and return the pieces of the result.

        If the vendor cannot take the input as it arrives, it is sent in complete parts; the losses
        of the result say so.
        """
        live_format, obstacle = self._call_format.live, "the vendor takes it only as a whole"
        if live_format is not None:
            obstacle = live_format.find_obstacle(request, self._descriptor)
            if not obstacle:
                return PieceStream(self._converse(live_format, request, pieces))
        from vibe_llms.providers.live_streams import open_in_parts

        return open_in_parts(self, request, pieces, obstacle)

    async def _converse(
        self, live_format: LiveFormat[Any, Out], request: Any, pieces: AsyncIterable[Piece]
    ) -> AsyncIterator[Piece | InterimText | Out]:
        """Yield the pieces of an answer on a WebSocket, then the result."""
        from vibe_llms.providers.live_calls import LiveCall
        from vibe_llms.providers.vendor_sockets import open_socket

        translation = live_format.write(request, self._descriptor)
        if request.strict:
            refuse_losses(translation.losses)
        codec = live_format.produce_codec(request, self._descriptor)
        client, name = self._client, self._descriptor.name

        async def connect() -> tuple[Socket, Ticket]:
            ticket = Ticket(client.limiter)
            try:
                path = translation.value
                return await open_socket(client, path, model=name, ticket=ticket), ticket
            except ConverseError as error:
                ticket.report(error)
                raise

        socket, ticket = await self._repeat(connect)
        call = LiveCall(socket, codec, client.vendor.settings.timeouts, self._refuse_answer)
        try:
            async with aclosing(cast(Any, call.converse(pieces))) as answer:
                async for piece in answer:
                    yield piece
            result = call.finish()
        except ConverseError as error:
            raise client.clean(error)  # noqa: B904  # it is the same error
        yield _complete(result, translation.losses, ticket)

    async def _receive(
        self, translation: NativeTranslation, decoder: PieceDecoder[Out], *, is_framed: bool
    ) -> AsyncIterator[Piece | Out]:
        """Yield the pieces of an answer, then the result."""

        async def begin() -> tuple[Exchange, bytes, Ticket]:
            return await self._begin(translation.value)

        exchange, data, ticket = await self._repeat(begin)
        framer = SseFramer(self._client.vendor.context.limits) if is_framed else None
        try:
            async with exchange:
                while data:
                    parts = (
                        [data] if framer is None else [frame.data for frame in framer.feed(data)]
                    )
                    for part in parts:
                        for piece in decoder.feed(part):
                            yield piece
                    data = await exchange.receive()
            for frame in () if framer is None else framer.finish():
                for piece in decoder.feed(frame.data):
                    yield piece
            result = decoder.finish()
        except ValueError as error:
            if isinstance(error, ConverseError):
                raise self._client.clean(error) from None
            raise self._refuse_answer(error) from None
        yield _complete(result, translation.losses, ticket)

    async def _repeat(self, send: Any) -> Any:
        context = self._client.vendor.context
        policy = RetryPolicy.of(context.limits)
        return await repeat(send, policy, context.clock, on_retry=report_retry)

    def _refuse_answer(self, error: ValueError) -> ConverseError:
        provider, path = self._descriptor.provider, self._call_format.path
        detail = f"{provider} answered {path} with an invalid body: {error}."
        return self._client.clean(ConverseError(detail=detail, stage=Stage.DECODE))

    async def _send(self, native: JsonObject | NativeCall) -> tuple[bytes, Usage | None, Ticket]:
        """Send a call once.

        Returns:
            The answer, the usage in its headers, and the ticket that still needs the usage.
        """
        ticket = Ticket(self._client.limiter)
        try:
            async with await self._open(native, ticket) as exchange:
                tokens = exchange.headers.get(self._call_format.usage_header, "")
                usage = Usage(input_tokens=int(tokens)) if _is_count(tokens) else None
                return await exchange.read(), usage, ticket
        except ConverseError as error:
            ticket.report(error)
            raise

    async def _begin(self, native: JsonObject | NativeCall) -> tuple[Exchange, bytes, Ticket]:
        """Send a call once; return the answer, its first bytes, and the rate limiter's ticket."""
        ticket = Ticket(self._client.limiter)
        try:
            exchange = await self._open(native, ticket)
            try:
                return exchange, await exchange.receive(), ticket
            except BaseException:
                await exchange.close()
                raise
        except ConverseError as error:
            ticket.report(error)
            raise

    async def _open(self, native: JsonObject | NativeCall, ticket: Ticket) -> Exchange:
        call = native if isinstance(native, NativeCall) else NativeCall(body=native)
        encoded = call.body if isinstance(call.body, EncodedBody) else None
        return await self._client.send(
            "POST",
            call.path or self._call_format.path,
            {} if isinstance(call.body, EncodedBody) else call.body,
            model=self._descriptor.name,
            ticket=ticket,
            encoded=encoded,
        )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _COUNT_DIGITS


def _complete(result: Out, losses: tuple[Loss, ...], ticket: Ticket) -> Out:
    """Settle the usage of a result, and add the losses of its request."""
    if result.usage is not None:
        ticket.settle(result.usage)
    return _add_losses(result, losses)


def _add_losses(result: Out, losses: tuple[Loss, ...]) -> Out:
    if not losses:
        return result
    return cast(Out, attrs.evolve(cast(Any, result), losses=(*losses, *result.losses)))
