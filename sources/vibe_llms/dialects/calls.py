"""Formats of calls outside of a conversation, such as embeddings, in the protocols of vendors.

A vendor takes a JSON object, a form with files or plain bytes, and answers with one body or with a
stream of pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.forms import EncodedBody
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.canisters import Origin, StopReason, Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import InterimText
from vibe_llms.models.descriptors import ModelDescriptor


def produce_origin(
    model: ModelDescriptor,
    protocol: str,
    usage: Usage | None,
    *,
    reported_model: str | None = None,
    response_id: str | None = None,
) -> Origin:
    """Return the origin of a complete result.

    Args:
        reported_model: The model that the vendor names in its answer.
        response_id: The vendor's id of the answer.
    """
    return Origin(
        provider=model.provider,
        model=reported_model or model.name,
        protocol=protocol,
        response_id=response_id,
        stop_reason=StopReason.ANSWERED,
        usage=usage,
    )


class CallRequest(Protocol):
    """Request of a call: an instance of a frozen attrs class."""

    @property
    def strict(self) -> bool:
        """True if losses in the translation of the request raise an error."""


In = TypeVar("In", bound=CallRequest)
Out = TypeVar("Out", bound=CallResult)
Answer = TypeVar("Answer", bound=CallResult, covariant=True)


@frozen(kw_only=True)
class NativeCall:
    """A call whose body is not a JSON object, or whose path differs from the path of its format.

    Attributes:
        body: A JSON object, or an encoded body of another type.
        path: The path after the base URL, with its query; empty for the path of the format.
    """

    body: JsonObject | EncodedBody
    path: str = ""


NativeTranslation: TypeAlias = Translation[JsonObject] | Translation[NativeCall]
"""A call in a vendor's format, with the losses of its translation."""

Piece: TypeAlias = bytes | str
"""A piece of a result: bytes of audio, or a part of a text."""


class PieceDecoder(Protocol[Answer]):
    """Decodes one streamed answer. A state machine without I/O."""

    def feed(self, data: bytes) -> Iterable[Piece]:
        """Return the pieces in an event, or in bytes as they arrive.

        Raises:
            ValueError: The event is invalid.
            ConverseError: The vendor reports an error.
        """

    def finish(self) -> Answer:
        """Return the complete result. Raises ValueError if the stream is incomplete."""


@frozen(kw_only=True)
class StreamFormat(Generic[In, Out]):
    """A vendor's format for the same call with a streamed answer.

    Attributes:
        write: Returns the call. Raises RequestError.
        framing: ``sse`` if the answer is a stream of events; empty if it is the result's bytes.
        produce_decoder: Makes the decoder of one answer.
    """

    write: Callable[[In, ModelDescriptor], NativeTranslation]
    framing: Literal["sse", ""] = ""
    produce_decoder: Callable[[In, ModelDescriptor], PieceDecoder[Out]]


Message: TypeAlias = bytes | str
"""A message on a WebSocket."""


def encode_event(event: JsonObject) -> str:
    """Return the message of an event."""
    return msgspec.json.encode(event).decode()


class LiveCodec(Protocol[Answer]):
    """Writes the messages of a call whose input is still arriving, and reads the vendor's messages.

    A state machine without I/O.
    """

    @property
    def keep_alive(self) -> str:
        """Message for pauses of the input; empty if the vendor needs none."""

    @property
    def is_complete(self) -> bool:
        """True once the vendor has sent its last message.

        Always false if the vendor closes the connection after that.
        """

    def begin(self) -> Iterable[Message]:
        """Return the first messages."""

    def write(self, piece: Piece) -> Iterable[Message]:
        """Return the messages for a piece of the input."""

    def end(self) -> Iterable[Message]:
        """Return the messages for the end of the input."""

    def feed(self, message: Message) -> Iterable[Piece | InterimText]:
        """Return the pieces of the result in a message.

        Raises:
            ValueError: The message is invalid.
            ConverseError: The vendor reports an error.
        """

    def finish(self) -> Answer:
        """Return the complete result. Raises ValueError if it is incomplete."""


@frozen(kw_only=True)
class LiveFormat(Generic[In, Out]):
    """A vendor's format on a WebSocket, for a call whose input is still arriving.

    Attributes:
        find_obstacle: Returns the reason why the vendor cannot take such an input as it arrives;
            empty if it can.
        write: Returns the path after the base URL, with its query.
        produce_codec: Makes the codec of one call.
    """

    find_obstacle: Callable[[In, ModelDescriptor], str] = lambda request, model: ""
    write: Callable[[In, ModelDescriptor], Translation[str]]
    produce_codec: Callable[[In, ModelDescriptor], LiveCodec[Out]]


@frozen(kw_only=True)
class CallFormat(Generic[In, Out]):
    """A vendor's format for one kind of call, with the functions that translate to and from it.

    Attributes:
        path: The path after the base URL.
        protocol: The protocol whose bodies the vendor accepts unchanged; empty if it has quirks.
        max_inputs: Maximum inputs of one call, such as texts; for images, the maximum of an
            answer.
        max_bytes: Maximum size of the inputs of one call.
        write: Returns the call. Raises RequestError.
        read: Returns the result from the body of an answer. Raises ValueError for an invalid body;
            its message contains no secrets and no long texts.
        stream: The format for streamed answers; ``None`` if the vendor does not stream.
        live: The format for input that is still arriving; ``None`` if the vendor takes only
            complete input.
        usage_header: Header of an answer, in lower case, with the number of input tokens that the
            body does not contain; empty if there is none.
    """

    path: str
    protocol: str = ""
    max_inputs: int
    max_bytes: int = 500_000
    write: Callable[[In, ModelDescriptor], NativeTranslation]
    read: Callable[[bytes, In, ModelDescriptor], Out]
    stream: StreamFormat[In, Out] | None = None
    live: LiveFormat[Any, Out] | None = None
    usage_header: str = ""


class PieceWriter(Protocol):
    """Writes the pieces of a streamed result for a client.

    Attributes:
        content_type: The content type of the answer.
    """

    content_type: str

    def feed(self, piece: Piece) -> bytes:
        """Return the bytes of a piece."""

    def finish(self, result: Any) -> bytes:
        """Return the last bytes, which may describe the complete result."""


@frozen(kw_only=True)
class ClientFormat(Generic[In, Out]):
    """The format for one kind of call that the gateway's clients use.

    Attributes:
        protocol: The protocol; see :attr:`CallFormat.protocol`.
        path: The path at a vendor with this protocol; empty for the path of the model's format.
        read: Returns the request in a client's body. Fields of a form that occur several times are
            lists; files are a :class:`.FormFile`. Raises RequestError.
        write: Returns the body of an answer. Takes the result, the client's body and the model's
            name.
        produce_writer: Makes the writer of a streamed answer, from the client's body; returns
            ``None`` if the client wants the answer in one piece.
    """

    protocol: str
    path: str = ""
    read: Callable[[Mapping[str, Any]], Translation[In]]
    write: Callable[[Out, Mapping[str, Any], str], JsonObject | EncodedBody]
    produce_writer: Callable[[Mapping[str, Any]], PieceWriter | None] | None = None
