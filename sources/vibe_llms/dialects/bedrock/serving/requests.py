"""Reading of a client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.bedrock.calling.controls import thinks_adaptively
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.serving.invocations import take_invocables, take_schema
from vibe_llms.dialects.bedrock.serving.messages import normalize_messages
from vibe_llms.dialects.bedrock.tables import MODEL_FIELDS, PLACES
from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_THINKING: Final = (MODEL_FIELDS, "thinking")
_KIND: Final = (*_THINKING, "type")


@refuse_invalid("The request", "Amazon Bedrock's Converse")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Read a client's whole request. Fields without a counterpart are kept as native data.

    Args:
        attributes: The model's attributes, which define its controls; by default all controls of
            the dialect are used.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    canisters = normalize_messages(native, cache)
    request_fields = collect_extras(native, ("system", "messages", "modelId"))
    controls = take_controls(request_fields, attributes)
    described = Translation(take_invocables(request_fields))
    schema = Translation(take_schema(request_fields))
    other_fields = keep_native(PROTOCOL, request_fields)
    return compose_request(canisters, controls, described, schema, native=other_fields)


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Return the controls in a request; lossless, as the rest is kept as native data.

    Args:
        attributes: The model's attributes; a parameter becomes a control if the model has it. By
            default all controls of the dialect do.
    """
    return Translation(take_controls(dict(parameters), attributes))


def take_controls(
    request_fields: dict[str, Any], attributes: ModelAttributes | None = None
) -> dict[str, JsonValue]:
    """Remove the controls from a request and return them."""
    found: dict[str, JsonValue] = {}
    kind = look_up(request_fields, _KIND)
    adaptive = attributes is not None and thinks_adaptively(attributes)
    for name, place in PLACES.items():
        value = look_up(request_fields, place)
        if value is None or not is_valid_control(name, value, attributes):
            continue
        if name == "reasoning_budget_tokens":
            if kind != "enabled":
                continue
            take(request_fields, _KIND)
        # For an adaptive model, our control also turns thinking on, but the effort alone does not.
        if name == "reasoning_effort" and adaptive:
            if kind != "adaptive":
                continue
            take(request_fields, _KIND)
        take(request_fields, place)
        found[name] = value
    if (
        "reasoning_effort" not in found
        and look_up(request_fields, PLACES["reasoning_effort"]) is None
        and look_up(request_fields, _THINKING) == {"type": "disabled"}
        and is_valid_control("reasoning_effort", "none", attributes)
    ):
        take(request_fields, _THINKING)
        found["reasoning_effort"] = "none"
    return found
