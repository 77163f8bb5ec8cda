"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.invocations import (
    compare_choice,
    is_more_than,
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.chat_completions.serving.messages import normalize_messages
from vibe_llms.dialects.chat_completions.tables import SPELLINGS
from vibe_llms.dialects.extras import TOLD, keep_native, leave, without
from vibe_llms.dialects.serving import compose_request, fits_control, refuse_nonsense
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_SPELT: Final = frozenset(field for fields in SPELLINGS.values() for field in fields)

_OWN: Final = (
    *("messages", "model", "tools", "functions", "response_format", "tool_choice"),
    *("stream", "stream_options"),  # a matter of how the answer is asked for
)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "logit_bias": {},
    "logprobs": False,
    "metadata": {},
    "modalities": ["text"],
    "n": 1,
    "response_format": {"type": "text"},
}
"""What a client asks that says so: nothing is lost where another protocol cannot say it."""
_OTHERS: Final = frozenset({"messages", "model", "tools", "response_format", "tool_choice"})
"""Fields of a request which other processors read, whatever a model's data call a control."""


@refuse_nonsense("The request", "Chat Completions")
def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns the request of a client: what a gateway reads.

    Args:
        attributes: Of the model, which say what is a control of it; by default all controls
            that the dialect knows are.

    Raises:
        RequestError: The request makes no sense.
    """
    messages = normalize_messages(native)
    controls = normalize_controls(native, attributes)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    invocables, choice = tools.value
    kept = leave(native, (*_OWN, *list_fields(native, controls.value)))
    if native.get("tool_choice") and not compare_choice(native, choice, invocables):
        kept["$choice"] = {"said": native["tool_choice"], "meant": choice}
        if is_more_than(native["tool_choice"], choice):
            kept["$choice"][TOLD] = "tool_choice"
    if choice != "auto" and native.get("tools"):
        kept.pop("function_call", None)
    kept |= _keep_format(native, schema.value) | _keep_options(native)
    if said := {
        name: kept.pop(name) for name, value in _DEFAULTS.items() if kept.get(name) == value
    }:
        kept["$said"] = said
    model, rest = str(native.get("model") or ""), keep_native(PROTOCOL, kept)
    return compose_request(messages, controls.value, tools, schema, native=rest, model=model)


def _keep_format(native: Mapping[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Returns what a wanted format says beyond its schema."""
    wanted = native.get("response_format")
    if wanted is None:
        return {}
    if schema is None or not isinstance(wanted, Mapping):
        return {"response_format": wanted}
    inner = wanted.get("json_schema")
    if not isinstance(inner, Mapping):
        return {} if wanted == {"type": "json_object"} else {"response_format": wanted}
    noted: dict[str, Any] = {"$wanted": {**wanted, "json_schema": without(inner, "schema")}}
    if leave(wanted, ("type", "json_schema")) or leave(inner, ("name", "schema", "strict")):
        noted["$format"] = {TOLD: "response_format"}  # such as what the model is told it is for
    return noted


def _keep_options(native: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is said of a stream but whether its usage is told: that is always asked for."""
    options = native.get("stream_options")
    rest = leave(options, ("include_usage",)) if isinstance(options, Mapping) else {}
    return {"$stream_options": rest} if rest else {}


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request.

    What the model's attributes define no control for, or a value beyond its control, stays where
    it is: :func:`~vibe_llms.dialects.chat_completions.normalize_request` keeps it as native.

    Args:
        attributes: Of the model; by default every control that the dialect knows is one.
    """
    names: Mapping[str, tuple[str, ...]] = SPELLINGS
    if attributes is not None:
        others = (each.name for each in attributes.controls if each.name not in SPELLINGS)
        names = {**SPELLINGS, **{name: (name,) for name in others}}
    elif native.keys().isdisjoint(_SPELT):  # as of most requests of a chat
        return Translation({})
    controls: dict[str, JsonValue] = {}
    for name, fields in names.items():
        field = next((field for field in fields if native.get(field) is not None), None)
        if field is None or field in _OTHERS:
            continue
        value = native[field]
        if name == "stop" and isinstance(value, str):
            value = [value]  # one may stand by itself
        if fits_control(name, value, attributes):
            controls[name] = value
    return Translation(controls)


def list_fields(native: Mapping[str, Any], controls: Mapping[str, JsonValue]) -> list[str]:
    """Returns the fields of a request from which the control values were read."""
    spellings = (SPELLINGS.get(name, (name,)) for name in controls)
    return [next(each for each in names if native.get(each) is not None) for names in spellings]
