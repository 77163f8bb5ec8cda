"""A whole request to a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ollama_chat.calling.invocations import nativize_schema
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.tables import DEFAULT_LEVEL
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    """Return the whole body. A continuation is a last message of the assistant."""
    parts = draft.parts
    body: dict[str, Any] = {
        "model": draft.attributes.address.name,
        **parts.messages,
        "stream": draft.streaming,
        **parts.controls,
        **parts.invocations,
        **nativize_schema(draft.request.schema),
    }
    _add_extras(body, draft.extras)
    return body


def _add_extras(body: dict[str, Any], extras: dict[str, Any]) -> None:
    """Add native fields; one that only refines a common field requires that field."""
    if extras.pop("$think", extras.get("think")) is True and body.get("think") == DEFAULT_LEVEL:
        body["think"] = True
    options = extras.pop("options", None)
    if isinstance(options, Mapping):
        body["options"] = {**options, **body.get("options", {})}
    elif options is not None:
        body.setdefault("options", options)
    for name, value in extras.items():
        body.setdefault(name, value)


_WRITER: Final = RequestWriter(protocol=PROTOCOL, compose_body=_compose_body)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
