"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.serving.invocations import (
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.ollama_chat.serving.messages import normalize_messages
from vibe_llms.dialects.ollama_chat.tables import DEFAULT_LEVEL, LEVELS, OPTIONS
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_COMMON_FIELDS: Final = frozenset(
    {"format", "messages", "model", "options", "stream", "think", "tools"}
)


@refuse_invalid("The request", "Ollama's /api/chat")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return a client's request.

    Args:
        attributes: The model's attributes; by default all common controls are known.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: It is invalid, or there is nothing to answer, as in a request that only loads
            a model.
    """
    messages = normalize_messages(native, cache)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, extras = split_controls(native, attributes)
    extras |= collect_extras(native, _COMMON_FIELDS)
    if native.get("format") and schema.value is None:
        extras["format"] = native["format"]
    model, native_data = str(native.get("model") or ""), keep_native(PROTOCOL, extras)
    return compose_request(messages, controls, tools, schema, native=native_data, model=model)


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Return the controls in a request; other parameters stay where they are.

    Args:
        attributes: The model's attributes; by default all common controls are known.
    """
    return Translation(split_controls(native, attributes)[0])


def split_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Return the controls of a request, and the rest of its ``options`` and ``think``."""
    controls: dict[str, JsonValue] = {}
    extras: dict[str, Any] = {}
    options = native.get("options")
    if isinstance(options, Mapping):
        other_options: dict[str, Any] = {}
        for option, value in options.items():
            name = OPTIONS.get(str(option), str(option))
            # The server, too, rejects a single text instead of a list of stop sequences.
            if is_valid_control(name, value, attributes):
                controls[name] = value
            else:
                other_options[option] = value
        if other_options:
            extras["options"] = other_options
    elif options is not None:
        extras["options"] = options
    think = native.get("think")
    if think is not None:
        effort = _normalize_think(think)
        if effort is not None and is_valid_control("reasoning_effort", effort, attributes):
            controls["reasoning_effort"] = effort
        if "reasoning_effort" not in controls:
            extras["think"] = think
        elif think is True:
            extras["$think"] = True  # sent instead of the level that stands for it
    return controls, extras


def _normalize_think(think: object) -> str | None:
    if think is False:
        return "none"
    if think is True:
        return DEFAULT_LEVEL
    return think if isinstance(think, str) and think in LEVELS else None
