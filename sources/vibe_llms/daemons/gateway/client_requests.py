"""A client's request as read from its body, and the protocols (faces) of clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from vibe_llms.daemons.asgi import refuse_body
from vibe_llms.daemons.bodies import read_head, replace_field
from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.client_answers import ErrorAnswer, StreamWriter
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.forms import FormField, decode_form
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.models.tokens import TokenCount

if TYPE_CHECKING:
    from vibe_llms.providers.remote_models import RemoteModel


class ServingDialect(Protocol):
    """The part of a package in ``dialects`` that serves clients of its protocol."""

    @property
    def PROTOCOL(self) -> str: ...  # noqa: N802  # the name in all packages

    @property
    def StreamWriter(self) -> Callable[..., StreamWriter]: ...  # noqa: N802  # it is a class

    def normalize_request(
        self,
        native: Mapping[str, Any],
        attributes: ModelAttributes | None = None,
        cache: ClientPrefixes | None = None,
    ) -> Translation[Request]: ...

    def nativize_response(self, response: Response) -> Translation[JsonObject]: ...

    def nativize_error(self, error: ConverseError) -> ErrorAnswer: ...


def _write_count(count: TokenCount) -> JsonObject:
    return {"input_tokens": count.tokens}


@frozen(kw_only=True)
class Face:
    """A protocol of clients.

    Attributes:
        name: Used in logs and metrics.
        dialect: Translates the protocol.
        framing: Separates the events of a stream: ``sse``, ``ndjson`` or ``aws``.
        forwarded_headers: Prefixes of the client headers that are forwarded to an upstream that
            uses this protocol.
        streams_by_default: Whether an answer is a stream unless the request says otherwise.
        model_field: Field of a complete answer that names the model; empty if none does.
        id_header: Header in which client libraries look for the request id.
        echo: Returns the fields of the request that a complete answer repeats.
        count_path: Path at a vendor of this protocol that counts tokens, with ``{model}`` for the
            model's name; empty if :attr:`ClientRequest.find_path` returns it.
        write_count: Writes a token count in the format of the protocol.
        restricts_tools: Whether a request can name the tools that may be called: the dialect has
            ``find_allowed``.
        knows_quirks: Whether some vendors of this protocol deviate from it, so that not every body
            can be passed through: the dialect has ``touches_quirks``.
        keeps_unknown: Whether unknown fields are kept for a vendor that uses this protocol: the
            dialect has ``normalize_same``.
        is_stored: Whether clients may refer to earlier responses.
        is_stored_upstream: Whether only a vendor of the protocol stores answers for later requests.
        is_ours: Whether this is vibe-llms' own protocol: requests contain the accepted losses,
            and answers the losses that occurred.
        is_path: Whether any protocol is passed through, for further paths of a vendor.
        genus: The genus of the models that answer.
        has_prompts: Whether requests have prompts in place of messages.
    """

    name: str
    dialect: Any  # a ServingDialect, as soon as all dialects write streams
    framing: str = "sse"
    forwarded_headers: tuple[str, ...] = ()
    streams_by_default: bool = False
    model_field: str = "model"
    id_header: str = ""
    echo: Callable[[Mapping[str, Any]], JsonObject] | None = None
    count_path: str = ""
    write_count: Callable[[TokenCount], JsonObject] = _write_count
    restricts_tools: bool = False
    knows_quirks: bool = False
    keeps_unknown: bool = False
    is_stored: bool = False
    is_stored_upstream: bool = False
    is_ours: bool = False
    is_path: bool = False
    genus: Genus = Genus.CONVERSER
    has_prompts: bool = False

    def write_error(self, error: ConverseError) -> ErrorAnswer:
        """Write an error in the format of the protocol."""
        answer: ErrorAnswer = self.dialect.nativize_error(error)
        return answer

    def find_allowed(self, native: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names of the tools that the model may call; ``None`` for any."""
        if not self.restricts_tools:
            return None
        allowed: frozenset[str] | None = self.dialect.find_allowed(native)
        return allowed


def rename_model(body: bytes, model: str) -> bytes:
    """Return the body with another model name; all other values keep their bytes."""
    return replace_field(body, "model", model)


# In a multipart form: the headers of the field ``model``, and its value.
_FORM_MODEL: Final = re.compile(rb'(name="model"\r\n(?:[^\r]+\r\n)*\r\n)([^\r]*)(?=\r\n)')


def find_model_in_form(body: bytes) -> str | None:
    """Return the model that a form names; ``None`` if it names none."""
    match = _FORM_MODEL.search(body)
    return None if match is None else match[2].decode("utf-8", "replace")


def rename_model_in_form(body: bytes, model: str) -> bytes:
    """Return the form with another model name; all other fields keep their bytes."""
    return _FORM_MODEL.sub(lambda match: match[1] + model.encode(), body, count=1)


_NO_OPTIONS: Final[Mapping[str, bool]] = {}


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A client's request, parsed as far as the gateway needs.

    Attributes:
        body: The original bytes.
        model: Name used by the client; empty if the request has none.
        streaming: Whether the client wants a stream.
        rename: Replaces the model's name in the body; ``None`` if the body does not contain it.
        response_id: Id of the answer; generated by default.
        echo: The client's original request without its input, if ``body`` was expanded.
        method: HTTP method of the request to the upstream.
        find_path: Returns the path at the model's vendor; by default the model's own path.
        writing: Further keyword arguments for the dialect's stream writer.
        fields: The fields of a form; ``None`` for any other body.
        is_retrievable: Whether the client can retrieve the answer from its vendor later.
    """

    body: bytes
    model: str
    streaming: bool
    rename: Callable[[bytes, str], bytes] | None = rename_model
    response_id: str | None = None
    echo: Mapping[str, Any] | None = None
    method: str = "POST"
    find_path: Callable[[RemoteModel], str] | None = None
    writing: Mapping[str, bool] = _NO_OPTIONS
    fields: Sequence[FormField] | None = None
    is_retrievable: bool = False

    def __repr__(self) -> str:
        return f"ClientRequest(model={self.model!r}, streaming={self.streaming!r})"

    def move(self, path: str) -> ClientRequest:
        """Return the request for another path below the vendor's base URL."""
        return replace(self, find_path=lambda model: path)


class _Head(msgspec.Struct):
    model: str = ""
    stream: bool | None = None
    messages: msgspec.Raw = msgspec.Raw(b"")


_EMPTY_LIST: Final = re.compile(rb"\[\s*\]")
_HEAD: Final = msgspec.json.Decoder(_Head)


def read_client_request(
    face: Face, body: bytes, native: Mapping[str, Any] | None = None
) -> ClientRequest:
    """Read the model's name, and whether to stream, from a body.

    Args:
        native: The decoded body, if it was decoded already.

    Raises:
        RequestError: The body is invalid.
    """
    if native is not None and native.get("messages") != []:
        model, stream = native.get("model", ""), native.get("stream")
        if type(model) is str and (stream is None or type(stream) is bool):
            streaming = face.streams_by_default if stream is None else stream
            return ClientRequest(body=body, model=model, streaming=streaming)
    head = read_head(_HEAD, body)
    if _EMPTY_LIST.fullmatch(head.messages):
        raise explain_missing_message("messages")
    streaming = face.streams_by_default if head.stream is None else head.stream
    return ClientRequest(body=body, model=head.model, streaming=streaming)


def read_form_request(body: bytes, content_type: str) -> ClientRequest:
    """Read the fields of a form, with the model and whether to stream. Raises RequestError."""
    try:
        fields = decode_form(body, content_type)
    except ValueError as error:
        raise refuse_body(f"Invalid form: {error}.") from None
    texts = {name: value for name, value in fields if isinstance(value, str)}
    has_model = "model" in texts
    return ClientRequest(
        body=body,
        model=texts.get("model", ""),
        streaming=texts.get("stream", "").lower() == "true",
        rename=rename_model_in_form if has_model else None,
        fields=fields,
    )
