"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import keep_native, without
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.serving.invocations import (
    normalize_invocables,
    normalize_schema,
    remove_choice,
    remove_schema,
)
from vibe_llms.dialects.generate_content.serving.messages import normalize_messages
from vibe_llms.dialects.generate_content.tables import LEVELS, PLACES
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes


@refuse_invalid("The request", "generateContent", "request")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return the request in a body of this protocol.

    Args:
        attributes: The model's attributes: parameters that are not its controls are kept as native
            data.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    fields = camelize(native)
    canisters = normalize_messages(fields, cache)
    invocables = normalize_invocables(fields)
    controls, other_fields = split_controls(fields, attributes)
    schema = normalize_schema(fields)
    descriptions, choice = invocables.value
    other_fields = remove_schema(without(other_fields, "contents", "systemInstruction", "tools"))
    if any(description.schema is not None for description in descriptions):
        other_fields = remove_choice(other_fields, choice)
    extras = {name: value for name, value in other_fields.items() if value is not None}
    if not extras.get("generationConfig"):
        extras.pop("generationConfig", None)
    native_data = keep_native(PROTOCOL, extras)
    return compose_request(canisters, controls, invocables, schema, native=native_data)


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Return the controls in a request; other parameters are kept as extras.

    Args:
        attributes: The model's attributes, which define its controls. By default all controls of
            the dialect are known.
    """
    return Translation(split_controls(native, attributes)[0])


def split_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Return the controls in a request, and its other parameters."""
    other_fields = camelize(native)
    config = camelize(other_fields.pop("generationConfig", None) or {})
    if thinking := camelize(config.pop("thinkingConfig", None) or {}):
        config["thinkingConfig"] = thinking
    if config:
        other_fields["generationConfig"] = config
    controls: dict[str, JsonValue] = {}
    for name, place in PLACES.items():
        value = look_up(other_fields, place)
        if name == "reasoning_effort":
            value = str(value).lower()
            if value not in LEVELS:
                continue
        # A budget of -1 lets the model choose, which has no common counterpart.
        if value is not None and is_valid_control(name, value, attributes):
            controls[name] = value
            take(other_fields, place)
    return controls, other_fields
