"""What the gateway has to know of a request to send it on, and what a face is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import msgspec

from vibe_llms.daemons.bodies import read_head, replace_field
from vibe_llms.dialects.answering import ErrorAnswer, StreamWriter
from vibe_llms.dialects.broken_requests import refuse_nothing
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonObject
from vibe_llms.values import frozen

if TYPE_CHECKING:
    from vibe_llms.providers.remote_models import RemoteModel


class ServingDialect(Protocol):
    """What a package in ``dialects`` has, as far as answering clients goes."""

    @property
    def PROTOCOL(self) -> str: ...  # noqa: N802  # so all packages call it

    @property
    def StreamWriter(self) -> Callable[..., StreamWriter]: ...  # noqa: N802  # it is a class

    def normalize_request(
        self, native: Mapping[str, Any], attributes: ModelAttributes | None = None
    ) -> Translation[Request]: ...

    def nativize_response(self, response: Response) -> Translation[JsonObject]: ...

    def nativize_error(self, error: ConverseError) -> ErrorAnswer: ...


@frozen(kw_only=True)
class Face:
    """How clients of one protocol are answered.

    Attributes:
        name: What logs and metrics call it.
        dialect: The protocol.
        framing: How a streamed answer is cut.
        passed: Headers of a client that go to an upstream of the same protocol, as beginnings of
            their names.
        streams_by_default: Whether an answer is streamed unless the request says otherwise.
        model_field: Of a whole answer: says who gave it.
        id_header: In which its libraries look for the id of a request.
        echo: Returns what a whole answer repeats of the request, where the protocol does.
        is_ours: Whether it is our own protocol, in which nothing is lost: the request says by
            itself what may be, and the answer tells what was.
        is_path: Whether it is no protocol but a path of the vendor's, whatever that speaks.
    """

    name: str
    dialect: Any  # a ServingDialect, as soon as all of them write streams
    framing: str = "sse"
    passed: tuple[str, ...] = ()
    streams_by_default: bool = False
    model_field: str = "model"
    id_header: str = ""
    echo: Callable[[Mapping[str, Any]], JsonObject] | None = None
    is_kept: bool = False
    is_ours: bool = False
    is_path: bool = False

    def write_error(self, error: ConverseError) -> ErrorAnswer:
        """Writes an error in the words of the protocol."""
        told: ErrorAnswer = self.dialect.nativize_error(error)
        return told

    def find_allowed(self, native: Mapping[str, Any]) -> frozenset[str] | None:
        """Returns the names of the tools that a request lets be called; ``None`` for any."""
        find = getattr(self.dialect, "find_allowed", None)  # three protocols have a word for it
        return None if find is None else find(native)


def rename_model(body: bytes, model: str) -> bytes:
    """Returns a body that names another model, each other value of it as it was written."""
    return replace_field(body, "model", model)


@frozen(kw_only=True)
class ClientRequest:
    """A request of a client, as far as it has been read.

    Attributes:
        body: As it came.
        model: By the name that the client used; empty where it named none.
        streaming: Whether the answer is wanted piece by piece.
        rename: Makes the body name another model; ``None`` where the model does not stand there.
        response_id: The id that an answer of ours must have; by default it is made up.
        echo: The request as the client wrote it, but for its input, where ``body`` is another.
        method: Of HTTP, by which the request goes on.
        find_path: Returns the path at a model's vendor that the request is for, where that is
            another than the one at which the model answers.
        writing: How the dialect's writer of streams is to write, beyond what the body says.
    """

    body: bytes = attrs.field(repr=False)
    model: str
    streaming: bool
    rename: Callable[[bytes, str], bytes] | None = rename_model
    response_id: str | None = None
    echo: Mapping[str, Any] | None = None
    method: str = "POST"
    find_path: Callable[[RemoteModel], str] | None = None
    writing: Mapping[str, bool] = attrs.field(factory=dict)

    def move(self, path: str) -> ClientRequest:
        """Returns the request for another path behind a vendor's base URL."""
        return attrs.evolve(self, find_path=lambda model: path)


class _Head(msgspec.Struct):
    model: str = ""
    stream: bool | None = None
    messages: msgspec.Raw = msgspec.Raw(b"")


_EMPTY: Final = re.compile(rb"\[\s*\]")
_HEAD: Final = msgspec.json.Decoder(_Head)


def read_client_request(face: Face, body: bytes) -> ClientRequest:
    """Reads of a body who is asked, and how the answer is wanted. Raises RequestError."""
    head = read_head(_HEAD, body)
    if _EMPTY.fullmatch(head.messages):
        raise refuse_nothing("messages")
    streaming = face.streams_by_default if head.stream is None else head.stream
    return ClientRequest(body=body, model=head.model, streaming=streaming)
