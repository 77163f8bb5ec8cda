"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.serving.controls import split_controls
from vibe_llms.dialects.ollama_chat.serving.invocations import (
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.ollama_chat.serving.messages import normalize_messages
from vibe_llms.dialects.residues import keep_native, leave
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.attributes import ModelAttributes

_COMMON_FIELDS: Final = frozenset(
    {"format", "messages", "model", "options", "stream", "think", "tools"}
)


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns the meaning of a client's request.

    Args:
        attributes: Of the model that is asked; without them all common controls count.

    Raises:
        RequestError: It makes no sense, or there is nothing to answer, as in a request that
            only loads a model.
    """
    messages = normalize_messages(native)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, residue = split_controls(native, attributes)
    residue |= leave(native, *_COMMON_FIELDS)
    if native.get("format") and schema.value is None:
        residue["format"] = native["format"]
    canisters = messages.value
    request = Request(
        canisters=canisters,
        model=str(native.get("model") or ""),
        controls=controls,
        invocables=tools.value[0],
        schema=schema.value,
        continuation=bool(canisters) and not is_answerable(canisters[-1]),
        native=keep_native(PROTOCOL, residue),
    )
    return Translation(request, (*messages.losses, *tools.losses))
