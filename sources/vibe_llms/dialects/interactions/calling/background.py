"""Interactions in the background: their paths, and their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from vibe_llms.dialects.backgrounds import BackgroundFormat, ResponseState
from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.interactions.tables import RUNNING


def _is_over(status: object) -> bool:
    return isinstance(status, str) and status not in RUNNING


def _read_body(body: Mapping[str, Any]) -> ResponseState:
    return ResponseState(
        id=read_text(body.get("id")) or "", is_over=_is_over(body.get("status") or "completed")
    )


def _read_event(event: Mapping[str, Any]) -> ResponseState:
    interaction = event.get("interaction")
    fields = interaction if isinstance(interaction, Mapping) else {}
    identity = read_text(fields.get("id")) or read_text(event.get("interaction_id"))
    status = fields.get("status") or event.get("status")
    return ResponseState(
        id=identity or "",
        is_over=_is_over(status),
        position=read_text(event.get("event_id")) or "",
    )


def produce_background(root: str) -> BackgroundFormat:
    """Return the requests of a server whose paths begin with its version, such as ``/v1beta``."""

    def compose_retrieval(response_id: str, streaming: bool, position: str) -> str:
        query = {"stream": "true"} if streaming else {}
        if streaming and position:
            query["last_event_id"] = position
        path = f"{root}/interactions/{quote(response_id, safe='')}"
        return f"{path}?{urlencode(query)}" if query else path

    def compose_cancellation(response_id: str) -> str:
        return f"{root}/interactions/{quote(response_id, safe='')}/cancel"

    return BackgroundFormat(
        compose_retrieval=compose_retrieval,
        compose_cancellation=compose_cancellation,
        read_body=_read_body,
        read_event=_read_event,
    )
