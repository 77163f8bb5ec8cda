"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import make_native, without
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.serving.invocations import (
    normalize_invocables,
    normalize_schema,
    remove_choice,
    remove_schema,
)
from vibe_llms.dialects.interactions.serving.messages import normalize_messages
from vibe_llms.dialects.interactions.tables import CONFIG, LEVELS, PLACES
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_READ_ELSEWHERE: Final = ("input", "model", "stream", "system_instruction", "tools")


@refuse_invalid("The request", "Interactions", "request")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return the request in a body of this protocol; other fields are kept as native data.

    So is ``previous_interaction_id``, with which the vendor puts stored steps before the input.

    Args:
        attributes: The model's attributes: parameters that are not its controls are kept as native
            data.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    canisters = normalize_messages(native, cache)
    invocables = normalize_invocables(native)
    controls, other_fields = split_controls(native, attributes)
    schema = normalize_schema(native)
    name = str(native.get("model") or "").removeprefix("models/")
    model = str(attrs.evolve(attributes.address, name=name)) if attributes and name else name
    descriptions, choice = invocables.value
    other_fields = remove_schema(without(other_fields, *_READ_ELSEWHERE))
    if any(description.schema is not None for description in descriptions):
        other_fields = remove_choice(other_fields, choice)
    extras = {name: value for name, value in other_fields.items() if value is not None}
    if not extras.get(CONFIG):
        extras.pop(CONFIG, None)
    # If a client omits ``store``, the vendor decides; then the value is null.
    native_data = make_native(PROTOCOL, {"store": None, **extras})
    return compose_request(canisters, controls, invocables, schema, native=native_data, model=model)


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
    other_fields: dict[str, Any] = dict(native)
    controls: dict[str, JsonValue] = {}
    for name, place in PLACES.items():
        value = look_up(other_fields, place)
        if value is None or (name == "reasoning_effort" and value not in LEVELS):
            continue
        if is_valid_control(name, value, attributes):
            controls[name] = take(other_fields, place)
    return controls, other_fields
