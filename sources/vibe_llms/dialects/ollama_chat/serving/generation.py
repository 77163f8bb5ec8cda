"""Ollama's older call, ``POST /api/generate``: a prompt instead of a conversation.

This module has the names of a dialect that are needed to serve clients. A call is treated as a chat
with instructions and one question; suffixes, templates and contexts have no counterpart elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import without
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.serving import requests, responses, streams
from vibe_llms.dialects.ollama_chat.serving.errors import nativize_error
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.attributes import ModelAttributes

__all__ = ["PROTOCOL", "StreamWriter", "nativize_error", "nativize_response", "normalize_request"]

_OTHER_FIELDS: Final = ("prompt", "system", "images", "messages", "tools")
"""Fields that become messages, and fields that the server ignores."""


@refuse_invalid("The request", "Ollama's /api/generate")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return a client's request.

    Args:
        attributes: The model's attributes; by default all common controls are known.
        cache: Unused: a prompt is too short for the cache of earlier requests.

    Raises:
        RequestError: It is invalid, or there is nothing to answer, as in a request that only loads
            a model.
    """
    prompt = {"content": native.get("prompt"), "images": native.get("images")}
    system = native.get("system")
    messages = [{"role": "system", "content": system}] if system else []
    if any(prompt.values()):
        messages.append({"role": "user", **prompt})
    chat = {**without(native, *_OTHER_FIELDS), "messages": messages}
    return requests.normalize_request(chat, attributes, cache)


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body of a response of any vendor."""
    written = responses.nativize_response(response)
    body: dict[str, Any] = dict(written.value)
    head = {name: body.pop(name) for name in ("model", "created_at")}
    return Translation({**head, **_rename_fields(body.pop("message")), **body}, written.losses)


def _rename_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message, with the names of this call."""
    response = {"response": message.get("content", "")}
    return response | without(message, "role", "content")


class StreamWriter(streams.StreamWriter):
    """Writes the lines of one response; the last line is marked as done."""

    def _rename_fields(self, message: Mapping[str, Any]) -> dict[str, Any]:
        return _rename_fields(message)
