"""Responses in the background: the common interface of the dialects that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class ResponseState:
    """State of a response in the background, from one body or event of the vendor.

    Attributes:
        id: The id of the response; empty if unknown.
        is_over: Whether the response has ended; false for an event that does not say.
        position: Position of the event in the stream; empty if the vendor sends none.
    """

    id: str = ""
    is_over: bool = False
    position: str = ""


@frozen(kw_only=True)
class BackgroundFormat:
    """Requests about responses in the background, and how to read their state.

    Attributes:
        compose_retrieval: Returns the path that reads a response, after the base URL. Its arguments
            are the id, whether to stream the events, and the position after which they begin
            (empty: from the first one).
        compose_cancellation: Returns the path that cancels a response, from its id.
        read_body: Reads the state from the body of a response.
        read_event: Reads the state from an event of a stream.
    """

    compose_retrieval: Callable[[str, bool, str], str]
    compose_cancellation: Callable[[str], str]
    read_body: Callable[[Mapping[str, Any]], ResponseState]
    read_event: Callable[[Mapping[str, Any]], ResponseState]
