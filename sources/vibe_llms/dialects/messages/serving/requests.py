"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.messages.calling.controls import thinks_adaptively
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.serving.invocations import (
    take_choice,
    take_invocables,
    take_schema,
)
from vibe_llms.dialects.messages.serving.messages import normalize_messages
from vibe_llms.dialects.messages.tables import DISPLAYS, OTHER_NAMES, SAME_NAMES
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_SUMMARIES: Final = {display: value for value, display in DISPLAYS.items()}


@refuse_invalid("The request", "Anthropic Messages")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return a client's whole request. Other fields are kept as native data.

    Args:
        attributes: The model's attributes, which define its controls; by default all possible
            controls are used.
        cache: Earlier requests of the same client; a beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    canisters = normalize_messages(native, cache)
    rest = collect_extras(native, ("system", "messages", "model", "stream"))
    controls = take_controls(rest, attributes)
    invocables = take_invocables(rest)
    described = Translation((invocables, take_choice(rest, invocables)))
    schema = Translation(take_schema(rest))
    model, left = str(native.get("model") or ""), keep_native(PROTOCOL, rest)
    return compose_request(canisters, controls, described, schema, native=left, model=model)


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
    rest: dict[str, Any], attributes: ModelAttributes | None = None
) -> dict[str, JsonValue]:
    """Remove the controls from a request and return them."""
    taken: dict[str, JsonValue] = {}
    for name in (*SAME_NAMES, *OTHER_NAMES):
        field = OTHER_NAMES.get(name, name)
        if rest.get(field) is not None and is_valid_control(name, rest[field], attributes):
            taken[name] = rest.pop(field)
    if rest.get("tools"):
        disabled = look_up(rest, ("tool_choice", "disable_parallel_tool_use"))
        if isinstance(disabled, bool) and is_valid_control(
            "parallel_invocations", True, attributes
        ):
            take(rest, ("tool_choice", "disable_parallel_tool_use"))
            taken["parallel_invocations"] = not disabled
    return taken | _take_reasoning(rest, attributes)


def _take_reasoning(
    rest: dict[str, Any], attributes: ModelAttributes | None
) -> dict[str, JsonValue]:
    taken: dict[str, JsonValue] = {}
    kind = look_up(rest, ("thinking", "type"))
    budget = look_up(rest, ("thinking", "budget_tokens"))
    effort = look_up(rest, ("output_config", "effort"))
    adaptive = attributes is not None and thinks_adaptively(attributes)
    if kind == "enabled" and is_valid_control("reasoning_budget_tokens", budget, attributes):
        take(rest, ("thinking", "budget_tokens"))
        take(rest, ("thinking", "type"))
        taken["reasoning_budget_tokens"] = budget
    if isinstance(effort, str) and is_valid_control("reasoning_effort", effort, attributes):
        if adaptive and kind == "adaptive":
            take(rest, ("thinking", "type"))
        # Such a model thinks if our control is set; the effort alone does not make it think.
        if not adaptive or kind == "adaptive":
            take(rest, ("output_config", "effort"))
            taken["reasoning_effort"] = effort
    elif (
        effort is None
        and kind == "disabled"
        and is_valid_control("reasoning_effort", "none", attributes)
    ):
        take(rest, ("thinking", "type"))
        taken["reasoning_effort"] = "none"
    return taken | _take_summary(rest, attributes)


def _take_summary(rest: dict[str, Any], attributes: ModelAttributes | None) -> dict[str, JsonValue]:
    display = look_up(rest, ("thinking", "display"))
    value = _SUMMARIES.get(str(display), display)
    if display is None or not is_valid_control("reasoning_summary", value, attributes):
        return {}
    take(rest, ("thinking", "display"))
    return {"reasoning_summary": value}
