"""Responses in the background: their paths, and their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from vibe_llms.dialects.backgrounds import BackgroundFormat, ResponseState
from vibe_llms.dialects.decoding import read_text

_RUNNING: Final = frozenset({"in_progress", "queued"})


def _compose_retrieval(response_id: str, streaming: bool, position: str) -> str:
    query = {"stream": "true"} if streaming else {}
    if streaming and position:
        query["starting_after"] = position
    path = f"/responses/{quote(response_id, safe='')}"
    return f"{path}?{urlencode(query)}" if query else path


def _compose_cancellation(response_id: str) -> str:
    return f"/responses/{quote(response_id, safe='')}/cancel"


def _read_body(body: Mapping[str, Any]) -> ResponseState:
    status = body.get("status") or "completed"
    return ResponseState(id=read_text(body.get("id")) or "", is_over=status not in _RUNNING)


def _read_event(event: Mapping[str, Any]) -> ResponseState:
    response, number = event.get("response"), event.get("sequence_number")
    state = _read_body(response) if isinstance(response, Mapping) else ResponseState()
    position = str(number) if isinstance(number, int) else ""
    return ResponseState(id=state.id, is_over=state.is_over, position=position)


BACKGROUND: Final = BackgroundFormat(
    compose_retrieval=_compose_retrieval,
    compose_cancellation=_compose_cancellation,
    read_body=_read_body,
    read_event=_read_event,
)
