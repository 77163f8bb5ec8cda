"""Shared parts of answers to clients: streams and errors.

An error reaches the client of a daemon with the status that makes its library react correctly
(retry, wait, ask for a key), and in the format of the client's protocol.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import (
    AccessError,
    ContextOverflowError,
    ConverseError,
    GuardError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    StoreError,
    StoreUnavailableError,
    StreamTruncatedError,
    TranslationLossError,
    TransportError,
    TransportTimeoutError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import is_full
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES
from vibe_llms.messages.losses import Loss

_STATUSES: Final[Mapping[ProviderFault, int]] = {
    ProviderFault.AUTHENTICATION: 401,
    ProviderFault.PERMISSION: 403,
    ProviderFault.QUOTA: 429,
    ProviderFault.NOT_FOUND: 404,
    ProviderFault.INVALID_REQUEST: 400,
    ProviderFault.BLOCKED: 400,
    ProviderFault.RATE_LIMITED: 429,
    ProviderFault.OVERLOADED: 503,
    ProviderFault.SERVER: 502,
    ProviderFault.TIMEOUT: 504,
    ProviderFault.UNKNOWN: 502,
}

_FAULTS: Final[tuple[tuple[type[ConverseError], ProviderFault, int], ...]] = (
    (UnknownNameError, ProviderFault.NOT_FOUND, 404),
    (UnknownConversationError, ProviderFault.NOT_FOUND, 404),
    (TranslationLossError, ProviderFault.INVALID_REQUEST, 422),
    (RequestError, ProviderFault.INVALID_REQUEST, 400),
    (GuardError, ProviderFault.BLOCKED, 400),
    (TransportTimeoutError, ProviderFault.TIMEOUT, 504),
    (TransportError, ProviderFault.SERVER, 502),
    (StreamTruncatedError, ProviderFault.SERVER, 502),
    (StoreUnavailableError, ProviderFault.OVERLOADED, 503),
)
"""Fault and status by the class of an error; the first match wins. Any other error is a fault of
the server."""

REQUEST_LIMITS: Final = (
    "request_values",
    "messages",
    "parts",
    "tools",
    "choices",
    "schema_properties",
    "schema_nodes",
)
"""Limits on requests; errors for clients have their values."""

_LIMITS: Final[Mapping[str, tuple[ProviderFault, int]]] = {
    **dict.fromkeys(REQUEST_LIMITS, (ProviderFault.INVALID_REQUEST, 400)),
    "arguments_characters": (ProviderFault.SERVER, 502),
    "content_characters": (ProviderFault.SERVER, 502),
    "event_bytes": (ProviderFault.SERVER, 502),
    "request_bytes": (ProviderFault.INVALID_REQUEST, 413),
    "requests": (ProviderFault.OVERLOADED, 503),
    "response_bytes": (ProviderFault.SERVER, 502),
    "response_contents": (ProviderFault.SERVER, 502),
    "total_seconds": (ProviderFault.TIMEOUT, 504),
    "waiting_requests": (ProviderFault.OVERLOADED, 503),
}
"""Faults by the name of the limit: a limit of the client, of this server or of an upstream."""


STORE_RETRY_SECONDS: Final = 5.0
"""Seconds after which to retry a server whose database is unreachable."""

_ENCODING_HEADERS: Final = frozenset({"content-encoding", "content-type"})
"""Headers about the encoding of a request's body: paths of errors about an unsupported one."""


@frozen
class ErrorAnswer:
    """An error in the format of a client's protocol.

    Attributes:
        status: The HTTP status.
        body: The body, in the protocol's format.
        headers: Headers such as ``retry-after``.
    """

    status: int
    body: JsonObject
    headers: Mapping[str, str] = attrs.field(factory=dict)


BLOCKED_PREFIX: Final = "Blocked by content filtering policy: "
"""Beginning of a message for blocked content, in protocols without a type for it."""


def classify(error: ConverseError) -> tuple[ProviderFault, int]:
    """Return the fault that an error means to a client, and its HTTP status.

    An upstream's status is kept, such as 529. If an upstream rejects *our* key, the client's
    credentials are not at fault, but the status is still 401.
    """
    if isinstance(error, AccessError):
        return error.fault, _STATUSES[error.fault]
    if isinstance(error, ProviderError):
        known = error.status is not None and 400 <= error.status <= 599
        return error.fault, error.status if known and error.status else _STATUSES[error.fault]
    if isinstance(error, LimitError) and error.limit in _LIMITS:
        return _LIMITS[error.limit]
    if isinstance(error, RequestError) and error.path in _ENCODING_HEADERS:
        return ProviderFault.INVALID_REQUEST, 415
    if isinstance(error, StoreError) and is_full(error):
        return ProviderFault.SERVER, 507
    for kind, fault, status in _FAULTS:
        if isinstance(error, kind):
            return fault, status
    # Invalid data came from an upstream, as those of a client raise RequestError.
    return ProviderFault.SERVER, 502 if _is_invalid_data(error) else 500


def _is_invalid_data(error: ConverseError) -> bool:
    return type(error) is ConverseError and error.stage in (Stage.FRAME, Stage.DECODE)


def compose_error_message(error: ConverseError) -> str:
    """Return the message of an error for a client, without our internals.

    A vendor's message is for the client. Files, addresses and settings of this server are only for
    the operator, who finds them in the log.
    """
    match error:
        case ProviderError():
            text = error.detail or "The vendor gave no reason."
        case ContextOverflowError() | RequestError(stage=Stage.PROVIDER):
            text = error.describe()  # without the remedy, which is for users of this library
        case UnknownNameError():
            known = error.known if error.kind == "model" else ()
            text = UnknownNameError(kind=error.kind, name=error.name, known=known).describe()
        case UnknownConversationError():
            text = UnknownConversationError(identity=error.identity).describe()
        case AccessError() | GuardError() | RequestError() | TranslationLossError():
            text = str(error)
        case LimitError() if error.limit in REQUEST_LIMITS:
            text = str(error)
        case LimitError():
            text = LimitError(limit=error.limit, value=error.value).describe()
        case TransportTimeoutError():
            timeout = TransportTimeoutError(phase=error.phase, seconds=error.seconds)
            text = timeout.describe().replace("The peer", "The model's server", 1)
        case TransportError(should_retry=False):
            text = (
                "The model's server cannot be reached with this server's settings; a retry "
                "will not help."
            )
        case TransportError():
            text = "The model's server is unreachable, or disconnected."
        case StreamTruncatedError():
            text = "The model's response ended before it was complete."
        case StoreUnavailableError():
            text = "The database of this server is unreachable. Try again later."
        case StoreError() if is_full(error):
            text = "The disk of this server is full. Try again when its operator has freed space."
        case _ if _is_invalid_data(error):
            text = "The model's server sent an invalid response."
        case _:
            text = f"Internal error of the server (stage: {error.stage}). Its log has the cause."
    # Redact keys, which some vendors repeat; replace lone surrogates, which JSON cannot encode.
    return KEY_SHAPES.sub(HIDDEN.encode(), text.encode("utf-8", "replace")).decode()


def compose_error_headers(error: ConverseError) -> dict[str, str]:
    """Return the headers of an error: whether and when to retry, and that a key is missing."""
    headers = {}
    if isinstance(error, AccessError) and error.fault is ProviderFault.AUTHENTICATION:
        headers["www-authenticate"] = "Bearer"  # HTTP requires a challenge with the status 401
    seconds: float | None = None
    if isinstance(error, AccessError | ProviderError):
        seconds = error.retry_after_seconds
    if isinstance(error, StoreUnavailableError):
        seconds = STORE_RETRY_SECONDS
    if seconds is not None and math.isfinite(seconds):
        headers["retry-after"] = str(math.ceil(seconds))
    should_retry: bool | None = None
    if isinstance(error, ProviderError | TransportError):
        should_retry = error.should_retry
    if should_retry is not None:
        headers["x-should-retry"] = "true" if should_retry else "false"
    return headers


class StreamWriter(abc.ABC):
    """Writes the events of one response as the bytes that a vendor of the protocol streams.

    Decoding its output, in chunks of any size, gives the same canisters. The events are those that
    the assembler returns: a finished content has its item, and the last event has the response.

    Args:
        native: The client's request, in the client's format. Some fields control the stream.
        model: The model's name for the client.
        response_id: The id that the response must have; by default the vendor's, or a generated
            one.

    Attributes:
        content_type: Content type of the stream.
        keep_alive: Bytes that clients ignore; may be sent between any two frames.
        provider: Provider of the answer, whose signatures are put into envelopes; empty if unknown.
        ending: The bytes after the last object of the stream.
        takes_comments: Whether clients skip comments (lines that begin with a colon).
        losses: Losses of this protocol so far.
    """

    content_type: str = "text/event-stream"
    keep_alive: bytes = b": keep-alive\n\n"
    provider: str = ""
    ending: bytes = b"\n\n"
    takes_comments: bool = True

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        self._native_request = native
        self._model = model
        self._response_id = response_id
        self.losses: list[Loss] = []

    @abc.abstractmethod
    def write(self, event: StreamEvent) -> bytes:
        """Return the complete frames for an event; usually one, perhaps none."""

    def add_note(self, data: bytes, name: str, note: bytes) -> bytes:
        """Add a note to the last frames of a stream, as a field of the last object.

        Args:
            data: The last frames, complete.
            name: The name of the note, such as ``x-vibe-losses``; the field has underscores.
            note: JSON, in one line.
        """
        end = b"}" + self.ending
        if not data.endswith(end):
            return data
        field = b',"%b":%b' % (name.replace("-", "_").encode(), note)
        comment = b": %b %b\n\n" % (name.encode(), note) if self.takes_comments else b""
        return b"%b%b%b%b" % (comment, data[: -len(end)], field, end)

    @abc.abstractmethod
    def fail(self, error: ConverseError) -> bytes:
        """Return the frames that report an error in the middle of a stream, and end it."""
