"""Events of calls outside of a conversation, such as embeddings, for listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.call_results import CallResult


@frozen(kw_only=True)
class CallStartedEvent:
    """A call is about to be made.

    Attributes:
        call_id: Number of the call in this process; all events of a call have it.
        genus: Genus of the model, such as ``embedder``.
        provider: Provider of the model.
        model: Name of the model.
        request: The request, such as an ``EmbeddingRequest``.
        is_streamed: Whether the result arrives in pieces.
    """

    call_id: int
    genus: str
    provider: str
    model: str
    request: Any = attrs.field(repr=False)
    is_streamed: bool = False


@frozen(kw_only=True)
class CallRetriedEvent:
    """A request failed, and will be sent again.

    Attributes:
        call_id: Number of the call.
        attempt: Number of the next attempt; the first retry is attempt 2.
        after_seconds: Seconds until then.
        error: Error of the previous attempt.
    """

    call_id: int
    attempt: int
    after_seconds: float
    error: ConverseError


@frozen(kw_only=True)
class CallPieceEvent:
    """The first piece of a streamed result has arrived.

    Attributes:
        call_id: Number of the call.
        seconds: Seconds since the start of the call.
    """

    call_id: int
    seconds: float


@frozen(kw_only=True)
class CallFinishedEvent:
    """A call has returned its result.

    Attributes:
        call_id: Number of the call.
        result: The result, with its origin and usage.
        seconds: Duration of the call, including retries.
    """

    call_id: int
    result: CallResult = attrs.field(repr=False)
    seconds: float


@frozen(kw_only=True)
class CallFailedEvent:
    """A call has failed, or was cancelled.

    Attributes:
        call_id: Number of the call.
        error: The error; ``None`` for a cancelled call.
        seconds: Duration of the call, including retries.
    """

    call_id: int
    error: Exception | None
    seconds: float


CallEvent: TypeAlias = (
    CallStartedEvent | CallRetriedEvent | CallPieceEvent | CallFinishedEvent | CallFailedEvent
)
"""Any event of a call."""
CallListener: TypeAlias = Callable[[Any], object]
"""Listener that receives every :data:`CallEvent`; it may receive other events, too."""
