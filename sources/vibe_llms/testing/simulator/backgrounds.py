"""Responses in the background: kept by the vendor, and read by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vibe_llms.testing.simulator.protocols import SimulatedFrame, SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal


def keep_in_background(
    request: SimulatedRequest,
    identity: str,
    beginning: Mapping[str, Any],
    frames: Sequence[SimulatedFrame] | None = None,
) -> None:
    """Keep a response that was stored: readers get its beginning until it is complete.

    Args:
        request: The request that created the response.
        identity: The id of the response.
        beginning: The response before it is complete.
        frames: Its events; ``None`` if it was not requested as a stream.
    """
    request.stored[identity] |= {
        "beginning": beginning,
        "polls": request.conditions.count("background_polls", 1),
        "frames": frames,
    }


def access_kept(request: SimulatedRequest, identity: str) -> dict[str, Any]:
    """Return a stored response. Raises SimulatedRefusal."""
    if identity not in request.stored:
        raise SimulatedRefusal(404, "missing", f"Response with id '{identity}' not found.")
    kept: dict[str, Any] = request.stored[identity]
    return kept


def read_kept(kept: dict[str, Any]) -> Mapping[str, Any]:
    """Return a response as it is now; each call brings it closer to its end."""
    if kept.get("polls", 0) > 0:
        kept["polls"] -= 1
        return {**kept["beginning"], "status": "in_progress"}
    response: Mapping[str, Any] = kept["response"]
    return response


def stream_kept(kept: dict[str, Any], last: str, field: str) -> Iterator[SimulatedFrame]:
    """Return the events after the last one that the client has. Raises SimulatedRefusal.

    Args:
        last: The position of that event; empty to return all.
        field: The field of an event with its position.
    """
    if kept.get("frames") is None:
        raise SimulatedRefusal(400, "invalid", "This response cannot be streamed.")
    frames: Sequence[SimulatedFrame] = kept["frames"]
    positions = [str(each.data[field]) for each in frames if isinstance(each.data, Mapping)]
    start = positions.index(last) + 1 if last in positions else 0
    return iter(frames[start:])


def cancel_kept(kept: dict[str, Any]) -> Mapping[str, Any]:
    """Cancel a response unless it is complete. Raises SimulatedRefusal."""
    if "beginning" not in kept:
        raise SimulatedRefusal(400, "invalid", "Only a background response can be cancelled.")
    kept["response"] = {**kept["beginning"], "status": "cancelled"}
    kept["polls"] = 0
    response: Mapping[str, Any] = kept["response"]
    return response
