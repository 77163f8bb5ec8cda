"""Reading of a client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.cache_hints import CACHE_CONTROL, read_cache_control
from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.messages.calling.controls import thinks_adaptively
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.serving.invocations import (
    take_choice,
    take_invocables,
    take_schema,
)
from vibe_llms.dialects.messages.serving.messages import normalize_messages
from vibe_llms.dialects.messages.tables import OTHER_NAMES, SAME_NAMES, SUMMARY_DISPLAYS
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_SUMMARIES: Final = {display: value for value, display in SUMMARY_DISPLAYS.items()}


@refuse_invalid("The request", "Anthropic Messages")
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
    request_fields = collect_extras(native, ("system", "messages", "model", "stream"))
    hint = read_cache_control(request_fields.get(CACHE_CONTROL))
    if hint is not None:
        del request_fields[CACHE_CONTROL]
    controls = take_controls(request_fields, attributes)
    invocables = take_invocables(request_fields)
    described = Translation((invocables, take_choice(request_fields, invocables)))
    schema = Translation(take_schema(request_fields))
    model, other_fields = str(native.get("model") or ""), keep_native(PROTOCOL, request_fields)
    return compose_request(
        canisters, controls, described, schema, native=other_fields, model=model, cache=hint
    )


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
    found_controls: dict[str, JsonValue] = {}
    for name in (*SAME_NAMES, *OTHER_NAMES):
        field = OTHER_NAMES.get(name, name)
        if request_fields.get(field) is not None and is_valid_control(
            name, request_fields[field], attributes
        ):
            found_controls[name] = request_fields.pop(field)
    if request_fields.get("tools"):
        disabled = look_up(request_fields, ("tool_choice", "disable_parallel_tool_use"))
        if isinstance(disabled, bool) and is_valid_control(
            "parallel_invocations", True, attributes
        ):
            take(request_fields, ("tool_choice", "disable_parallel_tool_use"))
            found_controls["parallel_invocations"] = not disabled
    return found_controls | _take_reasoning(request_fields, attributes)


def _take_reasoning(
    request_fields: dict[str, Any], attributes: ModelAttributes | None
) -> dict[str, JsonValue]:
    found_controls: dict[str, JsonValue] = {}
    kind = look_up(request_fields, ("thinking", "type"))
    budget = look_up(request_fields, ("thinking", "budget_tokens"))
    effort = look_up(request_fields, ("output_config", "effort"))
    adaptive = attributes is not None and thinks_adaptively(attributes)
    if kind == "enabled" and is_valid_control("reasoning_budget_tokens", budget, attributes):
        take(request_fields, ("thinking", "budget_tokens"))
        take(request_fields, ("thinking", "type"))
        found_controls["reasoning_budget_tokens"] = budget
    if isinstance(effort, str) and is_valid_control("reasoning_effort", effort, attributes):
        if adaptive and kind == "adaptive":
            take(request_fields, ("thinking", "type"))
        # For an adaptive model, our control also turns thinking on, but the effort alone does not.
        if not adaptive or kind == "adaptive":
            take(request_fields, ("output_config", "effort"))
            found_controls["reasoning_effort"] = effort
    elif (
        effort is None
        and kind == "disabled"
        and is_valid_control("reasoning_effort", "none", attributes)
    ):
        take(request_fields, ("thinking", "type"))
        found_controls["reasoning_effort"] = "none"
    return found_controls | _take_summary(request_fields, attributes)


def _take_summary(
    request_fields: dict[str, Any], attributes: ModelAttributes | None
) -> dict[str, JsonValue]:
    display = look_up(request_fields, ("thinking", "display"))
    value = _SUMMARIES.get(str(display), display)
    if display is None or not is_valid_control("reasoning_summary", value, attributes):
        return {}
    take(request_fields, ("thinking", "display"))
    return {"reasoning_summary": value}
