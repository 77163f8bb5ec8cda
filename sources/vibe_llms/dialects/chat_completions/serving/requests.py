"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.cache_hints import take_cache_control
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.invocations import (
    is_choice_unchanged,
    is_simplified,
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.chat_completions.serving.messages import normalize_messages
from vibe_llms.dialects.chat_completions.tables import SPELLINGS
from vibe_llms.dialects.extras import REPORTED_AS, collect_extras, keep_native, without
from vibe_llms.dialects.openai_caching import read_openai_hint
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_CONTROL_FIELDS: Final = frozenset(field for fields in SPELLINGS.values() for field in fields)

_READ_ELSEWHERE: Final = (
    *("messages", "model", "tools", "functions", "response_format", "tool_choice"),
    *("stream", "stream_options"),  # about the form of the answer
)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "logit_bias": {},
    "logprobs": False,
    "metadata": {},
    "modalities": ["text"],
    "n": 1,
    "response_format": {"type": "text"},
}
"""Defaults that a client may send explicitly: nothing is lost if another protocol lacks them."""
_NEVER_CONTROLS: Final = frozenset({"messages", "model", "tools", "response_format", "tool_choice"})
"""Fields that other processors read, even if a model's attributes define such a control."""


@refuse_invalid("The request", "Chat Completions")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return the request of a client, for gateways.

    Args:
        attributes: The model's attributes, which define its controls; by default all controls of
            the dialect are known.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    messages = normalize_messages(native, cache)
    controls = normalize_controls(native, attributes)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    invocables, choice = tools.value
    extras = collect_extras(native, (*_READ_ELSEWHERE, *list_fields(native, controls.value)))
    if isinstance(native.get("web_search_options"), Mapping):
        del extras["web_search_options"]  # it is a tool
    if native.get("tool_choice") and not is_choice_unchanged(native, choice, invocables):
        extras["$choice"] = {"said": native["tool_choice"], "meant": choice}
        if is_simplified(native["tool_choice"], choice):
            extras["$choice"][REPORTED_AS] = "tool_choice"
    if choice != "auto" and native.get("tools"):
        extras.pop("function_call", None)
    extras |= _keep_format(native, schema.value) | _keep_options(native)
    explicit_defaults = {
        name: extras.pop(name) for name, value in _DEFAULTS.items() if extras.get(name) == value
    }
    if explicit_defaults:
        extras["$said"] = explicit_defaults
    hint, _ = read_openai_hint(extras)
    extras, mark = take_cache_control(extras)
    if mark is not None:
        hint = mark if hint is None else attrs.evolve(hint, lifetime=mark.lifetime)
    model, native_data = str(native.get("model") or ""), keep_native(PROTOCOL, extras)
    return compose_request(
        messages, controls.value, tools, schema, native=native_data, model=model, cache=hint
    )


def _keep_format(native: Mapping[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Return the fields of a format other than its schema."""
    response_format = native.get("response_format")
    if response_format is None:
        return {}
    if schema is None or not isinstance(response_format, Mapping):
        return {"response_format": response_format}
    inner = response_format.get("json_schema")
    if not isinstance(inner, Mapping):
        is_any_json = response_format == {"type": "json_object"}
        return {} if is_any_json else {"response_format": response_format}
    without_schema = {**response_format, "json_schema": without(inner, "schema")}
    notes: dict[str, Any] = {"$wanted": without_schema}
    has_more = collect_extras(response_format, ("type", "json_schema"))
    if has_more or collect_extras(inner, ("name", "schema", "strict")):
        notes["$format"] = {REPORTED_AS: "response_format"}  # such as a description for the model
    return notes


def _keep_options(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stream options without ``include_usage``: usage is always requested."""
    options = native.get("stream_options")
    extras = collect_extras(options, ("include_usage",)) if isinstance(options, Mapping) else {}
    return {"$stream_options": extras} if extras else {}


def normalize_controls(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Return the controls in a request.

    Parameters that are not controls of the model, or have invalid values, are kept as native data
    by :func:`~vibe_llms.dialects.chat_completions.normalize_request`.

    Args:
        attributes: The model's attributes; by default every control of the dialect is known.
    """
    names: Mapping[str, tuple[str, ...]] = SPELLINGS
    if attributes is not None:
        others = (each.name for each in attributes.controls if each.name not in SPELLINGS)
        names = {**SPELLINGS, **{name: (name,) for name in others}}
    elif native.keys().isdisjoint(_CONTROL_FIELDS):  # most requests of a chat
        return Translation({})
    controls: dict[str, JsonValue] = {}
    for name, fields in names.items():
        field = next((field for field in fields if native.get(field) is not None), None)
        if field is None or field in _NEVER_CONTROLS:
            continue
        value = native[field]
        if name == "stop" and isinstance(value, str):
            value = [value]  # a single one may be a text instead of a list
        if is_valid_control(name, value, attributes):
            controls[name] = value
    return Translation(controls)


def list_fields(native: Mapping[str, Any], controls: Mapping[str, JsonValue]) -> list[str]:
    """Return the fields of a request from which the controls were read."""
    fields = []
    for control in controls:
        spellings = SPELLINGS.get(control, (control,))
        fields.append(next(each for each in spellings if native.get(each) is not None))
    return fields
